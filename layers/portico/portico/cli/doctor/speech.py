"""What the endpoint answers in either era."""

from typing import Any, Final

from portico.cli.doctor.finding import Answer, Finding, failed, ok, skipped, warning
from portico.cli.doctor.refusals import LOOK, LOST_SESSION, PASS_HEADERS, refused
from portico.protocol import versions
from portico.protocol.jsonrpc import HEADER_MISMATCH, METHOD_NOT_FOUND

NO_TOOL: Final = "no tool is known to be read-only and to need no arguments; name one: --tool NAME key=value"
VERSION_FIX: Final = "update the gateway, or check that the URL is Portico's"
SESSION_HEADER: Final = "mcp-session-id"


def initialize(answer: Answer) -> Finding:
    result = answer.result
    if result is None:
        return refused("initialize", answer)
    version, server = result.get("protocolVersion"), result.get("serverInfo")
    name = server.get("name") if isinstance(server, dict) else None
    if version not in versions.LEGACY:
        return failed("initialize", f"it agrees to the version {version}, which nobody offered", VERSION_FIX)
    session = answer.headers.get(SESSION_HEADER, "")
    if not session.isascii() or not session.replace("~", "-").isprintable() or " " in session:
        return failed("initialize", "its session id is not visible ASCII", VERSION_FIX)
    return ok(
        "initialize", f"{name or 'a server without a name'} speaks {version}, {answer.seconds * 1000:.0f} ms"
    )


def listing(step: str, answer: Answer) -> Finding:
    if answer.result is None:
        return refused(step, answer)
    tools = answer.result.get("tools")
    if not isinstance(tools, list):
        return failed(step, "the answer has no list of tools", "check that the URL is an MCP server's")
    if not tools:
        return warning(
            step, "there are no tools", "`portico status` says which backends are not ready, and why"
        )
    more = ", and more pages" if answer.result.get("nextCursor") else ""
    return ok(step, f"{len(tools)} tool{'' if len(tools) == 1 else 's'}{more}")


def harmless(answer: Answer) -> str | None:
    """A tool that can be called without being asked to: read-only by its own word, without arguments."""
    tools = (answer.result or {}).get("tools")
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict) and _is_harmless(tool):
            return str(tool.get("name"))
    return None


def _is_harmless(tool: dict[str, Any]) -> bool:
    notes, schema = tool.get("annotations"), tool.get("inputSchema")
    if not isinstance(notes, dict) or not isinstance(schema, dict):
        return False
    return notes.get("readOnlyHint") is True and not schema.get("required")


def call(tool: str, answer: Answer) -> Finding:
    result = answer.result
    if result is None and answer.error and answer.status == 200:
        text = f"{tool}: {answer.error.get('message')} ({answer.code})"
        return failed("tools/call", text, f"check the name and its arguments (`portico tools`); {LOOK}")
    if result is None:
        return refused("tools/call", answer)
    if result.get("isError"):
        fix = "the gateway has carried the call: look at the arguments, and at the backend's own log"
        return failed("tools/call", f"{tool} reports an error: {_first_text(result)}", fix)
    return ok("tools/call", f"{tool} answered in {answer.seconds * 1000:.0f} ms")


def _first_text(result: dict[str, Any]) -> str:
    content = result.get("content")
    texts = (
        [item.get("text") for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    )
    return next((text[:200] for text in texts if isinstance(text, str)), "it does not say which")


def ping(answer: Answer) -> Finding:
    return refused("ping", answer) if answer.result is None else ok("ping", f"{answer.seconds * 1000:.0f} ms")


def stripped(opened: Answer, then: Answer) -> Finding | None:
    """A session that was never named, and yet is asked for: something keeps the header."""
    if SESSION_HEADER in opened.headers or then.status != 400:
        return None
    text = "`initialize` names no session, yet one is asked for: something takes Mcp- headers off"
    return failed("session", text, PASS_HEADERS)


def session(opened: Answer, again: list[Answer]) -> Finding:
    """Of pings, each on a connection of its own, so that each may reach another instance."""
    if SESSION_HEADER not in opened.headers:
        return skipped("session", "the server keeps none")
    lost = [answer for answer in again if answer.status == 404]
    if lost:
        return failed("session", f"lost on {len(lost)} of {len(again)} new connections", LOST_SESSION)
    bad = next((answer for answer in again if answer.result is None), None)
    if bad is not None:
        return refused("session", bad)
    return ok("session", f"survives {len(again)} new connections")


def ending(opened: Answer, deleted: Answer, after: Answer) -> Finding:
    if SESSION_HEADER not in opened.headers:
        return skipped("end", "the server keeps no sessions")
    if deleted.status == 405:
        return skipped("end", "the server does not let clients end sessions")
    if deleted.status not in (200, 202, 204):
        return refused("end", deleted)
    if after.status != 404:
        fix = f"the session goes on after DELETE: {LOST_SESSION}"
        return failed(
            "end", f"after DELETE the session answers {after.status or after.failure}, not 404", fix
        )
    return ok("end", "DELETE ends the session: 404 afterwards")


def discover(answer: Answer) -> Finding:
    if answer.result is None:
        stranger = answer.status == 400 and answer.code != HEADER_MISMATCH
        if stranger or answer.code == METHOD_NOT_FOUND:
            text = f"the modern era is not spoken here ({answer.error.get('message', 'HTTP 400')})"
            return warning("server/discover", text, VERSION_FIX)
        return refused("server/discover", answer)
    spoken = answer.result.get("supportedVersions")
    if not isinstance(spoken, list) or versions.NEWEST_MODERN not in spoken:
        return failed("server/discover", f"it does not name {versions.NEWEST_MODERN}", VERSION_FIX)
    return ok("server/discover", f"speaks {', '.join(map(str, spoken))}")


def mismatch(answer: Answer) -> Finding:
    """Of a request whose Mcp-Method says another method than its body."""
    step = "header check"
    if answer.code == HEADER_MISMATCH and answer.status == 400:
        return ok(step, "a header that contradicts the body is refused (-32020)")
    if answer.result is not None:
        text = "a header that contradicts the body is not noticed: rules that read headers can be got round"
        return failed(step, text, PASS_HEADERS)
    return refused(step, answer)
