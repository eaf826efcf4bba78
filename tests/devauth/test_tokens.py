"""The token endpoint: who gets what for what, and what ends with what."""

import base64

import pytest

from tests.devauth.support import EXCHANGE, GRANTS, ISSUER, REDIRECT, RESOURCE, TOKEN_TYPE, VERIFIER, Server

BACKEND = "https://backend.example.com/mcp"


def granted(client, **changes):
    answer = client.redeem(client.code(**changes))
    assert answer.status == 200, answer.text
    return answer.json()


def test_a_code_gives_a_token_for_the_resource_and_a_refresh_token(server, client):
    answer = client.redeem(client.code())
    said = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    assert said["token_type"] == "Bearer"
    assert said["expires_in"] == 3600
    assert said["scope"] == "mcp:use offline_access"
    assert said["refresh_token"]
    claims = server.claims(said["access_token"])
    assert (claims["iss"], claims["aud"], claims["sub"]) == (ISSUER, RESOURCE, "ada")
    assert (claims["client_id"], claims["scope"]) == (client.id, "mcp:use offline_access")
    assert claims["exp"] - claims["iat"] == 3600


def test_a_refresh_token_is_for_those_who_asked_for_it_and_were_allowed_it(server, client):
    assert "refresh_token" not in granted(client, scope="mcp:use")
    page = client.authorize()
    code = client.answer(page, scopes=["mcp:use"]).said["code"]
    assert "refresh_token" not in client.redeem(code).json()
    without = server.client(grant_types=["authorization_code"])
    assert granted(without)["scope"] == "mcp:use"


# Codes


def test_a_code_that_comes_twice_revokes_what_it_gave(server, client):
    code = client.code()
    said = client.redeem(code).json()
    assert server.application.spent(said["access_token"]) is None
    assert client.redeem(code).error == "invalid_grant"
    assert server.application.spent(said["access_token"]) == "the token has been revoked"
    assert client.refresh(said["refresh_token"]).error == "invalid_grant"


def test_a_code_is_another_clients(server, client):
    code = client.code()
    other = server.client()
    assert other.redeem(code).error == "invalid_grant"
    assert client.redeem(code).error == "invalid_grant"  # somebody else has it: it is worth nothing


def test_a_code_expires_soon(server, client):
    code = client.code()
    server.now += 61
    assert client.redeem(code).error == "invalid_grant"


def test_a_code_that_comes_again_late_still_revokes_what_it_gave(server, client):
    code = client.code()
    said = client.redeem(code).json()
    server.now += 300
    client.redeem(code)
    assert server.application.spent(said["access_token"]) == "the token has been revoked"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code": "x"}, "invalid_grant"),
        ({"code": "ü\ud800"[:1]}, "invalid_grant"),
        ({"code": ""}, "invalid_request"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": "v" * 42}, "invalid_request"),
        ({"code_verifier": "v" * 129}, "invalid_request"),
        ({"code_verifier": "ü" * 43}, "invalid_request"),
        ({"redirect_uri": f"{REDIRECT}x"}, "invalid_grant"),
        ({"resource": "https://other.example.com/"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "client_credentials"}, "unauthorized_client"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
    ],
    ids=str,
)
def test_a_code_is_refused_with_the_reason(server, client, changes, error):
    form = {
        "grant_type": "authorization_code",
        "client_id": client.id,
        "code": client.code(),
        "code_verifier": VERIFIER,
        "redirect_uri": REDIRECT,
    }
    answer = server.post("/oauth/token", form | changes)
    assert answer.error == error
    assert answer.status == (401 if error == "invalid_client" else 400)
    assert answer.json()["error_description"].isascii()


# Refresh tokens


def test_a_refresh_gives_another_refresh_token(server, client):
    first = granted(client)
    second = client.refresh(first["refresh_token"]).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["scope"] == first["scope"]
    assert server.claims(second["access_token"])["sub"] == "ada"
    assert client.refresh(second["refresh_token"]).status == 200


