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
    """What addresses a URI template (RFC 6570) can make. Generous: it only chooses the backend."""
    pattern, at = "", 0
    for found in _EXPRESSION.finditer(template):
        pattern += re.escape(template[at : found.start()])
        pattern += "[^/]+" if found.group(1) == "" else ".*"
        at = found.end()
    return re.compile(pattern + re.escape(template[at:]), re.DOTALL)
