"""The echo server in the modern era (2026-07-28), by hand as the other; or in both eras, changing at run time.

`python -m tests.servers.echo26 --port 0 [--name X] [--era modern|legacy|both]` prints `ready http://127.0.0.1:N/mcp`
on stderr. It has the tools of the echo server, which ask in rounds here, and the same `/control`, to which it adds
{"do": "era", "value": ...}, {"do": "cache", "method": ..., "ttlMs": ..., "cacheScope": ...} (without a method: for
all) and {"do": "close_streams", "gracefully": ...}. Headers are checked by the official SDK's pure functions.
"""

import argparse
import asyncio
import json
import traceback

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    validate_mcp_param_headers,
)

from tests.servers import echo26_rpc, echo_control
from tests.servers.echo import Echo, Receive, Send, carry, refuse, reply, serve
from tests.servers.echo26_rpc import META, VERSION, ModernCall, State26, Subscription
from tests.servers.echo_state import VERSIONS, Json, RpcError, Seen, Session, Stream, dumps, joined, key

ERAS = ("modern", "legacy", "both")


class Echo26(Echo):
    state: State26

    def __init__(self, name: str, era: str) -> None:
        super().__init__(name)
        self.state = State26(name, era)

    async def endpoint(self, seen: Seen, receive: Receive, send: Send) -> None:
        version = joined(seen.headers).get("mcp-protocol-version", "").strip()
        modern = bool(version) and version not in VERSIONS
        if self.state.era == "legacy" and modern:
            known = ", ".join(VERSIONS)
            await refuse(send, 400, f"Bad Request: Unsupported protocol version: {version}. Known: {known}")
        elif self.state.era == "modern" and seen.http != "POST":
            await refuse(send, 405, "Method not allowed", headers=[(b"allow", b"POST")])
        elif self.state.era == "modern" and not modern:
            data = {"supported": [VERSION], "requested": version}
            error = RpcError(-32022 if version else -32020, f"This server speaks {VERSION} only", data)
            await reply(send, 400, dumps({"jsonrpc": "2.0", "id": None, "error": error.body()}))
        else:
            await super().endpoint(seen, receive, send)

    async def post(self, seen: Seen, headers: dict[str, str], receive: Receive, send: Send) -> None:
        version = headers.get("mcp-protocol-version", "").strip()
        if version and version not in VERSIONS:
            await self.modern(seen, receive, send)
        else:
            await super().post(seen, headers, receive, send)

    async def modern(self, seen: Seen, receive: Receive, send: Send) -> None:
        try:
            message = json.loads(seen.body)
        except ValueError:
            await refuse(send, 400, "Parse error", -32700)
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "method" not in message:
            await refuse(send, 400, "Invalid request")
            return
        seen.method, seen.id = message["method"], message.get("id")
        if "id" not in message:
            await reply(send, 202)
            return
        if (rejection := rejected(seen, message)) is not None:
            await answer_error(send, message["id"], rejection)
        elif seen.method == "subscriptions/listen":
            await self.listen(message, receive, send)
        elif seen.method == "tools/call" and self.state.switches.refuse_calls:
            await refuse(send, self.state.switches.refuse_calls, "call refused as asked")
        else:
            await self.answer(message, seen, receive, send)

    async def answer(self, message: Json, seen: Seen, receive: Receive, send: Send) -> None:
        state, params = self.state, message["params"]
        stream = Stream("call", sse=state.switches.always_sse)
        session = Session(VERSION, params["_meta"].get(f"{META}clientCapabilities") or {})
        try:
            call = ModernCall(
                state, session, message["method"], message["id"], params, seen.headers, seen.body, stream
            )
            refuse_wrong_parameters(call)
        except RpcError as error:
            await answer_error(send, message["id"], error)
            return
        task = asyncio.ensure_future(self.run26(call))
        name = f"{id(task)}"
        state.running[name] = task
        if not await carry(stream, receive, with_status(send, stream), []):
            state.closed_midcall += 1
            task.cancel()
        del state.running[name]

    async def run26(self, call: ModernCall) -> None:
        """Ends the call's stream, whatever happens."""
        message: Json | None = None
        try:
            await asyncio.sleep(self.state.switches.delay)
            message = await echo26_rpc.answer(call)
        except asyncio.CancelledError:
            self.state.stopped.append(call.id)
        except Exception as error:
            traceback.print_exc()
            message = {"jsonrpc": "2.0", "id": call.id, "error": {"code": -32603, "message": repr(error)}}
        finally:
            call.stream.end(message)

    async def listen(self, message: Json, receive: Receive, send: Send) -> None:
        wanted = {flag: on for flag, on in (message["params"].get("notifications") or {}).items() if on}
        stream = Stream(key(message["id"]), sse=True)
        subscription = Subscription(message["id"], wanted, stream)
        acknowledged = {**subscription.meta, "notifications": wanted}
        stream.put(
            {
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": acknowledged,
            }
        )
        self.state.subscriptions.append(subscription)
        try:
            await carry(stream, receive, send, [])
        finally:
            self.state.subscriptions.remove(subscription)

    async def control(self, method: str, body: bytes, send: Send) -> None:
        if method != "POST":
            await super().control(method, body, send)
            return
        args = json.loads(body)
        try:
            sent = self.act(args)
            own = args.get("do") in ("era", "cache")
            answer = {"ok": True, "sent": None} if own else echo_control.control(self.state, args)
        except (ValueError, KeyError, AttributeError) as error:
            sent, answer = None, {"ok": False, "error": repr(error)}
        if answer["ok"] and sent is not None:
            answer["sent"] = sent + (answer["sent"] or 0)
        await reply(send, 200 if answer["ok"] else 400, dumps(answer))

    def act(self, args: Json) -> int | None:
        """What the modern era has to do in addition: how many streams it reached."""
        state = self.state
        match args.get("do"):
            case "era":
                state.era = ERAS[ERAS.index(args["value"])]
                echo_control.forget_sessions(state, {})
                return self.close(gracefully=False)
            case "cache":
                state.cache[args.get("method", "")] = {
                    name: args[name] for name in ("ttlMs", "cacheScope") if name in args
                }
            case "notify":
                method = args.get("method", "notifications/tools/list_changed")
                return sum(one.tell(method, args.get("params")) for one in state.subscriptions)
            case "update_resource":
                params = {"uri": args["uri"]}
                return sum(one.tell("notifications/resources/updated", params) for one in state.subscriptions)
            case "close_streams":
                return self.close(gracefully=args.get("gracefully", True))
        return None

    def close(self, *, gracefully: bool) -> int:
        for subscription in self.state.subscriptions:
            subscription.close(gracefully=gracefully)
        return len(self.state.subscriptions)