def test_a_refresh_token_that_comes_twice_ends_the_family(server, client):
    first = granted(client)
    second = client.refresh(first["refresh_token"]).json()
    assert client.refresh(first["refresh_token"]).error == "invalid_grant"
    assert client.refresh(second["refresh_token"]).error == "invalid_grant"
    for said in (first, second):
        assert server.application.spent(said["access_token"]) == "the token has been revoked"


def test_one_family_ends_and_another_goes_on(server, client):
    first, other = granted(client), granted(client)
    client.refresh(first["refresh_token"])
    client.refresh(first["refresh_token"])
    assert server.application.spent(other["access_token"]) is None
    assert client.refresh(other["refresh_token"]).status == 200


def test_a_refresh_token_is_another_clients_and_stays_good_for_its_own(server, client):
    said = granted(client)
    assert server.client().refresh(said["refresh_token"]).error == "invalid_grant"
    assert client.refresh(said["refresh_token"]).status == 200


def test_a_refresh_gives_no_more_than_was_granted(client):
    said = granted(client)
    assert client.refresh(said["refresh_token"], scope="notes:write").error == "invalid_scope"
    assert client.refresh(said["refresh_token"], resource="https://x.example/").error == "invalid_target"
    less = client.refresh(said["refresh_token"], scope="mcp:use")
    assert less.json()["scope"] == "mcp:use"
    assert client.refresh(less.json()["refresh_token"]).json()["scope"] == said["scope"]


def test_a_refresh_token_expires(server, client):
    said = granted(client)
    server.now += 30 * 86_400 + 1
    assert client.refresh(said["refresh_token"]).error == "invalid_grant"


# Clients


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_acts_for_itself_by_its_secret(server, method):
    client = server.confidential(method=method)
    form = {"grant_type": "client_credentials", "scope": "mcp:use"}
    if method == "client_secret_post":
        form |= {"client_id": client.id, "client_secret": client.secret}
        answer = server.post("/oauth/token", form)
    else:
        answer = client.token(**form)
    said = answer.json()
    claims = server.claims(said["access_token"])
    assert (claims["sub"], claims["aud"], claims["scope"]) == (client.id, RESOURCE, "mcp:use")
    assert "refresh_token" not in said


def test_other_audiences_have_scopes_of_their_own(server):
    client = server.confidential()
    said = client.token(grant_type="client_credentials", resource=BACKEND, scope="repo:read").json()
    assert server.claims(said["access_token"], BACKEND)["scope"] == "repo:read"
    assert client.token(grant_type="client_credentials", scope="repo:read").error == "invalid_scope"
    assert client.token(grant_type="client_credentials", resource="x#y").error == "invalid_target"


def test_a_client_authenticates_in_the_way_it_registered_for(server):
    basic, public = server.confidential(), server.client()
    form = {"grant_type": "client_credentials"}
    for given in (
        {"client_id": basic.id},
        {"client_id": basic.id, "client_secret": basic.secret},
        {"client_id": public.id, "client_secret": ""},
        {"client_id": public.id, "client_secret": "x"},
    ):
        answer = server.post("/oauth/token", form | given)
        assert answer.error in ("invalid_client", "unauthorized_client")
        assert "www-authenticate" not in answer.headers
    twice = server.post("/oauth/token", form | {"client_secret": basic.secret}, **basic.basic())
    assert twice.error == "invalid_request"
    two = server.post("/oauth/token", form | {"client_id": public.id}, **basic.basic())
    assert two.error == "invalid_request"


