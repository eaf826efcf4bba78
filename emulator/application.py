"""What a translated template declares, as values: functions, routes, authorizers, schedules, tables."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.routes import Route, by_precedence, path_pattern

Json = dict[str, Any]
FUNCTION_IN_ARN = re.compile(r":function:([A-Za-z0-9_-]+)")


class Unsupported(ValueError):
    """The template asks for what the emulator does not do."""


@dataclass(frozen=True)
class Function:
    name: str
    handler: str
    runtime: str
    root: Path
    layers: tuple[Path, ...]
    environment: dict[str, str]
    timeout_s: float
    memory_mb: int


@dataclass(frozen=True)
class Authorizer:
    name: str
    function: str
    kind: str  # request | token
    identity: tuple[str, ...]  # method.request.header.Authorization …
    ttl_s: float


@dataclass(frozen=True)
class Schedule:
    name: str
    function: str
    expression: str
    payload: str | None


@dataclass(frozen=True)
class Api:
    stage: str
    routes: tuple[Route, ...] = ()
    authorizers: dict[str, Authorizer] = field(default_factory=dict)
    signed: frozenset[str] = frozenset()  # authorizers that are IAM: a signature is asked for
    responses: Json = field(default_factory=dict)
    binary_types: tuple[str, ...] = ()
    stage_variables: dict[str, str] | None = None


@dataclass(frozen=True)
class Application:
    functions: dict[str, Function]  # by name
    api: Api
    schedules: tuple[Schedule, ...]
    tables: tuple[Json, ...]


def read(resources: Mapping[str, Json], paths: Mapping[str, Path]) -> Application:
    layers = {name: _built(p["Content"], paths) for name, p in _of(resources, "AWS::Lambda::LayerVersion")}
    functions = [_function(n, p, paths, layers) for n, p in _of(resources, "AWS::Lambda::Function")]
    return Application(
        functions={function.name: function for function in functions},
        api=_api(resources),
        schedules=tuple(_schedules(resources)),
        tables=tuple({"TableName": n, **p} for n, p in _of(resources, "AWS::DynamoDB::Table")),
    )


def _of(resources: Mapping[str, Json], kind: str) -> Iterator[tuple[str, Json]]:
    return ((name, r["Properties"]) for name, r in resources.items() if r["Type"] == kind)


def _built(code: Json, paths: Mapping[str, Path]) -> Path:
    key = str(code.get("S3Key"))
    if key not in paths:
        raise Unsupported(f"{key} has not been built: run sam build")
    return paths[key]


def _function(name: str, p: Json, paths: Mapping[str, Path], layers: Mapping[str, Path]) -> Function:
    if unknown := [layer for layer in p.get("Layers", []) if layer not in layers]:
        raise Unsupported(f"{name} has the layer {unknown[0]}, which is not in this template")
    declared = p.get("Environment", {}).get("Variables", {})
    return Function(
        name=p.get("FunctionName", name),
        handler=p["Handler"],
        runtime=p["Runtime"],
        root=_built(p["Code"], paths),
        layers=tuple(layers[layer] for layer in p.get("Layers", [])),
        environment={key: _text(value) for key, value in declared.items()},
        timeout_s=float(p.get("Timeout", 3)),
        memory_mb=int(p.get("MemorySize", 128)),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _api(resources: Mapping[str, Json]) -> Api:
    apis = list(_of(resources, "AWS::ApiGateway::RestApi"))
    if not apis:
        return Api(stage="")
    if len(apis) > 1:
        raise Unsupported(f"one REST API at a time; the template has {', '.join(name for name, _ in apis)}")
    stage = next(p for _, p in _of(resources, "AWS::ApiGateway::Stage"))
    body = apis[0][1]["Body"]
    declared = body.get("securityDefinitions") or body.get("components", {}).get("securitySchemes") or {}
    found = [_authorizer(n, d["x-amazon-apigateway-authorizer"]) for n, d in declared.items() if _custom(d)]
    signed = frozenset(n for n, d in declared.items() if d.get("x-amazon-apigateway-authtype") == "awsSigv4")
    if other := declared.keys() - signed - {authorizer.name for authorizer in found}:
        raise Unsupported(f"the authorizer {min(other)} is neither a function nor IAM")
    binary = apis[0][1].get("BinaryMediaTypes") or body.get("x-amazon-apigateway-binary-media-types") or []
    return Api(
        stage=stage["StageName"],
        routes=by_precedence(_routes(body)),
        authorizers={authorizer.name: authorizer for authorizer in found},
        signed=signed,
        responses=body.get("x-amazon-apigateway-gateway-responses", {}),
        binary_types=tuple(each.replace("~1", "/") for each in binary),
        stage_variables=stage.get("Variables"),
    )


def _custom(definition: Json) -> bool:
    return "authorizerUri" in definition.get("x-amazon-apigateway-authorizer", {})


def _authorizer(name: str, declared: Json) -> Authorizer:
    kind = declared.get("type", "token").lower()
    by_token = "method.request.header.Authorization" if kind == "token" else ""
    sources = declared.get("identitySource", by_token)
    return Authorizer(
        name=name,
        function=_function_of(declared["authorizerUri"]),
        kind=kind,
        identity=tuple(each.strip() for each in sources.split(",") if each.strip()),
        ttl_s=float(declared.get("authorizerResultTtlInSeconds", 300)),
    )


def _routes(body: Json) -> Iterator[Route]:
    for path, methods in body.get("paths", {}).items():
        for method, operation in methods.items():
            integration = operation.get("x-amazon-apigateway-integration")
            if integration is None:
                continue
            kind = integration["type"].lower()
            if kind not in {"aws_proxy", "mock"}:
                raise Unsupported(f"{method.upper()} {path} has an integration of type {kind}")
            secured = [name for each in operation.get("security", []) for name in each if name != "NONE"]
            yield Route(
                path=path,
                pattern=path_pattern(path),
                method="ANY" if method == "x-amazon-apigateway-any-method" else method.upper(),
                function=_function_of(integration["uri"]) if kind == "aws_proxy" else None,
                authorizer=secured[0] if secured else None,
                streaming=integration.get("responseTransferMode") == "STREAM",
                timeout_s=integration.get("timeoutInMillis", 29000) / 1000,
                mock=integration if kind == "mock" else None,
            )


def _schedules(resources: Mapping[str, Json]) -> Iterator[Schedule]:
    for name, p in _of(resources, "AWS::Events::Rule"):
        if "ScheduleExpression" in p and p.get("State") != "DISABLED":
            for target in p.get("Targets", []):
                function = _function_of(target["Arn"])
                yield Schedule(p.get("Name", name), function, p["ScheduleExpression"], target.get("Input"))
    for name, p in _of(resources, "AWS::Scheduler::Schedule"):
        if p.get("State") != "DISABLED":
            target = p["Target"]
            function = _function_of(target["Arn"])
            yield Schedule(p.get("Name", name), function, p["ScheduleExpression"], target.get("Input"))


def _function_of(arn: str) -> str:
    match = FUNCTION_IN_ARN.search(arn)
    if match is None:
        raise Unsupported(f"not a function of this template: {arn}")
    return match[1]
