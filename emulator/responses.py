"""Gateway responses: what API Gateway says itself, as it is by default or as the template has it."""

import json
import re
from typing import Any

from emulator.requests import Incoming, lookup
from emulator.wire import Pairs, Response

# Kind: status, message, and the x-amzn-ErrorType that comes with it.
DEFAULTS: dict[str, tuple[int, str | None, str]] = {
    "UNAUTHORIZED": (401, "Unauthorized", "UnauthorizedException"),
    "ACCESS_DENIED": (403, "User is not authorized to access this resource", "AccessDeniedException"),
    "MISSING_AUTHENTICATION_TOKEN": (
        403,
        "Missing Authentication Token",
        "MissingAuthenticationTokenException",
    ),
    "INVALID_SIGNATURE": (403, "The request signature is not one of AWS", "IncompleteSignatureException"),
    "REQUEST_TOO_LARGE": (413, "Request Too Long", "RequestTooLargeException"),
    "AUTHORIZER_CONFIGURATION_ERROR": (500, None, "AuthorizerConfigurationException"),
    "INTEGRATION_FAILURE": (502, "Internal server error", "InternalServerErrorException"),
    "INTEGRATION_TIMEOUT": (504, "Endpoint request timed out", "InternalServerErrorException"),
}
PLAIN = '{"message":$context.error.messageString}'
VARIABLE = re.compile(r"\$context\.([A-Za-z0-9_.-]*[A-Za-z0-9_-])")


def gateway_response(
    declared: dict[str, Any], kind: str, incoming: Incoming, message: str | None = None
) -> Response:
    """`declared` is the template's own, by kind; DEFAULT_4XX and DEFAULT_5XX stand in for what is not there."""
    status, usual, error_type = DEFAULTS[kind]
    chosen = declared.get(kind) or declared.get("DEFAULT_4XX" if status < 500 else "DEFAULT_5XX") or {}
    said = message or usual
    error = {"message": said or "null", "messageString": json.dumps(said), "responseType": kind}
    context = {**incoming.context, "error": error}
    media_type, template = _template(chosen.get("responseTemplates") or {}, incoming)
    body = VARIABLE.sub(lambda match: lookup(context, match[1]) or "", template)
    headers = _headers(chosen.get("responseParameters") or {}, incoming, context)
    given = {name.lower() for name, _ in headers}
    usually = [("Content-Type", media_type), ("x-amzn-ErrorType", error_type)]
    kept = [(name, value) for name, value in usually if name.lower() not in given]
    return Response(int(chosen.get("statusCode", status)), kept + headers, body.encode())


def _template(templates: dict[str, str], incoming: Incoming) -> tuple[str, str]:
    """The one that the client asks for first, else JSON, else any."""
    accepted = incoming.value("method.request.header.Accept") or ""
    wanted = [each.partition(";")[0].strip() for each in accepted.split(",")]
    for media_type in [*wanted, "application/json", *templates]:
        if media_type in templates:
            return media_type, templates[media_type]
    return "application/json", PLAIN


def _headers(parameters: dict[str, str], incoming: Incoming, context: dict[str, Any]) -> Pairs:
    """A source that stands for nothing gives no header."""
    found: Pairs = []
    for target, source in parameters.items():
        kind, _, name = target.removeprefix("gatewayresponse.").partition(".")
        of_context = source.startswith("context.")
        value = lookup(context, source.removeprefix("context.")) if of_context else incoming.value(source)
        if kind == "header" and value is not None:
            found.append((name, value))
    return found
