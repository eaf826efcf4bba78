"""A modern client's request at a legacy backend: in rounds, as many as the backend has questions.

Each request reads a box of its own that the continuation writes to, in this process or in another.
"""

import asyncio
import json
import logging
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from portico.backends.remote import RemoteBackend
from portico.carriers.continuations import ALIVE_S, HELD, Continuation
from portico.carriers.leases import Lease, Leases
from portico.carriers.pieces import Pieces, replied
from portico.errands import Errands
from portico.errors import BackendBroken, unheard_again
from portico.http1 import Headers
from portico.mailbox import Letters, Mailbox
from portico.protocol import jsonrpc, modern, states, translate
from portico.protocol.jsonrpc import INVALID_PARAMS, Message, Rejection
from portico.protocol.states import State
from portico.registry import Limits, Registry
from portico.replies import Reply, refusal
from portico.requests import ModernRequest
from portico.stores.base import ABSENT, Conflict, Store

SECRET: Final = ("SECRET", "request-state")
ENDED: Final = "the call that this requestState belongs to has ended"
PAST: Final = "the call that this requestState belongs to has gone on"
ANSWERED_S: Final = 5.0
"""How long the holder of a call may take to notice that its client is back."""
SILENT_S: Final = 3 * ALIVE_S
"""How long a holder elsewhere may be silent before it is taken for dead."""

log = logging.getLogger("portico.carriers")

Letter = dict[str, Any]


