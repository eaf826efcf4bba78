"""One line per request of a client: what it was, where it went, what became of it.

`portico.calls` has the lines of requests. Below INFO there is nothing to it: requests are not even looked at. Where everybody
is asked who he is, they are the audit's (`authz.audit`) instead, always, and say who, what was decided, and why.
"""

import json
import logging
import time
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from authz.audit import Decided, note
from authz.challenge import Refusal
from authz.model import Principal, Target
from portico.client import Send
from portico.protocol import sse
from portico.protocol.jsonrpc import BACKEND_FAILED, BACKEND_TIMED_OUT, Message
from portico.replies import Reply
from portico.router import Decision, Forward, Refuse, UnknownTool

Outcome = Literal["ok", "tool_error", "backend_error", "refused", "failed", "gone"]

LOOKED_INTO: Final = 1 << 20
"""Larger answers are taken for good ones."""
NAME: Final = 128

calls = logging.getLogger("portico.calls")


@dataclass(slots=True)
class Call:
    """A request under way: what it is, and in the end what became of it."""

    method: str
    tool: str = ""
    backend: str = ""
    outcome: Outcome | None = None
    audited: Decided | None = None
    """What was decided, and for whom; None where nobody is asked."""
    _began: float = field(default_factory=time.perf_counter)

    def asked(self, message: Message) -> None:
        self.method = (message.method or message.kind)[:NAME]
        name = message.param("name") or message.param("uri")
        self.tool = name[:NAME] if isinstance(name, str) else ""

    def admitted(self, principal: Principal) -> None:
        if self.audited is not None:
            self.audited.of(principal)

    def judged(self, target: Target, refused: Refusal | None, reason: str) -> None:
        self.backend = target.backend
        if self.audited is not None:
            self.audited.allowed(reason)
        if refused is not None:
            self.refused(refused)

    def refused(self, refused: Refusal) -> None:
        self.outcome = "refused" if refused.status < 500 else "failed"
        if self.audited is not None:
            self.audited.refused(refused)

    def part(self) -> "Call":
        """For a message of a batch."""
        return Call("", audited=replace(self.audited) if self.audited else None)

    def decided(self, decision: Decision) -> None:
        if isinstance(decision, Forward):
            self.backend = decision.backend
        elif isinstance(decision, Refuse | UnknownTool):
            self.outcome = "refused"

    def seen_by(self, send: Send) -> Send:
        """For answers that are given by others: the status is all there is to see."""

        async def seen(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]
                self.end("ok" if status < 400 else "refused" if status < 500 else "failed", status)

        return seen

    def watched(self, reply: Reply) -> Reply:
        """The same reply; the line is written when it is there, or has been sent as a stream."""
        if reply.frames is None:
            self._answered(reply.status, reply.body)
            return reply
        frames = self._frames(reply.frames, reply.status)
        return Reply(reply.status, b"", frames, reply.session_id, reply.headers)

    async def _frames(self, frames: AsyncIterator[bytes], status: int) -> AsyncIterator[bytes]:
        whole = False
        try:
            async for piece in frames:
                if _may_fail(piece):
                    for frame in sse.Decoder(1 << 30).feed(piece):
                        self._seen(frame.data)
                yield piece
            whole = True
        finally:
            await frames.aclose()  # type: ignore[attr-defined]
            self.end((self.outcome or "ok") if whole else "gone", status)

    def _answered(self, status: int, body: bytes) -> None:
        if self.outcome is None and not self.backend and status >= 400:
            self.outcome = "refused" if status < 500 else "failed"
        self._seen(body)
        self.end(self.outcome or "ok", status)

    def _seen(self, data: bytes) -> None:
        if self.outcome is None and self.backend and _may_fail(data):
            self.outcome = outcome_of(data)

    def end(self, outcome: Outcome, status: int) -> None:
        ms = round((time.perf_counter() - self._began) * 1000, 1)
        said: dict[str, str | int | float] = {
            "method": self.method,
            "tool": self.tool,
            "backend": self.backend,
            "outcome": outcome,
            "status": status,
            "duration_ms": ms,
        }
        if self.audited is not None:
            note(self.audited, said)
            return
        at = f" at {self.backend}" if self.backend else ""
        what = f"{self.method} {self.tool}".rstrip()
        calls.info("%s%s: %s, %d in %g ms", what, at, outcome, status, ms, extra=said)


def _may_fail(data: bytes) -> bool:
    return b'"error"' in data or b'"isError"' in data


def outcome_of(answer: bytes) -> Outcome | None:
    """What a JSON-RPC answer tells of its call; None where it is no answer."""
    if len(answer) > LOOKED_INTO:
        return None
    try:
        message = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"error": {"code": code, "data": {"backend": str()}}} if code in FAILED:
            return "backend_error"
        case {"error": dict()} | {"result": {"isError": True}}:
            return "tool_error"
        case {"result": _}:
            return "ok"
    return None


FAILED: Final = (BACKEND_FAILED, BACKEND_TIMED_OUT)
