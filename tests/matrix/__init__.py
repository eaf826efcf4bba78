"""The measuring stick for two eras: what every client must be able to do with every server."""

import asyncio
import linecache
from typing import Any

import pytest

from tests.matrix.checks import CHECKS
from tests.matrix.peer import connected
from tests.matrix.processes import Setting
from tests.support import Place, reasons

Pair = tuple[str, str]

CLIENTS = ("legacy", "modern")
SERVERS = ("legacy", "modern", "both")
PAIRS: list[Pair] = [(client, server) for client in CLIENTS for server in SERVERS]
DIRECT_PAIRS = [(client, server) for client, server in PAIRS if server in (client, "both")]
SECONDS = 30
BEYOND_LAMBDA = {("cancellation", "modern")}
"""A modern client cancels by hanging up, and Lambda tells no function of that."""


def servers_of(pairs: list[Pair]) -> list[str]:
    return list(dict.fromkeys(server for _, server in pairs))


def cells(pairs: list[Pair]) -> list[Any]:
    """One pytest parameter per feature and pair."""
    return [
        pytest.param(
            feature,
            client,
            server,
            id=f"{feature}-{client}-{server}",
            marks=[pytest.mark.serve_only(reasons.HANGS_UP)] if (feature, client) in BEYOND_LAMBDA else [],
        )
        for feature in CHECKS
        for client, server in pairs
    ]


def left_out(feature: str, client: str) -> bool:
    """What cannot be had where Portico runs."""
    return Place.chosen == "lambda" and (feature, client) in BEYOND_LAMBDA


async def check(place: Setting, feature: str, client: str, server: str) -> None:
    async with (
        asyncio.timeout(SECONDS),
        connected(place.url(server), client, place.prefix(server)) as peer,
    ):
        await CHECKS[feature](peer, place.servers[server])


async def run_check(place: Setting, feature: str, client: str, server: str) -> str | None:
    """Why it failed, or None."""
    try:
        await check(place, feature, client, server)
    except Exception as error:
        return reason(error)
    return None


def reason(error: BaseException, indent: str = "  ") -> str:
    """The innermost errors of a group, with the line of the check they come from."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(reason(inner, indent) for inner in error.exceptions)
    trace, place, line = error.__traceback__, "", ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.endswith(("matrix/checks.py", "matrix/peer.py")):
            place = f" ({code.co_name}, line {trace.tb_lineno})"
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
        trace = trace.tb_next
    said = str(error).strip().splitlines() or [line]
    return f"{indent}{type(error).__name__}: {said[0]}{place}"
