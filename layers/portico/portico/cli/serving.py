"""`portico serve`: the whole gateway in one process."""

import asyncio
import ipaddress
import logging
import socket
import sys

import uvicorn

from portico.assembly import Portico
from portico.registry import InvalidConfig, Watch

try:
    import uvloop
except ImportError:  # not made for Windows
    uvloop = None  # type: ignore[assignment,unused-ignore]


def serve(config: str, host: str, port: int, *, insecure: bool) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    loopback = _is_loopback(host)
    if not loopback and not insecure:
        message = f"auth.mode is none, so Portico serves this machine only; --host {host} needs --insecure"
        raise ValueError(message)
    watch = Watch(config)
    registry = watch.poll()
    if isinstance(registry, InvalidConfig):
        raise registry
    if registry is None:
        raise ValueError(f"{config} cannot be read")
    for warning in registry.warnings:
        logging.getLogger("portico").warning(warning)
    gateway = Portico(registry, loopback=loopback, watch=watch)
    runner = uvloop.run if uvloop else asyncio.run
    runner(_run(gateway, host, port))
    return 0


async def _run(gateway: Portico, host: str, port: int) -> None:
    listener = socket.create_server(
        (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
    )
    await gateway.start()
    config = uvicorn.Config(
        gateway,
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    shown = f"[{host}]" if ":" in host else host
    print(f"portico ready on http://{shown}:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    try:
        await serving
    finally:
        await gateway.stop()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