def rejected(seen: Seen, message: Json) -> RpcError | None:
    """Why the specification has a server refuse this request, from its headers and its envelope."""
    headers = {name: value.strip() for name, value in joined(seen.headers).items()}
    raw = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in seen.headers]
    if repeated := find_duplicated_routing_header(raw):
        return RpcError(-32020, f"{repeated} appears more than once")
    found = classify_inbound_request(message, headers=headers)
    if isinstance(found, InboundLadderRejection):
        return RpcError(found.code, found.message, found.data)
    return None


def refuse_wrong_parameters(call: ModernCall) -> None:
    """`Mcp-Param-*` must say what the arguments say."""
    schemas = {tool["name"]: tool.get("inputSchema") for tool in echo26_rpc.offered(call)}
    schema = schemas.get(call.params.get("name"))
    if call.method != "tools/call" or schema is None:
        return
    headers = {name: value.strip() for name, value in joined(call.headers).items()}
    found = validate_mcp_param_headers(schema, call.params.get("arguments") or {}, headers)
    if found is not None:
        raise RpcError(found.code, found.message, found.data)


def with_status(send: Send, stream: Stream) -> Send:
    """An error that is all there is to say has the status that goes with it."""

    async def sending(message: Json) -> None:
        if message["type"] == "http.response.start" and stream.answer is not None:
            error = json.loads(stream.answer).get("error") or {}
            message = {**message, "status": ERROR_CODE_HTTP_STATUS.get(error.get("code"), 200)}
        await send(message)

    return sending


async def answer_error(send: Send, rpc_id: object, error: RpcError) -> None:
    body = dumps({"jsonrpc": "2.0", "id": rpc_id, "error": error.body()})
    await reply(send, ERROR_CODE_HTTP_STATUS.get(error.code, 200), body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", default="echo26")
    parser.add_argument("--era", choices=ERAS, default="modern")
    parser.add_argument("--host", default="127.0.0.1")
    arguments = parser.parse_args()
    serve(Echo26(arguments.name, arguments.era), arguments.port, arguments.host)


if __name__ == "__main__":
    main()
