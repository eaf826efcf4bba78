"""`portico dev-auth`: the authorization server for development by itself, for gateways and backends that run elsewhere."""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

import uvicorn

from authz.origins import ON_LOOPBACK, origin_allowed
from portico.cli.serving import configured, is_loopback, listen, origin
from portico.loglines import set_up

PORT = 8089
EXAMPLES = """\
examples:
  portico dev-auth --resource http://127.0.0.1:8088/mcp --scope mcp:use --scope notes:write
  portico dev-auth --port 0 --token-seconds 5

and in the portico.yaml of the gateway whose tokens it issues:
  auth: {mode: jwt, issuers: [{issuer: "http://127.0.0.1:8089", algorithms: [ES256]}]}

It believes whoever you say you are. SIGHUP makes it sign with another key.
"""


def add(command: argparse.ArgumentParser) -> None:
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = EXAMPLES
    command.add_argument("--host", default="127.0.0.1", help="where to listen: loopback, or it refuses")
    command.add_argument("--issuer", metavar="URL", help="what it calls itself (default: where it listens)")
    command.add_argument(
        "--resource",
        action="append",
        default=[],
        metavar="URL",
        help="what tokens are for (default: anything)",
    )
    command.add_argument(
        "--scope", action="append", default=[], metavar="SCOPE", help="a scope that there is (default: any)"
    )
    command.add_argument("--keys", type=Path, metavar="FILE", help="where its keys survive a restart")


def serve(arguments: argparse.Namespace) -> int:
    from portico.devauth.application import DevAuth  # noqa: PLC0415 - no other command needs it
    from portico.devauth.model import Terms  # noqa: PLC0415

    set_up(sys.stderr, "text", log_calls=False)
    issuer = arguments.issuer and arguments.issuer.rstrip("/")
    if not is_loopback(arguments.host):
        raise ValueError(f"it lets in anybody, and so never listens at --host {arguments.host}")
    if issuer and (issuer.count("/") != 2 or not origin_allowed(ON_LOOPBACK, issuer)):
        raise ValueError("--issuer must be an origin on this machine, such as http://127.0.0.1:8089")
    listener = listen(arguments.host, arguments.port)
    at = origin(arguments.host, listener)
    scopes = tuple(dict.fromkeys(arguments.scope))
    terms = Terms(
        issuer or at,
        tuple(dict.fromkeys(arguments.resource)),
        scopes,
        scopes,
        access_token_s=arguments.token_seconds,
    )
    server = DevAuth(terms, arguments.keys)
    logging.getLogger("portico").info("for development only: it believes whoever you say you are")

    async def run() -> None:
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.keys.rotate)
        running = uvicorn.Server(configured(server))
        task = asyncio.create_task(running.serve([listener]))
        while not running.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        print(f"portico dev-auth ready on {at}", file=sys.stderr, flush=True)
        await task

    asyncio.run(run())
    return 0
