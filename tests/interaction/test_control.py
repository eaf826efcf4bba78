"""Backends that are declared, changed, disabled and removed while the gateway runs."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.matrix.processes import shared_store
from tests.support import Place, config, echo_server, eventually, fetch, gateway, reasons

PORTICO = Path(sys.executable).with_name("portico")


@pytest.fixture(scope="module")
def second():
    with echo_server("second") as server:
        yield server


@pytest.fixture
def portico(echo, tmp_path):
    declared = config(("s1", echo.url, {}), store=f"sqlite:{tmp_path}/portico.db")
    with gateway(declared) as process:
        yield process


def send(process, verb, path, fields=None, **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return process.operator(path, fields, method=verb, headers=sent)


def tools(client):
    return {tool["name"] for tool in client.rpc("tools/list").result["tools"]}


def names(process):
    return [one["name"] for one in send(process, "GET", "/backends").json()["backends"]]


def problems(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status
    return {one["path"]: one["expected"] for one in answer.json()["problems"]}


def test_a_backend_is_added_changed_disabled_and_removed_while_clients_listen(portico, client, second):
    """G1.32, G1.50, G1.90"""
    with client.stream().wait_open() as stream:
        added = send(portico, "POST", "/backends", {"name": "late", "url": second.url})
        assert (added.status, added.headers["location"]) == (201, "/backends/late")
        stream.wait_for("notifications/tools/list_changed")
    eventually(lambda: "late_echo" in tools(client))
    assert client.call("late_echo", {"text": "hi"}).text == "hi"
    assert send(portico, "GET", "/backends/late").json() == {
        "name": "late",
        "source": "record",
        "version": added.headers["etag"].strip('"'),
        "backend": {"kind": "remote", "url": second.url, "prefix": "late_", "enabled": True},
        "problems": [],
    }

    assert send(portico, "PATCH", "/backends/late", {"prefix": "new_"}).status == 200
    eventually(lambda: "new_echo" in tools(client) and "late_echo" not in tools(client))
    assert send(portico, "PATCH", "/backends/late", {"prefix": None}).status == 200
    eventually(lambda: "late_echo" in tools(client) and "new_echo" not in tools(client))

    assert send(portico, "PATCH", "/backends/late", {"enabled": False}).json()["backend"]["enabled"] is False
    eventually(lambda: "late_echo" not in tools(client))
    assert portico.operator("/status/late").json()["message"] == "disabled"
    assert send(portico, "PATCH", "/backends/late", {"enabled": True}).status == 200
    eventually(lambda: "late_echo" in tools(client))

    assert send(portico, "DELETE", "/backends/late").status == 204
    eventually(lambda: "late_echo" not in tools(client))
    assert send(portico, "GET", "/backends/late").status == 404
    assert portico.operator("/status/late").status == 404
    assert names(portico) == ["s1"]


def test_a_backend_of_the_file_can_be_disabled_and_nothing_else(portico, client):
    """G1.50"""
    assert send(portico, "PATCH", "/backends/s1", {"enabled": False}).status == 200
    eventually(lambda: not tools(client))
    refused = send(portico, "PATCH", "/backends/s1", {"enabled": True, "prefix": "x_"})
    assert refused.status == 422
    assert problems(refused) == {"prefix": "nothing but enabled, since the file declares this backend"}
    for verb, fields in (("PUT", {"url": "http://127.0.0.1:1/"}), ("DELETE", None)):
        answer = send(portico, verb, "/backends/s1", fields)
        assert answer.status == 409
        assert "declared in the file" in answer.json()["detail"]
    assert send(portico, "GET", "/backends/s1").json()["backend"]["enabled"] is False
    enabled = send(portico, "PATCH", "/backends/s1", {"enabled": True})
    assert (enabled.status, enabled.json()["version"]) == (200, None)
    eventually(lambda: "s1_echo" in tools(client))


def test_what_another_backend_has_cannot_be_taken(portico, second):
    """G1.49"""
    url = second.url
    assert send(portico, "POST", "/backends", {"name": "s1", "url": url}).status == 409
    for field, value in (("prefix", "s1_"), ("hostname", "s1.127.0.0.1")):
        refused = send(portico, "POST", "/backends", {"name": "other", "url": url, field: value})
        assert refused.status == 409
        assert problems(refused)[field] == "another one than backend s1 has"
    assert send(portico, "PUT", "/backends/zulu", {"url": url, "prefix": "z_"}).status == 201
    refused = send(portico, "PUT", "/backends/alpha", {"url": url, "prefix": "z_"})
    assert (refused.status, problems(refused)["prefix"]) == (409, "another one than backend zulu has")
    assert names(portico) == ["s1", "zulu"]


def test_a_bad_record_is_refused_field_by_field_and_nothing_is_written(portico):
    """G1.36"""
    fields = {"name": "bad", "url": "ftp://x", "prefix": "A", "credential": "sk-secret", "enabeld": True}
    refused = send(portico, "POST", "/backends", fields)
    assert refused.status == 422
    assert set(problems(refused)) == {"url", "prefix", "credential", "enabeld"}
    assert problems(refused)["credential"] == "env:NAME or file:PATH"
    assert b"sk-secret" not in refused.raw
    assert names(portico) == ["s1"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b'{"name": "a", "name": "b", "url": "http://h/"}', {}, 400),
        (b'{"name": "a", "url": NaN}', {}, 400),
        (b"[" * 5000 + b"]" * 5000, {}, 400),
        (b'{"name": ' + b"[" * 40 + b"]" * 40 + b"}", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b" " * 70_000 + b"{}", {}, 413),
        (b'{"name": "a", "url": "http://h/"}', {"Content-Type": "text/plain"}, 415),
        (b'{"url": "http://h/"}', {}, 422),
        (b'{"name": 5, "url": "http://h/"}', {}, 422),
        (b'{"name": "../x", "url": "http://h/"}', {}, 422),
        (b'{"name": "\\ud800", "url": "http://h/"}', {}, 422),
    ],
)
def test_whatever_is_sent_is_answered_as_a_problem(portico, body, headers, status):
    answer = portico.operator("/backends", body, headers=headers)
    assert answer.status == status, answer
    problems(answer)
    assert names(portico) == ["s1"]


def test_a_change_lands_only_on_the_version_it_was_made_for(portico, second):
    put = send(portico, "PUT", "/backends/late", {"url": second.url}, if_none_match="*")
    assert put.status == 201
    first = put.headers["etag"]
    assert send(portico, "PUT", "/backends/late", {"url": second.url}, if_none_match="*").status == 412
    changed = send(portico, "PATCH", "/backends/late", {"hint": "one"}, if_match=first)
    assert changed.status == 200
    for verb, fields in (("PATCH", {"hint": "two"}), ("PUT", {"url": second.url}), ("DELETE", None)):
        assert send(portico, verb, "/backends/late", fields, if_match=first).status == 412
    assert send(portico, "GET", "/backends/late").json()["backend"]["hint"] == "one"
    assert send(portico, "DELETE", "/backends/late", if_match=changed.headers["etag"]).status == 204
    assert send(portico, "PATCH", "/backends/late", {"hint": "two"}).status == 404
    assert send(portico, "DELETE", "/backends/late").status == 404


@pytest.mark.serve_only(reasons.SEVERAL)
@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
def test_every_process_on_the_store_follows_and_a_restart_forgets_nothing(kind, echo, second):
    """G1.32, G1.92"""
    with shared_store(kind) as (store, environment):
        declared = config(("s1", echo.url, {}), store=store)
        with gateway(declared, env=environment) as one, gateway(declared, env=environment) as two:
            clients = [one.client(), two.client()]
            for client in clients:
                client.init()
            for number, process in enumerate((one, two, one, two)):
                fields = {"name": f"late{number}", "url": second.url}
                assert send(process, "POST", "/backends", fields).status == 201
            wanted = {f"late{number}_echo" for number in range(4)}
            for client in clients:
                eventually(lambda client=client: wanted <= tools(client), 15)
                assert client.call("late0_echo", {"text": "hi"}).text == "hi"
            assert send(two, "DELETE", "/backends/late0").status == 204
            for client in clients:
                eventually(lambda client=client: "late0_echo" not in tools(client), 15)
        with gateway(declared, env=environment) as again:
            client = again.client()
            client.init()
            eventually(lambda: wanted - {"late0_echo"} <= tools(client), 15)
            assert names(again) == ["s1", "late1", "late2", "late3"]


def test_a_broken_record_is_told_of_and_harms_nobody(portico, client, second):
    """G1.34"""
    broken = {
        "list": b"[]",
        "nojson": b"\x00\xff",
        "s1": b'{"url": "http://127.0.0.1:1/"}',
        "secret": b'{"url": "http://127.0.0.1:1/", "credential": "sk-secret"}',
        "UPPER": json.dumps({"url": second.url}).encode(),
    }
    for name, value in broken.items():
        portico.write_record("REGISTRY", name, value)
    status = eventually(lambda: (found := portico.operator("/status")).json()["recordErrors"] and found)
    assert set(status.json()["recordErrors"]) == set(broken)
    assert "env:NAME or file:PATH" in status.json()["recordErrors"]["secret"]
    assert send(portico, "POST", "/backends", {"name": "late", "url": second.url}).status == 201
    eventually(lambda: {"s1_echo", "late_echo"} <= tools(client))
    shown = send(portico, "GET", "/backends")
    assert b"sk-secret" not in shown.raw + status.raw
    assert {one["name"] for one in shown.json()["backends"] if one["problems"]} == set(broken)
    assert send(portico, "PATCH", "/backends/secret", {"hint": "x"}).status == 409
    assert send(portico, "PUT", "/backends/secret", {"url": second.url}).status == 200
    for name in set(broken) - {"secret"}:
        assert send(portico, "DELETE", f"/backends/{name}").status == 204
    assert portico.operator("/status").json()["recordErrors"] == {}
    assert "s1_echo" in tools(client)


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_the_file_wins_over_a_record_that_was_there_first(portico, client, echo, second, tmp_path):
    """G1.32, G1.34"""
    assert send(portico, "PUT", "/backends/late", {"url": second.url, "prefix": "a_"}).status == 201
    eventually(lambda: "a_echo" in tools(client))
    store = f"sqlite:{tmp_path}/portico.db"
    portico.write(config(("s1", echo.url, {"prefix": "a_"}), store=store))
    errors = eventually(lambda: portico.operator("/status").json()["recordErrors"])
    assert errors["late"].startswith("prefix: expected another one than backend s1 has, found 'a_'")
    portico.write(config(("s1", echo.url, {}), store=store))
    eventually(lambda: {"s1_echo", "a_echo"} <= tools(client))
    assert portico.operator("/status").json()["recordErrors"] == {}


def test_a_backend_that_does_not_take_leave_holds_up_no_change(portico, client, second):
    """G1.32"""
    with echo_server("slow") as slow:
        assert send(portico, "PUT", "/backends/slow", {"url": slow.url}).status == 201
        eventually(lambda: "slow_echo" in tools(client))
        slow.control("delay", seconds=60)
        with ThreadPoolExecutor() as pool:
            removed = pool.submit(send, portico, "DELETE", "/backends/slow")
            eventually(lambda: slow.seen(http="DELETE"))
            added = pool.submit(send, portico, "PUT", "/backends/late", {"url": second.url})
            eventually(lambda: "late_echo" in tools(client), 3)
            assert (removed.result().status, added.result().status) == (204, 201)


def test_references_are_shown_and_never_resolved(echo, second):
    """G1.38"""
    with gateway(config(("s1", echo.url, {})), env={"LATE_TOKEN": "Bearer s3cret"}) as process:
        second.control("reset_log")
        fields = {"name": "late", "url": second.url + "?key=s3cret", "credential": "env:LATE_TOKEN"}
        answers = [send(process, "POST", "/backends", fields)]
        eventually(lambda: second.seen("initialize"))
        assert second.seen("initialize")[0]["headers"]["authorization"] == "Bearer s3cret"
        answers += [send(process, "GET", path) for path in ("/backends", "/backends/late", "/status")]
        assert not [answer for answer in answers if b"s3cret" in answer.raw]
        shown = answers[2].json()["backend"]
        assert (shown["credential"], shown["url"]) == ("env:LATE_TOKEN", second.url + "?***")
        assert set(problems(send(process, "PUT", "/backends/late", shown))) == {"url"}
        assert "s3cret" not in process.stderr()


@pytest.mark.serve_only("a deployment is not on loopback: there IAM or a token says who is an operator")
def test_only_this_machine_declares_backends(echo):
    """G1.101"""
    allowed = {"allowed_hosts": ["portico.test"], "allowed_origins": ["https://app.test"]}
    with gateway(config(("s1", echo.url, {}), gateway=allowed)) as process:
        assert send(process, "GET", "/backends", origin="http://localhost:3000").status == 200
        for headers in (
            {"host": "evil.test"},
            {"host": "portico.test"},
            {"origin": "https://app.test"},
            {"origin": "null"},
        ):
            assert send(process, "GET", "/backends", **headers).status == 403
    with gateway(config(), "--host", "0.0.0.0", "--insecure") as process:
        base = f"http://127.0.0.1:{process.port}"
        assert fetch(base + "/status").status == 200
        for path in ("/backends", "/openapi.json", "/docs"):
            assert fetch(base + path).status == 403


def test_the_api_describes_itself_without_asking_anybody_else(portico):
    described = portico.operator("/openapi.json").json()
    assert set(described["paths"]) == {"/backends", "/backends/{name}", "/status", "/status/{name}"}
    body = described["paths"]["/backends"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"name", "kind", "url", "prefix", "credential", "enabled"} <= set(body["properties"])
    operations = [said for verbs in described["paths"].values() for said in verbs.values()]
    assert [list(said["responses"]["4XX"]["content"]) for said in operations] == [
        ["application/problem+json"]
    ] * len(operations)
    assert "ValidationError" not in json.dumps(described)
    page = portico.operator("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert re.findall(rb"https?:|<script", page.raw.replace(b"http:// or https://", b"")) == []
    assert b"PATCH /backends/{name}" in page.raw
    assert send(portico, "POST", "/backends/x/y", {}).status == 404
    wrong = 405 if Place.chosen == "serve" else 404  # to API Gateway that is no route
    assert send(portico, "POST", "/backends/x", {}).status == wrong


def portico_command(process, *arguments):
    command = [str(PORTICO), *arguments, "--url", process.url]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.serve_only("an operator of a deployment signs his requests, which the commands do not")
def test_the_commands_do_what_they_say(portico, client, second):
    assert portico_command(portico, "add", "late", second.url, "--prefix", "l_").stdout == "late added\n"
    eventually(lambda: "l_echo" in tools(client))
    listed = portico_command(portico, "backends").stdout.splitlines()
    assert [line.split()[:3] for line in listed] == [["s1", "file", "enabled"], ["late", "record", "enabled"]]
    assert portico_command(portico, "disable", "s1").stdout == "s1 disabled\n"
    eventually(lambda: "s1_echo" not in tools(client))
    assert "disabled" in portico_command(portico, "backends").stdout
    assert portico_command(portico, "enable", "s1").stdout == "s1 enabled\n"
    eventually(lambda: "s1_echo" in tools(client))
    assert portico_command(portico, "remove", "late").stdout == "late removed\n"
    assert [one["name"] for one in json.loads(portico_command(portico, "backends", "--json").stdout)] == [
        "s1"
    ]


@pytest.mark.serve_only("an operator of a deployment signs his requests, which the commands do not")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "s1", "http://127.0.0.1:1/mcp"), "there is a backend 's1' already"),
        (
            ("add", "x", "http://127.0.0.1:1/mcp", "--prefix", "s1_"),
            "prefix: expected another one than backend s1",
        ),
        (
            ("add", "x", "http://h/mcp", "--credential", "sk-1"),
            "credential: expected env:NAME or file:PATH, found ***",
        ),
        (("add", "A", "http://127.0.0.1:1/mcp"), "a name of a-z"),
        (("remove", "s1"), "declared in the file"),
        (("remove", "nobody"), "there is no backend 'nobody'"),
        (("enable", "../status"), "Not Found"),
    ],
)
def test_a_command_that_is_refused_says_why(portico, arguments, said):
    refused = portico_command(portico, *arguments)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.serve_only("the layer has FastAPI")
def test_a_gateway_without_fastapi_serves_and_says_what_is_missing(echo, tmp_path):
    (tmp_path / "fastapi.py").write_text("raise ModuleNotFoundError('not here', name='fastapi')")
    with gateway(config(("s1", echo.url, {})), env={"PYTHONPATH": str(tmp_path)}) as process:
        client = process.client()
        client.init()
        assert client.call("s1_echo", {"text": "hi"}).text == "hi"
        assert fetch(process.base + "/status/s1").json()["ready"]
        refused = fetch(process.base + "/backends")
        assert (refused.status, "portico[control]" in refused.raw.decode()) == (501, True)
        assert "portico[control]" in portico_command(process, "backends").stderr
