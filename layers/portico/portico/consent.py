"""The pages on which users let the gateway act for them; and what they have let it do, to be taken back."""

from authz.places import GIVEN
from portico.client import Client
from portico.credentials.calls import Credentials
from portico.registry import Gateway
from portico.registry.declared import BACKEND_NAME
from portico.replies import Reply


async def consent(client: Client, path: str, credentials: Credentials, gateway: Gateway) -> Reply:
    theirs = path.startswith(GIVEN)
    allowed = "DELETE" if theirs else "GET"
    if client.scope["method"] != allowed:
        return Reply(405, headers=[(b"allow", allowed.encode())])
    if theirs:
        backend = path.removeprefix(GIVEN)
        known = BACKEND_NAME.fullmatch(backend) and await credentials.forget(backend, client.owner)
        return Reply(204 if known else 404)
    query = client.scope["query_string"].decode("latin-1")
    return await credentials.wired.pages.answer(path, query, client.headers, gateway)
