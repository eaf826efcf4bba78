"""A call that waits for its user's consent: how its client is told in either era, and how a modern one comes back.

A legacy client gets the error that says so (-32042 of 2025-11-25) and calls again. A modern one gets `input_required`; its
retry waits for a while, since the browser takes longer than the client. One that cannot show its user an address gets it
in the error's text.
"""

import asyncio
import base64
import json
import time
from dataclasses import replace
from typing import Any, Final

from portico.credentials.calls import Credentials
from portico.errors import UserNeeded
from portico.protocol import jsonrpc, states, translate
from portico.protocol.jsonrpc import (
    BACKEND_FAILED,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    URL_ELICITATION_REQUIRED,
    Message,
    Rejection,
)
from portico.replies import Reply, refusal
from portico.requests import LegacyRequest, ModernRequest, Request
from portico.router import Forward

MARK: Final = "portico-consent."
KEY: Final = "consent"
LOOK_S: Final = 0.3
WAIT_S: Final = 30.0
"""For how long a retry waits for its user before it is told to ask again."""


def needed(error: UserNeeded, request: Request, credentials: Credentials, server: dict[str, Any]) -> Reply:
    message = request.message
    where: dict[str, Any] = {"backend": error.backend, "url": error.url}
    asked = {"mode": "url", "url": error.url, "message": error.asked}
    if isinstance(request, LegacyRequest):
        if not _can_show(request) or message.kind != "request":
            return refusal(Rejection(200, BACKEND_FAILED, str(error), where, message.id))
        data = {"elicitations": [{**asked, "elicitationId": error.id}]}
        return refusal(Rejection(200, URL_ELICITATION_REQUIRED, str(error), data, message.id))
    if not _can_show(request):
        where["requiredCapabilities"] = {"elicitation": {"url": {}}}
        return refusal(Rejection(400, MISSING_CAPABILITY, str(error), where, message.id))
    if message.method not in translate.ROUND_METHODS:
        return refusal(Rejection(200, BACKEND_FAILED, str(error), where, message.id))
    questions = {KEY: {"method": "elicitation/create", "params": asked}}
    state = _sealed(error, request, credentials)
    return Reply(200, translate.input_required(message.id, questions, state, server))


def _can_show(request: Request) -> bool:
    own = (
        request.session.capabilities if isinstance(request, LegacyRequest) else request.envelope.capabilities
    )
    elicitation = own.get("elicitation")
    return isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)


# A modern client that comes back


def is_back(request: Request) -> bool:
    state = request.message.param("requestState")
    return isinstance(request, ModernRequest) and isinstance(state, str) and state.startswith(MARK)


async def resumed(
    decision: Forward, request: ModernRequest, credentials: Credentials, server: dict[str, Any]
) -> tuple[Forward, ModernRequest] | Reply:
    """The call as it was before its user was asked; or what its client is told instead."""
    state = _opened(request, credentials)
    if isinstance(state, Rejection):
        return refusal(state)
    responses = request.message.param("inputResponses")
    answer = responses.get(KEY) if isinstance(responses, dict) else None
    action = answer.get("action") if isinstance(answer, dict) else None
    if action in ("decline", "cancel"):
        text = f"{state['backend']} was not called: its user has not let the gateway act for him there"
        return refusal(
            Rejection(200, BACKEND_FAILED, text, {"backend": state["backend"]}, request.message.id)
        )
    before = {"requestState": state["state"], "inputResponses": state["responses"]}
    message = jsonrpc.read(translate.with_params(request.message.text, before))
    assert isinstance(message, Message)  # noqa: S101 - it was read before
    request = replace(request, message=message)
    ended = await _waited(state["id"], credentials)
    if ended == "refused":
        text = f"{state['backend']} was not called: its authorization server did not let the user in"
        return refusal(Rejection(200, BACKEND_FAILED, text, {"backend": state["backend"]}, message.id))
    if not ended:
        again = UserNeeded(state["id"], state["url"], state["backend"])
        return needed(again, request, credentials, server)
    body = translate.with_params(decision.body.decode(), before)
    return replace(decision, body=body.encode()), request


async def _waited(id_: str, credentials: Credentials) -> str:
    """How it ended; empty if it has not. One that has expired is as good as over: the call is tried."""
    deadline = time.monotonic() + WAIT_S
    while True:
        consent = await credentials.wired.consents.find(id_)
        if consent is None:
            return "given"
        if consent.ended or time.monotonic() >= deadline:
            return consent.ended
        await asyncio.sleep(LOOK_S)


def _sealed(error: UserNeeded, request: ModernRequest, credentials: Credentials) -> str:
    """With what the client had from an earlier round, so that it is not lost."""
    message = request.message
    state = {
        "id": error.id,
        "url": error.url,
        "backend": error.backend,
        "state": message.param("requestState"),
        "responses": message.param("inputResponses"),
        "until": time.time() + 900,
    }
    sealed = credentials.wired.vault.keys.seal(json.dumps(state).encode(), _place(request))
    return MARK + base64.urlsafe_b64encode(sealed).decode()


def _opened(request: ModernRequest, credentials: Credentials) -> dict[str, Any] | Rejection:
    text = request.message.param("requestState").removeprefix(MARK)
    refused = Rejection(
        400, INVALID_PARAMS, "requestState does not belong to this request", id=request.message.id
    )
    try:
        sealed = base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError:
        return refused
    plain = credentials.wired.vault.keys.open(sealed, _place(request))
    state: dict[str, Any] = json.loads(plain) if plain else {}
    if not state or time.time() > state["until"]:
        return refused
    return state


def _place(request: ModernRequest) -> str:
    """Bound to the call and to who made it."""
    return json.dumps([states.digest(request.message), request.principal])
