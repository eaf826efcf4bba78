"""A real MCP server for the demo: what time it is, and a countdown that reports progress."""

import asyncio
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("clock")


@server.tool()
def now(zone: str = "UTC") -> str:
    """The time now, in a time zone such as Europe/Berlin."""
    return datetime.now(ZoneInfo(zone)).isoformat(timespec="seconds")


@server.tool()
async def countdown(steps: int, ctx: Context) -> str:
    """Count down, one step every fifth of a second, with progress."""
    for step in range(1, steps + 1):
        await asyncio.sleep(0.2)
        await ctx.report_progress(progress=step, total=steps, message=f"{steps - step} to go")
    return "lift-off"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