@pytest.mark.parametrize(
    "authorization",
    ["Basic", "Basic x", "Basic ÿÿÿ", "Basic OnNlY3JldA==", "Bearer x", "Basic YWJj", "Basic /w=="],
)
def test_a_header_that_names_no_client_is_challenged(server, authorization):
    answer = server.post("/oauth/token", {"grant_type": "client_credentials"}, authorization=authorization)
    assert (answer.status, answer.error) == (401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_a_wrong_secret_is_refused(server):
    client, other = server.confidential(), server.confidential()
    for secret in ("x", other.secret, client.secret[:-1], "ü"):
        pair = base64.b64encode(f"{client.id}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"}
        assert server.post("/oauth/token", form, authorization=f"Basic {pair}").error == "invalid_client"


# Exchange (RFC 8693)


def exchange(client, token, **more):
    form = {"subject_token": token, "subject_token_type": TOKEN_TYPE, "audience": BACKEND} | more
    return client.token(grant_type=EXCHANGE, **form)


@pytest.fixture
def gateway(server):
    return server.confidential(EXCHANGE)


def test_a_users_token_becomes_one_for_a_backend(server, client, gateway):
    token = granted(client)["access_token"]
    said = exchange(gateway, token, scope="repo:read").json()
    assert said["issued_token_type"] == TOKEN_TYPE
    claims = server.claims(said["access_token"], BACKEND)
    assert (claims["sub"], claims["aud"]) == ("ada", BACKEND)
    assert (claims["client_id"], claims["scope"]) == (gateway.id, "repo:read")
    by_resource = exchange(gateway, token, audience="", resource=BACKEND).json()
    assert server.claims(by_resource["access_token"], BACKEND)["scope"] == "mcp:use offline_access"
    by_name = exchange(gateway, token, audience="backend-1").json()
    assert server.claims(by_name["access_token"], "backend-1")["sub"] == "ada"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"subject_token": ""}, "invalid_request"),
        ({"subject_token": "x.y.z"}, "invalid_request"),
        ({"subject_token_type": ""}, "invalid_request"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request"),
        ({"actor_token": "x"}, "invalid_request"),
        ({"audience": "two words"}, "invalid_target"),
        ({"resource": "https://other.example.com/"}, "invalid_target"),
        ({"audience": RESOURCE, "scope": "notes:write"}, "invalid_scope"),
        ({"scope": 'a"'}, "invalid_scope"),
    ],
    ids=str,
)
def test_an_exchange_is_refused_with_the_reason(server, client, gateway, changes, error):
    answer = exchange(gateway, granted(client)["access_token"], **changes)
    assert (answer.status, answer.error) == (400, error)


def test_only_good_tokens_are_exchanged(server, client, gateway):
    token = granted(client)["access_token"]
    assert exchange(client, token).error == "unauthorized_client"
    stranger = Server().confidential()
    foreign = stranger.token(grant_type="client_credentials").json()["access_token"]
    assert exchange(gateway, foreign).error == "invalid_request"
    server.now += 3601
    assert exchange(gateway, token).error == "invalid_request"


def test_a_revoked_token_is_not_exchanged(server, client, gateway):
    token = granted(client)["access_token"]
    server.post("/oauth/revoke", {"token": token, "client_id": client.id})
    assert exchange(gateway, token).error == "invalid_request"


# Revocation (RFC 7009)


def test_a_revoked_refresh_token_takes_its_family_along(server, client):
    said = granted(client)
    form = {"token": said["refresh_token"], "client_id": client.id, "token_type_hint": "access_token"}
    assert server.post("/oauth/revoke", form).status == 200
    assert client.refresh(said["refresh_token"]).error == "invalid_grant"
    assert server.application.spent(said["access_token"]) == "the token has been revoked"


def test_a_revoked_access_token_goes_alone(server, client):
    said = granted(client)
    server.post("/oauth/revoke", {"token": said["access_token"], "client_id": client.id})
    assert server.application.spent(said["access_token"]) == "the token has been revoked"
    assert client.refresh(said["refresh_token"]).status == 200


