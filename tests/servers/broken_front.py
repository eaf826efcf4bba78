"""What may stand between a client and a gateway, and all it can do wrong.

`python -m tests.servers.broken_front --gateway URL [--cert FILE]` prints `ready http://127.0.0.1:N` on stderr. The
first part of a path says what goes wrong, joined by `+`: /auth+rename/mcp asks for a token and renames the challenge,
/well/mcp does nothing. With --cert (a certificate and its key) it speaks TLS.
"""

import argparse
import asyncio
import contextlib
import email.utils
import json
import ssl
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

from portico.errors import BackendError
from portico.http1 import Exchange, HttpClient

HELD_S = 2.5  # by the fault `together`: more than two keep-alives of the gateways it is used with
REALM = "/.well-known/oauth-protected-resource"
ISSUER = "/.well-known/openid-configuration"
OUR_CARE = ("connection", "transfer-encoding", "content-length", "host", "keep-alive")

Headers = dict[str, str]


@dataclass
class Request:
    verb: str
    base: str
    path: str
    headers: Headers
    body: bytes
    faults: frozenset[str]

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else {}


@dataclass
class Answer:
    status: int
    headers: Headers
    body: bytes = b""
    exchange: Exchange | None = None  # a stream to be passed on


async def read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    verb, path, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    faults, _, rest = path.removeprefix("/").partition("/")
    return Request(
        verb, f"http://{headers['host']}/{faults}", f"/{rest}", headers, body, frozenset(faults.split("+"))
    )


def told(status: int, body: Any, **headers: str) -> Answer:
    return Answer(status, {"content-type": "application/json"} | headers, json.dumps(body).encode())


