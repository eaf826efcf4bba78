"""`portico serve`: the whole gateway in one process."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from types import FrameType

import uvicorn

from portico.assembly import Portico
from portico.client import Application, Receive, Scope, Send
from portico.loglines import Format, set_up
from portico.registry import InvalidConfig, Watch, listening_at

try:
    import uvloop
except ImportError:  # not made for Windows
    uvloop = None  # type: ignore[assignment,unused-ignore]


def serve(
    config: str, host: str, port: int, *, insecure: bool, lines: Format = "text", log_calls: bool = False
) -> int:
    set_up(sys.stderr, lines, log_calls=log_calls)
    loopback = is_loopback(host)
    watch = Watch(config)
    registry = watch.poll()
    if isinstance(registry, InvalidConfig):
        raise registry
    if registry is None:
        raise ValueError(f"{config} cannot be read")
    if not loopback and not insecure and registry.access is None:
        message = f"auth.mode is none, so Portico serves this machine only; --host {host} needs --insecure"
        raise ValueError(message)
    if not loopback and registry.dev_auth is not None:
        message = f"auth.mode is dev, so Portico serves this machine only, and never at --host {host}"
        raise ValueError(message)
    for warning in registry.warnings:
        logging.getLogger("portico").warning(warning)
    listener = listen(host, port)
    watch.origin = origin(host, listener)
    gateway = Portico(listening_at(registry, watch.origin), loopback=loopback, watch=watch)
    runner = uvloop.run if uvloop else asyncio.run
    runner(_run(gateway, listener, watch.origin))
    return 0


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def origin(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


class Server(uvicorn.Server):
    """Stops in order: uvicorn's own way with signals would end the process before the gateway has stopped, and
    streams that nobody ends would hold the end up."""

    def __init__(self, config: uvicorn.Config, gateway: Portico) -> None:
        super().__init__(config)
        self._gateway = gateway

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # on Windows, where Ctrl-C ends the loop
                loop.add_signal_handler(number, self.handle_exit, number, None)
        if self._gateway.dev_auth is not None and hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._gateway.dev_auth.keys.rotate)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._gateway.closing()
        super().handle_exit(sig, frame)


async def _run(gateway: Portico, listener: socket.socket, at: str) -> None:
    await gateway.start()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the end of the server is no error of the request
            await gateway(scope, receive, send)

    server = Server(configured(application), gateway)
    serving = asyncio.create_task(server.serve([listener]))
    await started(server, serving)
    print(f"portico ready on {at}/mcp", file=sys.stderr, flush=True)
    try:
        await serving
    finally:
        await gateway.stop()


async def started(server: uvicorn.Server, serving: "asyncio.Task[None]") -> None:
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)


def configured(application: Application) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
