"""Functions that call each other, schedules, and tables."""

import threading

from tests.emulator.support import Emulator
from tests.support import eventually


def test_a_function_invokes_another(emulator):
    said = emulator.post("/call", {"do": "invoke", "payload": asking(answer={"some": "thing"})}).json()
    assert said == {"status": 200, "error": None, "payload": {"some": "thing"}}


def test_an_invocation_that_fails_says_so(emulator):
    said = emulator.post("/call", {"do": "invoke", "payload": asking(**{"raise": "no good"})}).json()
    assert (said["status"], said["error"]) == (200, "Unhandled")
    assert (said["payload"]["errorMessage"], said["payload"]["errorType"]) == ("no good", "RuntimeError")


def test_an_event_is_not_waited_for(emulator):
    asked = {"do": "invoke", "payload": asking(say="heard of it"), "kind": "Event"}
    assert emulator.post("/call", asked).json() == {"status": 202, "error": None, "payload": None}
    eventually(lambda: "[Plain] heard of it" in emulator.stderr())


def test_a_dry_run_runs_nothing(emulator):
    asked = {"do": "invoke", "payload": asking(say="unheard of"), "kind": "DryRun"}
    assert emulator.post("/call", asked).json()["status"] == 204
    assert "unheard of" not in emulator.stderr()


def test_a_function_that_is_not_there_is_not_found(emulator):
    assert "ResourceNotFoundException" in emulator.post("/call", {"do": "missing"}).body.decode()


def test_a_function_that_streams_may_be_invoked_plainly_by_its_arn(emulator):
    arn = "arn:aws:lambda:us-east-1:123456789012:function:Streaming"
    asked = {"prelude": None, "parts": ['"x"']}
    said = emulator.post("/call", {"do": "invoke", "name": arn, "payload": asked}).json()
    assert said["payload"] == "x"


def test_a_stream_is_invoked_chunk_by_chunk(emulator):
    said = emulator.post(
        "/call", {"do": "stream", "payload": {"prelude": None, "parts": ["one", "two"]}}
    ).json()
    assert said == {"chunks": ["one", "two"], "complete": [{}]}


def test_an_invoked_stream_arrives_as_it_is_sent(emulator, tmp_path):
    asked = {"parts": ["one", "two"], "prelude": None, "gate": str(tmp_path)}
    answers = []
    call = threading.Thread(
        target=lambda: answers.append(emulator.post("/call", {"do": "stream", "payload": asked, "log": True}))
    )
    call.start()
    (tmp_path / "0").touch()
    eventually(lambda: "[Caller] got one" in emulator.stderr())
    (tmp_path / "1").touch()
    call.join()
    assert answers[0].json()["chunks"] == ["one", "two"]


def test_an_invoked_stream_that_fails_says_so_at_the_end(emulator):
    asked = {"prelude": None, "parts": ["one", "raise"]}
    said = emulator.post("/call", {"do": "stream", "payload": asked}).json()
    assert said["chunks"] == ["one"]
    assert [each["ErrorCode"] for each in said["complete"]] == ["ValueError"]


def test_a_function_that_does_not_stream_comes_in_one_chunk(emulator):
    said = emulator.post("/call", {"do": "stream", "name": "Plain", "payload": asking(answer="x")}).json()
    assert said == {"chunks": ['"x"'], "complete": [{}]}


def test_the_templates_tables_are_there(emulator):
    assert emulator.post("/call", {"do": "keep", "key": "k"}).json() == {"found": "k", "ttl": "expires"}


def test_schedules_are_fired_at_their_rate(built):
    with Emulator(built, "--minute", "0.2") as emulator:
        ticks = eventually(lambda: len(found := emulator.get("/ticks").json()) > 2 and found, 30)
    assert {tick["detail-type"] for tick in ticks} == {"Scheduled Event"}
    assert ticks[0]["resources"] == ["arn:aws:events:us-east-1:123456789012:rule/TickerTick"]


def test_each_schedule_may_be_fired_once_at_the_start(built):
    with Emulator(built, "--once-schedules", "--minute", "0.01") as emulator:
        ticks = eventually(lambda: len(found := emulator.get("/ticks").json()) > 1 and found, 30)
        assert sorted(tick.get("source", "") for tick in ticks) == ["", "aws.events"]
        assert {"night": True} in ticks
        assert len(emulator.get("/ticks").json()) == 2


def asking(**do):
    return {"queryStringParameters": do}
