"""The front end: does with a request what a Regional REST API does."""

import asyncio
import urllib.parse
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from emulator.application import Api
from emulator.authorizers import Authorizers, Refusal, check_signature
from emulator.functions import Functions
from emulator.outcomes import PAYLOAD_LIMIT, Outcome, Payload
from emulator.proxying import buffered, streamed
from emulator.requests import Incoming, incoming, is_binary, split_stage
from emulator.responses import gateway_response
from emulator.routes import Route, match, path_pattern
from emulator.wire import Pairs, Request, Response, StreamBroken

BODY_LIMIT = 10 * 2**20
NOWHERE = Route(path="", pattern=path_pattern(""), method="ANY", function=None)


class Gateway:
    def __init__(self, api: Api, functions: Functions) -> None:
        self._api = api
        self._functions = functions
        self._authorizers = Authorizers(api.authorizers, functions)

    async def handle(self, request: Request) -> Response:
        path = split_stage(urllib.parse.urlsplit(request.target).path, self._api.stage)
        route, parameters = match(self._api.routes, request.method, path) or (NOWHERE, None)
        call = incoming(self._api, request, route, parameters)
        response = await self._respond(call, request)
        response.headers += _marks(call)
        return response

    async def _respond(self, call: Incoming, request: Request) -> Response:
        body = await request.body(BODY_LIMIT)
        if body is None:
            return self._refuse("REQUEST_TOO_LARGE", call)
        if call.route is NOWHERE:
            # As if it took a signature: what else is in Authorization is none.
            return self._refuse(check_signature(call) or "MISSING_AUTHENTICATION_TOKEN", call)
        return await self._authorized(call) or await self._integrate(call, request, body)

    async def _authorized(self, call: Incoming) -> Response | None:
        """None if it may go on."""
        if call.route.authorizer is None:
            return None
        if call.route.authorizer in self._api.signed:
            refused = check_signature(call)
            return self._refuse(refused, call) if refused else None
        answer = await self._authorizers.check(call.route.authorizer, call)
        if isinstance(answer, Refusal):
            call.context["authorizer"] = answer.context
            return self._refuse(answer.kind, call, answer.message)
        call.context["authorizer"] = answer
        return None

    async def _integrate(self, call: Incoming, request: Request, body: bytes) -> Response:
        if call.route.function is None:
            return _mock(call)
        types = self._api.binary_types
        event = call.proxy_event(body, binary=bool(body) and is_binary(types, request.header("content-type")))
        if len(event) > PAYLOAD_LIMIT:
            return self._refuse("REQUEST_TOO_LARGE", call)
        work = self._functions.invoke(call.route.function, event)
        try:
            async with asyncio.timeout(call.route.timeout_s):
                outcome = await (_while_there(request, work) if call.route.streaming else work)
                response = await self._answer(call, outcome)
        except TimeoutError:
            return self._refuse("INTEGRATION_TIMEOUT", call)
        return response or self._refuse("INTEGRATION_FAILURE", call)

    async def _answer(self, call: Incoming, outcome: Outcome) -> Response | None:
        if call.route.streaming:
            return None if isinstance(outcome, Payload) else await streamed(outcome, call.route.timeout_s)
        payload = outcome if isinstance(outcome, Payload) else await outcome.whole()
        accepted = call.value("method.request.header.Accept")
        return buffered(payload, decode=is_binary(self._api.binary_types, accepted))

    def _refuse(self, kind: str, call: Incoming, message: str | None = None) -> Response:
        return gateway_response(self._api.responses, kind, call, message)


async def _while_there(request: Request, work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """A client that hangs up before a stream has begun is not waited for."""
    task, gone = asyncio.create_task(work), asyncio.create_task(request.gone())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StreamBroken
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)  # two may not read one connection


def _mock(call: Incoming) -> Response:
    """As SAM makes them for CORS: a status and static headers."""
    responses = (call.route.mock or {}).get("responses", {})
    chosen: dict[str, Any] = responses.get("default") or next(iter(responses.values()), {})
    parameters = chosen.get("responseParameters", {})
    headers = [(name.removeprefix("method.response.header."), value) for name, value in parameters.items()]
    given = [(name, v) for name, value in headers if (v := call.value(str(value))) is not None]
    return Response(int(chosen.get("statusCode", 200)), given)


def _marks(call: Incoming) -> Pairs:
    return [
        ("Date", datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")),
        ("x-amzn-RequestId", call.context["requestId"]),
        ("x-amz-apigw-id", call.context["extendedRequestId"]),
    ]
