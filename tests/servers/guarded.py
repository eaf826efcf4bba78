"""The echo server behind a bearer token: 401 with `resource_metadata`, as the specification has it.

`python -m tests.servers.guarded --issuer URL [--port 0]`. Listing is open, calls need a token that the issuer knows and
that is for this server. POST /guard changes what it wants: {"scope": s}, {"open": true}, ...
"""

import argparse
import json
import urllib.request
from asyncio import to_thread
from typing import Any
from urllib.parse import urlencode

from tests.servers.echo import Echo, Message, Receive, Send, read_body, reply, serve

TOOLS = "/.well-known/oauth-protected-resource/tool/"
METADATA = "/.well-known/oauth-protected-resource/mcp"


class Guarded:
    """The ASGI application."""

    def __init__(self, issuer: str) -> None:
        self.echo = Echo("guarded")
        self.issuer = issuer
        self.wants: dict[str, Any] = {}
        self.asked: list[str] = []
        self.hosts: list[str] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        base = f"http://{headers['host']}"
        if scope["path"] == "/guard" and scope["method"] == "GET":
            await reply(send, 200, json.dumps({"asked": self.asked, "hosts": self.hosts}).encode())
            return
        if scope["path"] == "/guard":
            self.asked, self.hosts = [], []
            self.wants = json.loads(await read_body(receive))
            await reply(send, 200, b"{}")
            return
        if scope["path"] == METADATA:
            said = {"resource": f"{base}/mcp", "authorization_servers": [self.issuer]}
            await reply(send, 200, json.dumps(said | self.wants.get("metadata", {})).encode())
            return
        if scope["path"].startswith(TOOLS) and "tool" in self.wants:
            self.asked.append(scope["raw_path"].decode())
            self.hosts.append(headers["host"])
            await reply(send, self.wants.get("status", 200), json.dumps(self.wants["tool"]).encode())
            return
        body = await read_body(receive)
        if scope["path"] == "/mcp" and self.guards(body):
            refusal = await self.refusal(headers.get("authorization", ""), base)
            if refusal:
                status, challenge = refusal
                await reply(send, status, b"{}", [(b"www-authenticate", challenge.encode())])
                return
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return first.pop() if first else await receive()

        await self.echo(scope, again, send)

    def guards(self, body: bytes) -> bool:
        return not self.wants.get("open") and (b'"tools/call"' in body or bool(self.wants.get("all")))

    async def refusal(self, authorization: str, base: str) -> tuple[int, str] | None:
        named = self.wants.get("named", f"{base}{METADATA}")
        challenge = f'Bearer resource_metadata="{named}"'
        token = authorization.removeprefix("Bearer ")
        claims = await to_thread(self.introspected, token) if token else {}
        if not claims.get("active") or f"{base}/mcp" not in claims.get("aud", []):
            return 401, challenge
        scope = self.wants.get("scope")
        if scope and scope not in claims.get("scope", "").split():
            return 403, f'{challenge}, error="insufficient_scope", scope="{scope}"'
        return None

    def introspected(self, token: str) -> dict[str, Any]:
        asked = urllib.request.Request(f"{self.issuer}/introspect", urlencode({"token": token}).encode())
        with urllib.request.urlopen(asked, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--issuer", required=True)
    arguments = parser.parse_args()
    serve(Guarded(arguments.issuer), arguments.port)


if __name__ == "__main__":
    main()
