"""What the front end makes of requests and of functions' answers."""

import base64

import pytest

from tests.emulator.support import MIB, Emulator


def test_a_function_gets_the_proxy_event(emulator):
    event = emulator.post("/plain?a=1&b=x%20y&a=2", {"k": "ü"}, ("X-One", "1"), ("X-One", "2")).event
    assert (event["resource"], event["path"], event["httpMethod"]) == ("/plain", "/plain", "POST")
    assert event["queryStringParameters"] == {"a": "2", "b": "x y"}
    assert event["multiValueQueryStringParameters"] == {"a": ["1", "2"], "b": ["x y"]}
    assert event["headers"]["X-One"] == "2"
    assert event["multiValueHeaders"]["X-One"] == ["1", "2"]
    assert event["multiValueHeaders"]["X-Forwarded-For"] == ["127.0.0.1"]
    assert event["pathParameters"] is None
    assert not event["isBase64Encoded"]
    context = event["requestContext"]
    assert (context["stage"], context["path"], context["resourcePath"]) == ("v1", "/v1/plain", "/plain")


def test_without_the_stage_it_is_a_custom_domain(emulator):
    emulator_url = emulator.url
    try:
        emulator.url = emulator.base
        event = emulator.get("/items/7").event
    finally:
        emulator.url = emulator_url
    assert (event["path"], event["requestContext"]["path"]) == ("/items/7", "/items/7")


@pytest.mark.parametrize(
    ("path", "resource", "parameters"),
    [
        ("/items/7", "/items/{item}", {"item": "7"}),
        ("/files/a/b.txt", "/files/{path+}", {"path": "a/b.txt"}),
    ],
)
def test_path_parameters_are_taken_from_the_path(emulator, path, resource, parameters):
    event = emulator.get(path).event
    assert (event["resource"], event["pathParameters"]) == (resource, parameters)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("GET", "/"),
        ("POST", "/items/7"),
        ("GET", "/items/first"),
        ("GET", "/items/7/more"),
    ],
)
def test_what_has_no_method_is_refused_as_if_a_token_were_missing(emulator, method, path):
    answer = emulator.request(method, path)
    assert (answer.status, answer.json()) == (403, {"message": "Missing Authentication Token"})
    assert answer.header("x-amzn-ErrorType") == "MissingAuthenticationTokenException"


def test_a_token_where_nothing_is_is_taken_for_a_bad_signature(emulator):
    answer = emulator.get("/nowhere", ("Authorization", "Bearer abc"))
    assert (answer.status, answer.header("x-amzn-ErrorType")) == (403, "IncompleteSignatureException")


def test_a_literal_path_goes_before_a_parameter(emulator):
    assert emulator.post("/items/first", {}).event["resource"] == "/items/first"


@pytest.mark.parametrize(
    "name",
    ["WWW-Authenticate", "Authorization", "Date", "Server", "Connection", "Content-Length", "User-Agent"],
)
def test_headers_that_api_gateway_keeps_for_itself_are_renamed(emulator, name):
    answer = emulator.post("/plain", {"answer": {"statusCode": 401, "headers": {name: "own"}, "body": "no"}})
    assert answer.status == 401
    assert answer.header(f"x-amzn-Remapped-{name}") == "own"
    assert "own" not in answer.all(name)


def test_an_answers_headers_may_have_several_values(emulator):
    given = {"headers": {"X-One": "1"}, "multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"], "X-One": ["0"]}}
    answer = emulator.post("/plain", {"answer": {"statusCode": 201, "body": "made", **given}})
    assert (answer.status, answer.body) == (201, b"made")
    assert answer.all("Set-Cookie") == ["a=1", "b=2"]
    assert answer.all("X-One") == ["0", "1"]
    assert answer.header("Content-Type") == "application/json"


def test_bodies_of_binary_types_travel_as_base64(emulator):
    event = emulator.post("/plain", b"\x89PNG\xff", ("Content-Type", "image/png")).event
    assert event["isBase64Encoded"]
    assert base64.b64decode(event["body"]) == b"\x89PNG\xff"


@pytest.mark.parametrize(("accept", "body"), [("image/png", b"\x89PNG"), ("text/plain", b"iVBORw==")])
def test_a_base64_body_is_decoded_for_who_accepts_the_type(emulator, accept, body):
    encoded = {"statusCode": 200, "body": base64.b64encode(b"\x89PNG").decode(), "isBase64Encoded": True}
    assert emulator.post("/plain", {"answer": encoded}, ("Accept", accept)).body == body


@pytest.mark.parametrize(
    "said",
    [
        "text",
        None,
        {"body": "no status"},
        {"statusCode": 200, "body": {"not": "a string"}},
        {"statusCode": 200, "body": "", "cookies": ["a=1"]},
        {"statusCode": "many", "body": ""},
    ],
)
def test_what_is_no_proxy_response_is_a_502(emulator, said):
    answer = emulator.post("/plain", {"answer": said})
    assert (answer.status, answer.json()) == (502, {"message": "Internal server error"})


def test_a_request_may_have_ten_megabytes_and_a_function_six(emulator):
    assert len(emulator.post("/plain", b'"' + b"x" * (5 * MIB) + b'"').event["body"]) == 5 * MIB + 2
    for size in (7 * MIB, 10 * MIB + 1):
        answer = emulator.post("/plain", b'"' + b"x" * size + b'"')
        assert (answer.status, answer.json()) == (413, {"message": "Request Too Long"})


def test_an_answer_beyond_six_megabytes_is_a_502(emulator):
    assert len(emulator.post("/plain", {"size": 6 * MIB - 100}).body) == 6 * MIB - 100
    assert emulator.post("/plain", {"size": 6 * MIB}).status == 502
    assert emulator.post("/plain", {"size": 1}).status == 200


def test_an_integration_that_takes_too_long_is_a_504(emulator):
    answer = emulator.get("/hasty?sleep=1")
    assert (answer.status, answer.json()) == (504, {"message": "Endpoint request timed out"})
    assert answer.header("X-Fault") == "ours"


def test_preflight_requests_are_answered_by_the_api_itself(emulator):
    answer = emulator.request("OPTIONS", "/plain")
    assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (200, "https://example.com")


def test_parameters_and_conditions_make_the_application(built):
    given = ["Greeting=good day", "PublicUrl=http://127.0.0.1:{port}", "Secured=no"]
    with Emulator(built, *(part for each in given for part in ("--parameter", each))) as emulator:
        environment = emulator.get("/open").json()["environment"]
    assert environment["GREETING"] == "good day, local"
    assert environment["PUBLIC_URL"] == emulator.base


def test_a_route_of_a_function_that_is_not_deployed_does_not_exist(emulator):
    assert emulator.get("/open").status == 403
