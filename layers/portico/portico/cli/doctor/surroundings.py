"""How the address is reached, and what stands around the endpoint: health, foreign web pages, headers."""

import ipaddress
import ssl
from typing import Final
from urllib.parse import urlsplit

from authz.origins import LOOPBACK
from portico.cli.doctor.finding import Answer, Finding, failed, ok, skipped, warning
from portico.cli.doctor.refusals import refused

SLOW_S: Final = 3.0
REFUSALS: Final = frozenset({401, 403})


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK


def address(host: str, found: list[str], failure: str) -> Finding:
    if not found:
        fix = "check the name, and the DNS record (AWS: the custom domain's alias)"
        return failed("address", f"{host} has no address ({failure})", fix)
    return ok("address", f"{host} is {', '.join(found)}" if found != [host] else host)


def _unreachable(url: str, text: str, cause: BaseException) -> Finding:
    if isinstance(cause, ssl.SSLCertVerificationError):
        fix = "install a certificate for this name, whole chain; for one of your own CA: SSL_CERT_FILE=ca.pem portico doctor …"
        return failed("connection", f"the certificate is not to be trusted: {cause.verify_message}", fix)
    if isinstance(cause, ssl.SSLError):
        fix = (
            "if the port speaks plain HTTP, use http://; else look at the TLS versions that the server takes"
        )
        why = (getattr(cause, "reason", None) or str(cause)).lower().replace("_", " ")
        return failed("connection", f"no TLS there ({why})", fix)
    if isinstance(cause, TimeoutError):
        return failed(
            "connection",
            text,
            "look at security groups, firewalls and routes: packets are dropped silently; or the port speaks no TLS",
        )
    if isinstance(cause, ConnectionRefusedError) or "Connect call failed" in str(cause):
        fix = (
            "start the gateway, or check host and port"
            if is_loopback(url)
            else "check host, port and what listens there"
        )
        return failed("connection", f"nothing listens at {urlsplit(url).netloc}", fix)
    return failed("connection", text, "check host, port and the network in between")


def connection(url: str, answer: Answer) -> Finding:
    if answer.cause is not None:
        return _unreachable(url, answer.failure, answer.cause)
    if not answer.status:
        fix = "check that an HTTP server listens there (https:// if it speaks TLS), and that nothing cuts the connection"
        return failed("connection", answer.failure, fix)
    took = f"{answer.seconds * 1000:.0f} ms"
    if answer.seconds > SLOW_S:
        return warning(
            "connection",
            f"the first answer took {took}",
            "a cold start? See `make coldstart`; else the network",
        )
    if urlsplit(url).scheme == "http" and not is_loopback(url):
        return warning(
            "connection", f"reached in {took}, without TLS: tokens can be read on the way", "use https://"
        )
    return ok("connection", f"reached in {took}{', TLS is fine' if urlsplit(url).scheme == 'https' else ''}")


def health(where: str, answer: Answer) -> Finding:
    if answer.status == 200 and isinstance(answer.message, dict) and answer.message.get("status") == "ok":
        return ok("health", "/health says ok")
    if answer.status in (401, 403, 404):
        fix = f"deploy the route {where}, without a token, if what answers is Portico"
        return warning("health", f"/health answers {answer.status}", fix)
    if answer.status == 200 and answer.media_type != "text/html":
        return warning(
            "health", "/health answers, but not as Portico does", "check that the URL is Portico's"
        )
    return refused("health", answer)


def origin(answer: Answer) -> Finding:
    """Of a request that says to come from a web page elsewhere."""
    if answer.status == 403:
        return ok("origin", "a web page from elsewhere is refused")
    if answer.status == 401:
        return skipped("origin", "the token is asked for first")
    if answer.result is not None:
        fix = "let the Origin header pass to the gateway, and list only your own pages in gateway.allowed_origins"
        return failed("origin", "a web page from elsewhere is served", fix)
    return refused("origin", answer)


def headers(answers: list[Answer]) -> Finding:
    """Of MCP answers: no cache may keep them, no cookie belongs to them."""
    for answer in answers:
        kept = answer.headers.get("cache-control", "").lower()
        if (
            "public" in kept
            or "max-age" in kept.replace("max-age=0", "")
            or "hit" in answer.headers.get("x-cache", "").lower()
        ):
            text = f"a cache may keep answers ({kept or answer.headers.get('x-cache')}): one client would get another's"
            return failed(
                "headers", text, "turn caching off for this path (CloudFront: the policy CachingDisabled)"
            )
    for answer in answers:
        if "set-cookie" in answer.headers:
            text = "answers set a cookie: MCP clients keep none, so nothing may depend on it"
            return warning("headers", text, "turn sticky sessions off; the store makes them needless")
        # Why somebody is refused may be known to every page: else it could not log him in.
        if answer.status not in REFUSALS and answer.headers.get("access-control-allow-origin") == "*":
            text = "Access-Control-Allow-Origin is *: every web page may read the answers"
            return warning(
                "headers", text, "name your own pages in gateway.allowed_origins, and no others at the front"
            )
        if "content-encoding" in answer.headers:
            text = f"answers come compressed ({answer.headers['content-encoding']}) although that was not asked for"
            return warning("headers", text, "turn compression off for this path; it also holds streams up")
    return ok("headers", "nothing in them that would hurt")
