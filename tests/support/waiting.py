"""Waiting for what will be true."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], seconds: float = 5) -> T:
    """What `check` gives as soon as it is true; an AssertionError it raises counts as "not yet"."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while True:
        failure: AssertionError | None = None
        try:
            if value := check():
                return value
        except AssertionError as error:
            failure = error
        if time.monotonic() >= deadline:
            raise failure or AssertionError(f"not true within {seconds} s; last value {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
