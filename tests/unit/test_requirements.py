"""Every promise has a test that names it, and every number in a test is a promise."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parent.parent
NUMBER = re.compile(r"\b(?:G[0-4]\.|C)[1-9][0-9]*\b")


def named() -> Iterator[tuple[str, str]]:
    """Number and place, for each number in the docstring of a test."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in NUMBER.findall(ast.get_docstring(node) or ""):
                    yield number, f"{path.relative_to(TESTS)}::{node.name}"


def test_every_promise_is_named_by_a_test():
    assert sorted(set(REQUIREMENTS) - {number for number, _ in named()}) == []


def test_every_number_named_by_a_test_is_a_promise():
    assert [(number, place) for number, place in named() if number not in REQUIREMENTS] == []


def test_a_promise_is_one_line():
    assert [number for number in REQUIREMENTS if not NUMBER.fullmatch(number)] == []
    assert [line for line in REQUIREMENTS.values() if len(line) > 110 or not line.endswith(".")] == []
