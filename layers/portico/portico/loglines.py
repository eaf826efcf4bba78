"""How log lines look: text for people, JSON for programs, neither with a secret in it. Standard library only."""

import json
import logging
import os
import re
from typing import Any, Final, Literal, TextIO

from portico.redaction import cleaned, redacted

Format = Literal["text", "json"]

CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
OF_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """For people. A line that begins with a level is one of ours: what is written over several is indented."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = CONTROL.sub(lambda found: ascii(found[0])[1:-1], redacted(super().format(record)))
        return text.replace("\n", "\n  | ")


class JsonLines(logging.Formatter):
    """One JSON object a line, its keys named as those on AWS are."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "logger": record.name,
            "message": record.getMessage(),
            "timestamp": self.formatTime(record, "%Y-%m-%d %H:%M:%S") + f",{record.msecs:03.0f}",
        }
        said |= {name: value for name, value in vars(record).items() if name not in OF_RECORD}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return written(said)


def written(said: dict[str, Any]) -> str:
    """As JSON in one line, without secrets; what has nothing to say is left out."""
    full = {name: value for name, value in said.items() if value not in (None, "") and name != "taskName"}
    return json.dumps(cleaned(full), separators=(",", ":"))


def set_up(stream: TextIO, lines: Format, *, log_calls: bool) -> None:
    """For a process of its own. Lines about requests cost more than half of what a call does, so they are asked for."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if lines == "json" else TextLines())
    level = os.environ.get("LOG_LEVEL", "INFO").upper()
    logging.basicConfig(
        level=level if level in logging.getLevelNamesMapping() else "INFO", handlers=[handler]
    )
    logging.getLogger("portico.calls").setLevel(logging.INFO if log_calls else logging.WARNING)
    logging.getLogger("authz.audit").setLevel(logging.INFO)


def take_over(stream: TextIO, name: str) -> None:
    """As JSON, in a process where others have set up logging before."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
