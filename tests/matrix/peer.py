"""The official SDK's client, of one era, with what the checks need: answers to questions, and what it was told."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

MODES = {"legacy": "legacy", "modern": "auto"}
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
ROOTS = ["file:///home/anna", "file:///srv/data"]
SECONDS = 10.0

Told = Callable[[], Awaitable[str]]


class Peer:
    """One connected client. `answers` says what to put into a form, by the question; `asked` is what was asked."""

    def __init__(self, era: str, prefix: str) -> None:
        self.era = era
        self.prefix = prefix
        self.client: Client
        self.action = "accept"
        self.answers: dict[str, dict[str, Any]] = {}
        self.asked: list[Any] = []
        self.logs: list[Any] = []
        self.notified: asyncio.Queue[Any] = asyncio.Queue()
        self.meeting: asyncio.Barrier | None = None  # all questions meet there before one is answered
        self.streaming = asyncio.Event()  # the standalone stream is open

    @property
    def legacy(self) -> bool:
        return self.era == "legacy"

    def name(self, own: str) -> str:
        return self.prefix + own

    async def call(
        self, tool: str, arguments: dict[str, Any] | None = None, **options: Any
    ) -> CallToolResult:
        return await self.client.call_tool(self.name(tool), arguments or {}, **options)

    async def text(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
        """The one text a tool answers."""
        result = await self.call(tool, arguments, **options)
        assert not result.is_error, result
        (block,) = result.content
        return block.text

    async def names(self, kind: str) -> list[str]:
        """Of all the tools or prompts, or the URIs of all the resources, on all pages; ours only."""
        pages = [page async for page in self.pages(kind)]
        return [name for page in pages for name in page]

    async def pages(self, kind: str) -> AsyncIterator[list[str]]:
        cursor = None
        while True:
            result = await getattr(self.client, f"list_{kind}")(cursor=cursor, cache_mode="bypass")
            yield [item.uri if kind == "resources" else item.name for item in getattr(result, kind)]
            cursor = result.next_cursor
            if cursor is None:
                return

    async def notification(self, method: str) -> Any:
        """The next one of that method."""
        async with asyncio.timeout(SECONDS):
            while (found := await self.notified.get()).method != method:
                pass
        return found

    @asynccontextmanager
    async def watching(self, *kinds: str, uri: str | None = None) -> AsyncIterator[Told]:
        """Yields what waits for the next change: the kind of the list, or the URI."""
        watch = self._subscribed(uri) if self.legacy else self._listening(kinds, uri)
        async with watch as told:
            yield lambda: asyncio.wait_for(told(), SECONDS)

    @asynccontextmanager
    async def _subscribed(self, uri: str | None) -> AsyncIterator[Told]:
        await asyncio.wait_for(self.streaming.wait(), SECONDS)
        if uri is not None:
            await self.client.subscribe_resource(uri)

        async def told() -> str:
            while True:
                notification = await self.notified.get()
                if notification.method == "notifications/resources/updated":
                    return str(notification.params.uri)
                if notification.method.endswith("/list_changed"):
                    return notification.method.split("/")[1]

        yield told
        if uri is not None:
            await self.client.unsubscribe_resource(uri)

    @asynccontextmanager
    async def _listening(self, kinds: tuple[str, ...], uri: str | None) -> AsyncIterator[Told]:
        wanted = {f"{kind}_list_changed": True for kind in kinds}
        async with self.client.listen(**wanted, resource_subscriptions=[uri] if uri else []) as subscription:
            honoured = subscription.honored
            assert all(getattr(honoured, flag) for flag in wanted), honoured
            assert uri is None or honoured.resource_subscriptions == [uri], honoured

            async def told() -> str:
                event = await anext(subscription)
                if isinstance(event, ResourceUpdated):
                    return event.uri
                return type(event).__name__.removesuffix("ListChanged").lower()

            yield told

    async def on_elicit(self, _: Any, params: Any) -> ElicitResult:
        await self._meet(params)
        if params.mode == "url" or self.action != "accept":
            return ElicitResult(action=self.action)
        return ElicitResult(action="accept", content=self.answers[params.message])

    async def on_sample(self, _: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        await self._meet(params)
        content = TextContent(type="text", text=f"<{params.messages[0].content.text}>")
        return CreateMessageResult(role="assistant", content=content, model="mute", stop_reason="endTurn")

    async def on_roots(self, _: Any) -> ListRootsResult:
        await self._meet("roots")
        return ListRootsResult(roots=[Root(uri=uri) for uri in ROOTS])

    async def on_log(self, params: Any) -> None:
        self.logs.append(params)

    async def on_message(self, message: Any) -> None:
        if hasattr(message, "method"):
            self.notified.put_nowait(message)

    async def on_response(self, response: httpx2.Response) -> None:
        if response.request.method == "GET" and response.status_code == 200:
            self.streaming.set()

    async def _meet(self, asked: Any) -> None:
        self.asked.append(asked)
        if self.meeting is not None:
            await asyncio.wait_for(self.meeting.wait(), SECONDS)


@asynccontextmanager
async def connected(url: str, era: str, prefix: str = "") -> AsyncIterator[Peer]:
    """A modern client asks `server/discover` first, so it could fall back to the other era: that is an error here."""
    peer = Peer(era, prefix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)  # old features are the point here
        async with create_mcp_http_client() as http:
            http.event_hooks = {"response": [peer.on_response]}
            peer.client = Client(
                streamable_http_client(url, http_client=http),
                mode=MODES[era],
                elicitation_callback=peer.on_elicit,
                sampling_callback=peer.on_sample,
                list_roots_callback=peer.on_roots,
                logging_callback=peer.on_log,
                message_handler=peer.on_message,
            )
            async with peer.client:
                version = peer.client.protocol_version
                assert version == VERSIONS[era], f"spoke {version} with a {era} client"
                yield peer


async def until(check: Callable[[], Any], seconds: float = SECONDS) -> None:
    """As `support.eventually`, without holding up the client."""
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.02)
