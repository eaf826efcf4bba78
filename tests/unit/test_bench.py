"""What the benchmark says of its figures, and when it fails."""

import dataclasses

from tests.bench.measure import Row
from tests.bench.report import Table, summary
from tests.bench.targets import TARGETS
from tests.bench.verdicts import verdicts

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
