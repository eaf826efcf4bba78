"""What a call carries to its backend, and what a caller is told when there is nothing that it could carry."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import Place, config, echo_server, eventually, gateway
from tests.support.authorization import SECRET, went

RESOURCE = "https://gw.example.com/mcp"


def declared(server, backend, way, **oauth):
    own = {
        "token_url": f"{server.issuer}/token",
        "client_id": "portico",
        "client_secret": "env:SECRET",
        **oauth,
    }
    oauth = {name: value for name, value in own.items() if value is not None}
    return config(
        ("g", backend.url, {"call_auth": way, "oauth": oauth, "credential": "env:LISTING"}),
        gateway={"public_url": "https://gw.example.com"},
        auth={"mode": "jwt", "issuers": [{"issuer": server.issuer}]},
    )


def started(declared):
    return gateway(declared, env={"SECRET": SECRET, "LISTING": "Bearer lists"})


def client_of(process, server, **claims):
    token = server.token(sub="ada", aud=RESOURCE, **claims)
    client = process.client(headers={"authorization": f"Bearer {token}"})
    client.init()
    return client, token


def carried(backend):
    """The Authorization header of the last call that the backend let in."""
    return backend.seen("tools/call")[-1]["headers"]["authorization"].removeprefix("Bearer ")


def test_a_clients_token_is_exchanged_for_one_that_is_for_the_backend(server, backend):
    """G1.82: RFC 8693"""
    with started(declared(server, backend, "exchange", scopes=["echo:use"])) as process:
        client, token = client_of(process, server)
        assert went(client.call("g_echo", {"text": "hi"}))
        assert went(client.call("g_echo", {"text": "hi"}))
        (asked,) = server.seen()
        assert asked["said"]["subject_token"] == token
        assert asked["said"]["resource"] == backend.url
        assert asked["said"]["scope"] == "echo:use"
        assert carried(backend) != token
        assert token not in json.dumps(backend.seen())
        assert token not in process.stderr()
        assert carried(backend) not in process.stderr()


def test_another_client_gets_a_token_of_its_own(server, backend):
    """G1.82"""
    with started(declared(server, backend, "exchange")) as process:
        seen = []
        for _ in range(2):
            client, _ = client_of(process, server)
            assert went(client.call("g_echo", {"text": "hi"}))
            seen.append(carried(backend))
        assert len(set(seen)) == 2
        assert len(server.seen()) == 2


@pytest.mark.serve_only(
    "as many calls at once are on a deployment as many processes, each with tokens of its own"
)
@pytest.mark.parametrize("way", ["exchange", "client_credentials"])
def test_200_calls_at_once_fetch_one_token(server, backend, way):
    """G1.82: with at most one fetch in flight"""
    with started(declared(server, backend, way)) as process:
        client, _ = client_of(process, server)
        server.set(delay=0.5)
        with ThreadPoolExecutor(200) as pool:
            answers = list(pool.map(lambda _: client.call("g_echo", {"text": "hi"}), range(200)))
        assert all(went(answer) for answer in answers)
        assert len(server.seen()) == 1


@pytest.mark.parametrize("way", ["exchange", "client_credentials"])
def test_an_outage_is_told_of_and_not_made_worse(server, backend, way):
    """G1.82: 200 calls while the token endpoint fails ask it once, and are told whose fault it is.

    So does each process of a deployment, where as many calls come to as many of them.
    """
    many = 200 if Place.chosen == "serve" else 1
    with started(declared(server, backend, way)) as process:
        client, _ = client_of(process, server)
        server.set(fail=503, delay=0.3)
        with ThreadPoolExecutor(many) as pool:
            answers = list(pool.map(lambda _: client.call("g_echo", {"text": "hi"}), range(many)))
        assert {answer.status for answer in answers} == {503}
        error = answers[0].error
        assert "unavailable" in error["message"]
        assert error["data"]["backend"] == "g"
        assert server.issuer in error["data"]["authorizationServer"]
        assert server.most_in_flight == 1
        assert len(server.seen()) <= 2
        server.control("reset")
        assert eventually(lambda: went(client.call("g_echo", {"text": "hi"})), 15)


def test_a_warm_token_is_used_during_an_outage(server, backend):
    """G1.82: a newer one is asked for before the end, and the old one goes on being used if there is none."""
    with started(declared(server, backend, "client_credentials")) as process:
        client, _ = client_of(process, server)
        server.set(expires_in=20)
        assert went(client.call("g_echo", {"text": "hi"}))
        server.set(fail=500)
        assert all(went(client.call("g_echo", {"text": "hi"})) for _ in range(20))


def test_a_token_that_has_expired_is_replaced(server, backend):
    """G1.82"""
    with started(declared(server, backend, "client_credentials")) as process:
        client, _ = client_of(process, server)
        server.set(expires_in=1)
        assert went(client.call("g_echo", {"text": "hi"}))
        first = carried(backend)
        assert eventually(lambda: went(client.call("g_echo", {"text": "hi"})) and carried(backend) != first)


def test_a_token_that_the_backend_refuses_is_replaced_once(server, backend):
    """G1.82: one that is a moment old is not: the next would be refused, too."""
    with started(declared(server, backend, "client_credentials")) as process:
        client, _ = client_of(process, server)
        assert went(client.call("g_echo", {"text": "hi"}))
        server.control("revoke")
        refused = client.call("g_echo", {"text": "hi"})
        assert refused.status == 502
        assert "does not take the token" in refused.error["message"]
        assert eventually(lambda: went(client.call("g_echo", {"text": "hi"})), 10)
        assert len(server.seen()) == 2


def test_who_the_server_refuses_is_told_which_one_and_no_internals(server, backend):
    """G1.82"""
    with started(declared(server, backend, "exchange")) as process:
        client, _ = client_of(process, server)
        server.set(fail=400, error="access_denied")
        refused = client.call("g_echo", {"text": "hi"})
        assert refused.status == 403
        assert server.issuer in refused.error["message"]
        assert "access_denied" in refused.error["message"]
        assert "hush" not in refused.raw.decode()


def test_a_gateway_that_the_server_does_not_know_is_the_operators_business(server, backend):
    """G1.82"""
    with started(declared(server, backend, "client_credentials", client_id="stranger")) as process:
        client, _ = client_of(process, server)
        refused = client.call("g_echo", {"text": "hi"})
        assert refused.status == 502
        assert "tell its operator" in refused.error["message"]


@pytest.mark.parametrize("way", ["exchange", "client_credentials"])
def test_a_scope_that_the_fetched_token_lacks_is_named(server, backend, way):
    """G1.82"""
    with started(declared(server, backend, way)) as process:
        client, _ = client_of(process, server)
        backend.wants(scope="write")
        for refused in (client.call("g_echo", {"text": "hi"}), client.call26("g_echo", {"text": "hi"})):
            assert refused.status == 403
            assert refused.error["data"]["scopes"] == ["write"]
        assert len(server.seen()) == 1


def test_where_there_is_no_other_credential_the_gateways_own_token_lists_too(server, backend):
    """G1.38"""
    backend.wants(all=True)
    without = declared(server, backend, "client_credentials")
    del without["backends"]["g"]["credential"]
    with started(without) as process:
        client, _ = client_of(process, server)
        assert went(client.call("g_echo", {"text": "hi"}))
        # One function of a deployment lists, another one calls.
        assert len(server.seen()) == (1 if Place.chosen == "serve" else 2)


def test_the_issuers_metadata_says_where_tokens_are(server, backend):
    """G1.82: RFC 8414"""
    with started(
        declared(server, backend, "client_credentials", token_url=None, issuer=server.issuer)
    ) as process:
        client, _ = client_of(process, server)
        assert went(client.call("g_echo", {"text": "hi"}))


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example.com"},
        {"token_endpoint": "http://10.0.0.1/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "https://user:pass@as.example.com/token"},
        {"token_endpoint": None},
        {"token_endpoint": "http://169.254.169.254/latest/meta-data"},
    ],
)
def test_metadata_that_leads_elsewhere_is_not_followed(server, backend, metadata):
    """G1.82"""
    oauth = {"token_url": None, "issuer": server.issuer}
    server.set(metadata=metadata)
    with started(declared(server, backend, "client_credentials", **oauth)) as process:
        client, _ = client_of(process, server)
        refused = client.call("g_echo", {"text": "hi"})
        assert refused.status == 503
        assert server.seen() == []


def test_the_clients_own_token_goes_on_only_if_it_is_for_the_backend_too(server, backend):
    """G1.82: no confused deputy"""
    none = dict.fromkeys(("token_url", "client_id", "client_secret"))
    with started(declared(server, backend, "passthrough", **none, audience=backend.url)) as process:
        client, _ = client_of(process, server)
        before = len(backend.seen())
        refused = client.call("g_echo", {"text": "hi"})
        assert refused.status == 403
        assert backend.url in refused.error["message"]
        assert len(backend.seen()) == before
        token = server.token(sub="ada", aud=[RESOURCE, backend.url])
        both = process.client(headers={"authorization": f"Bearer {token}"})
        both.init()
        assert went(both.call("g_echo", {"text": "hi"}))
        assert carried(backend) == token
        modern = process.client(headers={"authorization": f"Bearer {client_of(process, server)[1]}"})
        assert modern.call26("g_echo", {"text": "hi"}).status == 403


def test_the_gateways_secret_goes_with_calls_that_are_declared_so():
    """G1.39, G1.82, C28"""
    with echo_server() as echo:
        own = {"credential": "env:TOKEN", "call_auth": "static"}
        with gateway(config(("s1", echo.url, own)), env={"TOKEN": "Bearer ours"}) as process:
            client = process.client(headers={"authorization": "Bearer mine"})
            client.init()
            assert json.loads(client.call("s1_headers").text)["authorization"] == "Bearer ours"


def test_a_secret_that_the_backend_refuses_is_not_the_clients_fault(backend):
    """G1.82: a 401 of the gateway's own would make a client sign in again."""
    own = {"credential": "env:TOKEN", "call_auth": "static"}
    with gateway(config(("g", backend.url, own)), env={"TOKEN": "Bearer stale"}) as process:
        client = process.client()
        client.init()
        for refused in (client.call("g_echo", {"text": "hi"}), client.call26("g_echo", {"text": "hi"})):
            assert refused.error["data"]["upstreamStatus"] == 401
            assert "credential" in refused.error["message"]
            assert refused.status == 502
