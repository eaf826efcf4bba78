"""The authorization endpoint: what is asked, of whom, and where the answer goes."""

import html

import pytest

from portico.devauth.authorization import MOST_OPEN
from portico.devauth.model import Terms
from tests.devauth.support import CHALLENGE, ISSUER, REDIRECT, RESOURCE, VERIFIER, Server


def test_a_user_who_allows_it_sends_a_code_the_state_and_the_issuer(server, client):
    said = client.answer(client.authorize(state="a&b=c")).said
    assert said["state"] == "a&b=c"
    assert said["iss"] == ISSUER
    assert len(said["code"]) >= 43
    assert set(said) == {"state", "iss", "code"}


def test_a_client_without_state_gets_none(client):
    assert "state" not in client.answer(client.authorize(state=None)).said


def test_a_user_who_denies_is_an_error_with_state_and_issuer(client):
    said = client.answer(client.authorize(), "deny").said
    assert (said["error"], said["state"], said["iss"]) == ("access_denied", "s", ISSUER)
    assert "code" not in said


def test_whatever_is_no_yes_is_a_no(client):
    assert client.answer(client.authorize(), "ALLOW").said["error"] == "access_denied"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "v" * 44}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"scope": "mcp:use everything"}, "invalid_scope"),
        ({"scope": 'a"b'}, "invalid_scope"),
        ({"resource": "https://other.example.com/mcp"}, "invalid_target"),
        ({"resource": f"{RESOURCE}#x"}, "invalid_target"),
        ({"resource": "http://["}, "invalid_target"),
        ({"prompt": "none"}, "interaction_required"),
        ({"request": "eyJ"}, "request_not_supported"),
        ({"request_uri": "urn:x"}, "request_uri_not_supported"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_is_told_to_the_client(client, changes, error):
    said = client.authorize(**changes).said
    assert (said["error"], said["state"], said["iss"]) == (error, "s", ISSUER)
    assert said["error_description"]


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": None},
        {"client_id": "nobody"},
        {"client_id": "."},
        {"client_id": "ü"},
        {"client_id": "WyJ4Il0.AAAA"},
        {"redirect_uri": "https://evil.example.com/"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": f"{REDIRECT}/../evil"},
    ],
    ids=str,
)
def test_until_client_and_address_are_known_nobody_is_sent_anywhere(client, changes):
    answer = client.authorize(**changes)
    assert answer.status == 400
    assert "location" not in answer.headers
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_a_forged_client_id_is_nobody(server, client):
    payload, _, seal = client.id.partition(".")
    for forged in (f"{payload}.{'A' * len(seal)}", f"{payload}x.{seal}", f"{payload}.{seal}=", payload):
        assert client.authorize(client_id=forged).status == 400


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "scope", "resource"])
def test_nothing_may_be_said_twice(server, name):
    answer = server.ask("GET", "/oauth/authorize", query=f"{name}=a&{name}=b")
    assert answer.status == 400
    assert f"{name} came more than once" in answer.text


@pytest.mark.parametrize("query", ["%ff=%ff", "a=b&" * 200, "%", "client_id=" + "x" * 60_000, "\x00=\x01"])
def test_a_query_that_is_none_is_told_to_the_user(server, query):
    assert server.ask("GET", "/oauth/authorize", query=query).status == 400


def test_an_address_may_be_left_out_where_there_is_only_one(server, client):
    assert client.answer(client.authorize(redirect_uri=None)).headers["location"].startswith(f"{REDIRECT}?")
    two = server.client(redirect_uris=[REDIRECT, "https://app.example.com/"])
    assert two.authorize(redirect_uri=None).status == 400


def test_the_port_on_loopback_may_be_another_one(client):
    elsewhere = REDIRECT.replace("5000", "6000")
    page = client.authorize(redirect_uri=elsewhere)
    assert "127.0.0.1:6000" in page.text
    assert client.answer(page).headers["location"].startswith(f"{elsewhere}?")


@pytest.mark.parametrize("resource", [None, RESOURCE, f"{RESOURCE}/", RESOURCE.replace("http", "HTTP")])
def test_however_the_resource_is_spelled_the_token_is_for_it(server, client, resource):
    token = client.redeem(client.code(resource=resource)).json()["access_token"]
    assert server.claims(token)["aud"] == RESOURCE


def test_only_what_was_asked_and_ticked_is_granted(server, client):
    page = client.authorize(scope="mcp:use notes:write")
    code = client.answer(page, scopes=["mcp:use", "portico:operate", "x"]).said["code"]
    assert client.redeem(code).json()["scope"] == "mcp:use"


def test_who_asks_for_nothing_is_offered_the_usual(client):
    assert client.redeem(client.code(scope=None)).json()["scope"] == "mcp:use"


