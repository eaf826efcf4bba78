"""The way back from the browser: one request on loopback, with the state that was sent along."""

import asyncio
import hmac
import secrets
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from portico.cli.login.asking import LoginFailed

PATH: Final = "/callback"
_PAGE: Final = (
    b"HTTP/1.1 %s\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n"
    b"content-security-policy: default-src 'none'\r\n\r\n%s"
)


class Waiting:
    def __init__(self) -> None:
        self.state = secrets.token_urlsafe(24)
        self._said: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._visited, "127.0.0.1", 0, limit=65_536)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{PATH}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def said(self, seconds: float) -> dict[str, str]:
        """The parameters that the browser brings back. Raises LoginFailed."""
        try:
            async with asyncio.timeout(seconds):
                return await self._said
        except TimeoutError:
            raise LoginFailed(f"nobody came back from the browser within {seconds:g} s") from None

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                found = self._read(await reader.readuntil(b"\r\n\r\n"))
                text = b"You may close this page." if found else b"This is not what was waited for."
                status = b"200 OK" if found else b"400 Bad Request"
                writer.write(_PAGE % (status, len(text), text))
                await writer.drain()
            if found and not self._said.done():
                self._said.set_result(found)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not the browser that is waited for
        finally:
            writer.close()

    def _read(self, request: bytes) -> dict[str, str] | None:
        verb, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        parts = urlsplit(f"//x{rest.partition(' ')[0]}")
        said = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        known = hmac.compare_digest(said.get("state", "").encode(), self.state.encode())
        return said if verb == "GET" and parts.path == PATH and known else None
