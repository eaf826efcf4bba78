"""What /status says. Pure."""

import time
from collections.abc import Mapping
from typing import Any

from portico.protocol import versions
from portico.registry import Backend, Merged

Notes = Mapping[str, dict[str, Any]]
"""Per backend, what discovery has noted of it."""
Conflicts = Mapping[str, Mapping[str, str]]
"""Per backend, the listings of which something was refused, and why."""


def overall(merged: Merged, notes: Notes, conflicts: Conflicts, config_error: str | None) -> dict[str, Any]:
    servers = [of_backend(backend, notes, conflicts) for backend in merged.registry.backends]
    healthy = sum(server["ready"] for server in servers)
    return {
        "servers": servers,
        "overallValid": healthy == len(servers) and not conflicts,
        "totalServers": len(servers),
        "healthyServers": healthy,
        "unHealthyServers": len(servers) - healthy,
        "toolConflicts": sum("tools" in own for own in conflicts.values()),
        "configError": config_error,
        "recordErrors": {name: "; ".join(map(str, found)) for name, found in merged.problems.items()},
        "timestamp": time.time(),
    }


def of_backend(backend: Backend, notes: Notes, conflicts: Conflicts) -> dict[str, Any]:
    unknown = {"ready": False, "message": "disabled" if not backend.enabled else "not asked yet"}
    note = notes.get(backend.name) or unknown
    own = conflicts.get(backend.name, {})
    version = note.get("version", "")
    return {
        "id": backend.id,
        "name": backend.name,
        "hostname": backend.hostname,
        "prefix": backend.prefix,
        "ready": bool(note["ready"]) and backend.enabled and "tools" not in own,
        "message": "; ".join(own.values()) or note.get("message", ""),
        "lastValidated": note.get("lastValidated"),
        "failures": note.get("failures", 0),
        "totalTools": note.get("totalTools", 0),
        "totalPrompts": note.get("totalPrompts", 0),
        "invalidTools": note.get("invalidTools", 0),
        "invalidToolList": note.get("invalidToolList", []),
        "missingCapabilities": note.get("missingCapabilities", []),
        "protocolValidation": {
            "isValid": version in versions.LEGACY,
            "supportedVersion": version,
            "expectedVersion": versions.NEWEST_LEGACY,
        },
        "category": list(backend.category),
        "hint": backend.hint,
        "tags": list(backend.tags),
    }
