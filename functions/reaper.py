"""On a schedule: clear what has expired."""

import asyncio
import os

from portico.assembly import assemble
from portico.aws.observability import observed
from portico.settings import settings_from


async def _sweep():
    portico = assemble(settings_from(os.environ))
    try:
        return await portico.sweep()
    finally:
        await portico.stop()


@observed
def handler(event, context):  # noqa: ARG001 - Lambda's signature
    return {"swept": asyncio.run(_sweep())}
