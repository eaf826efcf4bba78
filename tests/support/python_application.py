"""An application of the Python SDK with OAuth, as its documentation has it, and the user in front of it."""

import contextlib

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from tests.support.client_documents import REDIRECT
from tests.support.visitor import Visitor


class Storage:
    """What the SDK's documentation asks of an application: to keep two things."""

    def __init__(self):
        self.tokens = None
        self.client = None
        self.kept = []

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        self.kept.append(tokens)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


class Application:
    """An application of the Python SDK, and the user in front of it."""

    def __init__(self, portico, client_metadata_url=None, *, redirect=REDIRECT, decision="allow"):
        self.portico = portico
        self.pages = []
        self.storage = Storage()
        self._user = Visitor()
        self._decision = decision
        self._said = {}
        self.provider = OAuthClientProvider(
            portico.url,
            OAuthClientMetadata(client_name="The SDK for Python", redirect_uris=[redirect]),
            self.storage,
            self._redirect,
            self._called_back,
            client_metadata_url,
        )

    async def _redirect(self, url):
        self._said = self.visited(url)

    def visited(self, url):
        """What the user's browser brings back."""
        page = self._user.open(url)
        assert page.status == 200, page.text
        self.pages.append(page)
        return self._user.answer(page, self._decision, subject="ada").said

    async def _called_back(self):
        said = {name: self._said.get(name) for name in ("state", "iss")}
        return AuthorizationCodeResult(code=self._said.get("code", ""), **said)

    @contextlib.asynccontextmanager
    async def connected(self, **options):
        async with httpx2.AsyncClient(auth=self.provider, timeout=30) as http:
            transport = streamable_http_client(self.portico.url, http_client=http)
            async with Client(transport, **options) as client:
                yield client
