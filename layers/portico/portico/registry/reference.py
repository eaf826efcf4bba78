"""Where a secret is, not what it is.

A reference is resolved when the value is needed, never when the file is read, and it can be printed, logged and
compared without showing what it stands for.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from portico.redaction import conceal

MAX_FILE_BYTES: Final = 1 << 20
_ENVIRONMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnresolvedReference(LookupError):
    """What a reference points at is not there, or is not usable. The message is safe to show."""


@dataclass(frozen=True, slots=True, repr=False)
class Reference:
    kind: Literal["env", "file", "literal"]
    target: str
    """A variable's name, a path, or (literal) the value itself."""

    @classmethod
    def parse(cls, text: str) -> "Reference | None":
        """`env:NAME` or `file:PATH`; anything else is None. A literal is only ever made on purpose."""
        kind, _, target = text.partition(":")
        if kind == "env" and _ENVIRONMENT_NAME.fullmatch(target):
            return cls("env", target)
        if kind == "file" and target and "\0" not in target:
            return cls("file", target)
        return None

    @classmethod
    def literal(cls, value: str) -> "Reference":
        return cls("literal", value)

    def beside(self, directory: Path) -> "Reference":
        """The same reference, a relative path being taken from `directory`."""
        return replace(self, target=str(directory / self.target)) if self.kind == "file" else self

    def resolve(self) -> str:
        """The value now, without the line end that editors leave. Raises UnresolvedReference."""
        if self.kind == "literal":
            return self.target
        value = self._from_environment() if self.kind == "env" else self._from_file()
        if not value:
            raise UnresolvedReference(f"{self} is empty")
        conceal(value)
        return value

    def _from_environment(self) -> str:
        try:
            return os.environ[self.target].rstrip("\r\n")
        except KeyError:
            raise UnresolvedReference(f"{self}: the environment variable {self.target} is not set") from None

    def _from_file(self) -> str:
        try:
            with Path(self.target).open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UnresolvedReference(f"{self}: the file can not be read: {error.strerror}") from None
        if len(content) > MAX_FILE_BYTES:
            raise UnresolvedReference(f"{self}: the file is larger than {MAX_FILE_BYTES} bytes")
        try:
            return content.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            # Not chained: a UnicodeDecodeError carries the bytes, which are the secret.
            raise UnresolvedReference(f"{self}: the file is not UTF-8 text") from None

    def __str__(self) -> str:
        return "***" if self.kind == "literal" else f"{self.kind}:{self.target}"

    def __repr__(self) -> str:
        return f"Reference({self})"
