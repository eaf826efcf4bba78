"""What a request asks for, told from its headers alone: all that an authorizer sees of it."""

from typing import Literal

from authz.authorizer import Named
from authz.model import Target
from portico.registry import Registry


def named_by(registry: Registry) -> Named:
    """By the prefixes in the file. What depends on more than the name is left to the functions, which see it all."""
    access = registry.access
    depends = access is not None and any(rule.match.annotations for rule in access.rules)
    prefixes = {backend.prefix: backend.name for backend in registry.backends if backend.prefix}

    def named(method: str, name: str) -> Target | None:
        fitting = [prefix for prefix in prefixes if name.startswith(prefix)]
        if method not in ("tools/call", "prompts/get") or depends or not fitting:
            return None
        prefix = max(fitting, key=len)
        kind: Literal["tool", "prompt"] = "tool" if method == "tools/call" else "prompt"
        return Target(method, prefixes[prefix], kind, name, name[len(prefix) :])

    return named
