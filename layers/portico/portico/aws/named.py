"""What a request asks for, told from its headers alone: all that an authorizer sees of it."""

from authz.naming import Named, judgeable
from portico.registry import Registry


def named_by(registry: Registry) -> Named | None:
    """By the prefixes in the file. What depends on more than the name is left to the functions, which see it all."""
    return None if registry.access is None else judgeable(registry.access, registry.prefixes)
