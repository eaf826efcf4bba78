"""Clients that register (RFC 7591), and where codes may be sent to."""

import pytest

from portico.devauth.redirects import is_acceptable, is_registered, with_parameters
from tests.devauth.support import ISSUER, REDIRECT, Server


def test_a_public_client_gets_an_id_and_no_secret(server):
    answer = server.register()
    assert answer.status == 201
    said = answer.json()
    assert "client_secret" not in said
    assert said["redirect_uris"] == [REDIRECT]
    assert said["grant_types"] == ["authorization_code", "refresh_token"]
    assert said["token_endpoint_auth_method"] == "none"
    assert answer.headers["cache-control"] == "no-store"


def test_who_says_nothing_of_it_gets_a_secret_as_the_rfc_has_it(server):
    said = server.register(token_endpoint_auth_method=None, grant_types=None).json()
    assert said["token_endpoint_auth_method"] == "client_secret_basic"
    assert len(said["client_secret"]) >= 43
    assert said["client_secret_expires_at"] == 0
    assert said["grant_types"] == ["authorization_code"]


def test_two_clients_that_say_the_same_are_two(server):
    one, other = server.register().json(), server.register().json()
    assert one["client_id"] != other["client_id"]


def test_nobody_registers_again_because_the_server_was_restarted(tmp_path):
    kept = tmp_path / "keys.json"
    client = Server(kept=kept).confidential()
    again = Server(kept=kept)
    client.server = again
    assert client.token(grant_type="client_credentials").status == 200
    client.server = Server()
    assert client.token(grant_type="client_credentials").error == "invalid_client"


def test_grant_types_that_nobody_knows_here_are_left_out(server):
    said = server.register(grant_types=["authorization_code", "urn:ietf:params:oauth:grant-type:jwt-bearer"])
    assert said.json()["grant_types"] == ["authorization_code"]


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": REDIRECT}, "invalid_redirect_uri"),
        ({"redirect_uris": [REDIRECT, 5]}, "invalid_redirect_uri"),
        ({"redirect_uris": [REDIRECT] * 11}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://evil.example.com/"]}, "invalid_redirect_uri"),
        ({"grant_types": ["password"]}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": ["none"]}, "invalid_client_metadata"),
        ({"client_name": {"en": "x"}}, "invalid_client_metadata"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_its_code(server, metadata, error):
    answer = server.register(**metadata)
    assert (answer.status, answer.error) == (400, error)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b"\xff", b"[" * 60_000, b'{"redirect_uris": ["http://[::1"]}'],
    ids=lambda body: str(body[:20]),
)
def test_a_body_that_is_no_metadata_is_refused(server, body):
    answer = server.ask("POST", "/oauth/register", body, content_type="application/json")
    assert answer.status == 400


def test_a_form_is_no_metadata(server):
    """Which a page from elsewhere could send without asking."""
    answer = server.ask("POST", "/oauth/register", b'{"redirect_uris":[]}', content_type="text/plain")
    assert answer.error == "invalid_client_metadata"


def test_a_name_is_what_can_be_seen_of_it(server):
    said = server.register(client_name="Claude\u202e Code\x00\n\u200b  x" + "y" * 500).json()
    assert said["client_name"] == ("Claude Code x" + "y" * 500)[:100]


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example.com/callback?a=b",
        "http://127.0.0.1/callback",
        "http://[::1]:6274/oauth/callback",
        "http://localhost:1/",
        "cursor://anysphere.cursor-retrieval/oauth/callback",
        "com.example.app:/oauth",
    ],
)
def test_clients_may_live_in_these_places(uri):
    assert is_acceptable(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/callback",
        "//app.example.com/",
        "http://app.example.com/",
        "http://127.0.0.1.example.com/",
        "http://127.0.0.1@evil.example.com/",
        "http://user:pass@127.0.0.1/",
        "https://app.example.com/#fragment",
        "https://app.example.com/\r\nx: y",
        "https://app.example.com/ x",
        'https://app.example.com/";form-action *',
        "https://app.example.com\\@evil.example.com/",
        "https://",
        "https://app.example.com:99999/",
        "https://[::1/",
        "javascript:alert(1)",
        "JavaScript://x/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "app:opaque",
        "https://app.example.com/" + "x" * 1000,
        "https://äpp.example.com/",
    ],
)
def test_and_not_in_these(uri):
    assert not is_acceptable(uri)


@pytest.mark.parametrize(
    ("asked", "fine"),
    [
        ("http://127.0.0.1:5000/callback", True),
        ("http://127.0.0.1:61234/callback", True),
        ("http://127.0.0.1/callback", True),
        ("http://localhost:5000/callback", False),
        ("http://127.0.0.1:5000/callback/", False),
        ("http://127.0.0.1:5000/callback?x=y", False),
        ("http://127.0.0.1:5000/other", False),
        ("https://127.0.0.1:5000/callback", False),
        ("http://x@127.0.0.1:5000/callback", False),
        ("http://127.0.0.1:5000/callback#x", False),
        ("https://app.example.com/callback", True),
        ("https://app.example.com:444/callback", False),
        ("https://app.example.com/callback/../x", False),
        ("HTTPS://app.example.com/callback", False),
        ("", False),
    ],
)
def test_a_request_means_a_registered_address_to_the_letter_but_for_the_port_on_loopback(asked, fine):
    registered = ("http://127.0.0.1:5000/callback", "https://app.example.com/callback")
    assert is_registered(asked, registered) is fine


def test_parameters_join_those_that_an_address_has():
    assert (
        with_parameters("https://a.example/?x=%26", {"code": "1&2"}) == "https://a.example/?x=%26&code=1%262"
    )
    assert ISSUER not in with_parameters("app:/x", {})
