"""Exposed names and upstream names, and who owns a resource's address."""

import re
from typing import Final

TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")
_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^{}]*\}")


def expose(prefix: str, upstream_name: str) -> str:
    return prefix + upstream_name


def joined(name: str) -> str:
    """The listed form of a name that a client wrote with spaces: `component list` is `component_list`."""
    return "_".join(name.split())


def template_pattern(template: str) -> re.Pattern[str]:
    """What addresses a URI template (RFC 6570) can make. Generous: it only chooses the backend.

    Each expression but the last takes as little as it can and never gives it back (an atomic group), so that no
    template, however hostile, makes a match slow.
    """
    literals, kinds, at = [], [], 0
    for found in _EXPRESSION.finditer(template):
        literals.append(re.escape(template[at : found.start()]))
        kinds.append("[^/]+" if found.group(1) == "" else ".*")
        at = found.end()
    literals.append(re.escape(template[at:]))
    pattern = literals[0]
    for kind, literal in zip(kinds[:-1], literals[1:-1], strict=True):
        pattern += f"(?>{kind}?{literal})"
    return re.compile(pattern + "".join(kinds[-1:]) + "".join(literals[1:][-1:]), re.DOTALL)
