"""The servers that the vectors declare, and the place where the issuers' keys are: on loopback, in this process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.vectors.cases import BACKENDS, CONFIGS, JWKS


@contextmanager
def backends() -> Iterator[str]:
    """Where they are; `/NAME/mcp` is the one called NAME, `/jwks/N` has the keys of the Nth issuer."""
    issuers = [issuer["issuer"] for issuer in CONFIGS["plain"]["auth"]["issuers"]]
    assert all([one["issuer"] for one in said["auth"]["issuers"]] == issuers for said in CONFIGS.values())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, kind, *rest = self.path.split("/")
            found = JWKS[issuers[int(rest[0])]] if kind == "jwks" else None
            self.answer(200 if found else 405, found)

        def do_DELETE(self) -> None:
            self.answer(200, None)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in message:
                return self.answer(202, None)
            result = _result(BACKENDS[self.path.split("/")[1]], message["method"], message.get("params", {}))
            said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
            return self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **said})

        def answer(self, status: int, said: Any) -> None:
            body = json.dumps(said).encode() if said is not None else b""
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def urls(base: str) -> dict[str, str]:
    return {name: f"{base}/{name}/mcp" for name in BACKENDS}


def _result(about: dict[str, Any], method: str, params: dict[str, Any]) -> Any:
    said = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}},
            "serverInfo": {"name": "vectors", "version": "1"},
        },
        "ping": {},
        "tools/list": {"tools": [{**tool, "inputSchema": {"type": "object"}} for tool in about["tools"]]},
        "prompts/list": {"prompts": [{"name": name} for name in about["prompts"]]},
        "resources/list": {"resources": [{"uri": uri, "name": uri} for uri in about["resources"]]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": uri, "name": uri} for uri in about["templates"]]
        },
        "tools/call": {"content": [{"type": "text", "text": str(params.get("name"))}]},
        "prompts/get": {"messages": []},
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": ""}]},
    }
    return said.get(method)
