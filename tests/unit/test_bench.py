"""What the benchmark says of its figures, and when it fails."""

import dataclasses

from tests.bench.measure import Plan, Row
from tests.bench.parts import parts
from tests.bench.processes import Running
from tests.bench.report import TIMES, Table, functions_compared, report, summary
from tests.bench.session import RoutedSession
from tests.bench.targets import TARGETS
from tests.bench.verdicts import verdicts
from tests.support import eventually

ROW = Row(
    operation="tools/call",
    concurrency=16,
    target="",
    operations=1000,
    errors=0,
    first_error=None,
    per_s=2000.0,
    per_s_rounds=[2000.0],
    p50_ms=1.0,
    p99_ms=2.0,
    cpu_s_per_1000=0.1,
    cpu_s_per_1000_rounds=[0.1, 0.1, 0.1],
    tree_cpu_s_per_1000=0.1,
    rss_mib=30.0,
    tree_rss_mib=30.0,
    seconds=1.0,
    foreign_cpu_s=0.0,
)


def table(unavailable=None, **rows):
    """`rows`: what differs from ROW, by target's name."""
    targets = [target for target in TARGETS if target.name in rows or target.name in (unavailable or {})]
    made = [dataclasses.replace(ROW, target=name, **values) for name, values in rows.items()]
    return Table("tools/call", targets, made, unavailable or {})


def held(table):
    return [verdict.holds for verdict in verdicts([table])]


FASTMCP = {"per_s": 100.0, "cpu_s_per_1000": 10.0}


def test_all_is_well_when_portico_is_cheaper_and_twenty_times_faster():
    assert held(table(portico={}, fastmcp=FASTMCP)) == [True, True, True]


def test_nineteen_times_the_calls_are_too_few():
    assert held(table(portico={"per_s": 1900.0}, fastmcp=FASTMCP)) == [True, True, False]


def test_one_peer_that_needs_no_more_cpu_is_enough_to_fail():
    found = table(portico={}, supergateway={"cpu_s_per_1000": 0.1}, fastmcp=FASTMCP)
    assert held(found) == [True, False, True]


def test_a_wrong_answer_fails_the_run():
    assert held(table(portico={}, fastmcp={**FASTMCP, "errors": 1, "first_error": "wrong echo"}))[0] is False


def test_a_peer_that_could_not_be_measured_fails_the_run_and_is_named_in_the_table():
    found = table({"fastmcp": "not installed: no such file"}, portico={})
    assert held(found) == [False, False, False]
    assert "not measured: not installed: no such file" in summary([found])


def test_nothing_is_said_of_targets_left_out():
    assert held(table(portico={}, supergateway={"cpu_s_per_1000": 0.2})) == [True, True]
    assert held(table(portico={})) == [True]


def test_ratios_read_as_how_much_better_portico_is():
    """Portico's calls by the peer's, the peer's CPU by Portico's."""
    row = summary([table(portico={}, fastmcp=FASTMCP)]).splitlines()[-1]
    assert [cell.strip() for cell in row.split("|")][3:7] == ["20", "1.00 / 2.00", "10", "100"]


def test_modern_requests_may_cost_what_legacy_ones_cost_and_the_median_of_the_rounds_says_what_that_is():
    assert held(table(**{"portico": {}, "portico-modern": {"cpu_s_per_1000_rounds": [0.1, 0.105, 0.4]}})) == [
        True,
        True,
    ]
    assert held(table(**{"portico": {}, "portico-modern": {"cpu_s_per_1000_rounds": [0.1, 0.106, 0.4]}})) == [
        True,
        False,
    ]


def test_a_modern_row_without_figures_fails_the_run():
    assert held(table(**{"portico": {}, "portico-modern": {"operations": 0}})) == [True, False]


def test_a_peer_is_compared_with_the_portico_of_its_clients_era():
    modern = {"per_s": 1000.0, "cpu_s_per_1000": 0.4}
    found = summary([table(**{"portico": {}, "portico-modern": modern, "direct-modern": {"per_s": 4000.0}})])
    row = next(line for line in found.splitlines() if "modern backend alone" in line)
    assert [cell.strip() for cell in row.split("|")][3] == "0.25"


def deployed(**rows):
    return dataclasses.replace(table(**rows), title="tools/call, on Lambda", deployed=True)


LAMBDA = {"cpu_s_per_1000": 2.0, "per_s": 100.0}


def test_the_deployment_is_judged_by_its_answers_alone():
    found = {"portico": {}, "lambda": LAMBDA, "lambda-modern": LAMBDA, "portico-modern": {}}
    assert [verdict.holds for verdict in verdicts([deployed(**found)])] == [True]
    found["lambda"] = {**LAMBDA, "errors": 1}
    assert [verdict.holds for verdict in verdicts([deployed(**found)])] == [False]


def test_the_ways_through_the_deployment_are_compared_and_the_readme_table_stays_as_it_is():
    found = deployed(**{"portico": {}, "lambda": LAMBDA, "lambda-inline": {"cpu_s_per_1000": 1.0}})
    inline, serve = functions_compared([found])
    assert inline.endswith(f"tools/call c=16 0.5{TIMES}.")
    assert serve.endswith(f"tools/call c=16 20{TIMES}.")
    own = table(portico={}, fastmcp=FASTMCP)
    assert summary([own]) in report([own, found], Plan(1, 1), 1.0)


def test_the_deployment_is_measured_beside_what_it_is_compared_with_at_few_requests_at_once():
    asked = [target for target in TARGETS if target.name in ("portico", "fastmcp", "lambda", "lambda-inline")]
    plain, _wide, lambdas = parts(asked, [1, 16, 64], Plan(1, 1))
    assert [target.name for target in plain.targets] == ["portico", "fastmcp"]
    assert [target.name for target in lambdas.targets] == ["portico", "lambda", "lambda-inline"]
    assert {step.concurrency for step in lambdas.steps} == {1, 4}
    assert len(parts(asked[:2], [1], Plan(1, 1))) == 2


def test_a_routed_client_goes_to_the_function_that_answers():
    session = RoutedSession("http://127.0.0.1:1/mcp")
    assert session.request("tools/list", {}).startswith(b"POST /mcp/tools-list HTTP/1.1\r\n")
    assert session.request("tools/call", {"name": "a"}).startswith(b"POST /mcp/tools-call HTTP/1.1\r\n")


def test_of_the_deployment_only_the_functions_are_counted(tmp_path):
    """What stands in for AWS is in the tree, and no part of the figures."""
    started = "env AWS_LAMBDA_RUNTIME_API=here sleep 60 & echo started; wait"
    running = Running(["sh", "-c", started], tmp_path / "log", functions_only=True)
    try:
        eventually(lambda: running.usage().rss_mib > 0, 10)
        usage = running.usage()
        assert 0 < usage.rss_mib < usage.tree_rss_mib
    finally:
        running.stop()
