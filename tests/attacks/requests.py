"""What an attacker may try, each by its name; all of it must be refused before it reaches a backend.

An attack has a token that is good as far as it goes, or none at all: those with a bad one are in `tokens`.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

from tests.attacks.scene import ALLOWED, DENIED, PLAIN, SCOPE, Reply, Scene, request

Attack = Callable[[Scene], Reply]

CALL = request("tools/call", {"name": ALLOWED, "arguments": {"text": "hi"}})
BODY = json.dumps(CALL).encode()
ATTACKS: dict[str, Attack] = {}


def attack(name: str) -> Callable[[Attack], Attack]:
    def named(made: Attack) -> Attack:
        assert name not in ATTACKS, name
        ATTACKS[name] = made
        return made

    return named


def several(name: str, of: dict[str, Any], make: Callable[[Scene, Any], Reply]) -> None:
    for what, value in of.items():
        attack(f"{name}: {what}")(lambda scene, value=value: make(scene, value))


# Where a token does not belong

several(
    "a good token",
    {
        "in the query": lambda token: {"target": f"/mcp?access_token={token}"},
        "in the query as a header": lambda token: {"target": f"/mcp?Authorization=Bearer%20{token}"},
        "in a cookie": lambda token: {"more": {"cookie": f"access_token={token}"}},
        "as X-Authorization": lambda token: {"more": {"x-authorization": f"Bearer {token}"}},
        "as Proxy-Authorization": lambda token: {"more": {"proxy-authorization": f"Bearer {token}"}},
        "as X-Forwarded-Access-Token": lambda token: {"more": {"x-forwarded-access-token": token}},
        "as another scheme": lambda token: {"more": {"authorization": f"Basic {token}"}},
        "without a scheme": lambda token: {"more": {"authorization": token}},
        "behind two schemes": lambda token: {"more": {"authorization": f"Bearer Bearer {token}"}},
        "twice in one header": lambda token: {"more": {"authorization": f"Bearer {token}, Bearer {token}"}},
        "with something behind it": lambda token: {"more": {"authorization": f"Bearer {token} x"}},
        "in two headers": lambda token: {"more": [("Authorization", f"Bearer {token}")] * 2},
        "before a bad one": lambda token: {
            "more": [("Authorization", f"Bearer {token}"), ("authorization", "Bearer x")]
        },
        "after a bad one": lambda token: {
            "more": [("Authorization", "Bearer x"), ("AUTHORIZATION", f"Bearer {token}")]
        },
        "beside an empty one": lambda token: {
            "more": [("Authorization", ""), ("Authorization", f"Bearer {token}")]
        },
    },
    lambda scene, place: scene.post(CALL, **place(scene.issuer.token(scope=SCOPE))),
)


@attack("a good token in the body")
def _(scene: Scene) -> Reply:
    token = scene.issuer.token(scope=SCOPE)
    said = {"authorization": f"Bearer {token}", "access_token": token}
    return scene.post(CALL | said | {"params": CALL["params"] | {"_meta": said}})


# Others' sessions

several(
    "another subject's session",
    {
        "POST": lambda scene, session, eve: scene.post(CALL, eve, session=session),
        "a batch": lambda scene, session, eve: scene.post([CALL], eve, session=session),
        "an answer": lambda scene, session, eve: scene.post(
            {"jsonrpc": "2.0", "id": "portico.s1.1", "result": {}}, eve, session=session
        ),
        "a cancellation": lambda scene, session, eve: scene.post(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            eve,
            session=session,
        ),
        "GET": lambda scene, session, eve: scene.send("GET", "/mcp", _stream(session, eve)),
        "GET from an event on": lambda scene, session, eve: scene.send(
            "GET", "/mcp", _stream(session, eve) | {"last-event-id": "1"}
        ),
        "DELETE": lambda scene, session, eve: scene.send("DELETE", "/mcp", _stream(session, eve)),
    },
    lambda scene, use: use(
        scene, scene.session(scene.issuer.token(sub="ada")), scene.issuer.token(sub="eve", scope=SCOPE)
    ),
)


def _stream(session: str, token: str) -> dict[str, str]:
    return {"accept": "text/event-stream", "mcp-session-id": session, "authorization": f"Bearer {token}"}


@attack("the session of the same name at another issuer")
def _(scene: Scene) -> Reply:
    session = scene.session(scene.issuer.token(sub="ada"))
    return scene.post(CALL, scene.second.token(sub="ada"), session=session)


@attack("a token of one issuer signed with the key of another")
def _(scene: Scene) -> Reply:
    return scene.post(CALL, scene.second.token(iss=scene.issuer.url))


@attack("a session without its token")
def _(scene: Scene) -> Reply:
    return scene.post(CALL, session=scene.session(scene.issuer.token()))


# A tool that needs another scope

several(
    "a scope that is not quite the one",
    {
        "shorter": SCOPE[:-1],
        "longer": f"{SCOPE}er",
        "with more behind a colon": f"{SCOPE}:x",
        "its beginning": "tool",
        "its beginning and a colon": "tool:",
        "a star": "*",
        "a star behind the colon": "tool:*",
        "in capitals": SCOPE.upper(),
        "with a comma": f"mcp:use,{SCOPE}",
        "with a semicolon": f"mcp:use;{SCOPE}",
        "with a wide space": f"mcp:use\u00a0{SCOPE}",
        "with a tab": f"mcp:use\t{SCOPE}",
        "with a line's end": f"mcp:use\n{SCOPE}",
        "in quotes": f'"{SCOPE}"',
        "with a zero-width space": f"{SCOPE}\u200b",
        "in a list in a list": [[SCOPE]],
        "as a key": {SCOPE: True},
        "as a number": 1,
    },
    lambda scene, scope: scene.call(scene.issuer.token(scope=scope)),
)

several(
    "a tool by another spelling",
    {
        "with a space": DENIED.replace("_", " "),
        "with spaces around": f" {DENIED} ",
        "in capitals": DENIED.upper(),
        "with a NUL": f"{DENIED}\0",
        "with a line's end": f"{DENIED}\n",
        "with a zero-width space": f"{DENIED}\u200b",
        "with full-width letters": DENIED.replace("e", "\uff45"),
        "with the prefix twice": f"s1_{DENIED}",
        "without the prefix": DENIED.removeprefix("s1_"),
        "of the other backend": f"s2_{DENIED}",
        "as a path": f"s1_/../{DENIED}",
        "percent-encoded": DENIED.replace("_", "%5f"),
        "as a list": [DENIED],
        "as an object": {"name": DENIED},
    },
    lambda scene, name: scene.call(scene.issuer.token(), {"name": name, "arguments": {}}),
)

several(
    "a member twice",
    {
        "the tool's name": f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{ALLOWED}","name":"{DENIED}","arguments":{{}}}}}}',
        "its name, escaped": f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{ALLOWED}","n\\u0061me":"{DENIED}","arguments":{{}}}}}}',
        "the parameters": f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{ALLOWED}"}},"params":{{"name":"{DENIED}"}}}}',
        "the method": f'{{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{{"name":"{DENIED}"}}}}',
        "the id": f'{{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{{"name":"{DENIED}"}}}}',
    },
    lambda scene, text: scene.posted(text.encode()),
)


several(
    "headers that say another thing than the body",
    {
        "an allowed tool": {"mcp-name": ALLOWED},
        "an allowed tool, encoded": {"mcp-name": f"=?base64?{base64.b64encode(ALLOWED.encode()).decode()}?="},
        "no tool": {"mcp-name": ""},
        "another method": {"mcp-method": "tools/list"},
        "a method in capitals": {"mcp-method": "TOOLS/CALL"},
        "another version": {"mcp-protocol-version": "2025-11-25"},
        "a version that is none": {"mcp-protocol-version": "9999-99-99"},
    },
    lambda scene, more: scene.call26(scene.issuer.token(), more=more),
)


@attack("headers of an allowed tool before those of the one in the body")
def _(scene: Scene) -> Reply:
    return _twice_named(scene, ALLOWED, DENIED)


@attack("headers of an allowed tool behind those of the one in the body")
def _(scene: Scene) -> Reply:
    return _twice_named(scene, DENIED, ALLOWED)


def _twice_named(scene: Scene, *names: str) -> Reply:
    lines = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")]
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = request("tools/call", {"name": DENIED, "arguments": {}, "_meta": meta})
    return scene.post(message, scene.issuer.token(), more=[*lines, *(("mcp-name", name) for name in names)])


@attack("a legacy call whose headers name an allowed tool")
def _(scene: Scene) -> Reply:
    return scene.call(scene.issuer.token(), more={"mcp-name": ALLOWED, "mcp-method": "tools/call"})


@attack("a batch with an allowed tool before the other")
def _(scene: Scene) -> Reply:
    """Only 2025-03-26 has batches: a session of today's refuses it whole."""
    token = scene.issuer.token()
    denied = request("tools/call", {"name": DENIED, "arguments": {}})
    return scene.post([CALL, denied | {"id": 2}], token, session=scene.session(token))


