"""The processes that functions run in."""

import contextlib
import http.client
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.emulator.support import APP, LAMBDA, Emulator
from tests.support import ROOT, eventually

OF_LAMBDA = {
    *("_HANDLER", "_X_AMZN_TRACE_ID", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR"),
    *("LANG", "TZ", "PWD", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH"),
    "LC_CTYPE",  # Python's own
}


def test_the_environment_is_what_the_template_and_lambda_declare(emulator):
    environment = emulator.get("/plain").json()["environment"]
    own = {name for name in environment if not name.startswith("AWS_") and name not in OF_LAMBDA}
    assert own == {"TABLE", "GREETING", "PUBLIC_URL"}
    assert (environment["TABLE"], environment["GREETING"]) == ("Table", "hello, local")
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "Plain"
    assert environment["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.13"


def test_functions_see_no_packages_but_their_own_and_the_runtimes(emulator):
    path = emulator.get("/plain").json()["path"]
    assert not [place for place in path if place.startswith(str(ROOT)) and "lambda-runtime" not in place]


def test_a_later_layer_lies_over_an_earlier_one(emulator):
    assert emulator.get("/plain").json()["layer"] == "the upper layer"
    assert emulator.get("/brief").json()["layer"] == "the one below"


def test_an_environment_is_used_again(emulator):
    first, second = emulator.get("/brief").json(), emulator.get("/brief").json()
    assert (second["pid"], second["count"]) == (first["pid"], first["count"] + 1)


def test_requests_at_once_have_an_environment_each(emulator, tmp_path):
    asked = {"wait_for": str(tmp_path), "together": 4}
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: emulator.post("/plain", asked), range(4)))
    assert len({answer.json()["pid"] for answer in answers}) == 4


def test_a_crash_is_a_502_and_the_next_request_has_a_new_environment(emulator):
    before = emulator.get("/brief").json()["pid"]
    assert emulator.get("/brief?exit=3").status == 502
    assert emulator.get("/brief").json()["pid"] != before


def test_an_exception_is_a_502_and_the_environment_stays(emulator):
    before = emulator.get("/brief").json()["pid"]
    assert emulator.get("/brief?raise=no").status == 502
    assert emulator.get("/brief").json()["pid"] == before


def test_a_function_that_cannot_be_imported_is_a_502(emulator):
    assert emulator.get("/broken").status == 502
    eventually(lambda: "[Broken]" in emulator.stderr() and "No module named 'nowhere'" in emulator.stderr())


def test_a_function_beyond_its_timeout_is_a_502_and_ended(emulator):
    before = emulator.get("/brief").json()
    assert 0 < before["left_ms"] <= 1000
    assert emulator.get("/brief?sleep=30").status == 502
    eventually(lambda: "[Brief] " in emulator.stderr() and "Task timed out after 1.00 s" in emulator.stderr())
    assert emulator.get("/brief").json()["pid"] != before["pid"]
    eventually(lambda: not alive(before["pid"]))


def test_what_a_function_prints_is_logged_under_its_name(emulator):
    emulator.post("/plain", {"say": "something to remember"})
    eventually(lambda: "[Plain] something to remember\n" in emulator.stderr())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_leaves_nothing_behind_in_the_middle_of_work(built, tmp_path, number):
    with Emulator(built, env={"TMPDIR": str(tmp_path)}) as emulator:
        pids = all_started(emulator)
        threading.Thread(target=keep_busy, args=[emulator]).start()
        eventually(lambda: "[Plain] busy" in emulator.stderr())
        os.kill(emulator.pid, number)
        assert emulator.process.wait(5) == 0
        assert not list(tmp_path.iterdir())
        eventually(lambda: not any(alive(pid) for pid in pids))


def test_what_it_started_ends_also_when_it_is_killed(built, tmp_path):
    with Emulator(built, env={"TMPDIR": str(tmp_path)}) as emulator:
        pids = all_started(emulator)
        os.kill(emulator.pid, signal.SIGKILL)
        eventually(lambda: not any(alive(pid) for pid in pids), 10)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--parameter", "Typo=1"], "no parameter Typo"),
        (["--python", "/nowhere/python"], "/nowhere/python does not run"),
        (["--parameter", "Runtime=python9.9"], "python9.9"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_started(built, given, said):
    command = [LAMBDA / "python", "-m", "emulator", APP / "template.yaml", built, *given]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("emulator: ")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("line", "by", "said"),
    [
        ("Handler: plain.handler", "Handler: plain.handler\n      Nonsense: 1", "Nonsense"),
        ("TABLE: !Ref Table", "TABLE: !Ref Chair", "Chair"),
        ("  Plain:\n", "  Simple:\n", "Simple has not been built: run sam build"),
    ],
)
def test_a_template_that_cannot_be_run_is_refused(built, tmp_path, line, by, said):
    text = (APP / "template.yaml").read_text()
    assert line in text
    changed = text.replace(line, by, 1).replace("!Ref Plain", "!Ref Brief")
    (tmp_path / "template.yaml").write_text(changed)
    command = [LAMBDA / "python", "-m", "emulator", tmp_path / "template.yaml", built]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("emulator: ")
    assert said in done.stderr


def keep_busy(emulator):
    with contextlib.suppress(OSError, http.client.HTTPException):
        emulator.post("/plain", {"say": "busy", "sleep": 9})


def all_started(emulator):
    """Two functions, and the database."""
    functions = {emulator.get("/plain").json()["pid"], emulator.get("/brief").json()["pid"]}
    listed = run("ps", "-o", "pid=", "--ppid", str(emulator.pid))
    assert len(listed.split()) == 3
    return functions | {int(pid) for pid in listed.split()}


def alive(pid):
    """What nobody has taken the status of is dead all the same."""
    return run("ps", "-o", "stat=", "-p", str(pid)).strip()[:1] not in ("", "Z")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
