"""Who asked for what, what was decided, and what became of it: one line for each, in the same form on every edge.

`authz.audit` has the lines, and is on wherever anybody is asked who he is. There is no token in them, and no argument.
"""

import logging
from dataclasses import dataclass
from typing import Final, Literal

from authz.challenge import Refusal
from authz.model import Principal

MOST: Final = 128
"""Of any one text."""

audit: Final = logging.getLogger("authz.audit")


@dataclass(slots=True)
class Decided:
    """As far as it is known."""

    issuer: str = ""
    principal: str = ""
    verdict: Literal["allowed", "refused"] = "allowed"
    reason: str = ""

    def of(self, principal: Principal) -> None:
        self.issuer, self.principal = principal.issuer[:MOST], principal.subject[:MOST]

    def allowed(self, reason: str) -> None:
        self.verdict, self.reason = "allowed", reason

    def refused(self, refusal: Refusal) -> None:
        self.verdict, self.reason = "refused", refusal.reason


def note(decided: Decided, said: dict[str, str | int | float]) -> None:
    """`said`: method, tool, backend, outcome, status and duration_ms."""
    who = f"{decided.principal} of {decided.issuer}" if decided.principal else "somebody"
    what = f"{said['method']} {said['tool']}".rstrip()
    at = f" at {said['backend']}" if said["backend"] else ""
    why = f" ({decided.reason})" if decided.reason else ""
    text = f"{who}: {what}{at}: {decided.verdict}{why}, {said['outcome']}, {said['status']} in {said['duration_ms']:g} ms"
    who_and_why: dict[str, str | int | float] = {
        "issuer": decided.issuer,
        "principal": decided.principal,
        "verdict": decided.verdict,
        "reason": decided.reason,
    }
    audit.info("%s", text, extra=said | who_and_why)
