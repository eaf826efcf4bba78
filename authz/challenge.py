"""What a refusal says (RFC 6750, RFC 9728): where a token is to be had, and which scopes it should have. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from authz.model import Access, Target, Verdict

UNAUTHORIZED: Final = -32001
FORBIDDEN: Final = -32003
_UNFIT: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    message: str
    code: int
    challenge: str = ""
    """The value of WWW-Authenticate."""
    scopes: tuple[str, ...] = ()
    metadata_url: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """For the error's `data`: on its way through API Gateway the header of a function is renamed."""
        found = {"wwwAuthenticate": self.challenge, "resourceMetadata": self.metadata_url}
        return {name: value for name, value in found.items() if value} | (
            {"scopes": list(self.scopes)} if self.scopes else {}
        )


def no_token(access: Access) -> Refusal:
    return _unauthorized(access, "Authentication required.")


def bad_token(access: Access, why: str) -> Refusal:
    return _unauthorized(access, why, ("error", "invalid_token"), ("error_description", why))


def _unauthorized(access: Access, message: str, *said: tuple[str, str]) -> Refusal:
    scopes = access.required_scopes
    header = _header([*said, *_scope(scopes), ("resource_metadata", access.metadata_url)])
    return Refusal(401, message, UNAUTHORIZED, header, scopes, access.metadata_url)


def forbidden(access: Access, verdict: Verdict, target: Target) -> Refusal:
    """With the missing scopes where they would help: a client asks its user for just those."""
    return _forbidden(
        tool_metadata_url(access, target.name) if target.kind == "tool" else access.metadata_url,
        verdict.missing,
    )


def lacking_scopes(access: Access, missing: tuple[str, ...]) -> Refusal | None:
    return _forbidden(access.metadata_url, missing) if missing else None


def _forbidden(metadata_url: str, missing: tuple[str, ...]) -> Refusal:
    said = [("error", "insufficient_scope"), *_scope(missing), ("resource_metadata", metadata_url)]
    return Refusal(403, "Insufficient permissions.", FORBIDDEN, _header(said), missing, metadata_url)


def tool_metadata_url(access: Access, name: str) -> str:
    return f"{access.base_url}/.well-known/oauth-protected-resource/tool/{quote(name, safe='')}"


def unavailable() -> Refusal:
    return Refusal(503, "The keys of the authorization server cannot be had at the moment.", UNAUTHORIZED)


def _scope(scopes: Iterable[str]) -> list[tuple[str, str]]:
    text = " ".join(scopes)
    return [("scope", text)] if text else []


def _header(said: Iterable[tuple[str, str]]) -> str:
    """Whatever a quoted string cannot hold is left out: nothing here may end a header early."""
    return "Bearer " + ", ".join(f'{name}="{_UNFIT.sub("", value)}"' for name, value in said)
