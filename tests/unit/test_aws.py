"""What the edge does without boto3, held against what boto3's own parts do."""

import datetime as dt
import json
import struct
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from portico.assembly import on_lambda
from portico.aws.application import inner_path, routed
from portico.aws.edge import Edge, chosen
from portico.aws.eventstream import BrokenStream, Decoder, Event
from portico.aws.failures import METRIC, counted
from portico.registry import Limits
from portico.settings import Dispatch, dispatch_from, settings_from
from portico.signing import Credentials, signed


@pytest.mark.parametrize("token", ["", "session-token"])
@pytest.mark.parametrize("path", ["/2015-03-31/functions/f/invocations", "/2021-11-15/functions/a%3Ab/x"])
def test_a_request_is_signed_as_botocore_signs_it(monkeypatch, token, path):
    now = dt.datetime(2026, 7, 28, 12, 0, tzinfo=dt.UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: now, raising=False)
    body = b'{"a": 1}'
    ours = signed(
        Credentials("AKID", "secret", token),
        "lambda",
        "eu-west-1",
        "lambda.eu-west-1.amazonaws.com",
        path,
        body,
        "20260728T120000Z",
    )
    theirs = AWSRequest("POST", f"https://lambda.eu-west-1.amazonaws.com{path}", data=body)
    theirs.headers["x-amz-content-sha256"] = ours["x-amz-content-sha256"]
    signer = SigV4Auth(BotoCredentials("AKID", "secret", token or None), "lambda", "eu-west-1")
    signer.add_auth(theirs)
    assert theirs.headers["X-Amz-Date"] == ours["x-amz-date"]
    assert theirs.headers["Authorization"] == ours["authorization"]


def frame(payload, **headers):
    packed = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    head = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    text = head + struct.pack(">I", zlib.crc32(head)) + packed + payload
    return text + struct.pack(">I", zlib.crc32(text))


def test_events_are_read_whole_or_in_pieces():
    stream = frame(b"one", **{":event-type": "PayloadChunk"}) + frame(
        b"{}", **{":event-type": "InvokeComplete"}
    )
    wanted = [Event("PayloadChunk", b"one"), Event("InvokeComplete", b"{}")]
    assert Decoder().feed(stream) == wanted
    decoder = Decoder()
    assert [event for byte in stream for event in decoder.feed(bytes([byte]))] == wanted


@pytest.mark.parametrize("at", [0, 5, 9, 20, -1])
def test_a_broken_frame_is_noticed(at):
    stream = bytearray(frame(b"payload", **{":event-type": "PayloadChunk"}))
    stream[at] ^= 0xFF
    with pytest.raises(BrokenStream):
        Decoder().feed(bytes(stream))


@pytest.mark.parametrize(
    ("event", "function"),
    [
        ({"body": '{"method": "initialize"}'}, "initialize"),
        ({"body": '{"method": "tools/list"}'}, "tools_list"),
        ({"body": '{"method": "tools/call"}'}, "tools_call"),
        ({"headers": {"Mcp-Method": "server/discover"}, "body": "{}"}, "initialize"),
        ({"headers": {"mcp-method": "resources/list"}}, "tools_list"),
        ({"body": "not JSON"}, "tools_call"),
        ({"body": '[{"method": "initialize"}]'}, "tools_call"),
        ({"body": None}, "tools_call"),
        ({"body": '{"method": 5}'}, "tools_call"),
    ],
)
def test_the_edge_chooses_by_header_or_body(event, function):
    assert chosen(event) == function


def test_the_environment_is_read_once_and_checked():
    assert settings_from({"PORTICO_STORE": "dynamodb:t"}).store == "dynamodb:t"
    assert dispatch_from({"PORTICO_DISPATCH": "inline"}) == Dispatch("inline")
    names = {f"PORTICO_{name}_FUNCTION": name for name in ("INITIALIZE", "TOOLS_LIST", "TOOLS_CALL")}
    assert dispatch_from(names) == Dispatch("invoke", "INITIALIZE", "TOOLS_LIST", "TOOLS_CALL")
    with pytest.raises(ValueError, match="PORTICO_TOOLS_CALL_FUNCTION is not set"):
        dispatch_from(names | {"PORTICO_TOOLS_CALL_FUNCTION": ""})
    with pytest.raises(ValueError, match="expected invoke or inline"):
        dispatch_from({"PORTICO_DISPATCH": "other"})