class ModernToLegacy:
    def __init__(
        self, mailbox: Mailbox, store: Store, errands: Errands, registry: Callable[[], Registry]
    ) -> None:
        self._mailbox = mailbox
        self._store = store
        self._errands = errands
        self._registry = registry
        self._leases = Leases(errands, self._limits)
        self._held: set[asyncio.Task[None]] = set()
        self._key = b""

    def _limits(self) -> Limits:
        return self._registry().limits

    @property
    def leases(self) -> Leases:
        return self._leases

    async def carry(
        self, backend: RemoteBackend, body: bytes, request: ModernRequest, sent: Headers
    ) -> Reply:
        text = request.message.param("requestState")
        if text is None:
            return await self._begin(backend, body, request, sent)
        state = await self._unsealed(text, request)
        if isinstance(state, Rejection):
            return refusal(state)
        if not state.continuation:
            return await self._begin(backend, body, request, sent)
        responses = request.message.param("inputResponses")
        if not isinstance(responses, dict) or not all(isinstance(r, dict) for r in responses.values()):
            return refusal(_invalid(request, "inputResponses must be an object of objects"))
        if not self._mailbox.is_open(state.continuation) and not await self._store.get(
            HELD, state.continuation
        ):
            return refusal(_invalid(request, ENDED))
        box = uuid.uuid4().hex
        retry = {"kind": "retry", "round": state.round, "box": box, "responses": responses}
        return await self._round(state.continuation, box, request, retry)

    async def _begin(
        self, backend: RemoteBackend, body: bytes, request: ModernRequest, sent: Headers
    ) -> Reply:
        lease = await self._lease(backend, request, sent)
        call_id, box = f"portico-{uuid.uuid4().hex}", uuid.uuid4().hex
        continuation = Continuation(
            uuid.uuid4().hex,
            box,
            lease,
            request.message.method,
            translate.to_legacy(body.decode(), call_id, call_id),
            call_id,
            self._mailbox,
            self._store,
            self._leases,
            self._errands,
            self._limits,
        )
        return await self._round(continuation.id, box, request, continuation)

    async def _lease(self, backend: RemoteBackend, request: ModernRequest, sent: Headers) -> Lease:
        """With the log level of this call, also in place of one that the backend has forgotten."""
        lease = await self._leases.take(backend, request, sent)
        logs = "logging" in request.catalogue.capabilities.get(backend.name, {})
        try:
            await self._leases.set_level(lease, request.envelope.level if logs else None)
        except BackendBroken as error:
            log.info("backend %s: %s", backend.name, error)
        except BaseException:
            self._leases.end(lease)
            raise
        return lease

    async def _round(
        self, continuation: str, box: str, request: ModernRequest, start: Letter | Continuation
    ) -> Reply:
        return await replied(self._pieces(continuation, box, request, start), request.headers)

    async def _pieces(
        self, continuation: str, box: str, request: ModernRequest, start: Letter | Continuation
    ) -> Pieces:
        """Notifications with status 0, then the answer with its own. Whoever stops reading earlier cancels the call.

        What a backend says before it has done anything (another era, another token) is the caller's business.
        """
        limits, ended, heard = self._limits(), False, isinstance(start, dict)
        letters = self._mailbox.open(box)
        try:
            patience = await self._start(continuation, start)
            while not ended:
                letter = await self._letter(letters, continuation, min(patience, limits.keepalive_s))
                here = self._mailbox.is_open(continuation)
                patience -= limits.keepalive_s
                if letter:
                    patience = limits.answer_ttl_s if here else SILENT_S
                if letter and letter.get("unheard") and not heard:
                    raise unheard_again(letter["unheard"])
                heard = True
                if letter is None and patience > 0:
                    yield 0, b""
                    continue
                piece = await self._piece(letter or {"kind": "gone"}, request)
                if piece is not None:
                    ended = piece[0] != 0
                    yield piece
        finally:
            letters.close()
            if not ended:
                cancel = jsonrpc.dumps({"kind": "cancel", "box": box}).encode()
                await asyncio.shield(self._mailbox.post(continuation, cancel))

    async def _letter(self, letters: Letters, continuation: str, seconds: float) -> Letter | None:
        letter = await letters.next(seconds, look=not self._mailbox.is_open(continuation))
        found: Letter | None = json.loads(letter) if letter else None
        return found

    async def _start(self, continuation: str, start: Letter | Continuation) -> float:
        """How long to wait for the first word."""
        if isinstance(start, dict):
            await self._mailbox.post(continuation, jsonrpc.dumps(start).encode())
            return ANSWERED_S
        task = asyncio.create_task(start.run())
        self._held.add(task)
        task.add_done_callback(self._held.discard)
        return self._limits().answer_ttl_s

    async def _piece(self, letter: Letter, request: ModernRequest) -> tuple[int, bytes] | None:
        message = request.message
        match letter["kind"]:
            case "note":
                note = _note(letter["text"], request)
                return (0, note) if note else None
            case "answer":
                return await self._answer(letter["text"], request)
            case "questions":
                return 200, await self._input_required(letter["questions"], request, letter["next"])
            case "failed":
                status, code, text, data = letter["error"]
                return status, jsonrpc.error(Rejection(status, code, text, data, message.id))
            case "gone" | "past" as kind:
                gone = _invalid(request, ENDED if kind == "gone" else PAST)
                return gone.status, jsonrpc.error(gone)
        return None

    async def _answer(self, text: str, request: ModernRequest) -> tuple[int, bytes]:
        answer, message = jsonrpc.read(text), request.message
        assert isinstance(answer, Message)  # noqa: S101 - the continuation has read it
        questions = translate.url_questions(answer)
        if questions is not None and message.method in translate.ROUND_METHODS:
            return 200, await self._input_required(questions, request, None)
        body = translate.result_to_modern(answer, message.method, message.id, self._server)
        error = json.loads(body)["error"] if "error" in answer.top else None
        code = error.get("code") if isinstance(error, dict) else None
        return modern.STATUS.get(code, 200) if isinstance(code, int) else 200, body

    @property
    def _server(self) -> dict[str, Any]:
        gateway = self._registry().gateway
        return {"name": gateway.name, "version": gateway.version}

    # What the client carries from round to round

    async def _input_required(
        self, questions: Letter, request: ModernRequest, continuation: list[Any] | None
    ) -> bytes:
        state = State(continuation[0], continuation[1]) if continuation else State("", 0)
        expires_at = time.time() + self._limits().hold_s
        sealed = states.seal(await self._secret(), state, request.message, request.principal, expires_at)
        return translate.input_required(request.message.id, questions, sealed, self._server)

    async def _unsealed(self, text: Any, request: ModernRequest) -> State | Rejection:
        if not states.is_ours(text):
            return _invalid(request, "requestState is not one of this server's")
        key = await self._secret()
        return states.unseal(key, text, request.message, request.principal, time.time())

    async def _secret(self) -> bytes:
        """The same in every process on the store; the first one makes it."""
        if not self._key:
            record = await self._store.get(*SECRET)
            if record is None:
                try:
                    record = await self._store.put(*SECRET, secrets.token_bytes(32), expect=ABSENT)
                except Conflict:
                    record = await self._store.get(*SECRET)
            self._key = record.value if record else b""
        return self._key

    async def linger(self) -> None:
        if self._held:
            await asyncio.wait(self._held)

    async def close(self) -> None:
        for task in self._held:
            task.cancel()
        if self._held:
            await asyncio.wait(self._held, timeout=2)
        self._leases.close()


def _note(text: str, request: ModernRequest) -> bytes:
    """A notification as this round's client wants it: under its own progress token, and only the log it asked for."""
    note = jsonrpc.read(text)
    if not isinstance(note, Message):
        return b""
    envelope = request.envelope
    if note.method == "notifications/progress" and "progressToken" in note.params:
        if envelope.progress_token is None:
            return b""
        return note.splice(note.params["progressToken"], envelope.progress_token).encode()
    if note.method == "notifications/message":
        level = note.param("level")
        wanted = modern.LEVELS.index(envelope.level) if envelope.level else len(modern.LEVELS)
        if level not in modern.LEVELS or modern.LEVELS.index(level) < wanted:
            return b""
    return text.encode()


def _invalid(request: ModernRequest, text: str) -> Rejection:
    return Rejection(400, INVALID_PARAMS, text, id=request.message.id)
