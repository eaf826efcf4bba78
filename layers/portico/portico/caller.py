"""Who sent a request: what backends' credentials are chosen by. Kept apart from the headers that may go on."""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    owner: str = ""
    """The principal; empty where nobody is asked who he is."""
    token: str = field(default="", repr=False)
    """The bearer token that was found to be good."""


NOBODY: Final = Caller()


class RequestHeaders(dict[str, str]):
    """A client's headers by lower-case name, and who sent them. The token is not among them once it has been looked at."""

    __slots__ = ("caller",)

    def __init__(self) -> None:
        super().__init__()
        self.caller = NOBODY

    def admit(self, owner: str) -> None:
        """From here on they are this principal's."""
        self.caller = Caller(owner, self.pop("authorization", "").partition(" ")[2].strip())