def test_a_function_s_own_address_is_that_of_the_gateway_and_a_virtual_server_s_is_not():
    own = ["/mcp", "/mcp/initialize", "/mcp/tools-list", "/mcp/tools-call"]
    assert {inner_path(path) for path in own} == {"/mcp"}
    other = ["/mcp/v/dev", "/mcp/v/", "/health", "/.well-known/oauth-protected-resource/mcp", "/mcpx"]
    assert [inner_path(path) for path in other] == other


@pytest.mark.parametrize(
    ("path", "route", "parameters", "wanted"),
    [
        ("/mcp", "/mcp", None, "/mcp"),
        ("/tools/mcp", "/mcp", None, "/mcp"),
        ("/mcp/mcp", "/mcp", None, "/mcp"),
        ("/mcp/health", "/health", None, "/health"),
        ("/tools/mcp/v/dev", "/mcp/v/{server}", {"server": "dev"}, "/mcp/v/dev"),
        ("/mcp/v/dev", "/mcp/v/{server}", {"server": "dev"}, "/mcp/v/dev"),
        ("/tools/backends/a", "/backends/{name}", {"name": "a"}, "/backends/a"),
        ("/a/b/.well-known/x/y", "/.well-known/{proxy+}", {"proxy": "x/y"}, "/.well-known/x/y"),
        ("/.well-known/x/y", "/.well-known/{proxy+}", {"proxy": "x/y"}, "/.well-known/x/y"),
        ("/any/thing", "/{proxy+}", {"proxy": "any/thing"}, "/any/thing"),
        ("/mcp", None, None, "/mcp"),
    ],
)
def test_a_custom_domain_s_base_path_is_no_part_of_the_gateway_s(path, route, parameters, wanted):
    """API Gateway leaves it in the event's path."""
    event = {"resource": route, "pathParameters": parameters}
    assert routed({"path": path, "aws.event": event}) == wanted


@pytest.mark.parametrize(("declared", "lasts"), [(0, 870), (300, 300), (3600, 870)])
def test_a_stream_on_lambda_says_goodbye_before_its_function_is_ended(declared, lasts):
    assert on_lambda(Limits(stream_s=declared)).stream_s == lasts


def failing(error):
    def handler(event, context):
        raise error

    return handler


def test_that_nobody_can_be_let_in_is_counted_and_that_somebody_is_not_is_not(capsys, monkeypatch):
    """Both are exceptions, which Lambda counts alike."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "authorizer")
    refusing = counted(lambda: failing(Exception("Unauthorized")))
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        refusing({}, None)
    assert capsys.readouterr().out == ""
    with pytest.raises(RuntimeError, match="no keys"):
        counted(lambda: failing(RuntimeError("no keys")))({}, None)
    said = json.loads(capsys.readouterr().out)
    assert (said["function"], said[METRIC]) == ("authorizer", 1)
    (metrics,) = said["_aws"]["CloudWatchMetrics"]
    assert (metrics["Namespace"], metrics["Dimensions"]) == ("Portico", [["function"]])
    assert [metric["Name"] for metric in metrics["Metrics"]] == [METRIC]


def test_an_authorizer_that_cannot_be_made_is_a_failure(capsys):
    def make():
        raise ValueError("no issuer")

    with pytest.raises(ValueError, match="no issuer"):
        counted(make)
    assert json.loads(capsys.readouterr().out)[METRIC] == 1


class Refusing(BaseHTTPRequestHandler):
    """Lambda's API, when it does not run the function."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
@pytest.mark.parametrize(("status", "told"), [(429, 503), (500, 502)])
async def test_a_client_is_told_whether_another_attempt_may_find_room(method, status, told):
    sent = []

    async def send(message):
        sent.append(message)

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.status = status
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        edge = Edge(Dispatch("invoke", "i", "l", "c"), {"AWS_ENDPOINT_URL_LAMBDA": url})
        await edge({"aws.event": {"body": json.dumps({"method": method})}}, None, send)
        server.shutdown()
    start, body = sent
    assert start["status"] == told
    assert ("try again" in body["body"].decode()) == (told == 503)
