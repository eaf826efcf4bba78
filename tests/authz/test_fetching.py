"""What an issuer publishes, and issuers that behave badly."""

import asyncio
import socket
import threading
import time

import pytest

from authz import fetching
from authz.fetching import Unfetched, fetch
from tests.support import eventually


def test_a_document_that_never_ends_keeps_no_thread(monkeypatch):
    monkeypatch.setattr(fetching, "SECONDS", 0.3)
    left = threading.Event()

    def trickle(listening):
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            try:
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.05)
            except OSError:
                left.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=trickle, args=(listening,), daemon=True).start()
        with pytest.raises(Unfetched, match="in time"):
            asyncio.run(fetch(f"http://127.0.0.1:{listening.getsockname()[1]}/jwks"))
        assert eventually(left.is_set)
