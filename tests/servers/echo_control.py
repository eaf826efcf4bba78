"""The echo server's control endpoint: POST {"do": name, ...} changes it, GET tells what it saw.

Names that equal a field of `Switches` set it: {"do": "no_get", "on": false}, {"do": "page_size", "n": 2}.
Without "on" a flag is turned on; without its value any other switch goes back to what it was at the start.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from tests.servers.echo_state import LEVELS, Json, Session, State, Switches

VALUE_OF = {
    "pin_version": "version",
    "page_size": "n",
    "refuse_initialize": "status",
    "refuse_calls": "status",
    "require_auth": "value",
    "delay": "seconds",
}
SWITCHES = {f.name: f for f in fields(Switches) if f.name != "dropped"}


def notification(method: str, params: Json | None = None) -> Json:
    message: Json = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def set_switch(state: State, name: str, args: Json) -> None:
    if name in VALUE_OF:
        setattr(state.switches, name, args.get(VALUE_OF[name]) or SWITCHES[name].default)
    else:
        setattr(state.switches, name, bool(args.get("on", True)))


def add_tool(state: State, args: Json) -> None:
    name = args["name"]
    definition = {"name": name, "description": f"Added: {name}", "inputSchema": {"type": "object"}}
    state.tools[name] = definition | args.get("tool", {})
    state.removed.discard(name)


def remove_tool(state: State, args: Json) -> None:
    state.tools.pop(args["name"], None)
    state.removed.add(args["name"])


def add_prompt(state: State, args: Json) -> None:
    state.prompts[args["name"]] = {"name": args["name"], "description": "Added."} | args.get("prompt", {})


def add_resource(state: State, args: Json) -> None:
    resource = {"uri": args["uri"], "name": args["uri"].rpartition("/")[2], "mimeType": "text/plain"}
    state.resources[args["uri"]] = resource | args.get("resource", {})


def say(state: State, args: Json) -> None:
    """{"method": m, "result": r}: whatever that is. For `initialize`, members to replace. Without a method: no more."""
    if "method" in args:
        state.said[args["method"]] = args["result"]
    else:
        state.said.clear()


def notify(state: State, args: Json) -> int:
    message = notification(args.get("method", "notifications/tools/list_changed"), args.get("params"))
    return sum(session.push(message) for session in state.sessions.values())


def forget_sessions(state: State, args: Json) -> None:
    for session in list(state.sessions.values()):
        end_session(state, session)


def end_session(state: State, session: Session) -> None:
    state.sessions.pop(session.id, None)
    for stream in session.listening:
        stream.end()
    for task in list(session.running.values()):
        task.cancel()


def drop_capability(state: State, args: Json) -> None:
    """{"name": null} gives all of them back."""
    if args.get("name") is None:
        state.switches.dropped.clear()
    else:
        state.switches.dropped.add(args["name"])


def update_resource(state: State, args: Json) -> int:
    uri = args["uri"]
    state.updates[uri] = state.updates.get(uri, 0) + 1
    message = notification("notifications/resources/updated", {"uri": uri})
    return sum(session.push(message) for session in state.sessions.values() if uri in session.subscriptions)


def ask_on_get(state: State, args: Json) -> int:
    return ask_all(state, args.get("method", "roots/list"), args.get("params"))


def ping_client(state: State, args: Json) -> int:
    return ask_all(state, "ping", None)


def ask_all(state: State, method: str, params: Json | None) -> int:
    return sum(
        ask(state, session, method, params) for session in state.sessions.values() if session.listening
    )


def ask(state: State, session: Session, method: str, params: Json | None) -> bool:
    request, coming = session.ask(method, params)

    def remember(answer: Any) -> None:
        if not answer.cancelled():
            asked = {"session": session.id, "id": request["id"], "method": method}
            state.answers.append(asked | {"answer": answer.result()})

    coming.add_done_callback(remember)
    return session.push(request)


def log_on_get(state: State, args: Json) -> int:
    level = args.get("level", "info")
    params = {"level": level, "logger": state.name, "data": args.get("text", "hello")}
    return sum(
        session.push(notification("notifications/message", params))
        for session in state.sessions.values()
        if LEVELS.index(level) >= LEVELS.index(session.level)
    )


def close_streams(state: State, args: Json) -> int:
    """Closes the connections of GET streams. Streams with event ids go on and can be resumed."""
    open_streams = [s for session in state.sessions.values() for s in session.listening if s.connected]
    for stream in open_streams:
        if stream.with_ids:
            stream.cut()
        else:
            stream.end()
    return len(open_streams)


def reset_log(state: State, args: Json) -> None:
    state.reset_log()


ACTIONS: dict[str, Callable[[State, Json], int | None]] = {
    action.__name__: action
    for action in (
        add_tool,
        remove_tool,
        add_prompt,
        add_resource,
        say,
        notify,
        forget_sessions,
        drop_capability,
        update_resource,
        ask_on_get,
        ping_client,
        log_on_get,
        close_streams,
        reset_log,
    )
}


def control(state: State, args: Json) -> Json:
    """Answers {"ok": true, "sent": how many streams or sessions it reached}."""
    name = args.get("do", "")
    if name in SWITCHES:
        set_switch(state, name, args)
        return {"ok": True, "sent": None}
    if name not in ACTIONS:
        return {"ok": False, "error": f"unknown: {name!r}", "known": sorted([*ACTIONS, *SWITCHES])}
    return {"ok": True, "sent": ACTIONS[name](state, args)}


def report(state: State) -> Json:
    return {"name": state.name, "counters": state.counters(), "log": [seen.render() for seen in state.log]}
