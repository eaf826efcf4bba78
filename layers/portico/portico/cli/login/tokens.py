"""The token that goes with a command: the one that is kept, made new where it has expired."""

import time
from dataclasses import replace
from typing import Any, Final

from portico.cli.login import kept
from portico.cli.login.asking import LoginFailed, post_form
from portico.cli.login.kept import Login

EARLY_S: Final = 10.0


async def token(url: str) -> str | None:
    """None where nobody has logged in, or that has come to an end."""
    login = kept.find(url)
    if login is not None and not _good(login):
        with kept.alone(url):
            login = kept.find(url)
            if login is not None and not _good(login):
                login = await _refreshed(login)
    return login.access_token if login is not None else None


def _good(login: Login) -> bool:
    return login.expires_at is None or time.time() < login.expires_at - EARLY_S


async def _refreshed(login: Login) -> Login:
    """As it was where that cannot be done: the gateway says what it thinks of it."""
    if login.refresh_token is None:
        return login
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
    try:
        answer = await post_form(login.token_endpoint, form, login.client_id, login.client_secret)
    except LoginFailed:
        return login
    found = read(answer, login)
    kept.keep(found)
    return found


def read(answer: dict[str, Any], before: Login) -> Login:
    """What a token endpoint has said; what it has not said is as before."""
    lifetime, refresh, scope = answer.get("expires_in"), answer.get("refresh_token"), answer.get("scope")
    counted = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
    return replace(
        before,
        access_token=str(answer["access_token"]),
        refresh_token=refresh if isinstance(refresh, str) else before.refresh_token,
        scope=scope if isinstance(scope, str) else before.scope,
        expires_at=time.time() + float(lifetime or 0) if counted else None,
    )
