"""DynamoDB beside the functions: moto's server, with the tables that the template declares."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import boto3

from emulator.intrinsics import REGION

CREATED_WITH = (
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "BillingMode",
    "ProvisionedThroughput",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "StreamSpecification",
)
START_S = 30.0
# It ends with its standard input, and so with the emulator, however that ends.
SERVER = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from moto.server import main
main(sys.argv[1:])
"""


@contextlib.asynccontextmanager
async def dynamodb(tables: Iterable[dict[str, Any]], existing: str | None) -> AsyncIterator[str]:
    """Its endpoint, once the tables are there. `existing`: one that runs already, in place of moto."""
    async with contextlib.AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(_moto()) if existing is None else existing
        await asyncio.to_thread(_create, endpoint, list(tables))
        yield endpoint


@contextlib.asynccontextmanager
async def _moto() -> AsyncIterator[str]:
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", SERVER, "-H", "127.0.0.1", "-p", str(port)],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await _listening(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _listening(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(START_S):
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"moto's server ended with status {process.returncode}")
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)


def _create(endpoint: str, tables: list[dict[str, Any]]) -> None:
    client = boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="emulator",
        aws_secret_access_key="emulator",  # noqa: S106
    )
    for table in tables:
        wanted = {key: _typed(table[key]) for key in CREATED_WITH if key in table}
        if "StreamSpecification" in wanted:
            wanted["StreamSpecification"]["StreamEnabled"] = True
        with contextlib.suppress(client.exceptions.ResourceInUseException):
            client.create_table(**wanted)
        ttl = table.get("TimeToLiveSpecification")
        if ttl:
            client.update_time_to_live(TableName=table["TableName"], TimeToLiveSpecification=_typed(ttl))


def _typed(value: Any) -> Any:
    """Parameters are strings where boto3 wants numbers."""
    if isinstance(value, dict):
        return {key: _typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    return int(value) if isinstance(value, str) and value.isdigit() else value
