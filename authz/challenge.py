"""What a refusal says (RFC 6750, RFC 9728): where a token is to be had, and which scopes it should have. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from authz.model import Access, Target, Verdict

UNAUTHORIZED: Final = -32001
FORBIDDEN: Final = -32003
FOR_ANOTHER: Final = "the token is for another audience"
NO_TOKEN: Final = "Authentication required."  # noqa: S105 - what is said where there is none
UNKNOWN: Final = 401
UNAVAILABLE: Final = 503
DENIED: Final = "MCP Access denied: Insufficient permissions."
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
    reason: str = ""
    """For the log: which rule it was is nobody else's business."""

    @property
    def data(self) -> dict[str, Any]:
        """For the error's `data`: on its way through API Gateway the header of a function is renamed."""
        found = {"wwwAuthenticate": self.challenge, "resourceMetadata": self.metadata_url}
        return {name: value for name, value in found.items() if value} | (
            {"scopes": list(self.scopes)} if self.scopes else {}
        )


def no_token(access: Access, server: str = "") -> Refusal:
    return _unauthorized(access, NO_TOKEN, server)


def bad_token(access: Access, why: str, server: str = "") -> Refusal:
    return _unauthorized(access, why, server, ("error", "invalid_token"), ("error_description", why))


def about_tool(access: Access, refused: Refusal, tool: str) -> Refusal:
    """The same, with the tool's own metadata, if it is for want of a token. Whether there is such a tool, it does not tell."""
    if refused.status != UNKNOWN or not tool:
        return refused
    url = access.metadata_at(tool=tool)
    header = refused.challenge.replace(
        f'resource_metadata="{refused.metadata_url}"', f'resource_metadata="{url}"'
    )
    return replace(refused, challenge=header, metadata_url=url)


def _unauthorized(access: Access, message: str, server: str, *said: tuple[str, str]) -> Refusal:
    scopes, url = access.required_scopes, access.metadata_at(server)
    header = _header([*said, *_scope(scopes), ("resource_metadata", url)])
    return Refusal(UNKNOWN, message, UNAUTHORIZED, header, scopes, url, message)


def forbidden(access: Access, verdict: Verdict, target: Target, server: str = "") -> Refusal:
    """With the missing scopes where they would help: a client asks its user for just those."""
    tool = target.name if target.kind == "tool" else ""
    own = verdict.challenge.resource_metadata
    url = own.replace("{tool}", quote(tool, safe="")) if own else access.metadata_at(server, tool)
    return _forbidden(url, verdict.missing, verdict.reason, verdict.challenge.description)


def lacking_scopes(access: Access, missing: tuple[str, ...], reason: str, server: str = "") -> Refusal:
    return _forbidden(access.metadata_at(server), missing, reason)


def _forbidden(url: str, missing: tuple[str, ...], reason: str, description: str | None = None) -> Refusal:
    said = [("error", "insufficient_scope")]
    said += [("error_description", description)] if description else []
    header = _header([*said, *_scope(missing), ("resource_metadata", url)])
    return Refusal(403, description or DENIED, FORBIDDEN, header, missing, url, reason)


def unavailable() -> Refusal:
    text = "The keys of the authorization server cannot be had at the moment."
    return Refusal(UNAVAILABLE, text, UNAUTHORIZED, reason="no keys")


def _scope(scopes: Iterable[str]) -> list[tuple[str, str]]:
    text = " ".join(scopes)
    return [("scope", text)] if text else []


def _header(said: Iterable[tuple[str, str]]) -> str:
    """Whatever a quoted string cannot hold is left out: nothing here may end a header early."""
    return "Bearer " + ", ".join(f'{name}="{_UNFIT.sub("", value)}"' for name, value in said)
