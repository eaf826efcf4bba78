"""A legacy backend's call that is kept while its modern client goes away to find answers.

A continuation is the process that holds the upstream stream. It reads its own box for what clients do (a retry with
answers, a cancellation) and writes what the backend says into the box of the request that the round came with. Rounds
may come in at any instance, and the same one twice, of which only the first counts; see `modern_to_legacy`.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from portico.carriers.leases import Lease, Leases
from portico.errands import Errands
from portico.errors import BackendBroken, BackendError, BackendTimedOut, Unheard, unheard_said
from portico.mailbox import Mailbox
from portico.protocol import jsonrpc, sse, translate
from portico.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Id, Message, Rejection
from portico.registry import Limits
from portico.relay import check_answer, forgotten, head, one_line, refuse_other_than_200, whole
from portico.stores.base import Store

LOOK_S: Final = 0.25
ALIVE_S: Final = 5.0
GATHER_S: Final = 0.03
"""Questions that come this close together are asked in one round."""
MOST_QUESTIONS: Final = 100
MOST_NOTES: Final = 1000
"""Notifications kept for a client that is away."""
HELD: Final = "HELD"
"""The partition with one record for each call that waits for its client."""

DROPPED: Final = frozenset({"notifications/elicitation/complete", "notifications/resources/updated"})
"""Not said within a modern call: the first is gone, the second has its own stream."""

log = logging.getLogger("portico.carriers")


@dataclass(frozen=True, slots=True)
class Question:
    upstream_id: Id
    method: str
    params: Any


class Continuation:
    def __init__(
        self,
        id_: str,
        box: str,
        lease: Lease,
        method: str,
        body: bytes,
        call_id: str,
        mailbox: Mailbox,
        store: Store,
        leases: Leases,
        errands: Errands,
        limits: Callable[[], Limits],
    ) -> None:
        self.id = id_
        self._lease = lease
        self._method = method
        self._body = body
        self._call_id = call_id
        self._mailbox = mailbox
        self._store = store
        self._leases = leases
        self._errands = errands
        self._limits = limits
        self._inbox: asyncio.Queue[Message | BackendError | dict[str, Any]] = asyncio.Queue()
        self._box: str | None = box
        """Of the request whose round is on; None while the client is away."""
        self._round = 1
        """The next one."""
        self._held_until = 0.0
        self._asked = 0
        self._ask_at = 0.0
        self._questions: dict[str, Question] = {}
        self._notes: list[str] = []
        self._notes_size = 0
        self._end: dict[str, Any] | None = None
        self._over = False
        self._intact = False
        self._last_heard = time.monotonic()
        self._letters = mailbox.open(id_)

    async def run(self) -> None:
        self._lease.heard = self._inbox.put_nowait
        work = [asyncio.create_task(self._call()), asyncio.create_task(self._read())]
        try:
            while not self._over:
                await self._step()
        except Exception:  # the boundary: whoever waits for the call is told that it is over
            log.exception("a call failed")
            why = [500, INTERNAL_ERROR, "Internal error", "the gateway failed; see its log"]
            await self._tell({"kind": "failed", "error": why})
        finally:
            self._letters.close()
            for task in work:
                task.cancel()
            self._let_go()
            if self._asked:
                await self._store.delete(HELD, self.id)

    # What comes in

    async def _call(self) -> None:
        try:
            await self._listen_to_call()
        except BackendError as error:
            self._inbox.put_nowait(error)
        except sse.FrameTooLarge as error:
            self._inbox.put_nowait(BackendBroken(str(error)))

    async def _listen_to_call(self) -> None:
        lease, limits = self._lease, self._limits()
        exchange = await lease.backend.post(lease.upstream, self._body, lease.sent)
        try:
            await head(exchange, limits.answer_ttl_s)
            if await forgotten(exchange):
                await self._leases.renew(lease)
                exchange = await lease.backend.post(lease.upstream, self._body, lease.sent)
                await head(exchange, limits.answer_ttl_s)
            await refuse_other_than_200(exchange)
            body = await whole(exchange, limits)
            if body is not None:
                check_answer(body, self._call_id)
                self._inbox.put_nowait(_message(body))
                return
            decoder = sse.Decoder(limits.response_bytes)
            while chunk := await exchange.chunk(limits.answer_ttl_s):
                self._last_heard = time.monotonic()
                for frame in decoder.feed(chunk):
                    if frame.data:
                        self._inbox.put_nowait(_message(frame.data))
            raise BackendBroken("the backend ended its stream without an answer")
        finally:
            exchange.close()

    async def _read(self) -> None:
        """What clients do. Only while the call is held, or its round is elsewhere, can that come from another process,
        which must be told now and then that this one is still there."""
        told = time.monotonic()
        while True:
            elsewhere = self._box is not None and not self._mailbox.is_open(self._box)
            if elsewhere and time.monotonic() > told + ALIVE_S:
                told = time.monotonic()
                await self._tell({"kind": "held"})
            look = self._box is None or elsewhere
            letter = await self._letters.next(LOOK_S, look=look)
            if letter is not None:
                self._inbox.put_nowait(json.loads(letter))

    # What follows from it

    async def _step(self) -> None:
        try:
            async with asyncio.timeout(self._patience()):
                news = await self._inbox.get()
        except TimeoutError:
            await self._time_out()
            return
        if isinstance(news, dict):
            await self._client_did(news)
        elif isinstance(news, BackendError):
            refused = news.rejection(self._lease.backend.name, None)
            why = [refused.status, refused.code, refused.message, refused.data]
            unheard = unheard_said(news) if isinstance(news, Unheard) else None
            await self._ended({"kind": "failed", "error": why, "unheard": unheard})
        else:
            self._last_heard = time.monotonic()
            await self._backend_said(news)

    def _patience(self) -> float:
        limits = self._limits()
        if self._box is None:
            return max(self._held_until - time.monotonic(), 0)
        if self._questions:
            return max(self._ask_at - time.monotonic(), 0)
        return max(self._last_heard + limits.call_timeout_s - time.monotonic(), 0)

    async def _time_out(self) -> None:
        if self._box is None:
            self._over = True
        elif self._questions:
            await self._ask()
        elif not self._patience():
            seconds = self._limits().call_timeout_s
            silent = BackendTimedOut(f"the backend has been silent for {seconds:g} s")
            self._inbox.put_nowait(silent)

    async def _ask(self) -> None:
        """Hand the questions to the client, and wait for it to come back."""
        questions = {
            key: translate.question_to_modern(question.method, question.params)
            for key, question in self._questions.items()
        }
        hold_s = self._limits().hold_s
        await self._store.put(HELD, self.id, b"", expires_at=time.time() + hold_s)
        await self._tell({"kind": "questions", "questions": questions, "next": [self.id, self._round]})
        self._box, self._held_until = None, time.monotonic() + hold_s

    async def _client_did(self, letter: dict[str, Any]) -> None:
        if letter["kind"] == "cancel":
            self._over = letter["box"] == self._box
            return
        if self._box is not None or letter["round"] != self._round:
            await self._mailbox.post(letter["box"], b'{"kind":"past"}')
            return
        self._box, self._round = letter["box"], self._round + 1
        self._last_heard = time.monotonic()
        await self._tell({"kind": "held"})
        for text in self._notes:
            await self._tell({"kind": "note", "text": text})
        self._notes, self._notes_size = [], 0
        await self._answer_questions(letter["responses"])
        if self._end is not None:
            await self._ended(self._end)

    async def _answer_questions(self, responses: dict[str, Any]) -> None:
        """One that was not answered stays a question."""
        for key in [key for key in self._questions if key in responses]:
            question = self._questions.pop(key)
            await self._send(jsonrpc.result(question.upstream_id, responses[key]))

    async def _backend_said(self, message: Message) -> None:
        if message.kind == "response":
            if message.id == self._call_id:
                self._intact = True
                await self._ended({"kind": "answer", "text": message.text})
        elif message.kind == "request":
            await self._asked_by_backend(message)
        elif message.method == "notifications/cancelled":
            gone = message.param("requestId")
            self._questions = {key: q for key, q in self._questions.items() if q.upstream_id != gone}
        elif self._concerns_call(message):
            await self._note(message.text)

    def _concerns_call(self, message: Message) -> bool:
        """A session outlives its calls, and a backend may go on about one that is over."""
        if message.method == "notifications/progress":
            return bool(message.param("progressToken") == self._call_id)
        return message.method not in DROPPED and not message.method.endswith("/list_changed")

    async def _note(self, text: str) -> None:
        if self._box is not None:
            await self._tell({"kind": "note", "text": text})
        elif len(self._notes) < MOST_NOTES and self._notes_size + len(text) <= self._limits().response_bytes:
            self._notes.append(text)
            self._notes_size += len(text)

    async def _asked_by_backend(self, message: Message) -> None:
        if message.method == "ping":
            await self._send(jsonrpc.result(message.id, {}))
        elif self._may_ask(message.method):
            params = message.top["params"].value if "params" in message.top else {}
            self._questions[f"{message.method.partition('/')[0]}-{self._asked}"] = Question(
                message.id, message.method, params
            )
            self._asked += 1
            self._ask_at = time.monotonic() + GATHER_S
        else:
            unknown = Rejection(200, METHOD_NOT_FOUND, f"Method not found: {message.method}", id=message.id)
            await self._send(jsonrpc.error(unknown))

    def _may_ask(self, method: str) -> bool:
        """Only what the client said it can answer, and only where its era has rounds."""
        able = (
            translate.ASKABLE.get(method) in self._lease.capabilities
            and len(self._questions) < MOST_QUESTIONS
        )
        return able and self._method in translate.ROUND_METHODS

    async def _send(self, body: bytes) -> None:
        try:
            await self._lease.backend.tell(self._lease.upstream, body, self._lease.sent, 10)
        except BackendError as error:
            self._inbox.put_nowait(error)

    async def _tell(self, letter: dict[str, Any]) -> None:
        if self._box is not None:
            await self._mailbox.post(self._box, jsonrpc.dumps(letter).encode())

    async def _ended(self, end: dict[str, Any]) -> None:
        """Told at once, or to the client that comes back."""
        if self._box is None:
            self._end = end
            return
        await self._tell(end)
        self._over = True

    def _let_go(self) -> None:
        if self._intact:
            self._leases.give_back(self._lease)
            return
        params = {"requestId": self._call_id, "reason": "client gone"}
        cancelled = jsonrpc.notification("notifications/cancelled", params)
        self._errands.run(self._give_up(cancelled))

    async def _give_up(self, cancelled: bytes) -> None:
        try:
            await self._lease.backend.tell(self._lease.upstream, cancelled, self._lease.sent, 10)
        finally:
            self._leases.end(self._lease)


def _message(data: bytes) -> Message:
    message = jsonrpc.read_bytes(one_line(data))
    if not isinstance(message, Message):
        raise BackendBroken("the backend sent an event that is not JSON-RPC")
    return message
