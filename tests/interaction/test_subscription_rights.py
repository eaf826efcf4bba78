"""`subscriptions/listen` where not everybody may hear of everything: seeing a thing is less than being told of it."""

import pytest

from tests.interaction.test_subscriptions import UPDATED, listen
from tests.support import config, echo26_server, echo_server, gateway
from tests.support.issuer import published

BASE = "https://gw.example.com"
PLAIN, READ, SUBSCRIBED, NEVER = "plain://one", "read://one", "subscribed://one", "never://one"
ADDRESSES = [f"{era}-{uri}" for era in ("old", "new") for uri in (PLAIN, READ, SUBSCRIBED, NEVER)]
SCOPE = "news:hear"


@pytest.fixture(scope="module")
def servers():
    with echo_server("old") as old, echo26_server("new") as new:
        made = {"old": old, "new": new}
        for uri in ADDRESSES:
            made[uri.partition("-")[0]].control("add_resource", uri=uri)
        yield made


@pytest.fixture(scope="module")
def issuer():
    with published(f"{BASE}/mcp") as made:
        yield made


@pytest.fixture(scope="module")
def portico(servers, issuer):
    declared = config(
        *((name, server.url, {}) for name, server in servers.items()),
        gateway={"public_url": BASE},
        limits={"stream_s": 15},
        auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}], "lists": "obtainable"},
        policies=[
            {"match": {"resource": "*-read://*"}, "require": {"scopes": [SCOPE]}},
            {
                "match": {"resource": "*-subscribed://*", "method": "resources/subscribe"},
                "require": {"scopes": [SCOPE]},
            },
            {"match": {"resource": "*-never://*"}, "require": {"never": True}},
        ],
    )
    with gateway(declared) as process:
        yield process


def client_of(portico, issuer, scope):
    return portico.client(headers={"authorization": f"Bearer {issuer.token(scope=scope)}"})


@pytest.mark.parametrize(
    ("scope", "heard"),
    [("mcp:use", (PLAIN,)), (f"mcp:use {SCOPE}", (PLAIN, READ, SUBSCRIBED))],
    ids=["with less", "with the scope"],
)
def test_what_is_listed_because_a_scope_more_would_do_is_not_told_of(portico, issuer, servers, scope, heard):
    """G1.74, G1.93: left out of what is agreed to, as an unknown address is; by the rules that legacy clients meet."""
    client = client_of(portico, issuer, scope)
    listed = {item["uri"] for item in client.rpc26("resources/list").result["resources"]}
    assert listed & set(ADDRESSES) == {uri for uri in ADDRESSES if "never" not in uri}
    expected = [f"{era}-{uri}" for era in servers for uri in heard]
    stream, agreed = listen(client, resourceSubscriptions=ADDRESSES)
    assert agreed["resourceSubscriptions"] == expected
    legacy = client_of(portico, issuer, scope)
    legacy.init()
    for uri in ADDRESSES:
        assert ("result" in legacy.rpc("resources/subscribe", {"uri": uri}).message) == (uri in expected), uri
    stream.close()


def test_what_a_backend_tells_unasked_reaches_only_those_who_may_hear_of_it(portico, issuer, servers):
    """G1.74"""
    stream, _ = listen(client_of(portico, issuer, "mcp:use"), resourceSubscriptions=[f"old-{PLAIN}"])
    for uri in (READ, NEVER, PLAIN):
        servers["old"].control("notify", method=UPDATED, params={"uri": f"old-{uri}/below"})
    told = stream.wait_for(UPDATED)
    assert told["params"]["uri"] == f"old-{PLAIN}/below"
    stream.close()