def test_scopes_that_every_client_asks_of_every_server_do_no_harm(client):
    assert client.redeem(client.code(scope="openid profile mcp:use")).json()["scope"] == "mcp:use"


def test_what_was_granted_before_is_offered_again(server, client):
    """Most clients ask only for what they lack."""
    client.redeem(client.code(scope="mcp:use"))
    page = client.authorize(scope="notes:write")
    assert page.text.count("granted before") == 1
    code = client.answer(page).said["code"]
    assert set(client.redeem(code).json()["scope"].split()) == {"mcp:use", "notes:write"}
    assert "granted before" not in server.client().authorize(scope="notes:write").text


@pytest.mark.parametrize("subject", ["", "  ", "x" * 201, "a\nb", "a\x00b"])
def test_who_somebody_is_must_be_said_in_a_line(client, subject):
    page = client.authorize()
    assert client.answer(page, subject=subject).status == 400
    assert client.answer(page, subject=" ada ").said["code"]  # and can be said again


# Whose answer it is


def test_a_page_is_answered_once(client):
    page = client.authorize()
    client.answer(page)
    assert client.answer(page).status == 400


def test_a_page_is_answered_in_time(server, client):
    page = client.authorize()
    server.now += 601
    assert client.answer(page).status == 400


def test_a_page_is_answered_by_the_browser_that_has_seen_it(server, client):
    page, other = client.authorize(), client.authorize()
    page.headers["set-cookie"] = other.headers["set-cookie"]
    assert "another browser" in client.answer(page).text
    page.headers["set-cookie"] = "portico-consent=; Path=/"
    assert "another browser" in client.answer(page).text


def test_one_browser_may_have_two_pages_open(server, client):
    first = client.authorize()
    query = f"response_type=code&client_id={client.id}&code_challenge={CHALLENGE}&code_challenge_method=S256"
    second = server.ask("GET", "/oauth/authorize", query=query, cookie=first.cookie)
    assert second.cookie == first.cookie
    assert client.answer(first).said["code"]
    assert client.answer(second).said["code"]


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example.com", "http://127.0.0.1:9999", "http://localhost:8088", "x"]
)
def test_another_page_cannot_answer(server, client, origin):
    page = client.authorize()
    answer = server.post(
        "/oauth/authorize",
        {"request": page.number, "subject": "ada", "decision": "allow"},
        origin=origin,
        cookie=page.cookie,
    )
    assert answer.status == 400
    assert "another page" in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example.com", "127.0.0.1.evil.example.com", "", "127.0.0.1@evil.example.com"]
)
def test_another_host_is_not_served(server, client, host):
    """As a name that has been bound to this machine (DNS rebinding)."""
    for path in (
        "/oauth/authorize",
        "/oauth/token",
        "/oauth/jwks",
        "/.well-known/oauth-authorization-server",
    ):
        assert server.ask("GET", path, host=host).status == 403


def test_no_number_of_open_pages_fills_the_memory(server, client):
    first = client.authorize()
    for _ in range(MOST_OPEN):
        last = client.authorize()
    assert client.answer(first).status == 400
    assert client.answer(last).said["code"]


# What the page is made of


def test_the_page_cannot_be_framed_scripted_or_kept(client):
    headers = client.authorize().headers
    policy = headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "form-action 'self' http://127.0.0.1:5000" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Lax" in headers["set-cookie"]


def test_everything_on_the_page_is_escaped():
    hostile = "<script>alert('1')</script>\"&"
    server = Server(Terms(ISSUER))
    client = server.client(client_name=hostile)
    page = client.authorize(scope="a<b>'c", resource="x:<script>'", state='"><script>')
    assert page.status == 200
    assert "<script" not in page.text
    assert html.escape(hostile) in page.text
    assert html.escape("a<b>'c") in page.text


def test_a_client_of_its_own_scheme_is_named_by_it(server):
    client = server.client(redirect_uris=["cursor://x/callback"])
    page = client.authorize(redirect_uri="cursor://x/callback")
    assert "<dd>cursor:</dd>" in page.text
    assert "form-action 'self' cursor:;" in page.headers["content-security-policy"]


def test_a_client_that_has_not_registered_for_codes_gets_none(server):
    client = server.client(
        grant_types=["client_credentials"],
        token_endpoint_auth_method="client_secret_post",
        redirect_uris=[REDIRECT],
    )
    assert client.authorize().said["error"] == "unauthorized_client"


@pytest.mark.parametrize("verb", ["PUT", "DELETE", "OPTIONS", "HEAD"])
def test_other_verbs_are_refused(server, verb):
    assert server.ask(verb, "/oauth/authorize").status == 405


def test_a_code_answers_only_to_its_challenge(client):
    assert client.redeem(client.code(), code_verifier=VERIFIER).status == 200
