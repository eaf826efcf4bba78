"""An MCP server with one tool, whose work is a task: as 2025-11-25 has them, or as the extension of 2026-07-28 does.

`python -m tests.servers.tasks --era legacy|modern --port 0` prints `ready http://127.0.0.1:N/mcp` on stderr.
"""

import argparse
import asyncio
import json
import socket
import sys
import uuid

import uvicorn

EXTENSION = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"
TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
JOB = {"name": "job", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}
DONE = {"content": [{"type": "text", "text": "done"}]}
QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Go on?", "requestedSchema": {}},
}


class Refused(Exception):
    pass


class Legacy:
    def __init__(self):
        self.tasks = {}

    def initialize(self, params):
        tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": tasks},
            "serverInfo": {"name": "tasks", "version": "1"},
        }

    def tools_list(self, params):
        return {"tools": [JOB]}

    def tools_call(self, params):
        if "task" not in params:
            return DONE
        task = {"taskId": uuid.uuid4().hex, "status": "working", "ttl": params["task"].get("ttl"), **TIMES}
        self.tasks[task["taskId"]] = task
        return {"task": task}

    def task(self, params):
        if params.get("taskId") not in self.tasks:
            raise Refused("no such task")
        return self.tasks[params["taskId"]]

    def tasks_get(self, params):
        return self.task(params)

    def tasks_list(self, params):
        return {"tasks": list(self.tasks.values())}

    def tasks_result(self, params):
        self.task(params)["status"] = "completed"
        return DONE | {"_meta": {f"{META}related-task": {"taskId": params["taskId"]}}}

    def tasks_cancel(self, params):
        self.task(params)["status"] = "cancelled"
        return self.task(params)


class Modern(Legacy):
    initialize = tasks_list = tasks_result = None

    def server_discover(self, params):
        capabilities = {"tools": {}, "extensions": {EXTENSION: {}}}
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "public",
        }

    def tools_list(self, params):
        tool = {name: value for name, value in JOB.items() if name != "execution"}
        return {"tools": [tool], "ttlMs": 0, "cacheScope": "public"}

    def tools_call(self, params):
        if EXTENSION not in params["_meta"][f"{META}clientCapabilities"].get("extensions", {}):
            return DONE
        task = {"taskId": uuid.uuid4().hex, "status": "input_required", "ttlMs": None, **TIMES}
        task["inputRequests"] = {"go": QUESTION}
        self.tasks[task["taskId"]] = task
        created = {name: value for name, value in task.items() if name != "inputRequests"}
        return {"resultType": "task", **created, "status": "working"}

    def tasks_update(self, params):
        task = self.task(params)
        del task["inputRequests"]
        task |= {"status": "completed", "result": DONE, "answered": params["inputResponses"]}
        return {}

    def tasks_cancel(self, params):
        super().tasks_cancel(params)
        return {}


def answered(server, message):
    method = getattr(server, message["method"].replace("/", "_"), None)
    if method is None:
        return 404, {"error": {"code": -32601, "message": "Method not found"}}
    try:
        result = method(message.get("params", {}))
    except Refused as error:
        return 200, {"error": {"code": -32602, "message": str(error)}}
    return 200, {"result": {"resultType": "complete", **result} if isinstance(server, Modern) else result}


async def body_of(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


async def listen(server, message, send):
    """Acknowledges the tasks it has, then tells how each is."""
    able = EXTENSION in message["params"]["_meta"][f"{META}clientCapabilities"].get("extensions", {})
    meta = {"_meta": {f"{META}subscriptionId": message["id"]}}
    ids = [id_ for id_ in message["params"]["notifications"].get("taskIds", []) if id_ in server.tasks]
    notes = [("subscriptions/acknowledged", {"notifications": {"taskIds": ids} if ids else {}})]
    notes += [("tasks", server.tasks[id_]) for id_ in ids]
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200 if able or not ids else 400, "headers": headers})
    for name, params in notes:
        note = {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params | meta}
        data = b"data: " + json.dumps(note).encode() + b"\n\n"
        await send({"type": "http.response.body", "body": data, "more_body": True})
    await asyncio.sleep(3600)


def application(server):
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        message = json.loads(await body_of(receive) or b"{}") if scope["method"] == "POST" else {}
        if message.get("method") == "subscriptions/listen" and isinstance(server, Modern):
            await listen(server, message, send)
            return
        status, said = (405, None) if not message else (202, None)
        if "id" in message:
            status, outcome = answered(server, message)
            said = {"jsonrpc": "2.0", "id": message["id"], **outcome}
        headers = [(b"content-type", b"application/json"), (b"mcp-session-id", b"one")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(said).encode() if said else b""})

    return app


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=("legacy", "modern"), required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", options.port))
    print(f"ready http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    server = Legacy() if options.era == "legacy" else Modern()
    config = uvicorn.Config(application(server), log_level="error", lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
