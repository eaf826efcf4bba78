"""YAML or JSON text -> a tree of values that know their path and, in a file, their line.

The file is hostile: size, depth and number of values are bounded before anything is built from it, aliases included.
Scalars follow YAML 1.2: only `true` and `false` are booleans, so that `prefix: no` and `1_` stay text.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

import yaml

from portico.registry.problems import MASK, Report, quoted

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 50_000

Data: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class Value:
    data: Data = field(repr=False)
    path: str
    line: int | None


class TooMuch(Exception):
    def __init__(self, line: int | None, expected: str, found: str) -> None:
        super().__init__(found)
        self.line, self.expected, self.found = line, expected, found


_TOO_DEEP: Final = (f"at most {MAX_DEPTH} levels", "more")
_TOO_MANY: Final = (f"at most {MAX_VALUES} values, aliases written out", "more")


class _Loader(yaml.SafeLoader):
    """Composes nodes within bounds, and knows the scalars of YAML 1.2."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own way to start without any

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
        self._nodes += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooMuch(line, *_TOO_DEEP)
        if self._nodes > MAX_VALUES:
            raise TooMuch(line, *_TOO_MANY)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


# Eighteen digits: more than any limit needs, and far from where int() becomes slow.
_SCALARS: Final = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), list("tTfF")),
    "int": (re.compile(r"[-+]?[0-9]{1,18}"), list("-+0123456789")),
    "float": (
        re.compile(
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
        list("-+.0123456789"),
    ),
}
for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern.pattern})$"), _first)


def read(text: str, report: Report) -> Value | None:
    """The document's root, or None. What is wrong goes to the report."""
    if len(text) > MAX_BYTES:
        report.problem("", None, f"at most {MAX_BYTES} bytes", "more")
        return None
    try:
        node = _Loader(text).get_single_node()
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null"):
            report.problem("", 1, "a mapping", "an empty file")
            return None
        return _Tree(report).value(node, "", 0)
    except TooMuch as limit:
        report.problem("", limit.line, limit.expected, limit.found)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        report.problem("", line, "printable text", f"the character U+{error.character:04X}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        report.problem(
            "", mark.line + 1 if mark else None, "YAML", _masked(error.problem or "something else")
        )
    except (ValueError, OverflowError):  # PyYAML on an escape or a directive with a number no character has
        report.problem("", None, "YAML", "a number out of range")
    return None


def read_json(text: bytes, report: Report) -> Value | None:
    """As `read`, of one JSON value."""
    try:
        return _json_value(json.loads(text, object_pairs_hook=_once, parse_constant=_refuse), "", 0)
    except TooMuch as limit:
        report.problem("", limit.line, limit.expected, limit.found)
    except (ValueError, RecursionError):
        report.problem("", None, "JSON", "something else")
    return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise TooMuch(None, "every field once", "one twice")
    return found


def _refuse(_: str) -> NoReturn:
    raise ValueError


def _json_value(data: Any, path: str, depth: int) -> Value:
    if depth > MAX_DEPTH:
        raise TooMuch(None, *_TOO_DEEP)
    if isinstance(data, dict):
        inner = {name: _json_value(item, join(path, name), depth + 1) for name, item in data.items()}
        return Value(inner, path, None)
    if isinstance(data, list):
        items = [_json_value(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(data)]
        return Value(items, path, None)
    return Value(data, path, None)


def _masked(message: str) -> str:
    """PyYAML quotes single characters, kinds of tokens, and names: `*hunter2` is a secret somebody did not quote."""

    def mask(match: re.Match[str]) -> str:
        quote = match.group()
        return quote if len(quote) <= 3 or quote.startswith("'<") else MASK

    return _QUOTED.sub(mask, message)


class _Tree:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._values = 0

    def value(self, node: yaml.Node, path: str, depth: int) -> Value:
        line = node.start_mark.line + 1
        self._values += 1
        if depth > MAX_DEPTH:
            raise TooMuch(line, *_TOO_DEEP)
        if self._values > MAX_VALUES:
            raise TooMuch(line, *_TOO_MANY)
        data: Data
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            data = self._mapping(node, path, depth)
        elif isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            data = [self.value(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(node.value)]
        elif isinstance(node, yaml.ScalarNode):
            data = self._scalar(node, path)
        else:
            self._report.problem(path, line, "no tags", "one")
            data = None
        return Value(data, path, line)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._report.problem(path, line, "text as the name of a field", "something else")
                continue
            name = key.value
            value = self.value(item, join(path, name), depth + 1)
            if name in found:
                self._report.problem(
                    value.path, line, f"it once (line {found[name].line} has it)", "it again"
                )
            else:
                # A field is where its name is: what it holds may begin lines below.
                found[name] = Value(value.data, value.path, line)
        return found

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Data:
        text: str = node.value
        name = node.tag.removeprefix(_TAG)
        if name == "str":
            return text
        if name not in _SCALARS or not _SCALARS[name][0].fullmatch(text):
            self._report.problem(path, node.start_mark.line + 1, "no tags", "one")
            return None
        if name == "null":
            return None
        if name == "bool":
            return text.lower() == "true"
        return (
            int(text) if name == "int" else float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        )


def join(path: str, name: str) -> str:
    """`a.b`; a name that could be mistaken for something else is quoted."""
    shown_name = name if _PLAIN_KEY.fullmatch(name) else quoted(name)
    return f"{path}.{shown_name}" if path else shown_name
