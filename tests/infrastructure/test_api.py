"""The routes, who may use them, and what those are told who may not."""

import json
import re
import subprocess

import pytest
import yaml

from portico.aws.edge import chosen
from tests import npm
from tests.infrastructure import tools
from tests.infrastructure.stack import Stack
from tests.support import eventually

MCP = {
    ("POST", "/mcp"): "Edge",
    ("GET", "/mcp"): "Stream",
    ("DELETE", "/mcp"): "Initialize",
    ("POST", "/mcp/v/{server}"): "Edge",
    ("GET", "/mcp/v/{server}"): "Stream",
    ("DELETE", "/mcp/v/{server}"): "Initialize",
    ("POST", "/mcp/initialize"): "Initialize",
    ("POST", "/mcp/tools-list"): "ToolsList",
    ("POST", "/mcp/tools-call"): "ToolsCall",
}
OPERATORS = {
    (verb, path): "Control"
    for path, verbs in {
        "/status": ["GET"],
        "/status/{name}": ["GET"],
        "/backends": ["GET", "POST"],
        "/backends/{name}": ["GET", "PUT", "PATCH", "DELETE"],
        "/services": ["GET", "POST"],
        "/services/{name}": ["GET", "PUT", "PATCH", "DELETE"],
        "/docs": ["GET"],
        "/openapi.json": ["GET"],
    }.items()
    for verb in verbs
}
USERS = {("DELETE", "/oauth/upstream/tokens/{backend}"): "Consent"}
OPEN = {
    **{("GET", f"/oauth/upstream/{page}"): "Consent" for page in ("start", "callback", "client.json")},
    ("OPTIONS", "/mcp"): "Metadata",
    ("OPTIONS", "/mcp/v/{server}"): "Metadata",
    ("OPTIONS", "/.well-known/{proxy+}"): "Metadata",
    ("GET", "/.well-known/{proxy+}"): "Metadata",
    ("GET", "/health"): "Metadata",
}
STREAMING = {("POST", "/mcp/tools-call")} | {
    (verb, path) for verb in ("POST", "GET") for path in ("/mcp", "/mcp/v/{server}")
}


def integration(operation):
    return operation["x-amazon-apigateway-integration"]


