"""On a schedule: look at every backend and publish what it offers."""

import asyncio
import os

from portico.assembly import assemble
from portico.aws.observability import observed
from portico.settings import settings_from


async def _look():
    portico = assemble(settings_from(os.environ))
    try:
        await portico.look()
    finally:
        await portico.stop()


@observed
def handler(event, context):  # noqa: ARG001 - Lambda's signature
    asyncio.run(_look())
