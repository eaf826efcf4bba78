"""As whom an authorization server knows the gateway: declared, by the address of its metadata, or registered there."""

from dataclasses import asdict
from typing import Any, Final

from portico.credentials.endpoint import ClientIdentity
from portico.credentials.fetched import identity_of
from portico.credentials.outbound import Outbound, Unfetched
from portico.credentials.servers import Server
from portico.credentials.vault import KEPT_S, Vault, digest
from portico.errors import NoCredential
from portico.registry import Gateway, OAuth

CALLBACK: Final = "/oauth/upstream/callback"
DOCUMENT: Final = "/oauth/upstream/client.json"
_PARTITION: Final = "REGISTRATION"


def callback(gateway: Gateway) -> str:
    return gateway.public_url + CALLBACK


def document(gateway: Gateway) -> dict[str, Any]:
    """The client ID metadata document."""
    return {"client_id": gateway.public_url + DOCUMENT, **_metadata(gateway)}


def _metadata(gateway: Gateway) -> dict[str, Any]:
    return {
        "client_name": gateway.title or gateway.name,
        "client_uri": gateway.public_url,
        "redirect_uris": [callback(gateway)],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web" if gateway.public_url.startswith("https://") else "native",
    }


async def identity(
    outbound: Outbound, vault: Vault, gateway: Gateway, server: Server, near: str, declared: OAuth | None
) -> ClientIdentity:
    """Raises NoCredential."""
    if declared and declared.client_id:
        return identity_of(declared, server)
    if server.takes_documents and gateway.public_url.startswith("https://"):
        return ClientIdentity(gateway.public_url + DOCUMENT)
    if not server.registration_url:
        text = (
            f"{server.issuer} offers no way to register: declare the client_id that it knows the gateway by"
        )
        raise NoCredential(502, text, authorizationServer=server.issuer)
    place = digest(f"{server.issuer} {callback(gateway)}")
    known = await vault.get(_PARTITION, place)
    if known:
        return ClientIdentity(**known[0])
    made = await _registered(outbound, gateway, server, near)
    await vault.put(_PARTITION, place, asdict(made), KEPT_S)
    return made


async def _registered(outbound: Outbound, gateway: Gateway, server: Server, near: str) -> ClientIdentity:
    try:
        answer = await outbound.post_json(server.registration_url, near, _metadata(gateway))
    except Unfetched as error:
        text = f"{server.issuer} cannot be asked to register the gateway ({error})"
        raise NoCredential(503, text, authorizationServer=server.issuer) from None
    id_, secret = answer.said.get("client_id"), answer.said.get("client_secret", "")
    if answer.status not in (200, 201) or not isinstance(id_, str) or not id_:
        text = f"{server.issuer} does not register the gateway (HTTP {answer.status}): declare a client_id"
        raise NoCredential(502, text, authorizationServer=server.issuer)
    return ClientIdentity(id_, secret if isinstance(secret, str) else "", server.in_form)
