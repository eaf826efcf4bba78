"""Protocol versions are an enumerated set: they are looked up, never compared."""

from typing import Final, Literal

Era = Literal["legacy", "modern"]

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_LEGACY: Final = LEGACY[-1]
MODERN: Final = ("2026-07-28",)
NEWEST_MODERN: Final = MODERN[-1]
ALL: Final = (*reversed(MODERN), *reversed(LEGACY))
"""The newest first."""

ASSUMED: Final = "2025-03-26"
"""What a client that names no version speaks (specification, transports, Protocol Version Header)."""

BATCHING: Final = frozenset({"2025-03-26"})
"""JSON-RPC batches came and went with this version."""

RESUMABLE: Final = frozenset({"2025-11-25"})
"""From this version on clients take an event with an id and empty data as the start of a stream."""

STREAMED_ANSWERS: Final = frozenset({"2024-11-05"})
"""Clients of this version are answered by SSE."""

UNKNOWN_TOOL_IS_RESULT: Final = frozenset({"2024-11-05"})
"""Clients of this version get a tool error for an unknown tool, later ones a JSON-RPC error."""


def negotiate(requested: str) -> str:
    """The version to answer an `initialize` with: the client's own if known, else our newest legacy one."""
    if not requested:
        return ASSUMED
    return requested if requested in LEGACY else NEWEST_LEGACY