def test_what_is_unknown_or_anothers_is_left_alone_and_nothing_said_of_it(server, client):
    said = granted(client)
    other = server.client()
    for token in ("x", said["access_token"], said["refresh_token"]):
        assert server.post("/oauth/revoke", {"token": token, "client_id": other.id}).status == 200
    assert server.application.spent(said["access_token"]) is None
    assert client.refresh(said["refresh_token"]).status == 200
    assert server.post("/oauth/revoke", {"token": "x"}).error == "invalid_client"
    assert server.post("/oauth/revoke", {"client_id": client.id}).error == "invalid_request"


# What every answer has in common


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
@pytest.mark.parametrize("body", [b"\xff", b"a=%ff", b"a=1&a=2", b"&" * 100, b"a=b&" * 100, b""])
def test_a_form_that_is_none_is_refused(server, path, body):
    answer = server.ask("POST", path, body, content_type="application/x-www-form-urlencoded")
    assert answer.error in ("invalid_request", "invalid_client")


def test_json_is_no_form_and_a_query_is_not_looked_at(server, client):
    answer = server.ask("POST", "/oauth/token", b"{}", content_type="application/json")
    assert answer.error == "invalid_request"
    query = f"grant_type=authorization_code&client_id={client.id}"
    assert server.ask("POST", "/oauth/token", query=query).error == "invalid_request"


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/register", "/oauth/authorize", "/oauth/revoke"])
def test_a_body_may_not_be_large(server, path):
    answer = server.ask("POST", path, b"x" * 65_537, content_type="application/x-www-form-urlencoded")
    assert answer.status == 413


def test_pages_on_this_machine_may_use_it_and_others_may_not(server):
    """So that the Inspector works in a browser."""
    for path, verb in (("/oauth/token", "POST"), ("/oauth/jwks", "GET"), ("/oauth/register", "POST")):
        before = server.ask("OPTIONS", path, origin="http://localhost:6274")
        assert before.status == 204
        assert before.headers["access-control-allow-methods"] == verb
        assert "mcp-protocol-version" in before.headers["access-control-allow-headers"]
        answer = server.ask(verb, path, origin="http://localhost:6274")
        assert answer.headers["access-control-allow-origin"] == "http://localhost:6274"
        for foreign in ("https://evil.example.com", "null", "http://localhost.evil.example.com"):
            refused = server.ask(verb, path, origin=foreign)
            assert refused.status == 403
            assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize("path", ["/oauth/", "/oauth/tokens", "/oauth/token/", "/oauth/../token", "/"])
def test_what_is_not_there_is_not_there(server, path):
    assert server.ask("GET", path).status == 404
    assert server.ask("POST", path).status == 404


def test_other_verbs_are_refused(server):
    assert server.ask("GET", "/oauth/token").headers["allow"] == "POST"
    assert server.ask("POST", "/oauth/jwks").headers["allow"] == "GET"


def test_the_metadata_says_what_there_is(server):
    one = server.ask("GET", "/.well-known/oauth-authorization-server").json()
    assert one == server.ask("GET", "/.well-known/openid-configuration").json()
    assert one["issuer"] == ISSUER
    assert one["code_challenge_methods_supported"] == ["S256"]
    assert one["client_id_metadata_document_supported"] is True
    assert one["authorization_response_iss_parameter_supported"] is True
    assert set(one["grant_types_supported"]) == {*GRANTS, EXCHANGE}
    assert "offline_access" in one["scopes_supported"]
    for name in ("token", "registration", "revocation"):
        path = one[f"{name}_endpoint"].removeprefix(ISSUER)
        assert server.ask("POST", path).status == 400
    assert server.ask("GET", one["jwks_uri"].removeprefix(ISSUER)).json()["keys"]


def test_a_token_from_before_a_restart_is_exchanged_until_it_expires(tmp_path):
    kept = tmp_path / "keys.json"
    token = granted(Server(kept=kept).client())["access_token"]
    again = Server(kept=kept)
    gateway = again.confidential(EXCHANGE)
    assert exchange(gateway, token).status == 200
    again.now += 3601
    assert exchange(gateway, token).error == "invalid_request"
