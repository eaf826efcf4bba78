"""The one place that says what a request carries to its backend. What has to be fetched is imported when it is needed."""

from typing import TYPE_CHECKING

from portico.caller import RequestHeaders
from portico.credentials.own import bearer, passthrough, static
from portico.errors import BackendError, NoCredential, Unauthorized
from portico.http1 import Headers, HttpClient
from portico.registry import Backend

if TYPE_CHECKING:  # slow to import, and most gateways need none of it
    from portico.credentials.fetched import Fetched

FETCHED = frozenset({"exchange", "client_credentials"})


class Credentials:
    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self._made: Fetched | None = None

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
                return bearer(await self._fetched.token(backend, headers.caller))
        return []

    async def for_discovery(self, backend: Backend) -> Headers:
        """The gateway's own: the credential, or a token that it has for itself."""
        if backend.credential is not None:
            return static(backend) if "discovery" in backend.credential_use else []
        if backend.call_auth == "client_credentials":
            return bearer(await self._fetched.token(backend, RequestHeaders().caller))
        return []

    def discovery_refused(self, backend: Backend, sent: Headers) -> None:
        if backend.credential is None and backend.call_auth == "client_credentials":
            self._fetched.refused(backend, RequestHeaders().caller, _token(sent))

    async def again(self, backend: Backend, headers: RequestHeaders, sent: Headers) -> bool:
        """The backend has refused what was sent: whether there may be another credential."""
        if backend.call_auth not in FETCHED:
            return False
        return self._fetched.refused(backend, headers.caller, _token(sent))

    async def told(self, backend: Backend, refused: Unauthorized) -> BackendError:
        """What the caller is told when that was the last word."""
        if backend.call_auth in ("none", "passthrough"):
            return refused
        whose = (
            "the gateway's credential"
            if backend.call_auth == "static"
            else "the token that was fetched for it"
        )
        why = (
            "for this, it lacks a scope" if refused.upstream_status == 403 else "tell the gateway's operator"
        )
        return NoCredential(
            502, f"the backend does not take {whose}: {why}", upstreamStatus=refused.upstream_status
        )

    @property
    def _fetched(self) -> "Fetched":
        if self._made is None:
            from portico.credentials.fetched import Fetched  # noqa: PLC0415
            from portico.credentials.outbound import Outbound  # noqa: PLC0415

            self._made = Fetched(Outbound(self._http))
        return self._made


def _token(sent: Headers) -> str:
    value = dict(sent).get(b"authorization", b"")
    return value.removeprefix(b"Bearer ").decode("latin-1")