# Roles of another backend

several(
    "the role for a tool",
    {
        "of another backend": {"s2": {"roles": ["tool:headers"]}},
        "of no backend": {"": {"roles": ["tool:headers"]}},
        "beside the backends": {"roles": ["tool:headers"]},
        "with its prefix": {"s1": {"roles": ["tool:s1_headers"]}},
        "unfilled": {"s1": {"roles": ["tool:{tool}"]}},
        "in one text with others": {"s1": {"roles": "tool:echo tool:headers"}},
        "as a key": {"s1": {"roles": {"tool:headers": True}}},
        "for a prompt": {"s1": {"roles": ["prompt:headers"]}},
    },
    lambda scene, access: scene.call(
        scene.issuer.token(resource_access=access), {"name": "s1_headers", "arguments": {}}
    ),
)

# Pretending to be let in already

several(
    "no token, but",
    {
        "a principal": {"x-portico-principal": "root"},
        "a verified subject": {"x-mcp-verified-sub": "root"},
        "a user from a proxy": {"x-forwarded-user": "root", "x-remote-user": "root"},
        "an identity of Amazon's": {"x-amzn-oidc-identity": "root", "x-amzn-oidc-data": "e30.e30.x"},
        "an authorizer's context": {"x-amz-authorizer-principalid": "root", "principalid": "root"},
        "an address on this machine": {"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"},
        "an original address": {"x-original-url": "/health", "x-rewrite-url": "/health"},
        "another verb": {"x-http-method-override": "OPTIONS"},
        "a tool that somebody looked up": {"x-mcp-tool": "echo", "x-mcp-servername": "s1"},
    },
    lambda scene, more: scene.post(CALL, more=more),
)

