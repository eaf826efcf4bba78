"""What was observed, and what is said of it. Values only."""

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "warning", "failed", "not applicable"]


@dataclass(frozen=True, slots=True)
class Finding:
    step: str
    verdict: Verdict
    text: str
    fix: str = ""
    """What to do; never empty for a warning or a failure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, or why there was none."""

    status: int = 0
    """0: there was no answer."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    message: Any = None
    """The body as JSON, or the message with the request's id of its stream; None where there is none."""
    seconds: float = 0.0
    failure: str = ""
    """Why there is no answer."""
    cause: BaseException | None = None
    """What connecting failed with, where that is why."""

    @property
    def result(self) -> dict[str, Any] | None:
        found = self.message.get("result") if isinstance(self.message, dict) else None
        return found if self.status == 200 and isinstance(found, dict) else None

    @property
    def error(self) -> dict[str, Any]:
        found = self.message.get("error") if isinstance(self.message, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def code(self) -> Any:
        return self.error.get("code")

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Heard:
    """What came on a stream while it was listened to."""

    answer: Answer
    pieces: tuple[tuple[float, bytes], ...] = ()
    """Each with the seconds since the request."""
    ended: bool = False
    """By the other side."""
    seconds: float = 0.0
    """How long it was listened to."""


def ok(step: str, text: str) -> Finding:
    return Finding(step, "ok", text)


def warning(step: str, text: str, fix: str) -> Finding:
    return Finding(step, "warning", text, fix)


def failed(step: str, text: str, fix: str) -> Finding:
    return Finding(step, "failed", text, fix)


def skipped(step: str, reason: str) -> Finding:
    return Finding(step, "not applicable", reason)
