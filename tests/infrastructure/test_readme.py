"""What README says of the deployment is what the template says."""

import ast
import operator
import re

import pytest

from tests.infrastructure.stack import Stack
from tests.infrastructure.tools import ROOT

README = (ROOT / "README.md").read_text()
ABOUT = README.partition("\n## On AWS\n")[2].partition("\n## ")[0]
COSTS = re.findall(r"^\| (.+?) \| ([\d.]+) \| (.+?) \|$", ABOUT, re.MULTILINE)
OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul, ast.Div: operator.truediv}


def parameter_table(template):
    (interface,) = template["Metadata"].values()
    lines = ["| parameter | default | what it is |", "| --- | --- | --- |"]
    for group in interface["ParameterGroups"]:
        for name in group["Parameters"]:
            about = template["Parameters"][name]
            default = f"`{about['Default']}`" if about["Default"] != "" else ""
            lines.append(f"| `{name}` | {default} | {about['Description']} |")
    return "\n".join(lines)


def computed(node):
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](computed(node.left), computed(node.right))
    return ast.literal_eval(node)


def numbers(node):
    return {found.value for found in ast.walk(node) if isinstance(found, ast.Constant)}


def formula(how):
    python = how.replace("\N{MULTIPLICATION SIGN}", "*").replace("\N{DIVISION SIGN}", "/")
    return ast.parse(python, mode="eval").body


def test_the_table_of_parameters_is_the_templates(template):
    """Where it differs, what pytest shows is what belongs into README."""
    (section,) = re.findall(r"### Parameters\n\n(.+?)\n\n", ABOUT, re.DOTALL)
    assert section == parameter_table(template)


def test_every_value_that_is_named_can_be_given(template):
    given = re.findall(r"\b([A-Z][A-Za-z]+)=([^\s`]+)", ABOUT)
    assert {"AuthMode", "PublicBaseUrl", "DispatchMode", "MethodRouting"} <= {name for name, _ in given}
    for name, value in given:
        about = template["Parameters"][name]
        assert value in about.get("AllowedValues", [value]), (name, value)
        assert re.search(about.get("AllowedPattern", ""), value), (name, value)


def test_every_name_is_a_parameter_or_an_output(template):
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z][A-Za-z]+)`", ABOUT))
    assert {"McpUrl", "AlarmEmail"} <= named
    assert named <= set(template["Parameters"]) | set(template["Outputs"])


def test_as_many_functions_are_deployed_as_it_says(smallest):
    assert "ten functions" in ABOUT
    assert len(smallest.of_type("AWS::Lambda::Function")) == 10


@pytest.mark.parametrize(("what", "dollars", "how"), COSTS)
def test_a_cost_is_what_its_formula_gives(what, dollars, how):
    assert f"{computed(formula(how)):.2f}" == dollars


def test_costs_are_reckoned_with_the_prices_and_sizes_that_are_named(template, smallest):
    assert len(COSTS) == 8
    prices = set(
        map(float, re.findall(r"(?:requests|invocations|GB-seconds|reads|writes) ([\d.]+\d)", ABOUT))
    )
    sizes = {
        int(function["MemorySize"]) / 1024 for function in smallest.of_type("AWS::Lambda::Function").values()
    }
    assert sizes == {0.25, 0.5}
    seconds, counts = {0.05, 0.01, 0.2, 3600}, {2, 3, 0.1, 730, 60, 12, 1000000}
    used = set().union(*(numbers(formula(how)) for _, _, how in COSTS))
    assert used == prices | sizes | seconds | counts


def test_what_is_inline_is_as_large_as_it_is_reckoned(template):
    stack = Stack(template, DispatchMode="inline")
    assert int(stack.of_type("AWS::Lambda::Function")["EdgeFunction"]["MemorySize"]) == 512


def test_the_schedules_run_as_often_as_it_is_reckoned(template):
    """60 and 12 times an hour."""
    assert template["Parameters"]["DiscoverySchedule"]["Default"] == "rate(1 minute)"
    assert template["Parameters"]["ReaperSchedule"]["Default"] == "rate(5 minutes)"
