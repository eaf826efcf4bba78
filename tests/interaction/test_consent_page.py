"""The page on which a user consents, in a real browser."""

import secrets
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest

from tests.support import config, echo_server, fetch, gateway
from tests.support.chromium import chromium
from tests.support.pages import pages
from tests.support.python_application import Application
from tests.support.visitor import Visitor

pytestmark = [
    pytest.mark.serve_only("a deployment issues no tokens"),
    pytest.mark.timeout(400),  # the first run installs
]
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
HOSTILE = '<img src=x onerror="document.title=1">"&amp;\'</h1><script>document.title=2</script>'


@pytest.fixture(scope="module")
def portico():
    auth = {"mode": "dev", "scopes_supported": ["mcp:use", "notes:write"]}
    with gateway(config(auth=auth)) as process:
        yield process


@pytest.fixture(scope="module")
def browser():
    with chromium("--window-size=420,800") as started:
        yield started


@pytest.fixture
def client(browser):
    browser.complaints()  # those of the test before
    with pages() as served:
        yield served


def asking(portico, client, name="A client", **changes):
    """The address that a client with this name opens."""
    about = {
        "client_name": name,
        "redirect_uris": [f"{client.base}/callback"],
        "token_endpoint_auth_method": "none",
    }
    registered = fetch(f"{portico.base}/oauth/register", about).json()
    asked = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": f"{client.base}/callback",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scope": "mcp:use notes:write",
        "state": secrets.token_hex(4),
    }
    return f"{portico.base}/oauth/authorize?{urlencode(asked | changes)}"


def told(browser, client):
    """What the client is told, once the browser is with it."""
    query = parse_qs(urlsplit(browser.arrived(f"{client.base}/callback")).query)
    return {name: values[0] for name, values in query.items()}


def test_the_page_says_who_wants_what_and_where_it_goes(browser, portico, client):
    browser.open(asking(portico, client, "Notes & more"))
    assert browser.text("h1") == "Notes & more wants access"
    facts = browser.text("dl")
    assert urlsplit(client.base).netloc in facts
    assert f"{portico.base}/mcp" in facts
    assert browser.text("fieldset").splitlines() == ["What it may do", "mcp:use", "notes:write"]
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints() == []


def test_what_is_allowed_is_what_the_user_has_ticked(browser, portico, client):
    url = asking(portico, client, state="st&te")
    browser.open(url)
    browser.click("input[value='notes:write']")
    browser.type("#subject", "Ada Lovelace")
    browser.click("button.allow")
    said = told(browser, client)
    assert said["state"] == "st&te"
    assert said["iss"] == portico.base
    assert browser.complaints() == []  # its policy lets the browser go on to the client
    id_ = parse_qs(urlsplit(url).query)["client_id"][0]
    form = {
        "grant_type": "authorization_code",
        "code": said["code"],
        "code_verifier": VERIFIER,
        "client_id": id_,
    }
    sent = {"content-type": "application/x-www-form-urlencoded"}
    token = fetch(f"{portico.base}/oauth/token", urlencode(form).encode(), headers=sent).json()
    assert token["scope"] == "mcp:use"
    claims = jwt.decode(token["access_token"], options={"verify_signature": False})
    assert (claims["sub"], claims["aud"]) == ("Ada Lovelace", f"{portico.base}/mcp")


def test_enter_is_to_allow(browser, portico, client):
    browser.open(asking(portico, client))
    browser.type("#subject", "ada\ue007")
    assert "code" in told(browser, client)


def test_who_denies_sends_the_client_an_error(browser, portico, client):
    browser.open(asking(portico, client))
    browser.type("#subject", " ")  # nobody need say who he is
    browser.click("button[value=deny]")
    assert told(browser, client)["error"] == "access_denied"


def test_a_hostile_name_is_shown_and_nothing_more(browser, portico, client):
    browser.open(asking(portico, client, HOSTILE))
    assert browser.text("h1") == f"{HOSTILE} wants access"
    assert browser.ask("document.title") == f"Allow {HOSTILE}?"
    assert browser.count("main img, main script") == 0


def test_no_other_page_can_show_it_in_a_frame(browser, portico, client):
    client.pages["/"] = f'<iframe src="{asking(portico, client).replace("&", "&amp;")}"></iframe>'
    browser.open(f"{client.base}/")
    browser.into_frame()
    assert browser.count("form") == 0


def test_no_other_page_can_answer_it(browser, portico, client):
    """Not even one on this machine, which has got a number from the server by itself."""
    page = Visitor().open(asking(portico, client))
    fields = [*page.fields, ("decision", "allow")]
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields)
    form = f'<form method="post" action="{portico.base}/oauth/authorize">{inputs}<button>x</button></form>'
    client.pages["/"] = form
    browser.open(asking(portico, client))  # so that it has the cookie
    browser.open(f"{client.base}/")
    browser.click("button")
    browser.arrived(f"{portico.base}/oauth/authorize")
    assert browser.text("p") == "this comes from another page"
    assert not [path for path in client.asked if path.startswith("/callback")]


def test_a_request_that_means_nobody_goes_nowhere(browser, portico, client):
    browser.open(asking(portico, client, redirect_uri="https://evil.example.com/"))
    assert browser.text("h1") == "This cannot be allowed"
    assert "redirect_uri" in browser.text("p")
    assert browser.url.startswith(portico.base)


class InBrowser(Application):
    def __init__(self, portico, browser, client):
        super().__init__(portico, redirect=f"{client.base}/callback")
        self._browser, self._client = browser, client

    def visited(self, url):
        self._browser.open(url)
        self.pages.append(self._browser.text("fieldset").splitlines()[1:])
        self._browser.click("button.allow")
        return told(self._browser, self._client)


@pytest.mark.anyio
async def test_an_application_of_the_sdk_goes_all_the_way_through_a_real_browser(browser, client):
    """G1.66, G1.80"""
    declared = {
        "auth": {"mode": "dev", "scopes_supported": ["mcp:use"], "required_scopes": ["mcp:use"]},
        "policies": [{"match": {"tool": "s1_echo"}, "require": {"scopes": ["echo:say"]}}],
    }
    with echo_server() as echo, gateway(config(("s1", echo.url, {}), **declared)) as portico:
        application = InBrowser(portico, browser, client)
        async with application.connected(mode="legacy") as connected:
            assert (await connected.call_tool("s1_echo", {"text": "hi"})).content[0].text == "hi"
    assert application.pages[0] == ["mcp:use", "offline_access", "without asking again"]
    assert "echo:say" in application.pages[1]
    assert browser.complaints() == []
