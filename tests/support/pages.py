"""Web pages of others on this machine: what a client is told, and what an attacker has put up."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Pages:
    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.asked: list[str] = []
        self.pages: dict[str, str] = {}


@contextmanager
def pages() -> Iterator[Pages]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            body = served.pages.get(self.path.partition("?")[0], "You may close this.").encode()
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Pages(server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield served
        finally:
            server.shutdown()