def test_the_api_is_regional_and_has_one_stage_that_is_throttled(smallest):
    (api,) = smallest.of_type("AWS::ApiGateway::RestApi").values()
    assert api["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    (stage,) = smallest.of_type("AWS::ApiGateway::Stage").values()
    (setting,) = stage["MethodSettings"]
    assert (setting["HttpMethod"], setting["ResourcePath"]) == ("*", "/*")
    assert int(setting["ThrottlingRateLimit"]) > 0
    (deployment,) = smallest.of_type("AWS::ApiGateway::Deployment").values()
    assert "StageName" not in deployment, "that would be a second stage"


def test_every_route_leads_to_its_function(smallest):
    routes = {route: integration(operation)["uri"] for route, operation in smallest.routes().items()}
    expected = MCP | USERS | OPERATORS | OPEN
    assert set(routes) == set(expected)
    for route, function in expected.items():
        assert f"/functions/{function}Function.Arn/" in routes[route], route


def test_api_gateway_may_call_every_function_that_has_a_route(largest):
    permitted = {
        (
            permission["FunctionName"].removesuffix(".Arn"),
            permission["SourceArn"].split(":")[-1].partition("/")[2],
        )
        for permission in largest.of_type("AWS::Lambda::Permission").values()
        if permission["Principal"] == "apigateway.amazonaws.com"
    }
    expected = {
        (f"{function}Function", f"*/{verb}{re.sub(r'{[^}]+}', '*', path)}")
        for (verb, path), function in (MCP | USERS | OPERATORS | OPEN).items()
    }
    assert permitted == expected | {("AuthorizerFunction", "authorizers/*")}


def test_streaming_routes_stream_as_long_as_they_may(smallest):
    functions = smallest.of_type("AWS::Lambda::Function")
    for route, operation in smallest.routes().items():
        found = integration(operation)
        function = functions[found["uri"].split("/functions/")[1].split(".Arn/")[0]]
        wrapper = function["Environment"]["Variables"].get("AWS_LAMBDA_EXEC_WRAPPER")
        if route in STREAMING:
            assert found["responseTransferMode"] == "STREAM", route
            assert found["uri"].endswith("/response-streaming-invocations"), route
            assert "/2021-11-15/" in found["uri"], route
            assert found["timeoutInMillis"] == function["Timeout"] * 1000 == 900_000, route
            assert wrapper == "/opt/bootstrap", route
            assert any(layer.startswith("StreamingLayer") for layer in function["Layers"]), route
        else:
            assert "responseTransferMode" not in found, route
            assert found["uri"].endswith("/invocations"), route
            assert function["Timeout"] <= 29, f"{route}: API Gateway waits no longer"
            assert wrapper is None, route


def test_with_tokens_every_route_but_the_open_ones_asks_the_authorizer(largest):
    for route, operation in largest.routes().items():
        assert operation.get("security", []) == ([] if route in OPEN else [{"Jwt": []}]), route
    authorizer = largest.api()["securityDefinitions"]["Jwt"]["x-amazon-apigateway-authorizer"]
    assert authorizer["type"] == "request"
    assert authorizer["identitySource"] == "method.request.header.Authorization"
    assert "/functions/AuthorizerFunction.Arn/invocations" in authorizer["authorizerUri"]
    assert str(authorizer["authorizerResultTtlInSeconds"]) == "0"


def test_sam_local_asks_the_authorizer_on_the_same_routes(largest):
    """It reads each event's `Auth`, which SAM passes over where it is conditional."""
    condition = {"Fn::If": ["UseAuth", {"Authorizer": "Jwt"}, {}]}
    events = [
        event["Properties"]
        for function in declared()["Resources"].values()
        for event in function.get("Properties", {}).get("Events", {}).values()
        if event["Type"] == "Api"
    ]
    asking = {(event["Method"], event["Path"]) for event in events if "Auth" in event}
    assert asking == {route for route, operation in largest.routes().items() if operation.get("security")}
    assert all(event["Auth"] == condition for event in events if "Auth" in event)


def declared():
    """template.yaml as it is written."""

    class Loader(yaml.SafeLoader):
        pass

    def function(loader, tag, node):
        plain = isinstance(node, yaml.ScalarNode)
        value = loader.construct_scalar(node) if plain else loader.construct_sequence(node, deep=True)
        return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}

    Loader.add_multi_constructor("!", function)
    return yaml.load((tools.ROOT / "template.yaml").read_text(), Loader)


def test_without_tokens_operators_sign_their_requests(smallest):
    """An open gateway is one thing, an open door to its configuration another. Users there are none then."""
    for route, operation in smallest.routes().items():
        signed = route in OPERATORS | USERS
        assert operation.get("security", []) == ([{"Iam": []}] if signed else []), route
    schemes = smallest.api()["securityDefinitions"]
    assert set(schemes) == {"Iam"}
    assert schemes["Iam"]["x-amazon-apigateway-authtype"] == "awsSigv4"


def test_a_change_of_the_way_in_is_deployed(template):
    """SAM names a deployment after the API's text, in which conditions are not yet decided: a new name every second."""
    assert eventually(lambda: deployments(tools.translated()) != deployments(template), 10)


def deployments(translated):
    resources = translated["Resources"].items()
    return {name for name, about in resources if about["Type"] == "AWS::ApiGateway::Deployment"}


def header(stack, response):
    return stack.api()["x-amazon-apigateway-gateway-responses"][response]["responseParameters"][
        "gatewayresponse.header.WWW-Authenticate"
    ]


def test_who_has_no_token_is_told_where_to_ask_for_one(template, smallest, largest):
    """A static header: where the authorizer gave no verdict, there is no context."""
    assert largest.api()["x-amazon-apigateway-gateway-responses"]["UNAUTHORIZED"]["statusCode"] == "401"
    assert (
        header(largest, "UNAUTHORIZED")
        == """'Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'"""
    )
    assert header(smallest, "UNAUTHORIZED") == "'Bearer'"


def test_who_may_not_is_told_what_the_authorizer_says(largest):
    assert largest.api()["x-amazon-apigateway-gateway-responses"]["ACCESS_DENIED"]["statusCode"] == "403"
    assert header(largest, "ACCESS_DENIED") == "context.authorizer.challenge"


def test_a_path_that_is_not_there_is_not_found(smallest):
    found = smallest.api()["x-amazon-apigateway-gateway-responses"]["MISSING_AUTHENTICATION_TOKEN"]
    assert found["statusCode"] == "404"


