"""Routes with ResponseTransferMode: RESPONSE_STREAM, and a function that streams under its own exec wrapper."""

import http.client
from contextlib import ExitStack, closing

import pytest

from tests.support import eventually


def test_a_stream_arrives_as_it_is_sent(emulator, tmp_path):
    asked = {"parts": ["one", "two", "three"], "gate": str(tmp_path)}
    with emulator.opened("POST", "/stream", asked) as answer:
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/plain")
        for number, part in enumerate(asked["parts"]):
            (tmp_path / str(number)).touch()
            assert answer.read(len(part)) == part.encode()
        assert answer.read() == b""


def test_the_prelude_has_status_headers_and_cookies(emulator):
    headers = {"Content-Type": "text/event-stream", "WWW-Authenticate": "Bearer"}
    prelude = {"statusCode": 401, "headers": headers, "cookies": ["a=1", "b=2"]}
    answer = emulator.post("/stream", {"prelude": prelude, "parts": ["no"]})
    assert (answer.status, answer.body) == (401, b"no")
    assert answer.header("Content-Type") == "text/event-stream"
    assert answer.header("x-amzn-Remapped-WWW-Authenticate") == "Bearer"
    assert answer.all("Set-Cookie") == ["a=1", "b=2"]


def test_a_stream_may_be_longer_than_a_buffered_answer(emulator):
    part = "x" * 2**20
    assert len(emulator.post("/stream", {"parts": [part] * 5, "times": 2}).body) == 10 * 2**20


@pytest.mark.parametrize("restless", [False, True])
def test_a_function_is_not_told_that_its_client_has_hung_up(emulator, tmp_path, restless):
    """As AWS documents of streamed responses."""
    asked = {"parts": ["one", "two", "x" * 2**20], "gate": str(tmp_path), "restless": restless, "times": 20}
    (tmp_path / "0").touch()
    with emulator.opened("POST", "/stream", asked) as answer:
        assert answer.read(3).strip() in (b"one", b"o", b"on", b"")
    for number in range(1, 60):
        (tmp_path / str(number)).touch()
    eventually((tmp_path / "sent").exists)
    assert "[Streaming] refused" not in emulator.stderr()


def test_many_clients_that_hang_up_at_once_leave_no_trace(emulator, tmp_path):
    asked = {"parts": ["one", "two"], "gate": str(tmp_path)}
    (tmp_path / "0").touch()
    with ExitStack() as stack:
        for _ in range(8):
            assert stack.enter_context(emulator.opened("POST", "/stream", asked)).read(3) == b"one"
    (tmp_path / "1").touch()
    eventually(lambda: (tmp_path / "sent").exists() and (tmp_path / "sent").read_text() == "." * 8)
    assert emulator.post("/stream", {"parts": ["again"]}).body == b"again"


@pytest.mark.parametrize("fault", ["raise", "exit"])
def test_a_fault_in_the_middle_breaks_the_stream_off(emulator, fault):
    with (
        pytest.raises((http.client.IncompleteRead, ConnectionError)),
        emulator.opened("POST", "/stream", {"parts": ["one", fault]}) as answer,
    ):
        answer.read()


def test_a_stream_beyond_its_integrations_timeout_breaks_off(emulator, tmp_path):
    (tmp_path / "0").touch()
    with emulator.opened(
        "POST", "/stream/short", {"parts": ["one", "never"], "gate": str(tmp_path)}
    ) as answer:
        assert answer.read(3) == b"one"
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()


def test_a_stream_without_a_prelude_is_a_502(emulator):
    assert emulator.post("/stream", {"prelude": None, "parts": ["no head"]}).status == 502


def test_a_connection_is_good_for_more_after_a_refusal(emulator):
    connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=30)
    with closing(connection):
        connection.connect()
        used = connection.sock
        for _ in range(2):
            connection.request("GET", "/v1/not-streaming")
            assert connection.getresponse().read() == b'{"message":"Internal server error"}'
            assert connection.sock is used


def test_a_function_that_does_not_stream_behind_a_route_that_does_is_a_502(emulator):
    assert emulator.get("/not-streaming").status == 502


def test_a_function_that_streams_behind_a_route_that_does_not_is_a_502(emulator):
    assert emulator.post("/stream/buffered", {"parts": ["one"]}).status == 502
