"""A backend that wants its users' own tokens: asked for through the client, given in the browser, kept sealed."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from anyio import to_thread
from mcp import Client, types
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError

from tests.support import config, eventually, fetch, gateway, reasons
from tests.support.authorization import Browser, guarded_server, went

PUBLIC = "http://gw.test:8088"
RESOURCE = f"{PUBLIC}/mcp"
ALONE = "who is not asked who he is, is on a deployment nobody"
SHOWS = {"elicitation": {"form": {}, "url": {}}}


def declared(server, backend, store="memory", **own):
    made = config(
        ("g", backend.url, {"call_auth": "user", **own}),
        gateway={"public_url": PUBLIC},
        auth={"mode": "jwt", "issuers": [{"issuer": server.issuer, "algorithms": ["ES256"]}]},
    )
    return made | {"store": store}


@pytest.fixture(scope="module")
def process(trusted, guarded):
    with gateway(declared(trusted, guarded)) as made:
        yield made


@pytest.fixture
def portico(process, server, backend):
    """In which nobody has given anything yet."""
    for sub in ("ada", "eve"):
        taken_back(process, {"authorization": f"Bearer {server.token(sub=sub, aud=RESOURCE)}"})
    return process


def taken_back(process, headers):
    return fetch(f"{process.base}/oauth/upstream/tokens/g", method="DELETE", headers=headers).status


def client_of(process, server, sub="ada", capabilities=SHOWS):
    token = server.token(sub=sub, aud=RESOURCE)
    client = process.client(headers={"authorization": f"Bearer {token}"})
    client.init(capabilities=capabilities)
    return client


def asked(client, tool="g_echo"):
    """The page that the user is sent to."""
    refused = client.call(tool, {"text": "hi"})
    assert refused.status == 200
    assert refused.error["code"] == -32042
    (elicitation,) = refused.error["data"]["elicitations"]
    assert elicitation["mode"] == "url"
    assert elicitation["elicitationId"]
    return elicitation["url"]


def test_a_legacy_client_is_sent_to_a_page_told_when_it_is_over_and_calls_again(portico, server, backend):
    """G1.82: -32042 and notifications/elicitation/complete of 2025-11-25"""
    client = client_of(portico, server)
    stream = client.stream()
    elicitation = client.call("g_echo", {"text": "hi"}).error["data"]["elicitations"][0]
    assert elicitation["url"].startswith(f"{PUBLIC}/oauth/upstream/start?id=")
    assert "ada" not in elicitation["url"]
    page = Browser(portico, PUBLIC).consent(elicitation["url"])
    assert page.status == 200, page
    told = {"elicitationId": elicitation["elicitationId"]}
    assert stream.wait_for("notifications/elicitation/complete")["params"] == told
    assert client.call("g_echo", {"text": "hi"}).text == "hi"


def test_a_modern_client_gets_input_required_and_its_retry_goes_through(portico, server, backend):
    """G1.82: multi round-trip requests of 2026-07-28"""
    client = client_of(portico, server)
    wanted = client.call26("g_echo", {"text": "hi"}, capabilities=SHOWS)
    assert wanted.result["resultType"] == "input_required"
    question = wanted.result["inputRequests"]["consent"]
    assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")
    again = {
        "name": "g_echo",
        "arguments": {"text": "hi"},
        "requestState": wanted.result["requestState"],
        "inputResponses": {"consent": {"action": "accept"}},
    }
    retry = client.begin26("tools/call", again, capabilities=SHOWS)
    assert Browser(portico, PUBLIC).consent(question["params"]["url"]).status == 200
    answer = retry.answer()
    assert answer.text == "hi"
    seen = backend.seen("tools/call")[-1]
    assert "portico-consent" not in json.dumps(seen)


def test_a_modern_user_who_declines_has_not_called(portico, server, backend):
    """G1.82"""
    client = client_of(portico, server)
    wanted = client.call26("g_echo", {"text": "hi"}, capabilities=SHOWS).result
    again = {"name": "g_echo", "arguments": {"text": "hi"}, "requestState": wanted["requestState"]}
    answer = client.rpc26(
        "tools/call", again | {"inputResponses": {"consent": {"action": "decline"}}}, capabilities=SHOWS
    )
    assert "has not let the gateway act" in answer.error["message"]
    eve = client_of(portico, server, "eve")
    for who, call in ((eve, again), (client, again | {"arguments": {"text": "other"}})):
        stolen = who.rpc26("tools/call", call | {"inputResponses": {}}, capabilities=SHOWS)
        assert stolen.error["code"] == -32602


def test_a_client_that_can_show_no_address_gets_it_in_words(portico, server):
    """G1.82"""
    legacy = client_of(portico, server, capabilities={}).call("g_echo", {"text": "hi"})
    assert legacy.error["code"] != -32042
    assert f"{PUBLIC}/oauth/upstream/start?id=" in legacy.error["message"]
    modern = client_of(portico, server).call26("g_echo", {"text": "hi"})
    assert (modern.status, modern.error["code"]) == (400, -32021)
    assert modern.error["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}
    assert f"{PUBLIC}/oauth/upstream/start?id=" in modern.error["message"]


def test_one_user_signs_in_once_in_all_sessions_and_nobody_else_by_it(portico, server):
    """G1.82: bound to the principal, not to a session"""
    client = client_of(portico, server)
    assert asked(client) == asked(client)
    Browser(portico, PUBLIC).consent(asked(client))
    assert went(client_of(portico, server).call("g_echo", {"text": "hi"}))
    assert went(client_of(portico, server).call26("g_echo", {"text": "hi"}))
    asked(client_of(portico, server, "eve"))


def test_a_link_that_was_sent_to_somebody_else_gives_nothing(portico, server):
    """G1.82: phishing: eve's link, opened by ada, must not give eve a token of ada's."""
    eve = client_of(portico, server, "eve")
    url = asked(eve)
    page = Browser(portico, PUBLIC).consent(url)  # the issuer knows the browser's user as ada
    assert page.status == 403
    assert "somebody else" in page.raw.decode()
    asked(eve)
    assert not [entry for entry in server.seen("/authorize") if entry["said"]["resource"] != RESOURCE]


def test_a_sign_in_that_was_begun_in_another_browser_is_not_gone_on_with(portico, server):
    """G1.82: eve signs in as herself, and sends ada the second half."""
    eve, own = client_of(portico, server, "eve"), Browser(portico, PUBLIC)
    server.set(user="eve")
    hop = own.get(own.onward(own.get(asked(eve))))
    for _ in range(2):  # to the gateway's issuer and back, which leads on to the backend's
        hop = own.get(hop.headers["location"])
    second_half = hop.headers["location"]
    assert urlsplit(second_half).path == "/authorize"
    server.set(user="ada")
    page = Browser(portico, PUBLIC).follow(second_half)
    assert page.status == 403
    asked(eve)


def test_an_answer_is_taken_once_and_from_the_right_server_only(portico, server):
    """G1.82: replayed codes, forged states, mix-up (RFC 9207)"""
    browser = Browser(portico, PUBLIC)
    url = asked(client_of(portico, server))
    hop = browser.get(browser.onward(browser.get(url)))
    back = browser.get(hop.headers["location"]).headers["location"]
    said = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    for wrong in (said | {"state": "forged"}, {"code": said["code"]}, {}):
        assert browser.get(f"{PUBLIC}/oauth/upstream/callback?{urlencode(wrong)}").status == 403
    mixed = browser.get(
        f"{PUBLIC}/oauth/upstream/callback?{urlencode(said | {'iss': 'https://evil.example'})}"
    )
    assert mixed.status == 403
    assert "evil.example" not in mixed.raw.decode()
    assert browser.get(back).status == 403  # its state has been used up
    without = browser.get(browser.onward(browser.get(url)))
    back = browser.get(without.headers["location"]).headers["location"]
    assert browser.get(re.sub(r"&iss=[^&]+", "", back)).status == 403
    assert server.seen() == []


def test_the_page_works_once_and_its_link_in_its_own_browser_only(portico, server):
    """G1.82"""
    client = client_of(portico, server)
    url = asked(client)
    first, other = Browser(portico, PUBLIC), Browser(portico, PUBLIC)
    page = first.get(url)
    assert b"no-store" in str(page.headers["cache-control"]).encode()
    assert "HttpOnly" in page.headers["set-cookie"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert other.get(first.onward(page)).status == 200  # a page of its own, not a redirect
    assert first.follow(first.onward(page)).status == 200
    assert first.get(url).status == 404
    assert first.get(f"{PUBLIC}/oauth/upstream/start?id=nothing").status == 404
    assert first.get(f"{PUBLIC}/oauth/upstream/other").status == 404


def test_a_user_who_says_no_is_asked_again_by_the_next_call(portico, server):
    """G1.82"""
    client = client_of(portico, server)
    url = asked(client)
    browser = Browser(portico, PUBLIC)
    hop = browser.get(browser.onward(browser.get(url)))
    hop = browser.get(browser.get(hop.headers["location"]).headers["location"])
    server.set(deny="access_denied<script>")
    page = browser.follow(hop.headers["location"])
    assert page.status == 403
    assert b"<script>" not in page.raw
    assert asked(client) != url


def test_a_token_is_refreshed_before_and_after_it_is_refused(portico, server, backend):
    """G1.82"""
    client = client_of(portico, server)
    server.set(expires_in=5)
    Browser(portico, PUBLIC).consent(asked(client))
    server.set(expires_in=3600)
    assert went(client.call("g_echo", {"text": "hi"}))
    refreshed = [entry for entry in server.seen() if entry["said"]["grant_type"] == "refresh_token"]
    assert [entry["said"]["resource"] for entry in refreshed] == [backend.url]
    server.control("revoke")
    client = client_of(portico, server)
    assert went(client.call("g_echo", {"text": "hi"}))
    assert went(client.call26("g_echo", {"text": "hi"}))


def test_when_a_token_dies_the_user_is_asked_again(portico, server):
    """G1.82: never an internal error"""
    client = client_of(portico, server)
    first = asked(client)
    Browser(portico, PUBLIC).consent(first)
    assert went(client.call("g_echo", {"text": "hi"}))
    server.control("revoke", refresh=True)
    client = client_of(portico, server)
    assert asked(client) != first
    Browser(portico, PUBLIC).consent(asked(client))
    assert went(client.call("g_echo", {"text": "hi"}))


@pytest.mark.parametrize("fault", [{"fail": 401, "error": "invalid_client"}, {"fail": 403, "error": ""}])
def test_a_refusal_that_is_not_about_the_token_takes_it_from_nobody(portico, server, fault):
    """G1.82: a secret that is wrong for an hour would have every user sign in again."""
    client = client_of(portico, server)
    server.set(expires_in=5)
    Browser(portico, PUBLIC).consent(asked(client))
    server.set(**fault)
    answer = client.call("g_echo", {"text": "hi"})
    assert (answer.status, answer.error["data"]["authorizationServer"]) == (502, server.issuer)
    server.set(fail=0, expires_in=3600)
    assert went(client.call("g_echo", {"text": "hi"}))


def test_an_outage_of_the_server_while_a_token_has_to_be_refreshed_is_told_of(portico, server):
    """G1.82"""
    client = client_of(portico, server)
    server.set(expires_in=5)
    Browser(portico, PUBLIC).consent(asked(client))
    server.set(fail=503)
    refused = client.call("g_echo", {"text": "hi"})
    assert refused.status == 503
    assert server.issuer in refused.error["message"]


def test_a_scope_that_is_missing_is_asked_for_besides_those_that_are_there(portico, server, backend):
    """G1.82: step-up"""
    client = client_of(portico, server)
    backend.wants(metadata={"scopes_supported": ["read"]})
    Browser(portico, PUBLIC).consent(asked(client))
    assert went(client.call("g_echo", {"text": "hi"}))
    backend.wants(scope="write")
    Browser(portico, PUBLIC).consent(asked(client))
    assert server.seen("/authorize")[-1]["said"]["scope"] == "read write"
    assert went(client.call("g_echo", {"text": "hi"}))


def test_a_users_token_is_deleted_on_request(portico, server):
    """G1.82"""
    client = client_of(portico, server)
    Browser(portico, PUBLIC).consent(asked(client))
    assert taken_back(portico, {}) == 401
    assert taken_back(portico, client_of(portico, server, "eve").headers) == 404
    for nobody in ("other", "g%2f", "%00", 2000 * "g"):
        url = f"{portico.base}/oauth/upstream/tokens/{nobody}"
        assert fetch(url, method="DELETE", headers=client.headers).status == 404, nobody
    assert taken_back(portico, client.headers) == 204
    asked(client)


@pytest.mark.parametrize(
    "wants",
    [
        {"named": "http://169.254.169.254/latest/meta-data"},
        {"named": "http://10.1.2.3/x"},
        {"named": "file:///etc/passwd"},
        {"named": "https://user:pass@127.0.0.1/x"},
        {"metadata": {"resource": "https://other.example.com/mcp"}},
        {"metadata": {"resource": None}},
        {"metadata": {"authorization_servers": []}},
        {"metadata": {"authorization_servers": ["http://169.254.169.254/"]}},
        {"metadata": {"authorization_servers": ["http://internal.test/"]}},
        {"metadata": {"authorization_servers": [7]}},
    ],
    ids=json.dumps,
)
def test_a_backends_metadata_that_leads_elsewhere_is_not_followed(portico, server, backend, wants):
    """G1.82: SSRF through metadata"""
    client = client_of(portico, server)
    backend.wants(**wants)
    for refused in (
        client.call("g_echo", {"text": "hi"}),
        client.call26("g_echo", {"text": "hi"}, capabilities=SHOWS),
    ):
        assert refused.status == 502
        assert "cannot be told where" in refused.error["message"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://honest.example"},
        {"code_challenge_methods_supported": None},
        {"code_challenge_methods_supported": ["plain"]},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example/authorize"},
    ],
    ids=json.dumps,
)
def test_a_server_without_a_safe_sign_in_is_not_used(portico, server, metadata):
    """G1.82"""
    client = client_of(portico, server)
    server.set(metadata=metadata)
    refused = client.call("g_echo", {"text": "hi"})
    assert refused.status == 502
    assert "url" not in refused.error["data"]


@pytest.mark.serve_only("of the store's own file; what a deployment keeps is looked at in tests/functions")
def test_tokens_are_kept_sealed_and_survive_a_change_of_keys(server, backend, tmp_path):
    """G1.82: with the key's id in the record, so that keys can be changed"""
    old, new = "b2xk" * 10 + "b2w=", "bmV3" * 10 + "bmU="
    key = tmp_path / "keys"
    key.write_text(old)
    own = declared(server, backend, f"sqlite:{tmp_path}/p.db")
    own["auth"]["encryption_key"] = f"file:{key}"
    with gateway(own) as process:
        client = client_of(process, server)
        Browser(process, PUBLIC).consent(asked(client))
        assert went(client.call("g_echo", {"text": "hi"}))
        token = backend.seen("tools/call")[-1]["headers"]["authorization"].removeprefix("Bearer ")
        for file in tmp_path.glob("p.db*"):
            assert token.encode() not in file.read_bytes()
            assert b"refresh" not in file.read_bytes()
        assert token not in process.stderr()
    key.write_text(f"{new}\n{old}\n")
    with gateway(own) as process:
        assert went(client_of(process, server).call("g_echo", {"text": "hi"}))
    key.write_text(new)
    with gateway(own) as process:
        asked(client_of(process, server))