def test_a_token_that_is_no_signature_makes_nothing_of_nowhere(smallest, largest):
    """Of routes that take signatures it says what is wrong with one; with tokens there is no such route."""
    said = [
        stack.api()["x-amazon-apigateway-gateway-responses"]["INVALID_SIGNATURE"]["responseTemplates"]
        for stack in (largest, smallest)
    ]
    assert [text["application/json"] for text in said] == [
        '{"message":"Not Found"}',
        '{"message":$context.error.messageString}',
    ]


def test_what_api_gateway_says_itself_is_json(smallest):
    for name, response in smallest.api()["x-amazon-apigateway-gateway-responses"].items():
        text = response["responseTemplates"]["application/json"]
        assert json.loads(text.replace("$context.error.messageString", '"why"')), name


def test_tokens_without_an_address_are_refused(template):
    rule = template["Rules"]["TokensNeedAnAddress"]
    assert rule["RuleCondition"] == {"Fn::Equals": [{"Ref": "AuthMode"}, "jwt"]}
    assert rule["Assertions"][0]["Assert"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "PublicBaseUrl"}, ""]}]}


METHODS = [
    *("initialize", "server/discover", "ping", "logging/setLevel"),
    *("tools/list", "prompts/list", "resources/list", "resources/templates/list"),
    *(
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
        "subscriptions/listen",
        "unknown",
    ),
]


@pytest.fixture(scope="module")
def routed(template):
    """What the CloudFront function makes of requests, each a verb, a path and the Mcp-Method header or None."""
    code = Stack(template, MethodRouting="cloudfront").of_type("AWS::CloudFront::Function")["MethodRouter"][
        "FunctionCode"
    ]

    def route(*requests):
        events = [
            {
                "request": {
                    "method": verb,
                    "uri": path,
                    "headers": {} if method is None else {"mcp-method": {"value": method}},
                }
            }
            for verb, path, method in requests
        ]
        script = f"{code}\nconsole.log(JSON.stringify({json.dumps(events)}.map(e => handler(e).uri)));"
        return json.loads(subprocess.check_output([npm.node(), "--eval", script], timeout=30))

    return route


def test_cloudfront_chooses_as_the_edge_does(routed):
    paths = {
        "initialize": "/mcp/initialize",
        "tools_list": "/mcp/tools-list",
        "tools_call": "/mcp/tools-call",
    }
    expected = [paths[chosen({"headers": {"Mcp-Method": method}})] for method in METHODS]
    assert routed(*(("POST", "/mcp", method) for method in METHODS)) == expected


def test_cloudfront_leaves_alone_what_names_no_method(routed):
    requests = [
        ("POST", "/mcp", None),
        ("POST", "/mcp", ""),
        ("GET", "/mcp", "tools/list"),
        ("DELETE", "/mcp", "tools/list"),
        ("POST", "/backends", "tools/list"),
        ("POST", "/mcp/v/dev", "tools/list"),
    ]
    assert routed(*requests) == [path for _, path, _ in requests]


def test_cloudfront_keeps_nothing_and_passes_on_tokens(largest):
    (distribution,) = largest.of_type("AWS::CloudFront::Distribution").values()
    config = distribution["DistributionConfig"]
    assert config["DefaultCacheBehavior"]["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    assert config["DefaultCacheBehavior"]["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    assert config["Origins"][0]["OriginPath"] == f"/{stage_of(largest)}"


def test_cloudfront_keeps_no_errors_either(largest):
    """Unless told, it keeps each of these for 10 s, by the path alone, though nothing else may be kept."""
    (distribution,) = largest.of_type("AWS::CloudFront::Distribution").values()
    found = distribution["DistributionConfig"]["CustomErrorResponses"]
    kept = {400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504}
    assert {each["ErrorCode"]: each["ErrorCachingMinTTL"] for each in found} == dict.fromkeys(kept, 0)
    assert not [each for each in found if "ResponsePagePath" in each], "what the gateway says is for clients"


def test_two_regions_of_an_account_may_both_have_a_router(template):
    """CloudFront's functions have one list of names in an account."""
    names = set()
    for region in ("us-east-1", "eu-west-1"):
        stack = Stack(template, MethodRouting="cloudfront", **{"AWS::Region": region})
        (router,) = stack.of_type("AWS::CloudFront::Function").values()
        names.add(router["Name"])
    assert len(names) == 2


def stage_of(stack):
    (stage,) = stack.of_type("AWS::ApiGateway::Stage").values()
    return stage["StageName"]
