"""Exposed names -> what is asked for, as far as a name alone says it: where there is no catalogue, there is its prefix. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from authz.model import Access, Target
from authz.policy import depends_on_annotations

KINDS: Final[dict[str, Literal["tool", "prompt"]]] = {"tools/call": "tool", "prompts/get": "prompt"}

TARGETED: Final = frozenset(
    {*KINDS, "resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete"}
)
"""What is about something of a backend's; all else the gateway answers for itself, or relates to such a thing."""

Named = Callable[[str, str], Target | None]
"""Method and exposed name to what is asked for; None if that cannot be told from them."""


def by_prefix(prefixes: Mapping[str, str], method: str, name: str) -> Target | None:
    """`prefixes` to backends; the longest that fits names one. Whether it has that tool is another question."""
    kind = KINDS.get(method)
    if kind == "tool":
        name = "_".join(name.split())  # as the gateway reads names with spaces, of whichever kind
    fitting = [prefix for prefix in prefixes if prefix and name.startswith(prefix) and name != prefix]
    if kind is None or not fitting:
        return None
    prefix = max(fitting, key=len)
    return Target(method, prefixes[prefix], kind, name, name[len(prefix) :])


def judgeable(access: Access, prefixes: Mapping[str, str]) -> Named:
    """None also where annotations decide: that is left to whoever knows them."""

    def named(method: str, name: str) -> Target | None:
        target = by_prefix(prefixes, method, name)
        return None if target is None or depends_on_annotations(access, target) else target

    return named
