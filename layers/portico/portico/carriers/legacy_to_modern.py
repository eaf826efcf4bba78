"""A legacy client's request at a modern backend: in as many rounds as the backend has questions.

What the backend needs to know before it can answer is asked of the client on the stream of its call. The answers may
come in at any instance: they are letters to the call's box, and so is a cancellation.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from portico.backends.remote import RemoteBackend
from portico.carriers.modern import mirrored, refused
from portico.carriers.pieces import Pieces, replied
from portico.errors import BackendBroken, BackendError, BackendTimedOut, Unheard
from portico.http1 import Exchange, Headers
from portico.mailbox import Mailbox
from portico.protocol import jsonrpc, mirrors, sse, translate
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id, Message, Rejection
from portico.protocol.tickets import Ticket, issue_ticket
from portico.registry import Limits
from portico.relay import head, one_line, whole
from portico.replies import Reply
from portico.requests import LegacyRequest
from portico.sessions import Sessions
from portico.upstream import Upstream

MOST_ROUNDS: Final = 100
"""A backend that asks on and on is not taken seriously for ever."""
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""Before a backend that has no question, but is not ready either, is asked again."""
LOOK_AFTER_S: Final = 0.3
"""Only then is it worth looking into the store for a cancellation that came in elsewhere."""

Letter = dict[str, Any]


def call_box(session_id: str, request_id: Id) -> str:
    return f"{session_id}#{jsonrpc.dumps(request_id)}"


class LegacyToModern:
    def __init__(
        self, sessions: Sessions, upstream: Upstream, mailbox: Mailbox, limits: Callable[[], Limits]
    ) -> None:
        self._sessions = sessions
        self._upstream = upstream
        self._mailbox = mailbox
        self._limits = limits

    async def carry(
        self, backend: RemoteBackend, body: bytes, upstream_name: str, request: LegacyRequest, sent: Headers
    ) -> Reply:
        message = request.message
        if message.method in ("resources/subscribe", "resources/unsubscribe"):
            wanted = backend.name if message.method == "resources/subscribe" else None
            await self._sessions.change(request.session, subscribe=(message.param("uri"), wanted))
            await self._upstream.attend(request.session.id)
            return Reply(200, jsonrpc.result(message.id, {}))
        headers = [*sent, *mirrored(message.method, upstream_name), *_params(request)]
        call = _Call(backend, body, request, headers, self._mailbox, self._limits())
        return await replied(call.pieces(), request.headers)


def _params(request: LegacyRequest) -> Headers:
    message = request.message
    if message.method != "tools/call":
        return []
    entry = request.catalogue.tool(message.param("name"))
    wanted = mirrors.param_headers(entry.mirrors if entry else (), message.param("arguments"))
    return [(name.encode(), value.encode()) for name, value in wanted.items()]


