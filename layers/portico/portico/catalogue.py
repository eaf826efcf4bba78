"""Merged listings: what is offered, under which name, by whom. Pure, built anew whenever a listing changes.

Answers to list requests are bytes, made once per catalogue.
"""

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from authz.model import Target
from portico.protocol import mirrors, names
from portico.protocol.jsonrpc import dumps
from portico.protocol.mirrors import Mirrors
from portico.protocol.translate import tool_to_legacy
from portico.protocol.versions import Era

LISTS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Method to the name of its listing."""

_KEYS: Final = {"resources": "uri", "resourceTemplates": "uriTemplate"}
_NAMED: Final[dict[str, tuple[Literal["tool", "prompt"], str]]] = {
    "tools": ("tool", "tools/call"),
    "prompts": ("prompt", "prompts/get"),
}

CHANGE_NOTICES: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}

Definition = dict[str, Any]
Allows = Callable[[Target], bool]
"""Whether a principal may see and use it."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


@dataclass(frozen=True, slots=True)
class Listing:
    """What one backend offers, as it said so itself."""

    backend: str
    prefix: str
    tools: list[Definition] = field(default_factory=list)
    prompts: list[Definition] = field(default_factory=list)
    resources: list[Definition] = field(default_factory=list)
    templates: list[Definition] = field(default_factory=list)
    capabilities: dict[str, Any] = field(default_factory=dict)
    instructions: str = ""
    version: str = ""
    personal: bool = False
    """Its tools and prompts differ from user to user: they are asked for with each user's own headers."""
    eras: list[Era] = field(default_factory=lambda: ["legacy"])
    """Those it speaks."""
    hints: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Per listing name, for how many milliseconds it may be kept, and whether for everybody (public) or not."""


@dataclass(frozen=True, slots=True)
class Entry:
    backend: str
    upstream_name: str
    annotations: Mapping[str, Any] | None
    """None: its user knows them, and nobody else."""
    mirrors: Mirrors = ()
    """Arguments that a modern client repeats in headers."""


@dataclass(frozen=True)
class Catalogue:
    tools: Mapping[str, Entry]
    prompts: Mapping[str, Entry]
    resources: Mapping[str, str]
    """Address to backend."""
    templates: tuple[tuple[re.Pattern[str], str, str], ...]
    """Pattern, template, backend."""
    definitions: Mapping[str, list[Definition]]
    """Per listing name, as exposed."""
    capabilities: Mapping[str, Mapping[str, Any]]
    told: Mapping[str, str]
    """Per backend, its instructions."""
    problems: Mapping[str, Mapping[str, str]]
    """Per backend, the listings of which something was refused, and why."""
    personal: Mapping[str, str] = field(default_factory=dict)
    """Prefix to backend, of those whose tools and prompts differ from user to user."""
    limits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Per listing name, the only names that may be seen; a listing that is not here is not limited."""
    eras: Mapping[str, list[Era]] = field(default_factory=dict)
    """Per backend, those it speaks."""
    hints: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Per listing name: the shortest time that any part of it may be kept, and private as soon as one part is."""
    allows: Allows | None = None
    """What of it this is a view of may be seen; None: all."""

    def tool(self, name: str) -> Entry | None:
        """Exact name first, then the form with spaces, then a personal backend's prefix."""
        found = self.tools.get(name) or self.tools.get(names.joined(name))
        return found or self._personal("tools", name)

    def prompt(self, name: str) -> Entry | None:
        return self.prompts.get(name) or self._personal("prompts", name)

    def _personal(self, listing: str, name: str) -> Entry | None:
        fitting = [prefix for prefix in self.personal if name.startswith(prefix) and name != prefix]
        if not fitting or not self.shows(listing, name):
            return None
        prefix = max(fitting, key=len)
        entry = Entry(self.personal[prefix], name[len(prefix) :], None if listing == "tools" else {})
        return entry if self.allows is None or self.allows(named_target(listing, name, entry)) else None

    def shows(self, listing: str, name: str) -> bool:
        return listing not in self.limits or name in self.limits[listing]

    def permitted(self, allows: Allows) -> "Catalogue":
        """The part of it that a principal may see."""

        def kept(listing: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
            return {name: one for name, one in entries.items() if allows(named_target(listing, name, one))}

        tools, prompts = kept("tools", self.tools), kept("prompts", self.prompts)
        resources = {uri: own for uri, own in self.resources.items() if allows(address_target(uri, own))}
        templates = tuple(one for one in self.templates if allows(address_target(one[1], one[2])))
        left: dict[str, Container[str]] = {
            "tools": tools,
            "prompts": prompts,
            "resources": resources,
            "resourceTemplates": {template for _, template, _ in templates},
        }
        shown = {
            listing: [item for item in items if item[_KEYS.get(listing, "name")] in left[listing]]
            for listing, items in self.definitions.items()
        }
        return replace(
            self,
            tools=tools,
            prompts=prompts,
            resources=resources,
            templates=templates,
            definitions=shown,
            allows=allows,
        )

    def limited(self, limits: Mapping[str, frozenset[str]]) -> "Catalogue":
        """The part of it that a virtual server shows: per listing name, only these names."""

        def kept(listing: str, entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
            only = limits.get(listing)
            return entries if only is None else {n: entry for n, entry in entries.items() if n in only}

        shown = {
            listing: [item for item in items if listing not in limits or item["name"] in limits[listing]]
            for listing, items in self.definitions.items()
        }
        tools, prompts = kept("tools", self.tools), kept("prompts", self.prompts)
        return replace(self, tools=tools, prompts=prompts, definitions=shown, limits=limits)

    def owner(self, uri: str) -> str | None:
        """Exact listing first, then template, then the only backend with addresses of that scheme.

        The last is for what a tool links to: it need not be in any listing. What may not be seen has none.
        """
        backend = self._owner(uri)
        if backend and self.allows is not None and not self.allows(address_target(uri, backend)):
            return None
        return backend

    def _owner(self, uri: str) -> str | None:
        exact = self.resources.get(uri)
        if exact:
            return exact
        fitting = (
            backend
            for pattern, template, backend in self.templates
            if uri == template or pattern.fullmatch(uri)
        )
        return next(fitting, None) or self._schemes.get(_scheme(uri))

    @cached_property
    def _schemes(self) -> dict[str, str | None]:
        """Scheme to the backend that has it to itself, or None."""
        found: dict[str, str | None] = {}
        addresses = [*self.resources.items(), *((text, backend) for _, text, backend in self.templates)]
        for address, backend in addresses:
            scheme = _scheme(address)
            found[scheme] = backend if found.get(scheme, backend) == backend else None
        return found

    @cached_property
    def instructions(self) -> str:
        """Those of whoever has something to show: to others it is as if there were no such backend."""
        entries = [*self.tools.values(), *self.prompts.values()]
        shown = {*self.personal.values(), *self.resources.values(), *(entry.backend for entry in entries)}
        shown |= {backend for _, _, backend in self.templates}
        told = {name: text for name, text in self.told.items() if self.allows is None or name in shown}
        return "\n\n".join(f"## {name}\n{text}" for name, text in told.items())

    def offers(self, capability: str) -> bool:
        return any(capability in own for own in self.capabilities.values())

    @cached_property
    def answers(self) -> dict[str, bytes]:
        """Per listing name, the whole result as bytes."""
        return {name: dumps({name: items}).encode() for name, items in self.definitions.items()}

    @cached_property
    def legacy(self) -> "Catalogue":
        """As legacy clients can read it."""
        tools = [tool_to_legacy(tool) for tool in self.definitions["tools"]]
        if tools == self.definitions["tools"]:
            return self
        return replace(self, definitions={**self.definitions, "tools": tools})

    @cached_property
    def digests(self) -> dict[str, str]:
        """Per kind of change notice."""
        resources = self.answers["resources"] + self.answers["resourceTemplates"]
        parts = {"tools": self.answers["tools"], "prompts": self.answers["prompts"], "resources": resources}
        return {name: hashlib.sha256(part).hexdigest()[:12] for name, part in parts.items()}


def named_target(listing: str, name: str, entry: Entry) -> Target:
    kind, method = _NAMED[listing]
    return Target(method, entry.backend, kind, name, entry.upstream_name, entry.annotations)


def address_target(uri: str, backend: str) -> Target:
    return Target("resources/read", backend, "resource", uri, uri)


def _scheme(address: str) -> str:
    return address.partition(":")[0].lower()


def merge(listings: Iterable[Listing]) -> Catalogue:
    """In the order of the registry: on a clash the earlier backend keeps the name."""
    tools: dict[str, Entry] = {}
    prompts: dict[str, Entry] = {}
    resources: dict[str, str] = {}
    templates: dict[str, str] = {}
    shown: dict[str, list[Definition]] = {name: [] for name in LISTS.values()}
    problems: dict[str, dict[str, str]] = {}
    capabilities: dict[str, Mapping[str, Any]] = {}
    personal: dict[str, str] = {}
    eras: dict[str, list[Era]] = {}
    hints: dict[str, list[tuple[int, str]]] = {name: [] for name in LISTS.values()}
    told: dict[str, str] = {}
    for listing in listings:
        capabilities[listing.backend] = listing.capabilities
        eras[listing.backend] = listing.eras
        for name, parts in hints.items():
            parts.append((0, "private") if listing.personal else listing.hints.get(name, (0, "public")))
        if listing.personal:
            personal[listing.prefix] = listing.backend
        if listing.instructions:
            told[listing.backend] = listing.instructions
        notes = {
            "tools": _add_named(listing, listing.tools, "tool", tools, shown["tools"]),
            "prompts": _add_named(listing, listing.prompts, "prompt", prompts, shown["prompts"]),
            "resources": _add_addressed(listing, listing.resources, "uri", resources, shown["resources"]),
            "resourceTemplates": _add_addressed(
                listing, listing.templates, "uriTemplate", templates, shown["resourceTemplates"]
            ),
        }
        if any(notes.values()):
            problems[listing.backend] = {name: note for name, note in notes.items() if note}
    patterns = tuple((names.template_pattern(text), text, backend) for text, backend in templates.items())
    return Catalogue(
        tools,
        prompts,
        resources,
        patterns,
        shown,
        capabilities,
        told,
        problems,
        personal,
        eras=eras,
        hints={name: _hint(parts) for name, parts in hints.items()},
    )


def _hint(parts: list[tuple[int, str]]) -> tuple[int, str]:
    """Zero says nothing: the gateway hears of a change from most backends itself."""
    times = [time for time, _ in parts if time > 0]
    return min(times, default=0), "private" if any(scope == "private" for _, scope in parts) else "public"


def _add_named(
    listing: Listing,
    definitions: list[Definition],
    kind: str,
    entries: dict[str, Entry],
    shown: list[Definition],
) -> str:
    if listing.personal:
        return ""
    named: dict[str, Definition] = {}
    for item in definitions:
        named.setdefault(names.expose(listing.prefix, item["name"]), item)
    clashes = [name for name in named if name in entries]
    if clashes:
        return f"conflicting {kind}s discovered. conflicting {kind} names [{', '.join(clashes)}]"
    for name, item in named.items():
        said = item.get("annotations")
        annotations = said if isinstance(said, dict) else {}
        entries[name] = Entry(listing.backend, item["name"], annotations, _mirrors(item))
        shown.append({**item, "name": name})
    return ""


def _mirrors(item: Definition) -> Mirrors:
    try:
        return mirrors.read(item.get("inputSchema"))
    except ValueError:
        return ()


def _add_addressed(
    listing: Listing, definitions: list[Definition], key: str, owners: dict[str, str], shown: list[Definition]
) -> str:
    clashes = []
    for item in definitions:
        owner = owners.get(item[key])
        if owner not in (None, listing.backend):
            clashes.append(item[key])
        elif owner is None:
            owners[item[key]] = listing.backend
            shown.append(item)
    return (
        f"conflicting resources discovered. conflicting addresses [{', '.join(clashes)}]" if clashes else ""
    )


def tool_problem(tool: Any, *, modern: bool = False) -> str | None:
    """Why this is no tool definition, or None. Only in the modern era do headers repeat arguments."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
        return "no name"
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "inputSchema is not an object schema"
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return "inputSchema.properties is not an object"
    for name, inner in properties.items():
        kinds = inner.get("type", []) if isinstance(inner, dict) else []
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if not isinstance(kind, str) or kind not in _TYPES:
                return f"property {name!r} has the unknown type {kind!r}"[:200]
    if modern:
        try:
            mirrors.read(schema)
        except ValueError as error:
            return str(error)
    return None


def capabilities_of(about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a backend said it can do; whatever is no object says no more than that it is there."""
    said = about.get("capabilities")
    if not isinstance(said, dict):
        return {}
    return {name: own if isinstance(own, dict) else {} for name, own in said.items() if own is not None}