@pytest.mark.serve_only("of the store's own file")
def test_without_a_declared_key_there_is_one_beside_the_store_for_its_owner_only(server, backend, tmp_path):
    """G1.82"""
    with gateway(declared(server, backend, f"sqlite:{tmp_path}/p.db")) as process:
        client = client_of(process, server)
        Browser(process, PUBLIC).consent(asked(client))
        assert went(client.call("g_echo", {"text": "hi"}))
        assert (tmp_path / "p.db.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.serve_only(ALONE)
def test_where_nobody_is_asked_who_he_is_this_machines_user_signs_in(server, backend):
    """G1.82: the gateway serves loopback only then; no sign-in at an issuer of its own comes first."""
    own = config(("g", backend.url, {"call_auth": "user"}), gateway={"public_url": PUBLIC})
    with gateway(own) as process:
        client = process.client()
        client.init(capabilities=SHOWS)
        assert Browser(process, PUBLIC).consent(asked(client)).status == 200
        assert went(client.call("g_echo", {"text": "hi"}))
        assert len(server.seen("/authorize")) == 1


@pytest.mark.parametrize(
    ("asked_for", "status"),
    [
        ("start?" + "&".join(f"a{number}=1" for number in range(30)), 400),
        ("callback?" + "&".join(f"a{number}=1" for number in range(30)), 400),
        ("start?id=" + 5000 * "a", 404),
        ("start?id=%00", 404),
        ("start", 404),
        ("callback?state=%ED%A0%80&code=1", 403),
    ],
)
def test_an_address_that_nobody_was_given_leads_nowhere_and_breaks_nothing(portico, asked_for, status):
    """G1.82: whoever asks has not said who he is."""
    assert fetch(f"{portico.base}/oauth/upstream/{asked_for}").status == status
    assert "Traceback" not in portico.stderr()


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_token_never_goes_to_another_place_than_it_was_given_for(server, backend):
    """G1.82: a backend that is declared anew under the same name is another one"""
    with gateway(declared(server, backend)) as process, guarded_server(server.issuer) as other:
        client = client_of(process, server)
        Browser(process, PUBLIC).consent(asked(client))
        assert went(client.call("g_echo", {"text": "hi"}))
        process.write(declared(server, other))
        assert eventually(lambda: other.seen("tools/list"))
        asked(client_of(process, server))
        assert "authorization" not in json.dumps(other.seen("tools/call"))


@pytest.mark.serve_only(ALONE)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_python_sdk_sends_its_user_to_the_page_and_its_call_goes_through(server, backend, era):
    """G1.82: a client that other people wrote; a modern one by itself, a legacy one calls again."""
    own = config(("g", backend.url, {"call_auth": "user"}), gateway={"public_url": PUBLIC})
    with gateway(own) as process:
        visited = []

        async def elicited(context, params):
            visited.append(params.url)
            await to_thread.run_sync(Browser(process, PUBLIC).consent, params.url)
            return types.ElicitResult(action="accept")

        mode = {"mode": "legacy"} if era == "legacy" else {}
        async with Client(process.url, elicitation_callback=elicited, **mode) as client:
            if era == "legacy":
                with pytest.raises(MCPError) as refused:
                    await client.call_tool("g_echo", {"text": "hi"})
                needed = UrlElicitationRequiredError.from_error(refused.value.error)
                await elicited(None, needed.elicitations[0])
            answer = await client.call_tool("g_echo", {"text": "hi"})
            assert answer.content[0].text == "hi"
        assert len(visited) == 1


@pytest.mark.serve_only("two processes on one file")
def test_the_browser_may_come_to_another_process_than_the_call(server, backend, tmp_path):
    """G1.92, G1.82: and each step of it to another one again."""
    own = declared(server, backend, f"sqlite:{tmp_path}/p.db")
    with gateway(own) as one, gateway(own) as two:
        client = client_of(one, server)
        stream = client.stream()
        url = asked(client)
        browser, other = Browser(two, PUBLIC), Browser(one, PUBLIC)
        hop = browser.get(browser.onward(browser.get(url)))
        back = browser.get(hop.headers["location"]).headers["location"]
        other.cookies = browser.cookies
        assert browser.follow(other.get(back).headers["location"]).status == 200
        assert stream.wait_for("notifications/elicitation/complete")
        assert went(client.call("g_echo", {"text": "hi"}))
        assert went(client_of(two, server).call26("g_echo", {"text": "hi"}))


def test_a_refresh_that_many_calls_need_is_asked_for_once(server, backend):
    """G1.82: a refresh token is good for one"""
    with gateway(declared(server, backend)) as process:
        client = client_of(process, server)
        server.set(expires_in=5)
        Browser(process, PUBLIC).consent(asked(client))
        server.set(expires_in=3600, delay=0.3)
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda _: client.call("g_echo", {"text": "hi"}), range(50)))
        assert all(went(answer) for answer in answers)
        assert len([entry for entry in server.seen() if entry["said"]["grant_type"] == "refresh_token"]) == 1
