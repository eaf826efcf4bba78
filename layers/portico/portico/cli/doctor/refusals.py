"""What an answer that should have been a result says of what stands between the client and the gateway."""

from portico.cli.doctor.finding import Answer, Finding, failed
from portico.cli.doctor.reading import bearer
from portico.protocol.jsonrpc import METHOD_NOT_FOUND

MCP_HEADERS = "Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method and Mcp-Name"
PASS_HEADERS = (
    f"let {MCP_HEADERS} pass, both ways (CloudFront: an origin request policy such as AllViewerExceptHostHeader; "
    "a proxy: its list of forwarded headers)"
)
LOST_SESSION = (
    "every instance needs the same store: set `store: dynamodb:TABLE` (or one sqlite file for processes of one "
    "machine); `memory` is for one process"
)
SESSION_STEPS = frozenset({"tools/list", "tools/call", "ping", "session", "GET stream", "end"})
LOOK = "the gateway's log has the reason; `portico status` says how each backend is"


def refused(step: str, answer: Answer) -> Finding:
    """Why a request did not get its result, from the outside in: no answer, the front's answer, the gateway's."""
    return front(step, answer) or _gateway(step, answer)


def front(step: str, answer: Answer) -> Finding | None:
    """Answers that no MCP server gives."""
    if not answer.status:
        fix = "look whether something in between cuts connections, and at the gateway's log"
        return failed(step, answer.failure, fix)
    if 300 <= answer.status < 400:
        to = answer.headers.get("location", "nowhere")
        return failed(
            step,
            f"a redirect ({answer.status}) to {to}",
            "use the address it leads to; clients do not follow",
        )
    if answer.media_type == "text/html":
        text = f"a web page (HTTP {answer.status}) in place of an MCP answer"
        return failed(
            step,
            text,
            "check the URL's path, and that no login page, CDN error page or other site answers there",
        )
    if answer.status in (502, 503, 504) and not answer.error:
        text = f"HTTP {answer.status}: the front answers, what is behind it does not"
        fix = "look at the logs of what is behind it (AWS: the function's log group; a time-out, a crash at start)"
        return failed(step, text, fix)
    if answer.status == 403 and "this Host" in str(answer.error.get("message")):
        text = "the gateway does not serve this Host (403)"
        return failed(step, text, "add the name that clients use to gateway.allowed_hosts")
    return _api_gateway(step, answer)


def _api_gateway(step: str, answer: Answer) -> Finding | None:
    """API Gateway's own words for what has no route, no permission, no function."""
    said = answer.message.get("message") if isinstance(answer.message, dict) else None
    if answer.status == 403 and said == "Missing Authentication Token":
        text = "API Gateway has no such route (403, Missing Authentication Token)"
        return failed(
            step,
            text,
            "check the path (with the stage, as in /prod/mcp, unless a custom domain maps it away) and that the method is deployed",
        )
    if answer.status == 403 and said == "Forbidden":
        text = "API Gateway or a firewall refuses (403, Forbidden)"
        return failed(
            step,
            text,
            "check the path (with the stage, as in /prod/mcp), the custom domain's mapping, the resource policy, WAF rules and API keys",
        )
    return None


def _gateway(step: str, answer: Answer) -> Finding:
    said = f"{answer.error['message']} ({answer.code})" if "message" in answer.error else "no MCP answer"
    text = f"HTTP {answer.status}: {said}"
    if answer.status in (401, 403):
        return _unauthorized(step, answer)
    if answer.status == 404 and step in SESSION_STEPS and answer.code != METHOD_NOT_FOUND:
        return failed(step, f"the session is not known any more ({text})", LOST_SESSION)
    if answer.status == 404:
        return failed(step, text, "check the URL's path: Portico serves /mcp")
    if answer.status == 400 and step in ("initialize", "challenge", "origin"):
        return failed(step, text, "check that what answers is an MCP server, and one that takes `initialize`")
    if answer.status == 400:
        return failed(step, f"the request arrived incomplete ({text})", PASS_HEADERS)
    if answer.status == 429:
        return failed(step, text, "raise the throttling limits of the stage or the usage plan, or wait")
    return failed(step, text, LOOK)


def _unauthorized(step: str, answer: Answer) -> Finding:
    said = bearer(answer.headers.get("www-authenticate", "")) or {}
    why = ": ".join(filter(None, [said.get("error"), said.get("error_description")]))
    text = f"the token is refused (HTTP {answer.status}{', ' if why else ''}{why})"
    if said.get("error") == "insufficient_scope":
        return failed(
            step, text, f"ask for a token with the scopes: {said.get('scope', 'see the metadata document')}"
        )
    return failed(
        step,
        text,
        "get a new token, from the issuer and for the audience that the gateway is configured with",
    )
