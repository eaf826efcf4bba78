"""What the environment says, read once, by entry files only, and passed down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    config: str
    """The path of portico.yaml."""
    store: str | None = None
    """In place of the file's."""
    public_url: str | None = None
    """In place of the file's."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Whom the edge hands a request over to."""

    mode: Literal["invoke", "inline"]
    initialize: str = ""
    tools_list: str = ""
    tools_call: str = ""


def settings_from(environment: Mapping[str, str]) -> Settings:
    return Settings(
        environment.get("PORTICO_CONFIG", "portico.yaml"),
        environment.get("PORTICO_STORE") or None,
        environment.get("PORTICO_PUBLIC_URL") or None,
    )


def dispatch_from(environment: Mapping[str, str]) -> Dispatch:
    """Raises ValueError where something is missing."""
    mode = environment.get("PORTICO_DISPATCH", "invoke")
    if mode == "inline":
        return Dispatch("inline")
    if mode != "invoke":
        raise ValueError(f"PORTICO_DISPATCH: expected invoke or inline, found {mode!r}")
    names = {
        field: environment.get(f"PORTICO_{field.upper()}_FUNCTION", "")
        for field in ("initialize", "tools_list", "tools_call")
    }
    missing = [f"PORTICO_{field.upper()}_FUNCTION" for field, name in names.items() if not name]
    if missing:
        raise ValueError(f"PORTICO_DISPATCH is invoke, but {', '.join(missing)} is not set")
    return Dispatch("invoke", **names)
