"""The API for operators: backends are declared, changed, disabled and removed here; with FastAPI, off the hot path."""

import json
from html import escape
from typing import Annotated, Any, Final, Protocol

from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from portico import __version__
from portico.registrations import Condition, Refused, Registrations, shown_problems
from portico.registry.document import read_json
from portico.registry.entries import FIELDS
from portico.registry.problems import Problem, Report, shown
from portico.registry.records import MAX_BYTES

PROBLEM: Final = "application/problem+json"
JSON_TYPES: Final = ("application/json", "application/merge-patch+json")
ABOUT: Final = """\
The backends behind the gateway: those of portico.yaml, and those declared here. What is declared here has the fields
that a backend has in the file. A change is in force at once, in every process on the same store.

`ETag` is a record's version; `If-Match` and `If-None-Match` are heeded. A refusal is application/problem+json, and its
`problems` name each field, what was expected and what was found."""

_TEXT: Final = {"type": "string"}
_PROBLEM_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "status": {"type": "integer"},
        "detail": _TEXT,
        "problems": {
            "type": "array",
            "items": {"type": "object", "properties": dict.fromkeys(("path", "expected", "found"), _TEXT)},
        },
    },
}
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"description": "It is refused.", "content": {PROBLEM: {"schema": _PROBLEM_SCHEMA}}}
}

IfMatch = Annotated[str | None, Header(description="only onto the version with this ETag")]
IfNoneMatch = Annotated[str | None, Header(description="`*`: only if there is none yet")]


class Operator(Protocol):
    async def status(self, name: str | None) -> dict[str, Any] | None: ...
    async def changed(self) -> None:
        """The records are not what they were."""


class Control:
    def __init__(self, registrations: Registrations, operator: Operator) -> None:
        self._registrations = registrations
        self._operator = operator

    async def backends(self) -> dict[str, Any]:
        """All backends, in the order in which they are merged."""
        return {"backends": await self._registrations.all()}

    async def backend(self, name: str, response: Response) -> dict[str, Any]:
        """One backend."""
        found = await self._registrations.one(name)
        self._tag(name, response)
        return found

    async def create(self, request: Request, response: Response) -> dict[str, Any]:
        """Declare a backend: its `name`, and the fields it would have in portico.yaml."""
        fields = await _body(request)
        name = fields.pop("name", None)
        if not isinstance(name, str):
            problem = Problem("name", "the name of the backend", shown(name))
            raise Refused(422, "the backend cannot be declared so", [problem])
        await self._registrations.create(name, fields)
        response.headers["location"] = f"/backends/{name}"
        return await self._done(name, response)

    async def replace(
        self,
        name: str,
        request: Request,
        response: Response,
        if_match: IfMatch = None,
        if_none_match: IfNoneMatch = None,
    ) -> dict[str, Any]:
        """Declare a backend, or declare it anew."""
        condition = Condition(if_match, if_none_match)
        if await self._registrations.replace(name, await _body(request), condition):
            response.status_code = 201
        return await self._done(name, response)

    async def change(
        self, name: str, request: Request, response: Response, if_match: IfMatch = None
    ) -> dict[str, Any]:
        """Change some fields (JSON merge patch: null takes one away). Of a file's backend, only `enabled`."""
        await self._registrations.change(name, await _body(request), Condition(if_match))
        return await self._done(name, response)

    async def remove(self, name: str, if_match: IfMatch = None) -> None:
        """Remove a backend that was declared here."""
        await self._registrations.remove(name, Condition(if_match))
        await self._operator.changed()

    async def status(self) -> dict[str, Any]:
        """How all of them are."""
        return await self._operator.status(None) or {}

    async def status_of(self, name: str) -> dict[str, Any]:
        """How one backend is."""
        found = await self._operator.status(name)
        if found is None:
            raise Refused(404, "there is no such backend")
        return found

    async def _done(self, name: str, response: Response) -> dict[str, Any]:
        await self._operator.changed()
        return await self.backend(name, response)

    def _tag(self, name: str, response: Response) -> None:
        version = self._registrations.version(name)
        if version:
            response.headers["etag"] = f'"{version}"'


def application(registrations: Registrations, operator: Operator) -> FastAPI:
    app = FastAPI(
        title="Portico",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={Refused: _refused, HTTPException: _http_error},
    )
    own = Control(registrations, operator)
    taken = {"requestBody": _request_body(named=False)}
    routes: list[tuple[str, str, Any, int, dict[str, Any] | None]] = [
        ("GET", "/backends", own.backends, 200, None),
        ("POST", "/backends", own.create, 201, {"requestBody": _request_body(named=True)}),
        ("GET", "/backends/{name}", own.backend, 200, None),
        ("PUT", "/backends/{name}", own.replace, 200, taken),
        ("PATCH", "/backends/{name}", own.change, 200, taken),
        ("DELETE", "/backends/{name}", own.remove, 204, None),
        ("GET", "/status", own.status, 200, None),
        ("GET", "/status/{name}", own.status_of, 200, None),
    ]
    for verb, path, action, status, more in routes:
        app.add_api_route(
            path, action, methods=[verb], status_code=status, responses=REFUSALS, openapi_extra=more
        )

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(_page(app.openapi()))

    return app


async def _body(request: Request) -> dict[str, Any]:
    """The object in it, checked for what JSON itself would let pass."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in JSON_TYPES:
        raise Refused(415, "Content-Type must be application/json")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise Refused(413, f"the body is larger than {MAX_BYTES} bytes")
    report = Report("")
    root = read_json(body, report)
    if root is None:
        raise Refused(400, "the body is not usable", report.problems)
    if not isinstance(root.data, dict):
        raise Refused(400, "the body must be a JSON object")
    found: dict[str, Any] = json.loads(body)
    return found


async def _refused(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, Refused):
        raise error
    problems = shown_problems(error.problems)
    return _problem(error.status, error.detail, problems)


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    return _problem(error.status_code, str(error.detail), [], error.headers)


def _problem(status: int, detail: str, problems: list[dict[str, str]], headers: Any = None) -> JSONResponse:
    content = {"status": status, "detail": detail, "problems": problems}
    return JSONResponse(content, status, headers, media_type=PROBLEM)


def _request_body(*, named: bool) -> dict[str, Any]:
    fields = {name: {"description": kind.expected} for name, kind in FIELDS.items()}
    if named:
        fields = {"name": {"description": "the name of the backend"}, **fields}
    schema = {"type": "object", "properties": fields, "additionalProperties": False}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _page(openapi: dict[str, Any]) -> str:
    """The API as a page that needs no other one: FastAPI's own would be fetched from elsewhere."""
    operations = "".join(
        f"<dt><code>{escape(verb.upper())} {escape(path)}</code></dt><dd>{escape(said['description'])}</dd>"
        for path, verbs in openapi["paths"].items()
        for verb, said in verbs.items()
    )
    fields = "".join(
        f"<dt><code>{escape(name)}</code></dt><dd>{escape(kind.expected)}</dd>"
        for name, kind in FIELDS.items()
    )
    about = "".join(f"<p>{escape(part)}</p>" for part in ABOUT.split("\n\n"))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Portico</title><h1>Portico</h1>"
        f"{about}<dl>{operations}</dl><h2>The fields of a backend</h2><dl>{fields}</dl>"
        "<p><a href=/openapi.json>openapi.json</a></p></html>"
    )
