"""The vectors as values."""

import json
import re
import time
from dataclasses import dataclass
from typing import Any

from tests.vectors.sign import VECTORS, token

THEMES = (
    *("tokens", "headers", "identity", "scopes", "roles", "claims", "annotations", "defaults", "methods"),
    *("globs", "challenges", "metadata", "paths", "servers", "signed"),
)
BASE = "https://gw.example.com"


def read(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


CONFIGS = read("configs")
BACKENDS = read("backends")
JWKS = read("jwks")
TOKENS = read("credentials")
TIME: int = TOKENS["time"]


@dataclass(frozen=True)
class Vector:
    theme: str
    name: str
    config: str
    request: dict[str, Any]
    expect: dict[str, Any]
    needs: str = ""
    session: str = ""

    def __str__(self) -> str:
        return f"{self.theme}: {self.name}"


@dataclass(frozen=True)
class Request:
    """A vector's, with the tokens put in."""

    verb: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for own, value in self.headers if own.lower() == name]

    @property
    def message(self) -> Any:
        return json.loads(self.body)


def vectors(*themes: str) -> list[Vector]:
    found = []
    for theme in themes or THEMES:
        file = read(theme)
        found += [Vector(theme, **{"config": file["config"], **one}) for one in file["vectors"]]
    return found


def request(vector: Vector, *, now: bool = False) -> Request:
    """`now`: for a clock that cannot be told the time. Tokens are signed again, as much later as it is."""
    later = int(time.time()) - TIME if now else 0

    def put(text: str) -> str:
        return re.sub(r"\{([\w-]+)\}", lambda found: text_of(found[1], later), text)

    said = vector.request
    body = said.get("body", "")
    raw = body if isinstance(body, str) else json.dumps(body)
    headers = [(name, put(value)) for name, value in said["headers"]]
    return Request(said["method"], put(said["path"]), headers, raw.encode())


def text_of(name: str, later: int = 0) -> str:
    recipe = TOKENS["tokens"][name]
    return token(recipe, later) if later else recipe["text"]


def config(name: str, urls: dict[str, str] | None = None, keys_at: str = "") -> dict[str, Any]:
    """As a portico.yaml; `urls` of the backends, and where the keys of issuers are."""
    declared = {
        backend: {
            "kind": "remote",
            "url": (urls or {}).get(backend, "http://127.0.0.1:9/mcp"),
            "prefix": about["prefix"],
            "user_specific_list": about.get("user_specific_list", False),
        }
        for backend, about in BACKENDS.items()
    }
    said = json.loads(json.dumps(CONFIGS[name]))
    for number, issuer in enumerate(said["auth"]["issuers"]):
        if keys_at:
            issuer["jwks_url"] = f"{keys_at}/jwks/{number}"
    return {"version": 1, "store": "memory", "gateway": {"public_url": BASE}, "backends": declared} | said
