"""Who erred: the client, a backend, or the gateway itself.

    PorticoError
    └── BackendError            the backend's fault
        ├── BackendUnreachable  503
        ├── BackendTimedOut     504
        ├── BackendBroken       502  answered something that is not MCP
        ├── NoCredential        there is none that the backend would take, and why
        ├── UserNeeded          its user has to do something first
        └── BackendRefused      its own status: it answered with an HTTP error
            └── Unheard         nothing has been done yet, and the request may be sent again
                ├── EraChanged      that is not one of the era it was taken for
                └── Unauthorized    it wants a credential, another one, or one with more scopes

A client's fault is no exception but a value: `protocol.jsonrpc.Rejection`.
"""

import logging
from typing import Any, ClassVar

from portico.protocol.jsonrpc import BACKEND_FAILED, BACKEND_TIMED_OUT, Id, Rejection
from portico.redaction import excerpt

log = logging.getLogger("portico.errors")


class PorticoError(Exception):
    pass


class BackendError(PorticoError):
    """`str(error)` says what happened and is fit to be shown to the client."""

    status: ClassVar[int] = 502
    code: ClassVar[int] = BACKEND_FAILED

    def rejection(self, backend: str, id_: Id) -> Rejection:
        return Rejection(self.http_status, self.code, str(self), {"backend": backend}, id_)

    @property
    def http_status(self) -> int:
        return self.status


class BackendUnreachable(BackendError):
    status = 503


class BackendTimedOut(BackendError):
    status = 504
    code = BACKEND_TIMED_OUT


class BackendBroken(BackendError):
    status = 502


class BackendRefused(BackendError):
    """The backend's own status goes on to the client, but for those that would be read as the gateway's own word:
    404 would tell the client that its session has ended, and a 5xx or a redirect is the backend's trouble."""

    def __init__(self, upstream_status: int, text: str) -> None:
        super().__init__(text)
        self.upstream_status = upstream_status

    @property
    def http_status(self) -> int:
        own = self.upstream_status
        return own if 400 <= own < 500 and own not in (404, 405, 406, 415) else 502


class Unheard(BackendRefused):
    pass


class EraChanged(Unheard):
    """The backend must be met again."""


class Unauthorized(Unheard):
    def __init__(self, upstream_status: int, text: str, challenge: str = "") -> None:
        super().__init__(upstream_status, text)
        self.challenge = challenge
        """The value of WWW-Authenticate: hostile until checked."""


def unheard_said(error: Unheard) -> list[Any]:
    """As a letter can carry it to the process that waits."""
    challenge = error.challenge if isinstance(error, Unauthorized) else None
    return [error.upstream_status, str(error), challenge]


def unheard_again(said: list[Any]) -> Unheard:
    status, text, challenge = said
    return EraChanged(status, text) if challenge is None else Unauthorized(status, text, challenge)


class NoCredential(BackendError):
    """The text says who refused what, and what can be done; `data` the same for programs."""

    def __init__(self, status: int, text: str, **data: Any) -> None:
        super().__init__(text)
        self._status = status
        self._data = data

    @property
    def http_status(self) -> int:
        return self._status

    def rejection(self, backend: str, id_: Id) -> Rejection:
        return Rejection(self._status, self.code, str(self), {"backend": backend, **self._data}, id_)


class UserNeeded(BackendError):
    """The user has to open a page before the backend takes his calls."""

    def __init__(self, id_: str, url: str, backend: str) -> None:
        super().__init__(
            f"{backend} needs you to let the gateway act for you there: open {url} and try again"
        )
        self.id = id_
        self.url = url
        self.backend = backend

    @property
    def asked(self) -> str:
        """What a client may show beside the address."""
        return f"Let the gateway act for you at {self.backend}."


def refused(status: int, body: bytes, challenge: str = "") -> BackendRefused:
    """What an HTTP error of a legacy backend means. Modern errors have numbers that no legacy server gives.

    Its text is for the log only: it may name what a client must not know, such as the upstream session.
    """
    log.info("a backend answered %d: %s", status, excerpt(body))
    text = f"the backend answered {status}"
    if status == 401 or (status == 403 and "insufficient_scope" in challenge):
        return Unauthorized(status, text, challenge)
    return EraChanged(status, text) if status == 400 and b"-3202" in body else BackendRefused(status, text)
