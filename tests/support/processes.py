"""Programs that run beside the tests."""

import atexit
import contextlib
import os
import re
import signal
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent
READY = re.compile(r"\bready\b.*?(http://[^\s/]+\S*)")
START_SECONDS = 15.0
STOP_SECONDS = 5.0


class Process:
    """A program in a process group of its own, started at once and known by its ready line.

    Its output is kept (the last 5,000 lines, stdout and stderr together). How it ends is nobody's business here.
    """

    _alive: ClassVar[weakref.WeakSet["Process"]] = weakref.WeakSet()

    def __init__(
        self,
        command: list[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = ROOT,
        ready: re.Pattern[str] = READY,
        seconds: float = START_SECONDS,
    ) -> None:
        self.command = command
        self.url = ""
        self._lines: deque[str] = deque(maxlen=5000)
        self._ready = threading.Event()
        self._pattern = ready
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._alive.add(self)
        self._reader = threading.Thread(target=self._read, name=f"output of {self.pid}", daemon=True)
        self._reader.start()
        self._await_ready(seconds)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = raw.decode(errors="replace")
            self._lines.append(line)
            if not self._ready.is_set() and (match := self._pattern.search(line)):
                self.url = match[1]
                self._ready.set()
        self._ready.set()

    def _await_ready(self, seconds: float) -> None:
        in_time = self._ready.wait(seconds)
        if not self.url:
            why = "ended before" if in_time else f"not within {seconds} s after start"
            self.close()
            command = " ".join(self.command)
            raise RuntimeError(
                f"{command}: no ready line ({why}); exit {self.returncode}; it said:\n{self.stderr()}"
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.poll()

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    @property
    def base(self) -> str:
        """The URL without its path."""
        return f"http://{urlsplit(self.url).netloc}"

    def stderr(self) -> str:
        """What it wrote so far."""
        return "".join(self._lines.copy())

    def signal(self, number: int) -> None:
        """To the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Hard, and waits until it is gone. `close()` stays needed."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """SIGTERM, then SIGKILL to what is left of the group. May be called again."""
        if self not in self._alive:
            return
        self._alive.discard(self)
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()
        # A descendant that left the group could hold the pipe open for ever.
        self._reader.join(STOP_SECONDS)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@atexit.register
def _close_leftovers() -> None:
    for process in list(Process._alive):
        process.close()
