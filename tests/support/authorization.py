"""The authorization server of tests/servers, the backend that trusts it, and what goes before a gateway that does so, too."""

import html
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

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

    def asked_for_tools(self) -> list[str]:
        """The paths of the metadata that it was asked for."""
        found: list[str] = fetch(f"{self.base}/guard").json()["asked"]
        return found

    def hosts_of_tools(self) -> list[str]:
        """As what it was asked for it."""
        found: list[str] = fetch(f"{self.base}/guard").json()["hosts"]
        return found


def authorization_server() -> Authorization:
    return Authorization(module("tests.servers.authorization"))


def guarded_server(issuer: str) -> Guarded:
    return Guarded(module("tests.servers.guarded", "--issuer", issuer))


def went(answer: Answer) -> bool:
    """Whether a call was answered with a result."""
    return answer.status == 200 and "result" in answer.message


class Browser:
    """What it needs to be here: cookies for each host, and redirects that are followed one by one."""

    def __init__(self, gateway: Process, public_url: str) -> None:
        self._gateway = gateway
        self._public_url = public_url
        self.cookies: dict[str, tuple[str, str]] = {}
        """By name: value and path."""
        self.seen: list[str] = []

    def get(self, url: str) -> Answer:
        self.seen.append(url)
        here = url.startswith(self._public_url)
        kept = self.cookies.items() if here else ()
        fitting = [
            f"{name}={value}" for name, (value, path) in kept if urlsplit(url).path.startswith(f"{path}/")
        ]
        sent = {"cookie": "; ".join(fitting)} if fitting else {}
        answer = fetch(url.replace(self._public_url, self._gateway.base, 1), headers=sent)
        if here and (said := answer.headers.get("set-cookie")):
            name, _, value = said.partition(";")[0].partition("=")
            path = re.search(r"; Path=([^;]+)", said)
            assert path, said
            self.cookies[name] = (value, path[1])
        return answer

    def follow(self, url: str, most: int = 10) -> Answer:
        """Until a page that is no redirect."""
        answer = self.get(url)
        while answer.status == 302 and most:
            answer, most = self.get(answer.headers["location"]), most - 1
        return answer

    def onward(self, page: Answer) -> str:
        """Where its link leads."""
        found = re.search(r'id="go" href="([^"]+)"', page.raw.decode())
        assert found, page
        return urljoin(self._public_url, html.unescape(found[1]))

    def consent(self, url: str) -> Answer:
        """The page opened, its link followed to the end."""
        return self.follow(self.onward(self.get(url)))
