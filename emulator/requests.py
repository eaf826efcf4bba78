"""A request as API Gateway hands it on: the proxy event, and the names that mappings know it by."""

import base64
import json
import time
import urllib.parse
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from emulator.application import Api
from emulator.intrinsics import ACCOUNT, REGION
from emulator.routes import Route
from emulator.wire import Pairs, Request

API_ID = "local"


@dataclass(frozen=True)
class Incoming:
    """A request that has a route. `context` is requestContext; the authorizer adds to it."""

    route: Route
    method: str
    path: str  # without the stage
    parameters: dict[str, str] | None
    query: dict[str, list[str]]
    headers: Pairs
    context: dict[str, Any]
    stage_variables: dict[str, str] | None

    @property
    def arn(self) -> str:
        stage = self.context["stage"]
        return f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{API_ID}/{stage}/{self.method}{self.path}"

    def value(self, source: str) -> str | None:
        """What a mapping such as method.request.header.X or context.authorizer.y stands for; None if nothing."""
        if source.startswith("'") and source.endswith("'"):
            return source[1:-1]
        kind, _, name = source.removeprefix("method.request.").partition(".")
        match kind:
            case "header":
                return next((v for k, v in reversed(self.headers) if k.lower() == name.lower()), None)
            case "querystring":
                return self.query[name][-1] if name in self.query else None
            case "path":
                return (self.parameters or {}).get(name)
            case "stageVariables":
                return (self.stage_variables or {}).get(name)
            case "context":
                return lookup(self.context, name)
        return None

    def event(self) -> dict[str, Any]:
        """Without the body, as an authorizer sees it."""
        several: dict[str, list[str]] = {}
        for name, value in self.headers:
            several.setdefault(name, []).append(value)
        return {
            "resource": self.route.path,
            "path": self.path,
            "httpMethod": self.method,
            "headers": {name: values[-1] for name, values in several.items()},
            "multiValueHeaders": several,
            "queryStringParameters": {name: values[-1] for name, values in self.query.items()} or None,
            "multiValueQueryStringParameters": self.query or None,
            "pathParameters": self.parameters,
            "stageVariables": self.stage_variables,
            "requestContext": self.context,
        }

    def proxy_event(self, body: bytes, *, binary: bool) -> bytes:
        text = base64.b64encode(body).decode() if binary else body.decode(errors="replace")
        event = {**self.event(), "body": text or None, "isBase64Encoded": binary}
        return json.dumps(event, ensure_ascii=False).encode()


def lookup(values: dict[str, Any], name: str) -> str | None:
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return None if found is None or isinstance(found, dict | list) else str(found)


def split_stage(path: str, stage: str) -> str:
    """The path below the stage. Without the stage's name it is a request to a custom domain: the same resources."""
    return path.removeprefix(f"/{stage}") or "/" if f"{path}/".startswith(f"/{stage}/") else path


def incoming(api: Api, request: Request, route: Route, parameters: dict[str, str] | None) -> Incoming:
    url = urllib.parse.urlsplit(request.target)
    now = time.time()
    host = request.header("host") or ""
    context = {
        "accountId": ACCOUNT,
        "apiId": API_ID,
        "domainName": host.partition(":")[0],
        "domainPrefix": host.partition(".")[0],
        "extendedRequestId": base64.b64encode(uuid.uuid4().bytes[:10]).decode(),
        "httpMethod": request.method,
        "identity": {"sourceIp": request.peer, "userAgent": request.header("user-agent")},
        "path": url.path,
        "protocol": "HTTP/1.1",
        "requestId": str(uuid.uuid4()),
        "requestTime": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "requestTimeEpoch": int(now * 1000),
        "resourceId": "local",
        "resourcePath": route.path,
        "stage": api.stage,
    }
    return Incoming(
        route=route,
        method=request.method,
        path=split_stage(url.path, api.stage),
        parameters=parameters,
        query=urllib.parse.parse_qs(url.query, keep_blank_values=True),
        headers=_headers(request),
        context=context,
        stage_variables=api.stage_variables,
    )


def _headers(request: Request) -> Pairs:
    """Without those that concern one hop, and with those that API Gateway adds."""
    kept = [(k, v) for k, v in request.headers if k.lower() not in HOP]
    forwarded = [v for k, v in kept if k.lower() == "x-forwarded-for"]
    added = {
        "X-Amzn-Trace-Id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]}",
        "X-Forwarded-For": ", ".join([*forwarded, request.peer]),
        "X-Forwarded-Port": (request.header("host") or "").partition(":")[2] or "80",
        "X-Forwarded-Proto": "http",
    }
    names = {name.lower() for name in added}
    return [(k, v) for k, v in kept if k.lower() not in names] + list(added.items())


HOP = {
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


def is_binary(types: tuple[str, ...], media_type: str | None) -> bool:
    if "*/*" in types:
        return True
    wanted = (media_type or "").partition(";")[0].partition(",")[0].strip().lower()
    family = wanted.partition("/")[0]
    return any(each.lower() in (wanted, f"{family}/*") for each in types) and bool(wanted)
