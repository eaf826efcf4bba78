"""The authorization server of tests/servers, the backend that trusts it, and what goes before a gateway that does so, too."""

from typing import Any

from tests.support.exchange import Answer, Json, fetch
from tests.support.processes import Process
from tests.support.servers import Echo, module

SECRET = "s3cret/+:"
"""Of its client `portico`."""


class Authorization(Process):
    @property
    def issuer(self) -> str:
        return self.base

    def control(self, do: str, **said: Any) -> Json:
        found: Json = fetch(f"{self.base}/control", {"do": do} | said).json()
        return found

    def set(self, **switches: Any) -> None:
        self.control("set", **switches)

    def seen(self, path: str = "/token") -> list[Json]:
        log = fetch(f"{self.base}/control").json()["log"]
        return [entry for entry in log if entry["path"] == path]

    @property
    def most_in_flight(self) -> int:
        found: int = fetch(f"{self.base}/control").json()["most_in_flight"]
        return found

    def token(self, **claims: Any) -> str:
        found: str = self.control("sign", **claims)["token"]
        return found


class Guarded(Echo):
    def wants(self, **said: Any) -> None:
        assert fetch(f"{self.base}/guard", said).status == 200


def authorization_server() -> Authorization:
    return Authorization(module("tests.servers.authorization"))


def guarded_server(issuer: str) -> Guarded:
    return Guarded(module("tests.servers.guarded", "--issuer", issuer))


def went(answer: Answer) -> bool:
    """Whether a call was answered with a result."""
    return answer.status == 200 and "result" in answer.message
