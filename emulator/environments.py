"""An execution environment: one process of a function, and the Runtime API that it alone talks to."""

import asyncio
import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from emulator.application import Function
from emulator.intrinsics import ARNS
from emulator.outcomes import PAYLOAD_LIMIT, Outcome, Payload, Stream, failure, too_large
from emulator.sandboxes import Sandbox
from emulator.wire import Request, Response, Server, StreamBroken

API = "/2018-06-01/runtime"
INIT_S = 10.0
LAST_WORDS_S = 1.0
LOG_LINE = 2**24
ACCEPTED = b'{"status":"OK"}'


class Invocation:
    def __init__(self, event: bytes) -> None:
        self.id = str(uuid.uuid4())
        self.event = event
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.stream: Stream | None = None

    def settle(self, outcome: Outcome) -> None:
        """The first word counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, payload: Payload) -> None:
        self.settle(payload)
        if self.stream is not None:
            self.stream.end(payload.error)


class Environment:
    """Free again, and handed to `on_free`, when its runtime asks for the next invocation, not when it has answered."""

    def __init__(
        self, function: Function, sandbox: Sandbox, on_free: Callable[["Environment"], None]
    ) -> None:
        self._function = function
        self._sandbox = sandbox
        self._on_free = on_free
        self._server = Server(self._runtime_api)
        self._given: asyncio.Queue[Invocation] = asyncio.Queue()
        self._current: Invocation | None = None
        self._initialized = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._process: asyncio.subprocess.Process | None = None
        self.dead = False

    async def start(self) -> None:
        await self._server.start()
        address = f"127.0.0.1:{self._server.port}"
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._sandbox.command,
                cwd=self._sandbox.directory,
                env={**self._sandbox.environment, "AWS_LAMBDA_RUNTIME_API": address},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                limit=LOG_LINE,
            )
        except OSError as error:
            log(self._function.name, f"cannot be started: {error}")
            self.kill()
            return
        self._later(self._follow(self._process))
        self._time_out_in(INIT_S + self._function.timeout_s)

    def invoke(self, event: bytes) -> Invocation:
        invocation = self._current = Invocation(event)
        if self.dead:
            invocation.settle(failure("Runtime.InvalidEntrypoint", "the runtime could not be started"))
        self._given.put_nowait(invocation)
        return invocation

    @property
    def finishing(self) -> bool:
        """It has said all, and is about to be free unless it goes on working."""
        current = self._current
        if self.dead or current is None or not current.outcome.done():
            return False
        return current.stream is None or current.stream.ended

    def kill(self) -> None:
        self.dead = True
        self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Its log, and then its end."""
        if process.stdout is not None:
            async for line in process.stdout:
                log(self._function.name, line.decode(errors="replace").rstrip("\n"))
        status = await process.wait()
        self.dead = True
        if self._current is not None:
            await self._server.all_read(LAST_WORDS_S)
        self.kill()
        if self._current is not None:
            message = f"RequestId: {self._current.id} Error: Runtime exited with error: exit status {status}"
            self._current.fail(failure("Runtime.ExitError", message))

    async def _runtime_api(self, request: Request) -> Response:
        match request.target.removeprefix(API).strip("/").split("/"):
            case ["invocation", "next"]:
                return await self._next()
            case ["invocation", invocation_id, "response"] if self._is_current(invocation_id):
                return await self._response(request)
            case ["invocation", invocation_id, "error"] if self._is_current(invocation_id):
                return await self._error(request)
            case ["init", "error"]:
                return await self._error(request)
        return Response(
            404, [], b'{"errorMessage":"no such path or invocation","errorType":"InvalidRequest"}'
        )

    def _is_current(self, invocation_id: str) -> bool:
        return self._current is not None and self._current.id == invocation_id

    async def _next(self) -> Response:
        if self._timer is not None:
            self._timer.cancel()
        if self._initialized:
            if self._current is not None:
                self._current.fail(failure("Runtime.NoResponse", "the runtime did not answer"))
            self._current = None
            self._on_free(self)
        self._initialized = True
        invocation = await self._given.get()
        timeout_s = self._function.timeout_s
        self._time_out_in(timeout_s)
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": invocation.id,
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + timeout_s) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": ARNS["AWS::Lambda::Function"].format(self._function.name),
            "Lambda-Runtime-Trace-Id": trace_id(),
        }
        return Response(200, list(headers.items()), invocation.event)

    async def _response(self, request: Request) -> Response:
        invocation = self._current
        if invocation is None:
            raise StreamBroken
        if request.header("Lambda-Runtime-Function-Response-Mode") == "streaming":
            return await self._streaming(request, invocation)
        data = await request.body(PAYLOAD_LIMIT)
        if data is None:
            invocation.settle(too_large())
            return Response(413, [], b'{"errorMessage":"Exceeded maximum allowed payload size"}')
        invocation.settle(Payload(data))
        return Response(202, [], ACCEPTED)

    async def _streaming(self, request: Request, invocation: Invocation) -> Response:
        stream = invocation.stream = Stream()
        invocation.settle(stream)
        await _pump(request, stream)
        if stream.error:
            raise StreamBroken
        return Response(202, [], ACCEPTED)

    async def _error(self, request: Request) -> Response:
        data = await request.body() or b"{}"
        kind = request.header("Lambda-Runtime-Function-Error-Type") or "Unhandled"
        if self._current is not None:
            self._current.fail(Payload(data, error=kind))
        return Response(202, [], ACCEPTED)

    def _time_out_in(self, seconds: float) -> None:
        if not self.dead:
            self._timer = asyncio.get_running_loop().call_later(
                seconds, lambda: self._later(self._time_out(seconds))
            )

    async def _time_out(self, seconds: float) -> None:
        self.kill()
        if self._current is not None:
            message = f"{self._current.id} Task timed out after {seconds:.2f} seconds"
            log(self._function.name, message)
            self._current.fail(failure("Sandbox.Timedout", message))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _pump(request: Request, stream: Stream) -> None:
    try:
        async for chunk in request.chunks():
            await stream.put(chunk)
    except (asyncio.IncompleteReadError, ConnectionError):
        stream.end("Runtime.ExitError")
        return
    stream.end(request.trailers.get("lambda-runtime-function-error-type"))


def trace_id() -> str:
    return f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0"


def log(name: str, line: str) -> None:
    for each in line.split("\r"):  # which is how awslambdaric keeps a traceback in one event
        print(f"[{name}] {each}", file=sys.stderr, flush=True)