class Connection:
    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self.http = HttpClient()
        self.sessions: set[str] = set()  # those that began on this connection

    async def answer(self, request: Request) -> Answer:
        if "html" in request.faults:
            return Answer(200, {"content-type": "text/html"}, b"<!doctype html><title>Welcome</title>")
        if request.path in (REALM, ISSUER) and "auth" in request.faults:
            return document(request)
        if request.path != "/mcp":
            return await self.forward(request)
        refused = front_refusal(request) or token_refusal(request) or self.session_refusal(request)
        return refused or await self.forward(request)

    def session_refusal(self, request: Request) -> Answer | None:
        session = request.headers.get("mcp-session-id")
        if "lose_sessions" in request.faults and session and session not in self.sessions:
            return told(404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "who?"}})
        if "immortal" in request.faults and request.verb == "DELETE":
            return told(200, {})
        return None

    async def forward(self, request: Request) -> Answer:
        headers = {name: value for name, value in request.headers.items() if passes(name, request)}
        if "patch_method" in request.faults and "mcp-method" in headers:
            headers["mcp-method"] = request.message["method"]
        exchange = await self.http.open(
            request.verb.encode(),
            urljoin(self.gateway, request.path),
            [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
            request.body,
        )
        await exchange.head(30)
        given = {name.decode(): value.decode("latin-1") for name, value in exchange.headers.items()}
        self.sessions.add(given.get("mcp-session-id", ""))
        changed = {name: value for name, value in given.items() if comes_back(name, request)} | added(request)
        if exchange.is_stream:
            return Answer(exchange.status, changed, exchange=exchange)
        return Answer(exchange.status, changed, await exchange.body(1 << 24, 30))


def passes(name: str, request: Request) -> bool:
    stripped = {"strip", "strip_requests"} & request.faults and name.startswith("mcp-")
    hidden = "hide_origin" in request.faults and name == "origin"
    return not stripped and not hidden and name not in (*OUR_CARE, "authorization")


def comes_back(name: str, request: Request) -> bool:
    return name not in OUR_CARE and not ("strip" in request.faults and name.startswith("mcp-"))


def added(request: Request) -> Headers:
    known = {
        "cache": ("cache-control", "public, max-age=60"),
        "cookie": ("set-cookie", "AWSALB=1"),
        "any_page": ("access-control-allow-origin", "*"),
    }
    return dict(known[fault] for fault in request.faults if fault in known)


def front_refusal(request: Request) -> Answer | None:
    initializes = request.verb == "POST" and request.message.get("method") == "initialize"
    if "bad_gateway" in request.faults or (initializes and "no_initialize" in request.faults):
        return told(502, {"message": "Internal server error"})
    if "redirect" in request.faults:
        return Answer(308, {"location": f"{request.base}/mcp/"})
    if "no_route" in request.faults or ("no_delete" in request.faults and request.verb == "DELETE"):
        return told(403, {"message": "Missing Authentication Token"})
    return None


def token_refusal(request: Request) -> Answer | None:
    """Good tokens look like a JWT: what is in them is the gateway's business, and here nobody's."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if "auth" not in request.faults or ("any_token" in request.faults and token):
        return None
    if "reflect" in request.faults and token and request.message.get("method") == "tools/list":
        error = {"code": -32000, "message": f"\x1b[2J{token} is not enough, nor {token.split('.')[-1]}"}
        return told(200, {"jsonrpc": "2.0", "id": request.message["id"], "error": error})
    if token.count(".") == 2 and "refuse" not in request.faults:
        return None
    name = "x-amzn-remapped-www-authenticate" if "rename" in request.faults else "www-authenticate"
    why = ', error="invalid_token", error_description="unknown key"' if token else ""
    header = {name: f'Bearer resource_metadata="{request.base}{REALM}"{why}'}
    return told(401, {"message": "Unauthorized"}, **({} if "mute" in request.faults else header))


def document(request: Request) -> Answer:
    if request.path == ISSUER and "no_issuer" in request.faults:
        return told(404, {})
    if request.path == ISSUER:
        ends = {f"{name}_endpoint": f"{request.base}/{name}" for name in ("authorization", "token")}
        return told(200, {"issuer": request.base, "code_challenge_methods_supported": ["S256"]} | ends)
    about = "https://other.example/mcp" if "wrong_resource" in request.faults else f"{request.base}/mcp"
    return told(200, {"resource": about, "authorization_servers": [request.base]})


async def write(writer: asyncio.StreamWriter, request: Request, answer: Answer) -> None:
    framing = "transfer-encoding: chunked" if answer.exchange else f"content-length: {len(answer.body)}"
    ahead = 3600 if "skew" in request.faults else 0
    date = email.utils.formatdate(time.time() + ahead, usegmt=True)
    lines = [f"{name}: {value}" for name, value in answer.headers.items()]
    status = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"
    head = "\r\n".join([status, *lines, f"date: {date}", framing, "", ""]).encode("latin-1")
    if answer.exchange is None:
        writer.write(head + answer.body)
    else:
        await stream(writer, head, answer.exchange, request.faults)
    await writer.drain()


async def stream(
    writer: asyncio.StreamWriter, head: bytes, exchange: Exchange, faults: frozenset[str]
) -> None:
    held = bytearray()
    due = time.monotonic() + HELD_S
    if "buffer" not in faults:
        writer.write(head)
        await writer.drain()
    while piece := await exchange.chunk(30):
        held += piece
        waits = "together" in faults and time.monotonic() < due
        if not waits and not {"buffer", "late_body"} & faults:
            writer.write(b"%x\r\n%b\r\n" % (len(held), held))
            held.clear()
            await writer.drain()
    last = b"%x\r\n%b\r\n" % (len(held), held) if held else b""
    writer.write((head if "buffer" in faults else b"") + last + b"0\r\n\r\n")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gateway: str) -> None:
    connection = Connection(gateway)
    with contextlib.suppress(asyncio.IncompleteReadError, OSError, BackendError):
        while request := await read(reader):
            await write(writer, request, await connection.answer(request))
    connection.http.close()
    writer.close()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--cert")
    arguments = parser.parse_args()
    context = None
    if arguments.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.cert)
    server = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, arguments.gateway), "127.0.0.1", 0, ssl=context
    )
    print(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
