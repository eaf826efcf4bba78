"""Fetching what an issuer publishes: small, by GET, from declared addresses only, without redirects."""

import asyncio
import time
from typing import Any, Final

SECONDS: Final = 5.0
MOST_BYTES: Final = 524_288


class Unfetched(Exception):
    """The message says why."""


async def fetch(url: str) -> bytes:
    """Raises Unfetched."""
    try:
        async with asyncio.timeout(2 * SECONDS):
            return await asyncio.to_thread(_get, url)
    except TimeoutError:
        raise Unfetched("no answer in time") from None


def _get(url: str) -> bytes:
    from http.client import HTTPException  # noqa: PLC0415 - slow to import, and a warm process needs none of it
    from urllib import error, request  # noqa: PLC0415

    class NoRedirects(request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    asked = request.Request(url, headers={"accept": "application/json"})  # noqa: S310 - is_fetchable
    try:
        with request.build_opener(NoRedirects).open(asked, timeout=SECONDS) as answer:
            body = _read(answer)
    except error.HTTPError as refused:
        refused.close()
        raise Unfetched(f"the answer is {refused.code}") from None
    except (OSError, HTTPException, ValueError) as problem:
        raise Unfetched(str(problem)) from None
    if len(body) > MOST_BYTES:
        raise Unfetched(f"more than {MOST_BYTES} bytes")
    return body


def _read(answer: Any) -> bytes:
    """Whoever sends a byte now and then keeps no thread for ever."""
    body, until = b"", time.monotonic() + SECONDS
    while len(body) <= MOST_BYTES and (piece := answer.read1(65_536)):
        body += piece
        if time.monotonic() > until:
            raise Unfetched("no answer in time")
    return body
