"""What is wrong with a configuration, in words that can be logged: no secret, no raw control characters."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

MASK: Final = "***"
_SHOWN_CHARACTERS: Final = 80
_SHOWN_PROBLEMS: Final = 50
_URL_SECRETS: Final = re.compile(r"(?<=//)[^/?#]*(?=@)|(?<=\?).+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    """As in `backends.echo.url` or `servers[0].url`; empty for the file itself."""
    expected: str
    found: str
    """In words, or quoted; fit to be shown."""
    line: int | None = None
    where: str = ""

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return ": ".join(filter(None, (place, self.path, f"expected {self.expected}, found {self.found}")))


class InvalidConfig(ValueError):
    """A configuration is refused whole. `problems` has all that was found, `files` all that was looked at."""

    def __init__(self, problems: Iterable[Problem], files: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self.files = tuple(files)
        lines = [str(problem) for problem in self.problems[:_SHOWN_PROBLEMS]]
        if len(self.problems) > _SHOWN_PROBLEMS:
            lines.append(f"... and {len(self.problems) - _SHOWN_PROBLEMS} more")
        super().__init__("\n".join(lines))


@dataclass(slots=True)
class Report:
    """What reading a configuration has come upon so far; `where` is the file being read."""

    where: str
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files.append(self.where)

    def inside(self, where: str) -> "Report":
        """The same report, while another file is read."""
        return Report(where, self.problems, self.warnings, self.files)

    def problem(self, path: str, line: int | None, expected: str, found: str) -> None:
        self.problems.append(Problem(path, expected, found, line, self.where))

    def warning(self, path: str, line: int | None, text: str) -> None:
        self.warnings.append(f"{self.where}:{line}: {path}: {text}")

    def refusal(self) -> InvalidConfig:
        order = {where: index for index, where in enumerate(self.files)}
        return InvalidConfig(
            sorted(self.problems, key=lambda problem: (order[problem.where], problem.line or 0)),
            dict.fromkeys(self.files),
        )


def shown(data: object) -> str:
    """A value as a message may show it: short, printable, and without what a URL may carry in secret."""
    match data:
        case None:
            return "nothing"
        case bool():
            return str(data).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return quoted(without_secrets(data))
    return str(data)


def without_secrets(url: str) -> str:
    return _URL_SECRETS.sub(MASK, url)


def quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")
