"""A program at a terminal: some ask their user only there."""

import os
import pty
import re
import subprocess
import threading
from collections.abc import Mapping

SECONDS = 20.0


class Terminal:
    """stdin and stderr are the terminal, stdout is read apart."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=os.environ | env, text=True
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65_536).decode(errors="replace")
            except OSError:  # nobody is there any more
                piece = ""
            with self._news:
                self.shown += piece
                self._news.notify_all()
            if not piece:
                return

    def see(self, pattern: re.Pattern[str]) -> str:
        """The first group, as soon as it is shown."""
        with self._news:
            assert self._news.wait_for(lambda: pattern.search(self.shown), SECONDS), self.shown
            return pattern.search(self.shown)[1]

    def end(self) -> tuple[int, str]:
        """How it ended, and its stdout."""
        try:
            output, _ = self._process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.shown}") from None
        return self._process.returncode, output

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._reader.join(5)
        os.close(self._ours)