class _Call:
    def __init__(
        self,
        backend: RemoteBackend,
        body: bytes,
        request: LegacyRequest,
        sent: Headers,
        mailbox: Mailbox,
        limits: Limits,
    ) -> None:
        self._backend = backend
        self._body = body.decode()
        self._request = request
        self._message = request.message
        self._sent = sent
        self._limits = limits
        session = request.session
        self._meta = translate.envelope(session.client, session.capabilities, session.level)
        self._letters = mailbox.open(call_box(session.id, request.message.id))
        self._answers: asyncio.Queue[Letter] = asyncio.Queue()
        self._exchange: Exchange | None = None
        self._cancelled = False
        self._heard = False
        self._reader: asyncio.Task[None] | None = None

    async def pieces(self) -> Pieces:
        """Messages for the client, the last of them marked. Nothing more once the client has cancelled.

        A backend that turns out to be of another era before it has said anything is the caller's business.
        """
        self._reader = asyncio.create_task(self._read())
        try:
            async for piece in self._rounds():
                yield piece
        except (BackendError, sse.FrameTooLarge) as error:
            if isinstance(error, Unheard) and not self._heard:
                raise
            if not self._cancelled:
                failure = error if isinstance(error, BackendError) else BackendBroken(str(error))
                yield 200, jsonrpc.error(failure.rejection(self._backend.name, self._message.id))
        finally:
            self._letters.close()
            self._reader.cancel()
            if self._exchange is not None:
                self._exchange.close()

    async def _read(self) -> None:
        letter = await self._letters.next(LOOK_AFTER_S, look=False)
        while True:
            if letter is not None:
                found: Letter = json.loads(letter)
                if found["kind"] == "cancel":
                    self._cancelled = True
                    if self._exchange is not None:
                        self._exchange.close()
                self._answers.put_nowait(found)
            letter = await self._letters.next(60, look=True)

    async def _rounds(self) -> Pieces:
        params: dict[str, Any] = {}
        for number in range(MOST_ROUNDS):
            answer: Message | None = None
            async for message in self._said(f"{jsonrpc.dumps(self._message.id)}-{number}", params):
                self._heard = True
                if message is None or message.kind == "notification":
                    yield 0, message.text.encode() if message else b""
                else:
                    answer = message
            needed = _needed(answer) if answer and not self._cancelled else None
            if needed is None:
                if answer and not self._cancelled:
                    yield 200, translate.result_to_legacy(answer, self._message.method, self._message.id)
                return
            responses: dict[str, Any] = {}
            questions = needed.get("inputRequests") or {}
            if not questions:
                await asyncio.sleep(min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S))
            async for piece in self._ask(questions, responses):
                yield piece
                if piece[0]:
                    return
            if self._cancelled:
                return
            params = {"inputResponses": responses, "requestState": needed.get("requestState")}
        raise BackendBroken(f"the backend asks on after {MOST_ROUNDS} rounds")

    async def _ask(self, questions: dict[str, Any], responses: dict[str, Any]) -> Pieces:
        """Put the backend's questions to the client, and wait until each is answered."""
        if questions and not accepts(self._request.headers, "text/event-stream"):
            mute = "the backend has questions, and this client takes no stream to be asked on"
            yield 200, jsonrpc.error(Rejection(200, INVALID_REQUEST, mute, id=self._message.id))
            return
        for key, question in questions.items():
            yield 0, self._question(key, question)
        async for letter in self._answered(set(questions)):
            if letter is None:
                yield 0, b""
            elif "error" in letter:
                yield 200, self._failed(letter["error"])
                return
            else:
                responses[letter["key"]] = letter["result"]

    async def _opened(self, body: bytes) -> Exchange:
        self._exchange = await self._backend.post(self._backend.modern, body, self._sent)
        if self._cancelled:  # meanwhile, when there was nothing to close yet
            self._exchange.close()
        await head(self._exchange, self._limits.call_timeout_s)
        return self._exchange

    async def _said(self, id_: str, params: dict[str, Any]) -> AsyncIterator[Message | None]:
        """What the backend says in one round, None in silence; its answer comes last."""
        limits = self._limits
        body = translate.to_modern(self._body, id_, self._meta, task=None, **params)
        exchange = await self._opened(body)
        asked = Message("", "request", self._message.method, id_, {}, {})
        if exchange.status != 200:
            yield _message((await refused(exchange, asked)).body, id_)
            return
        whole_body = await whole(exchange, limits)
        if whole_body is not None:
            yield _message(whole_body, id_)
            return
        decoder, silent = sse.Decoder(limits.response_bytes), 0.0
        while True:
            chunk = await exchange.chunk(limits.keepalive_s)
            silent = silent + limits.keepalive_s if chunk is None else 0.0
            if silent >= limits.call_timeout_s:
                raise BackendTimedOut(f"the backend has been silent for {limits.call_timeout_s:g} s")
            if chunk == b"":
                raise BackendBroken("the backend ended its stream without an answer")
            if chunk is None:
                yield None
            for frame in decoder.feed(chunk or b""):
                message = _message(frame.data, id_) if frame.data else None
                if message is not None:
                    yield message
                    if message.kind == "response":
                        exchange.close()
                        return

    def _question(self, key: str, question: Any) -> bytes:
        """An input request as a request of its own, under an id that finds its way back to this call."""
        if not isinstance(question, dict) or question.get("method") not in translate.ASKABLE:
            raise BackendBroken("the backend asks for something that clients do not have")
        session_id = self._request.session.id
        expires_at = time.time() + self._limits.answer_ttl_s
        ticket = issue_ticket(session_id, Ticket(self._backend.name, [self._message.id, key]), expires_at)
        method = question["method"]
        params = translate.question_to_legacy(method, question.get("params"), str(uuid.uuid4()))
        return jsonrpc.request(ticket, method, params)

    async def _answered(self, keys: set[str]) -> AsyncIterator[Letter | None]:
        """The client's answers as they come, None in silence."""
        deadline = time.monotonic() + self._limits.answer_ttl_s
        while keys and not self._cancelled:
            try:
                async with asyncio.timeout(self._limits.keepalive_s):
                    letter = await self._answers.get()
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise BackendTimedOut("the client has not answered what the backend asked") from None
                yield None
                continue
            if letter["kind"] == "answer" and letter["key"] in keys:
                keys.discard(letter["key"])
                yield letter

    def _failed(self, error: Any) -> bytes:
        """What a client refuses to answer ends its call: no modern backend can be told of an error."""
        said = error if isinstance(error, dict) else {}
        code, text = said.get("code"), said.get("message")
        return jsonrpc.error(
            Rejection(
                200,
                code if isinstance(code, int) else INTERNAL_ERROR,
                f"the client did not answer what the backend asked: {text}",
                id=self._message.id,
            )
        )


def _needed(answer: Message) -> dict[str, Any] | None:
    """The result, where it is a request for more."""
    if "result" not in answer.top:
        return None
    result = answer.top["result"].value
    if not isinstance(result, dict) or not isinstance(result.get("inputRequests", {}), dict):
        raise BackendBroken("the backend's result is not one that MCP has")
    return result if result.get("resultType") == "input_required" else None


def _message(data: bytes, id_: str) -> Message:
    message = jsonrpc.read_bytes(one_line(data))
    if not isinstance(message, Message) or message.kind == "request" or message.id not in (None, id_):
        raise BackendBroken("the backend sent what a modern server does not send")
    return message
