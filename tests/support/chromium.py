"""A real browser, headless, driven by WebDriver over HTTP; Debian's, installed if it is missing."""

import base64
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import debian
from tests.support.exchange import fetch
from tests.support.processes import Process
from tests.support.waiting import eventually

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Chromium:
    def __init__(self, driver: str, *arguments: str) -> None:
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", *arguments]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        self._session = driver
        found = self._tell("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"{driver}/session/{found['sessionId']}"

    def open(self, url: str) -> None:
        self._tell("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return self._tell("GET", "/url")

    def arrived(self, beginning: str) -> str:
        """Its address, as soon as it begins so."""
        return eventually(lambda: self.url if self.url.startswith(beginning) else "", 15)

    def text(self, css: str) -> str:
        return self._tell("GET", f"{self._find(css)}/text")

    def count(self, css: str) -> int:
        return len(self._tell("POST", "/elements", {"using": "css selector", "value": css}))

    def click(self, css: str) -> None:
        self._tell("POST", f"{self._find(css)}/click", {})

    def type(self, css: str, text: str) -> None:
        """In place of what is there."""
        element = self._find(css)
        self._tell("POST", f"{element}/clear", {})
        self._tell("POST", f"{element}/value", {"text": text})

    def ask(self, script: str) -> Any:
        """What a script finds out; the page's own policy does not hold for it."""
        return self._tell("POST", "/execute/sync", {"script": f"return {script}", "args": []})

    def into_frame(self) -> None:
        self._tell("POST", "/frame", {"id": 0})

    def complaints(self) -> list[str]:
        """What its console says."""
        return [entry["message"] for entry in self._tell("POST", "/se/log", {"type": "browser"})]

    def picture(self) -> bytes:
        return base64.b64decode(self._tell("GET", "/screenshot"))

    def close(self) -> None:
        self._tell("DELETE", "")

    def _find(self, css: str) -> str:
        found = self._tell("POST", "/element", {"using": "css selector", "value": css})
        return f"/element/{found[_ELEMENT]}"

    def _tell(self, verb: str, path: str, body: Any = None) -> Any:
        answer = fetch(f"{self._session}{path}", body, method=verb)
        assert answer.status == 200, answer.raw.decode()
        return answer.json()["value"]


@contextmanager
def chromium(*arguments: str) -> Iterator[Chromium]:
    debian.install(PACKAGES)
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as home:
        ready = re.compile(r"started successfully on port (\d+)")
        with Process(["chromedriver", "--port=0"], env={"HOME": home, "TMPDIR": home}, ready=ready) as driver:
            browser = Chromium(
                f"http://127.0.0.1:{driver.url}", *arguments, f"--user-data-dir={home}/profile"
            )
            try:
                yield browser
            finally:
                browser.close()
