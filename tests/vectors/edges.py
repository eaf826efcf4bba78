"""The edges in this process: Portico as an ASGI application, the service before it, and the Lambda authorizer before it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from authz.audit import audit
from authz.authorizer import Authorizer
from authz.places import VIRTUAL, place
from authz.service import Service
from emulator.authorizers import Grant, Refusal, decide, read_grant
from portico.admission import ByToken
from portico.assembly import Portico
from portico.aws.named import named_by
from portico.registry import parse
from tests.vectors import core
from tests.vectors.answers import Answer
from tests.vectors.backends import urls
from tests.vectors.cases import BASE, Request, Vector, config, request

API = "arn:aws:execute-api:eu-west-1:123456789012:abc/prod"
STATIC = f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
"""Of a 401 API Gateway knows no more than the template says."""
ROUTES = ("/mcp", "/status", "/backends")
PARAMETERS = {"/status/": "/status/{name}", "/backends/": "/backends/{name}", VIRTUAL: "/mcp/v/{server}"}


class Noted(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(vars(record))


@contextmanager
def noted() -> Iterator[list[dict[str, Any]]]:
    handler, level = Noted(), audit.level
    audit.addHandler(handler)
    audit.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        audit.removeHandler(handler)
        audit.setLevel(level)


@asynccontextmanager
async def portico(name: str, base: str, *, behind_authorizer: bool = False) -> AsyncIterator[Portico]:
    """Its clock and its keys are the vectors'."""
    registry = parse(yaml.safe_dump(config(name, urls(base)), sort_keys=False))
    made = Portico(registry, loopback=False, behind_authorizer=behind_authorizer)
    await made.start()
    if not behind_authorizer:
        admission = made._endpoint.admission
        assert isinstance(admission, ByToken)
        admission._guard = core.guard(name)
    try:
        yield made
    finally:
        await made.stop()


async def ask(application: Any, said: Request, more: dict[str, Any] | None = None) -> Answer:
    """Nobody stays for a stream that goes on for ever."""
    url = urlsplit(f"http://x{said.path}")
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in said.headers]
    if said.body:
        headers.append((b"content-length", str(len(said.body)).encode()))
    scope = {
        "type": "http",
        "method": said.verb,
        "path": unquote(url.path),
        "query_string": url.query.encode(),
        "headers": [(b"host", b"gw.example.com"), *headers],
    } | (more or {})
    found, sent = Answer(0), False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            return await never()
        sent = True
        return {"type": "http.request", "body": said.body}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.status = message["status"]
            found.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            found.body += message.get("body", b"")

    await application(scope, receive, send)
    return found


async def never() -> Any:
    await asyncio.Event().wait()


async def in_session(application: Any, vector: Vector, said: Request, **more: Any) -> Request:
    """With the session that a legacy request needs, begun by the same client at the same URL."""
    if not vector.session:
        return said
    begun = await ask(application, beginning(said), **more)
    assert begun.status == 200, (str(vector), begun)
    return replace(said, headers=[*said.headers, ("mcp-session-id", begun.headers["mcp-session-id"])])


def beginning(said: Request) -> Request:
    body = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"vectors","version":"1"}}}'
    )
    return replace(said, verb="POST", body=body)


async def by_serve(vector: Vector, gateway: Portico, lines: list[dict[str, Any]]) -> Answer:
    said = await in_session(gateway, vector, request(vector))
    lines.clear()
    found = await ask(gateway, said)
    return replace(found, noted=lines[-1] if lines else None, by="serve")


async def by_service(
    vector: Vector, service: Service, gateway: Portico, lines: list[dict[str, Any]]
) -> Answer:
    """As Envoy does: what the service lets through goes on, with what it says of who it is."""
    said = request(vector)
    lines.clear()
    checked = await ask(service, replace(said, path=f"/check{said.path}"))
    if checked.status != 200:
        return replace(checked, noted=lines[-1], by="service")
    on = [(name, value) for name, value in checked.headers.items() if name.startswith("x-portico-")]
    said = await in_session(gateway, vector, replace(said, headers=[*said.headers, *on]))
    lines.clear()
    found = await ask(gateway, said)
    return replace(found, noted=lines[-1] if lines else None, by="gateway")


def route_of(path: str) -> tuple[str, dict[str, str] | None] | None:
    if path in ROUTES:
        return path, None
    for beginning_, route in PARAMETERS.items():
        rest = path.removeprefix(beginning_)
        if path.startswith(beginning_) and rest and "/" not in rest:
            return route, {route.partition("{")[2].rstrip("}"): rest}
    return None


def event_of(said: Request) -> dict[str, Any] | None:
    """As API Gateway asks its authorizer; None where it has no such route."""
    path = urlsplit(f"http://x{said.path}").path
    route = route_of(unquote(path) if path.startswith(VIRTUAL) else path)
    if route is None:
        return None
    several: dict[str, list[str]] = {}
    for name, value in said.headers:
        several.setdefault(name, []).append(value)
    return {
        "type": "REQUEST",
        "methodArn": f"{API}/{said.verb}{path}",
        "resource": route[0],
        "path": path,
        "httpMethod": said.verb,
        "headers": dict(said.headers),
        "multiValueHeaders": several,
        "pathParameters": route[1],
    }


async def by_lambda(
    vector: Vector, authorizer: Authorizer, gateway: Portico, lines: list[dict[str, Any]]
) -> Answer | None:
    """None where API Gateway has no such route."""
    said = request(vector)
    if place(said.verb, unquote(urlsplit(f"http://x{said.path}").path)).free:
        return replace(await ask(gateway, said), by="gateway")
    event = event_of(said)
    if event is None:
        return None
    lines.clear()
    try:
        policy = await authorizer._judged(event)
    except Exception as error:
        if str(error) != "Unauthorized":
            raise
        return Answer(401, {"www-authenticate": STATIC}, noted=lines[-1], by="authorizer")
    grant = read_grant(json.dumps(policy).encode())
    assert isinstance(grant, Grant)
    verdict = decide(grant, event["methodArn"])
    if isinstance(verdict, Refusal):
        challenge = {"www-authenticate": verdict.context["challenge"]}
        return Answer(403, challenge, noted=lines[-1], by="authorizer")
    more = {"aws.event": {"requestContext": {"authorizer": verdict}}}
    said = await in_session(gateway, vector, said, more=more)
    lines.clear()
    found = await ask(gateway, said, more)
    if found.status in (401, 403):
        found.headers.pop("www-authenticate", None)  # renamed on its way
    return replace(found, noted=lines[-1] if lines else None, by="gateway")


def service_of(name: str) -> Service:
    return Service(core.guard(name), core.registry(name).prefixes, "/check")


def authorizer_of(name: str) -> Authorizer:
    return Authorizer(core.guard(name), named_by(core.registry(name)))
