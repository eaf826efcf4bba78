"""The pages under /oauth/: open to browsers, and of no use to one that is not its user's."""

import hashlib
import hmac
import json
import logging
import secrets
from html import escape
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from portico.credentials.consents import START, Consents, Stopped
from portico.credentials.registration import CALLBACK, DOCUMENT, document
from portico.errors import NoCredential
from portico.registry import Gateway
from portico.replies import Reply

COOKIE: Final = "portico-consent"
_HEADERS: Final = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
]
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>body{{font:1rem/1.5 sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}}</style>
<h1>{title}</h1>{body}</html>"""

log = logging.getLogger("portico.credentials")


class Pages:
    def __init__(self, consents: Consents) -> None:
        self._consents = consents

    async def answer(self, path: str, query: str, headers: dict[str, str], gateway: Gateway) -> Reply:
        browser = _cookie(headers)
        try:
            said = _said(query)
            if path == DOCUMENT:
                kind = [(b"content-type", b"application/json")]
                return Reply(200, json.dumps(document(gateway)).encode(), headers=kind)
            if path == START:
                return await self._start(said, browser, gateway)
            if path == CALLBACK:
                return await self._back(said, browser)
        except Stopped as stopped:
            return _page(stopped.status, "This does not go on", f"<p>{escape(str(stopped))}</p>")
        except NoCredential as error:
            log.warning("a consent could not be asked for: %s", error)
            return _page(error.http_status, "This does not go on", f"<p>{escape(str(error))}</p>")
        return Reply(404)

    async def _start(self, said: dict[str, str], browser: str, gateway: Gateway) -> Reply:
        """First a page that says what is about to happen; its link works in the same browser only."""
        id_ = said.get("id", "")
        consent = await self._consents.find(id_)
        if consent is None or consent.ended:
            raise Stopped(404, "This link has been used or has expired: try again what brought you here.")
        if browser and hmac.compare_digest(said.get("go", "").encode(), _proof(browser).encode()):
            return _away(await self._consents.begin(id_, browser))
        browser = browser or secrets.token_urlsafe(32)
        before = urlsplit(gateway.public_url).path.rstrip("/")  # a stage's, say
        onward = f"{before}{START}?{urlencode({'id': id_, 'go': _proof(browser)})}"
        scopes = f"<p>It asks for: {escape(', '.join(consent.scopes))}.</p>" if consent.scopes else ""
        body = (
            f"<p><b>{escape(gateway.title or gateway.name)}</b> needs your permission to act for you at the server "
            f"<b>{escape(consent.backend)}</b> ({escape(consent.url)}).</p>{scopes}"
            f"<p>You will sign in at <b>{escape(consent.server.issuer)}</b>. Go on only if it was you who has just "
            f'used this server.</p><p><a id="go" href="{escape(onward)}">Continue</a></p>'
        )
        secure = "; Secure" if gateway.public_url.startswith("https://") else ""
        cookie = (
            f"{COOKIE}={browser}; Path={before}/oauth/upstream; Max-Age=900; HttpOnly; SameSite=Lax{secure}"
        )
        return _page(200, "Permission needed", body, cookie)

    async def _back(self, said: dict[str, str], browser: str) -> Reply:
        onward, consent = await self._consents.back(said, browser)
        if onward:
            return _away(onward)
        text = f"<p>The gateway may act for you at <b>{escape(consent.backend)}</b> now. You can close this page.</p>"
        return _page(200, "Done", text)


def _said(query: str) -> dict[str, str]:
    """Raises Stopped."""
    try:
        return {name: values[0] for name, values in parse_qs(query, max_num_fields=20).items()}
    except ValueError:
        raise Stopped(400, "This address has more in it than it should.") from None


def _cookie(headers: dict[str, str]) -> str:
    pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def _proof(browser: str) -> str:
    return hashlib.sha256(browser.encode()).hexdigest()


def _away(url: str) -> Reply:
    return Reply(302, headers=[(b"location", url.encode("ascii", "ignore")), *_HEADERS])


def _page(status: int, title: str, body: str, cookie: str = "") -> Reply:
    headers = [(b"content-type", b"text/html; charset=utf-8"), *_HEADERS]
    if cookie:
        headers.append((b"set-cookie", cookie.encode()))
    return Reply(status, _PAGE.format(title=escape(title), body=body).encode(), headers=headers)
