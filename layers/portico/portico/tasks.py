"""Tasks: which backend has the one that a client asks about.

Within an era tasks are relayed as they are. A task's id is its backend's, so what must be kept is whose it is: the
first to name it keeps it, and only for the client that was told of it.
"""

import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from portico.protocol import jsonrpc, sse
from portico.protocol.jsonrpc import Message
from portico.protocol.modern import TASKS_EXTENSION
from portico.replies import Reply
from portico.requests import LegacyRequest, ModernRequest, Request
from portico.stores.base import ABSENT, Conflict, Store

KEPT_S: Final = 86_400.0
"""For as long as this at least, and longer where the backend says so."""


class Tasks:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def owner(self, request: Request, task: str) -> str | None:
        """The backend that has the task, if this client was told of it."""
        record = await self._store.get(_partition(request), task)
        return record.value.decode() if record else None

    async def noticed(self, reply: Reply, request: Request, backend: str) -> Reply:
        """The reply, with any task in it remembered before the client can ask for it."""
        if not may_make_task(request):
            return reply
        if reply.frames is not None:
            frames = self._noticing(reply.frames, request, backend)
            return Reply(reply.status, b"", frames, reply.session_id, reply.headers)
        await self._remember(reply.body, request, backend)
        return reply

    async def _noticing(
        self, frames: AsyncIterator[bytes], request: Request, backend: str
    ) -> AsyncIterator[bytes]:
        decoder = sse.Decoder(1 << 30)
        try:
            async for piece in frames:
                for frame in decoder.feed(piece):
                    await self._remember(frame.data, request, backend)
                yield piece
        finally:
            await frames.aclose()  # type: ignore[attr-defined]

    async def _remember(self, body: bytes, request: Request, backend: str) -> None:
        answer = jsonrpc.read_bytes(body) if b'"taskId"' in body else None
        if not isinstance(answer, Message) or "result" not in answer.top or answer.id != request.message.id:
            return
        task = _task(answer.top["result"].value)
        if task is None:
            return
        said = task.get("ttlMs", task.get("ttl"))
        ttl_s = said / 1000 if isinstance(said, int | float) and not isinstance(said, bool) else 0.0
        expires_at = time.time() + min(max(ttl_s, KEPT_S), 365 * KEPT_S)
        try:
            await self._store.put(
                _partition(request), task["taskId"], backend.encode(), expect=ABSENT, expires_at=expires_at
            )
        except Conflict:
            return


def may_make_task(request: Request) -> bool:
    """Legacy clients ask for a task; modern ones say that they can do with one."""
    if request.message.method != "tools/call":
        return False
    if isinstance(request, LegacyRequest):
        return "task" in request.message.params
    return knows_tasks(request)


def knows_tasks(request: ModernRequest) -> bool:
    extensions = request.envelope.capabilities.get("extensions")
    return isinstance(extensions, dict) and TASKS_EXTENSION in extensions


def _task(result: Any) -> dict[str, Any] | None:
    found = result.get("task", result) if isinstance(result, dict) else None
    return (
        found
        if isinstance(found, dict) and isinstance(found.get("taskId"), str) and found["taskId"]
        else None
    )


def _partition(request: Request) -> str:
    if isinstance(request, LegacyRequest):
        return f"TASK#{request.session.id}"
    return f"TASK#{json.dumps(request.principal)}"


def union(parts: list[Any]) -> dict[str, Any]:
    """All that any of these says, however deep."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items() if isinstance(part, dict) else ():
            found[name] = union([found.get(name), value]) if isinstance(value, dict) else value
    return found
