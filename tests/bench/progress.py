"""What the run says while it runs, on stderr: what is being done, how long it took and will take."""

import sys
import time


class Progress:
    """Time left is what was expected of the remaining steps, corrected by how the steps so far went."""

    def __init__(self, expected_s: float) -> None:
        self.expected_s, self.done_s, self.started = expected_s, 0.0, time.monotonic()
        self.live = sys.stderr.isatty()
        self.say(f"about {clock(expected_s)} min in all")

    def step(self, text: str, expected_s: float) -> None:
        """A step is done. It is shown in place, where there is a place: a log gets whole lines from `say` alone."""
        self.done_s += expected_s
        if self.live:
            print(f"\r\033[K{self.time()} {text}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        self.show([f"{self.time()} {text}"])

    def show(self, lines: list[str]) -> None:
        start = "\r\033[K" if self.live else ""
        print(start + "\n".join(lines), file=sys.stderr, flush=True)

    def time(self) -> str:
        passed = time.monotonic() - self.started
        pace = passed / self.done_s if self.done_s > 0.25 * self.expected_s else 1.0
        left = max(0.0, self.expected_s - self.done_s) * pace
        return f"[{clock(passed)}, {clock(left)} left]"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