several(
    "no token, and",
    {verb: verb for verb in ("GET", "DELETE", "HEAD", "PUT", "PATCH", "TRACE")},
    lambda scene, verb: scene.send(verb, "/mcp", PLAIN),
)

PATHS = (
    "/mcp/",
    "//mcp",
    "/MCP",
    "/%6dcp",
    "/mcp%2f",
    "/mcp;x=1",
    "/mcp/.",
    "/./mcp",
    "/health/../mcp",
    "/health/..%2fmcp",
    "/health;/../mcp",
    "/.well-known/../mcp",
    "/.well-known/%2e%2e/mcp",
    "/.well-known/oauth-protected-resource/../../mcp",
    "/.well-known/oauth-protected-resource/..%2f..%2fmcp",
    "/.well-known/oauth-protected-resource%2f..%2f..%2fmcp",
    "/.well-known/oauth-protected-resource/%252e%252e/mcp",
    "/.well-known/oauth-protected-resource/\\..\\..\\mcp",
    "/.well-known/oauth-protected-resource/tool/../../../mcp",
    "/mcp/v/../../mcp",
    "/backends",
    "/backends/s1",
    "//backends",
    "/backends%3f",
    "/.well-known/oauth-protected-resource/../../backends",
    "/health/../status",
    "/status",
    "/status/s1",
    "/openapi.json",
    "/docs",
    "http://gw.example.com/backends",
    "http://127.0.0.1/mcp",
)
several(
    "no token at", {path: path for path in PATHS}, lambda scene, path: scene.send("POST", path, PLAIN, BODY)
)
several(
    "no token, reading",
    {path: path for path in PATHS},
    lambda scene, path: scene.send("GET", path, PLAIN),
)

several(
    "metadata of a tool that",
    {
        "climbs": "..%2f..%2f..%2fmcp",
        "climbs twice encoded": "%252e%252e%252fmcp",
        "is an address": "http:%2f%2f169.254.169.254%2flatest",
        "has a line's end": "s1_echo%0d%0ax-evil:%201",
        "has a NUL": "s1_echo%00",
        "has a query": "s1_nothing%3fx=1",
        "is nobody's": "s1_nothing",
        "is nothing": "",
        "is very long": "a" * 7000,
    },
    lambda scene, name: scene.send("GET", f"/.well-known/oauth-protected-resource/tool/{name}"),
)

# Bytes

several(
    "two lengths",
    {
        "that differ": [("Content-Length", "4"), ("Content-Length", str(len(BODY)))],
        "one of them chunked": [("Content-Length", str(len(BODY))), ("Transfer-Encoding", "chunked")],
        "one of them none": [("Content-Length", f"+{len(BODY)}")],
    },
    lambda scene, lines: scene.send("POST", "/mcp", [*PLAIN.items(), *lines], BODY),
)


@attack("a web page from elsewhere with somebody's token")
def _(scene: Scene) -> Reply:
    return scene.post(CALL, scene.issuer.token(), more={"origin": "https://evil.example"})


@attack("a body that says it is very large")
def _(scene: Scene) -> Reply:
    token = scene.issuer.token(scope=SCOPE)
    lines = {"authorization": f"Bearer {token}", "mcp-session-id": scene.session(token)}
    return scene.send("POST", "/mcp", PLAIN | lines | {"content-length": "9999999999"})
