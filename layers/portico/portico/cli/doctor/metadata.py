"""The documents that lead a client to a token: RFC 9728 of the resource, RFC 8414 or OpenID Connect of the server."""

from typing import Any, Final
from urllib.parse import urlsplit

from portico.cli.doctor.finding import Answer, Finding, failed, ok, warning
from portico.cli.doctor.refusals import refused

STEP: Final = "metadata"
SERVERS: Final = "authorization servers"


def default_url(url: str) -> str:
    """Where RFC 9728 puts a resource's document."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path.rstrip('/')}"


def server_urls(issuer: str) -> list[str]:
    """Where an issuer's own document may be, in the order in which clients look."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [
        f"{origin}/.well-known/{kind}{path}"
        for kind in ("oauth-authorization-server", "openid-configuration")
    ]
    return [*found, f"{origin}{path}/.well-known/openid-configuration"] if path else found


def issuers(document: Any) -> list[str]:
    named = document.get("authorization_servers") if isinstance(document, dict) else None
    return [item for item in named if isinstance(item, str)] if isinstance(named, list) else []


def resource(url: str, where: str, answer: Answer) -> Finding:
    if answer.status != 200:
        fix = f"serve the document at {where} to everybody, without a token"
        if answer.status in (401, 403, 404):
            return failed(STEP, f"{where} answers {answer.status}", fix)
        return refused(STEP, answer)
    document = answer.message
    if not isinstance(document, dict):
        return failed(
            STEP, f"{where} is not JSON", "serve the document there, with content-type application/json"
        )
    named = document.get("resource")
    if named != url:
        text = f"it is about {named}, not about {url}: clients refuse such a document"
        return failed(
            STEP,
            text,
            "set gateway.public_url (AWS: the parameter PublicBaseUrl) to what clients type, to the character",
        )
    if not issuers(document):
        return failed(
            STEP, "it names no authorization_servers", "declare auth.issuers; clients have nowhere to log in"
        )
    return ok(STEP, f"{where} is about this URL and names {', '.join(issuers(document))}")


def server(issuer: str, answers: dict[str, Answer]) -> Finding:
    """Of what was found at `server_urls(issuer)`, up to the first document."""
    for where, answer in answers.items():
        if answer.status == 200 and isinstance(answer.message, dict):
            return _server(issuer, where, answer.message)
    tried = "; ".join(f"{where}: {answer.status or answer.failure}" for where, answer in answers.items())
    fix = "check auth.issuers, and that the authorization server is up and publishes its metadata"
    return failed(SERVERS, f"{issuer} has no metadata ({tried})", fix)


def _server(issuer: str, where: str, document: dict[str, Any]) -> Finding:
    if document.get("issuer") != issuer:
        text = f"{where} is about {document.get('issuer')}, not about {issuer}"
        return failed(SERVERS, text, "write the issuer in auth.issuers exactly as its own document has it")
    missing = [name for name in ("authorization_endpoint", "token_endpoint") if not document.get(name)]
    if missing:
        return failed(
            SERVERS, f"{issuer} does not say its {' and '.join(missing)}", "correct the authorization server"
        )
    methods = document.get("code_challenge_methods_supported")
    if not isinstance(methods, list) or "S256" not in methods:
        text = f"{issuer} does not say that it supports PKCE (S256): clients may refuse it"
        return warning(SERVERS, text, "turn PKCE on and have code_challenge_methods_supported say so")
    return ok(SERVERS, f"{issuer} is reachable")
