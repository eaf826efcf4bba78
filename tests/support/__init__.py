"""What the tests share: real processes to talk to, and a small blocking MCP client that hides nothing.

Everything here is a context manager and also works without `with`, as long as somebody calls `close()`:

    with echo_server() as echo, gateway({"backends": [{"name": "s1", "url": echo.url}]}) as portico:
        client = Client(portico.url)
        client.init()
        assert client.call("s1_echo", {"text": "hi"}).text == "hi"

The client is on http.client, one connection per request. It follows the specification by default and lets a test
break any of it: every header, id and byte can be given.
"""

from tests.support.client import (
    CLIENT_INFO,
    MODERN,
    Client,
    Handler,
    Headers,
    call_params,
    dump,
    header_value,
)
from tests.support.deployed import Deployed
from tests.support.exchange import SECONDS, Answer, EventReader, Exchange, Json, Received, fetch
from tests.support.processes import READY, ROOT, START_SECONDS, STOP_SECONDS, Process
from tests.support.servers import (
    Echo,
    Faults,
    Gateway,
    Place,
    config,
    echo26_server,
    echo_server,
    everything_server,
    fault_server,
    gateway,
    module,
    start,
)
from tests.support.waiting import eventually

__all__ = [
    "CLIENT_INFO",
    "MODERN",
    "READY",
    "ROOT",
    "SECONDS",
    "START_SECONDS",
    "STOP_SECONDS",
    "Answer",
    "Client",
    "Deployed",
    "Echo",
    "EventReader",
    "Exchange",
    "Faults",
    "Gateway",
    "Handler",
    "Headers",
    "Json",
    "Place",
    "Process",
    "Received",
    "call_params",
    "config",
    "dump",
    "echo26_server",
    "echo_server",
    "eventually",
    "everything_server",
    "fault_server",
    "fetch",
    "gateway",
    "header_value",
    "module",
    "start",
]
