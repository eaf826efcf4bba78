"""What an edge did with a vector, and whether that is what the vector says."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.vectors.cases import Vector

KEYS = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}
LISTINGS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@dataclass
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    noted: dict[str, Any] | None = None
    """What the audit says: issuer, principal, verdict and reason."""
    by: str = ""

    @property
    def message(self) -> Any:
        text = self.body.decode()
        if text.startswith(("event:", "data:", "id:", ":")):
            return next(json.loads(line[5:]) for line in text.splitlines() if line.startswith("data: {"))
        return json.loads(text) if text else None


def check(vector: Vector, found: Answer, *, remapped: bool = False) -> None:
    """`remapped`: where a challenge may have been renamed on its way, it is in the error's data."""
    expected = vector.expect
    assert found.status == expected["status"], (str(vector), found)
    challenge = expected.get("headers", {}).get("www-authenticate")
    said = found.headers.get("www-authenticate")
    if said is None and remapped and found.status in (401, 403):
        said = found.message["error"]["data"]["wwwAuthenticate"]
    assert said == challenge, str(vector)
    if "document" in expected:
        assert json.loads(found.body) == expected["document"], str(vector)
    if "list" in expected:
        assert listed(vector, found) == expected["list"], str(vector)
    if found.noted is not None:
        _noted(vector, found.noted)


def listed(vector: Vector, found: Answer) -> list[str]:
    method = vector.request["body"]["method"]
    return [item[KEYS.get(method, "name")] for item in found.message["result"][LISTINGS[method]]]


def _noted(vector: Vector, noted: dict[str, Any]) -> None:
    expected = vector.expect
    if "principal" in expected:
        assert [noted["issuer"], noted["principal"]] == expected["principal"], str(vector)
    if expected["status"] in (200, 202, 401, 403) and expected["decision"] != "unknown":
        assert noted["reason"] == expected["reason"], str(vector)
        assert noted["verdict"] == {"allow": "allowed", "refuse": "refused"}[expected["decision"]], str(
            vector
        )


def is_open(vector: Vector) -> bool:
    return "principal" not in vector.expect and vector.expect["decision"] == "allow"


def path_of(vector: Vector) -> str:
    return urlsplit(f"http://x{vector.request['path']}").path
