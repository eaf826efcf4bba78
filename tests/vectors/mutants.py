"""Changes one thing at a time in authz/policy.py and sees whether the vectors notice. `make mutants` shows them all.

No mutant may live, but for those in EQUIVALENT, each with the reason why it decides as the original does.
"""

import ast
import asyncio
import copy
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import authz.policy
from authz import check, metadata, naming
from authz.guard import Guard
from portico import permissions
from tests.vectors import answers, core
from tests.vectors.cases import Vector, vectors

SOURCE = Path(authz.policy.__file__).read_text(encoding="utf-8")
USERS = (check, metadata, naming, permissions)
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
CALLED = {"all": "any", "any": "all", "fullmatch": "match"}
EQUIVALENT = {
    "module: 4096: one more": "how much is remembered decides nothing",
    "module: 1024: one more": "how much is remembered decides nothing",
}


@dataclass(frozen=True)
class Mutant:
    about: str
    code: types.CodeType


def mutants() -> Iterator[Mutant]:
    tree = ast.parse(SOURCE)
    for number, node in enumerate(ast.walk(tree)):
        for about, change in _changes(node):
            other = copy.deepcopy(tree)
            target = next(one for index, one in enumerate(ast.walk(other)) if index == number)
            change(target, other)
            text = ast.unparse(ast.fix_missing_locations(other))
            if text == ast.unparse(tree):
                continue
            line = getattr(node, "lineno", 0)
            said = " ".join(ast.unparse(node).split())[:90]
            yield Mutant(f"{_within(tree, line)}: {said}: {about}", compile(text, "<mutant>", "exec"))


Change = Callable[[Any, ast.Module], None]


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield "the opposite", lambda one, _: setattr(one, "ops", [COMPARED[type(one.ops[0])]()])
        case ast.BoolOp(op=ast.And()):
            yield "or", lambda one, _: setattr(one, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield "and", lambda one, _: setattr(one, "op", ast.And())
        case ast.BinOp(op=ast.BitAnd()):
            yield "|", lambda one, _: setattr(one, "op", ast.BitOr())
        case ast.UnaryOp(op=ast.Not()):
            yield "without not", _replaced(lambda one: one.operand)
        case ast.If() | ast.IfExp():
            yield "if not", lambda one, _: setattr(one, "test", ast.UnaryOp(ast.Not(), one.test))
        case ast.Constant(value=bool()):
            yield "the other", lambda one, _: setattr(one, "value", not one.value)
        case ast.Constant(value=int()):
            yield "one more", lambda one, _: setattr(one, "value", one.value + 1)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in CALLED:
            field = "id" if isinstance(node.func, ast.Name) else "attr"
            yield CALLED[name], lambda one, _: setattr(one.func, field, CALLED[name])
        case ast.comprehension(ifs=[_, *_]):
            yield "without its condition", lambda one, _: setattr(one, "ifs", [])
        case ast.Return(value=ast.expr() as value) if getattr(value, "value", True):
            yield "None", lambda one, _: setattr(one, "value", ast.Constant(None))
    if isinstance(node, ast.If | ast.Expr | ast.AugAssign | ast.For | ast.While) and not _is_text(node):
        yield "left out", _replaced(lambda _: ast.Pass())


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _replaced(made: Callable[[Any], ast.AST]) -> Change:
    def change(target: Any, tree: ast.Module) -> None:
        for parent in ast.walk(tree):
            for name, value in ast.iter_fields(parent):
                if value is target:
                    setattr(parent, name, made(target))
                elif isinstance(value, list) and any(item is target for item in value):
                    value[:] = [made(target) if item is target else item for item in value]

    return change


def _within(tree: ast.Module, line: int) -> str:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return next((one.name for one in functions if one.lineno <= line <= (one.end_lineno or 0)), "module")


@contextmanager
def in_place(mutant: Mutant) -> Iterator[None]:
    """Wherever something was taken from the module by name, the mutant's stands."""
    module = types.ModuleType("authz.policy")
    exec(mutant.code, module.__dict__)
    kept = [(user, name, value) for user in USERS for name, value in vars(user).items() if _of_policy(value)]
    try:
        for user, name, value in kept:
            setattr(user, name, getattr(module, value.__name__))
        yield
    finally:
        for user, name, value in kept:
            setattr(user, name, value)


def _of_policy(value: Any) -> bool:
    return callable(value) and getattr(value, "__module__", "") == "authz.policy"


class Examination:
    """Tokens have nothing to do with it: each is verified once."""

    def __init__(self) -> None:
        self._vectors = [one for one in vectors() if one.theme not in ("tokens", "identity")]
        self._guards: dict[str, Guard] = {}

    def noticed_by(self, mutant: Mutant) -> Vector | None:
        """The first vector that tells it from the original."""
        with in_place(mutant):
            found = asyncio.run(self._failing())
        if found is not None:  # mutants like each other: whoever notices one may notice the next
            self._vectors.remove(found)
            self._vectors.insert(0, found)
        return found

    async def _failing(self) -> Vector | None:
        for vector in self._vectors:
            guard = self._guards.setdefault(vector.config, core.guard(vector.config))
            try:
                async with asyncio.timeout(5):
                    answers.check(vector, await core.answer(vector, guard))
            except Exception:
                return vector
        return None


def main() -> int:
    examination, living = Examination(), []
    for mutant in mutants():
        found = examination.noticed_by(mutant)
        if found is None and mutant.about not in EQUIVALENT:
            living.append(mutant.about)
        print(f"{found or EQUIVALENT.get(mutant.about) or 'LIVES'!s:70.70} {mutant.about}")
    print(f"{len(living)} live" if living else "none lives")
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(main())
