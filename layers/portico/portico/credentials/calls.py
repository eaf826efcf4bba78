"""The one place that says what a request carries to its backend. What has to be fetched is imported when it is needed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from portico.caller import NOBODY, RequestHeaders
from portico.credentials.own import bearer, passthrough, static
from portico.errors import BackendError, NoCredential, Unauthorized
from portico.http1 import Headers
from portico.registry import Backend

if TYPE_CHECKING:  # slow to import, and most gateways need none of it
    from portico.credentials.wiring import Wiring

FETCHED: Final = frozenset({"exchange", "client_credentials"})


class Credentials:
    def __init__(self, wire: "Callable[[], Wiring]", *, alone: bool = True) -> None:
        self._wire = wire
        self._alone = alone
        """Nobody but this machine is served: whoever is not asked who he is, is its one user."""
        self._wired: Wiring | None = None

    async def for_call(self, backend: Backend, headers: RequestHeaders) -> Headers:
        """Raises BackendError: then the backend is not asked at all."""
        match backend.call_auth:
            case "none":
                return []
            case "static":
                return static(backend)
            case "passthrough":
                return passthrough(backend, headers)
            case "exchange" | "client_credentials":
                return bearer(await self.wired.fetched.token(backend, headers.caller))
            case "user":
                self._refuse_crowd(headers)
                token = await self.wired.users.token(backend, headers.caller)
                return bearer(token) if token else []

    async def for_discovery(self, backend: Backend) -> Headers:
        """The gateway's own: the credential, or a token that it has for itself."""
        if backend.credential is not None:
            return static(backend) if "discovery" in backend.credential_use else []
        if backend.call_auth == "client_credentials":
            return bearer(await self.wired.fetched.token(backend, NOBODY))
        return []

    def discovery_refused(self, backend: Backend, sent: Headers) -> None:
        """The next time with another token, if it was one."""
        if backend.credential is None and backend.call_auth == "client_credentials":
            self.wired.fetched.refused(backend, NOBODY, _token(sent))

    async def again(
        self, backend: Backend, headers: RequestHeaders, sent: Headers, refused: Unauthorized
    ) -> bool:
        """The backend has refused what was sent: whether there may be another credential."""
        if refused.upstream_status != 401:
            return False
        if backend.call_auth in FETCHED:
            return self.wired.fetched.refused(backend, headers.caller, _token(sent))
        if backend.call_auth == "user":
            return await self.wired.users.again(backend, headers.caller, _token(sent))
        return False

    async def told(
        self, backend: Backend, headers: RequestHeaders, refused: Unauthorized, session: str
    ) -> BackendError:
        """What the caller is told when that was the last word."""
        if backend.call_auth in ("none", "passthrough"):
            return refused
        if backend.call_auth == "user":
            return await self.wired.users.needed(backend, headers.caller, refused, session)
        whose = (
            "the gateway's credential"
            if backend.call_auth == "static"
            else "the token that was fetched for it"
        )
        if refused.upstream_status == 403:
            from portico.credentials.servers import scopes_of  # noqa: PLC0415

            scopes = list(scopes_of(refused.challenge))
            text = (
                f"the backend wants a scope that {whose} lacks: {' '.join(scopes) or 'it does not say which'}"
            )
            return NoCredential(403, text, scopes=scopes)
        text = f"the backend does not take {whose}: tell the gateway's operator"
        return NoCredential(502, text, upstreamStatus=refused.upstream_status)

    async def forget(self, backend: str, owner: str) -> bool:
        """Whether this user had a token for it."""
        return await self.wired.vault.forget(owner, backend)

    @property
    def wired(self) -> "Wiring":
        if self._wired is None:
            self._wired = self._wire()
        return self._wired

    def _refuse_crowd(self, headers: RequestHeaders) -> None:
        if not (self._alone or headers.caller.owner):
            raise NoCredential(403, "whose token this backend wants cannot be told: auth.mode is none")


def _token(sent: Headers) -> str:
    value = dict(sent).get(b"authorization", b"")
    return value.removeprefix(b"Bearer ").decode("latin-1")
