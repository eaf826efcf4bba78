"""A small MCP client for the commands that talk to a running gateway."""

import json
import sys
from typing import Any
from urllib.parse import urljoin

from portico.errors import BackendError
from portico.http1 import Exchange, Headers, HttpClient
from portico.protocol import jsonrpc, sse, versions

SECONDS = 3600.0


class CallFailed(Exception):
    pass


class Caller:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http: HttpClient
        self._session: Headers = []

    async def get(self, path: str) -> dict[str, Any]:
        http = HttpClient()
        try:
            exchange = await http.open(b"GET", urljoin(self._url, path), [])
            await exchange.head(10)
            found: dict[str, Any] = json.loads(await exchange.body(1 << 26, 10))
        except (BackendError, ValueError) as error:
            raise CallFailed(f"no gateway answers at {self._url} ({error})") from None
        finally:
            http.close()
        return found

    async def tools(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        await self._open()
        try:
            while True:
                result = await self._ask("tools/list", params)
                found += result["tools"]
                if "nextCursor" not in result:
                    return found
                params = {"cursor": result["nextCursor"]}
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
        try:
            return await self._http.open(b"POST", self._url, headers, body)
        except BackendError as error:
            raise CallFailed(f"no gateway answers at {self._url} ({error})") from None

    async def _result(self, exchange: Exchange, id_: int) -> dict[str, Any]:
        try:
            await exchange.head(SECONDS)
            if exchange.headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                message = await self._streamed(exchange, id_)
            else:
                message = json.loads(await exchange.body(1 << 30, SECONDS))
        except (BackendError, ValueError) as error:
            raise CallFailed(str(error)) from None
        finally:
            exchange.close()
        if "error" in message:
            raise CallFailed(f"{message['error']['message']} ({message['error']['code']})")
        found: dict[str, Any] = message["result"]
        return found

    async def _streamed(self, exchange: Exchange, id_: int) -> dict[str, Any]:
        decoder = sse.Decoder(1 << 30)
        while chunk := await exchange.chunk(SECONDS):
            for frame in decoder.feed(chunk):
                message: dict[str, Any] = json.loads(frame.data) if frame.data else {}
                if message.get("id") == id_ and "method" not in message:
                    return message
                _show_progress(message)
        raise CallFailed("the gateway ended its stream without an answer")


def _show_progress(message: dict[str, Any]) -> None:
    if message.get("method") == "notifications/progress":
        params = message["params"]
        total = f"/{params['total']}" if "total" in params else ""
        print(f"{params.get('progress')}{total} {params.get('message', '')}".rstrip(), file=sys.stderr)
