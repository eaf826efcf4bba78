"""One request, judged by the filter and by `authz.service`: word for word the same, or the same headers passed on."""

import json
from typing import Any

from authz import identity
from authz.filter_config import configuration
from authz.guard import Guard
from authz.keys import Keys
from authz.model import Access
from authz.service import Service
from tests.filter.built import wasm
from tests.filter.edge import asked
from tests.filter.host import Host
from tests.vectors.cases import Request
from tests.vectors.edges import ask

PREFIXES = {"s1_": "s1", "s2_": "s2", "s1_long_": "long"}


class Both:
    """With the same keys and the same time."""

    def __init__(self, access: Access, keys: dict[str, Any], now: float, foreign: Any = None) -> None:
        async def fetch(url: str) -> bytes:
            return json.dumps(keys[url]).encode()

        self.service = Service(Guard(access, Keys(fetch), lambda: now), PREFIXES)
        self.host = Host(wasm(), configuration(access, PREFIXES), now=now)
        self.host.foreign = foreign or {}
        self.host.tick()
        for call in list(self.host.calls):
            issuer = access.issuers[int(self.host.calls[call].cluster.removeprefix("keys_"))]
            assert issuer.jwks_url
            self.host.answer(call, 200, json.dumps(keys[issuer.jwks_url]).encode())

    async def judged(self, said: Request, piece: int = 1 << 20) -> tuple[int, dict[str, str], bytes]:
        wanted, found = await ask(self.service, said), asked(self.host, said, piece)
        headers = {name: value for name, value in wanted.headers.items() if name != "content-length"}
        try:
            if found.reply:
                got = (found.reply.status, found.reply.headers, found.reply.body)
                assert got == (wanted.status, headers, wanted.body), said
                return got
            assert found.passed
            names = (identity.PRINCIPAL, identity.ISSUER, identity.SCOPES)
            own = {name: found.header(name) or "" for name in names}
            assert (200, own) == (wanted.status, headers), said
            return 200, own, b""
        finally:
            self.host.end(found)
