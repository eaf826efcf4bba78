"""A real MCP server for the demo: notes to write down and read again."""

import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("notes")
notes: dict[str, str] = {"welcome": "Everything behind /mcp, in one place."}


@server.tool()
def write(title: str, text: str) -> str:
    """Keep a note."""
    notes[title] = text
    return f"kept {title!r}, {len(notes)} in all"


@server.tool()
def read(title: str) -> str:
    """Read a note."""
    if title not in notes:
        raise ToolError(f"there is no note {title!r}, only {', '.join(notes)}")
    return notes[title]


@server.resource("notes://{title}")
def note(title: str) -> str:
    """A note, by its title."""
    return notes[title]


@server.prompt()
def summarise(title: str) -> str:
    """Ask for a summary of a note."""
    return f"Summarise in one sentence: {notes[title]}"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
