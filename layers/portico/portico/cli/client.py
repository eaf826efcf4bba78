"""A small MCP client for the commands that talk to a running gateway."""

import contextlib
import json
import shlex
import sys
from typing import Any
from urllib.parse import urljoin

from portico.cli.doctor.reading import bearer
from portico.cli.login import token
from portico.errors import BackendError, BackendUnreachable
from portico.http1 import Exchange, Headers, HttpClient
from portico.protocol import jsonrpc, sse, versions

SECONDS = 3600.0
START = "start one with `portico serve`, or say where it is with --url"


class CallFailed(Exception):
    """`str(error)` is for whoever typed the command."""


class Caller:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http: HttpClient
        self._session: Headers = []

    async def get(self, path: str) -> dict[str, Any]:
        self._http = HttpClient()
        try:
            exchange = await self._request(b"GET", urljoin(self._url, path), [])
            return await self._message(exchange, None, 10)
        finally:
            self._http.close()

    async def send(self, verb: bytes, path: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
        """To the gateway's API for operators; a refusal is a CallFailed that names each field."""
        self._http = HttpClient()
        headers: Headers = [(b"content-type", b"application/json")] if fields is not None else []
        body = json.dumps(fields).encode() if fields is not None else b""
        try:
            exchange = await self._request(verb, urljoin(self._url, path), headers, body)
            await exchange.head(60)
            found = {} if exchange.status == 204 else await self._message(exchange, None, 60)
        except BackendError as error:
            raise CallFailed(f"the connection to {self._url} broke ({error})") from None
        finally:
            self._http.close()
        if exchange.status >= 400:
            raise self._refused(exchange, found)
        return found

    def _refused(self, exchange: Exchange, found: dict[str, Any]) -> CallFailed:
        detail, problems = found.get("detail"), found.get("problems")
        if isinstance(error := found.get("error"), dict):
            detail = error.get("message")
        if not isinstance(detail, str):
            return self._stranger(exchange)
        said = [
            f"  {one['path']}: expected {one['expected']}, found {one['found']}" for one in problems or []
        ]
        return CallFailed("\n".join([detail, *said]))

    async def tools(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        await self._open()
        try:
            while True:
                result = await self._ask("tools/list", params)
                page, cursor = result.get("tools"), result.get("nextCursor")
                if not isinstance(page, list) or cursor == params.get("cursor", ...):
                    raise CallFailed(f"what answers at {self._url} does not list tools as MCP has it")
                found += [tool for tool in page if isinstance(tool, dict) and "name" in tool]
                if cursor is None:
                    return found
                params = {"cursor": cursor}
        finally:
            await self._close()

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        await self._open()
        try:
            return await self._ask(
                "tools/call",
                {"name": tool, "arguments": arguments, "_meta": {"progressToken": "portico-call"}},
            )
        finally:
            await self._close()

    async def _open(self) -> None:
        self._http = HttpClient()
        about = {"name": "portico call", "version": "1"}
        params = {"protocolVersion": versions.NEWEST_LEGACY, "capabilities": {}, "clientInfo": about}
        exchange = await self._post(jsonrpc.request(0, "initialize", params))
        await self._result(exchange, 0)
        self._session = [(b"mcp-session-id", exchange.headers.get(b"mcp-session-id", b""))]
        told = await self._post(jsonrpc.notification("notifications/initialized"))
        await told.head(SECONDS)
        told.close()

    async def _close(self) -> None:
        with contextlib.suppress(BackendError):  # the answer is there, or what went wrong is known
            exchange = await self._http.open(b"DELETE", self._url, self._session)
            await exchange.head(5)
        self._http.close()

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self._result(await self._post(jsonrpc.request(1, method, params)), 1)

    async def _post(self, body: bytes) -> Exchange:
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            *self._session,
        ]
        return await self._request(b"POST", self._url, headers, body)

    async def _request(self, verb: bytes, url: str, headers: Headers, body: bytes = b"") -> Exchange:
        try:
            held = await token(self._url)
            own = [(b"authorization", f"Bearer {held}".encode())] if held else []
            exchange = await self._http.open(verb, url, [*headers, *own], body)
            await exchange.head(SECONDS)
        except BackendUnreachable:
            raise CallFailed(f"no gateway answers at {self._url}; {START}") from None
        except BackendError as error:
            raise CallFailed(f"the connection to {self._url} broke ({error})") from None
        self._admitted(exchange)
        return exchange

    def _admitted(self, exchange: Exchange) -> None:
        """Where a token is missing, or is not enough, whoever typed the command is told what to type."""
        said = bearer(exchange.headers.get(b"www-authenticate", b"").decode("latin-1")) or {}
        if exchange.status == 401:
            why = "does not accept your token any more" if "error" in said else "asks for a token"
            raise CallFailed(f"{self._url} {why}: portico login {self._url}")
        if exchange.status == 403 and said.get("error") == "insufficient_scope":
            named = [
                scope for scope in said.get("scope", "").split() if scope.isascii() and scope.isprintable()
            ]
            scopes = "".join(f" --scope {shlex.quote(scope)}" for scope in named)
            if not scopes:
                raise CallFailed("you may not do that, whatever token you have")
            raise CallFailed(f"you need more for that: portico login {self._url}{scopes}")

    async def _result(self, exchange: Exchange, id_: int) -> dict[str, Any]:
        message = await self._message(exchange, id_, SECONDS)
        if isinstance(error := message.get("error"), dict):
            raise CallFailed(f"{error.get('message')} ({error.get('code')})")
        result = message.get("result")
        if not isinstance(result, dict):
            raise self._stranger(exchange)
        return result

    async def _message(self, exchange: Exchange, id_: int | None, seconds: float) -> dict[str, Any]:
        """The JSON of an answer, whether it comes by itself or in a stream."""
        try:
            await exchange.head(seconds)
            if exchange.is_stream:
                return await self._streamed(exchange, id_)
            message = json.loads(await exchange.body(1 << 30, seconds))
        except BackendError as error:
            raise CallFailed(f"the connection to {self._url} broke ({error})") from None
        except ValueError:
            raise self._stranger(exchange) from None
        finally:
            exchange.close()
        if not isinstance(message, dict):
            raise self._stranger(exchange)
        return message

    async def _streamed(self, exchange: Exchange, id_: int | None) -> dict[str, Any]:
        decoder = sse.Decoder(1 << 30)
        while chunk := await exchange.chunk(SECONDS):
            for frame in decoder.feed(chunk):
                message = json.loads(frame.data) if frame.data else {}
                if not isinstance(message, dict):
                    raise self._stranger(exchange)
                if message.get("id") == id_ and "method" not in message:
                    return message
                _show_progress(message)
        raise CallFailed("the gateway ended its stream without an answer")

    def _stranger(self, exchange: Exchange) -> CallFailed:
        return CallFailed(f"what answers at {self._url} is no MCP gateway (HTTP status {exchange.status})")


def _show_progress(message: dict[str, Any]) -> None:
    if message.get("method") == "notifications/progress":
        params = message.get("params") or {}
        total = f"/{params['total']}" if "total" in params else ""
        print(f"{params.get('progress')}{total} {params.get('message', '')}".rstrip(), file=sys.stderr)
