"""FastMCP as a proxy of the given backends. Run by the Python of FastMCP's own environment, not imported.

The default is what its documentation recommends: a fresh backend session for each request. With --shared it is
given connected clients, and so keeps one session per backend for all requests.
"""

import argparse
import asyncio
from contextlib import AsyncExitStack

from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy


async def serve(port: int, urls: list[str], *, shared: bool) -> None:
    async with AsyncExitStack() as stack:
        targets = [await stack.enter_async_context(Client(url)) for url in urls] if shared else urls
        proxies = [create_proxy(target) for target in targets]
        if len(proxies) == 1:
            front = proxies[0]
        else:
            front = FastMCP("bench")
            for number, proxy in enumerate(proxies):
                front.mount(proxy, namespace=f"b{number}")
        await front.run_http_async(
            transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="warning"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("urls", nargs="+")
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.urls, shared=options.shared))
