"""Streams what the request's body lists; after each part it waits for a file of that number, if told where,
and leaves a mark there at the end."""

import json
import os
import time
from pathlib import Path


def handler(event):
    do = json.loads(event["body"]) if "body" in event else event
    prelude = do.get("prelude", {"statusCode": 200, "headers": {"Content-Type": "text/plain"}})
    if prelude is not None:
        yield prelude
    for number, part in enumerate(do["parts"] * do.get("times", 1)):
        if "gate" in do:
            while not Path(do["gate"], str(number)).exists():
                time.sleep(0.01)
                yield b" " * do.get("restless", 0)
        if part == "exit":
            os._exit(3)
        if part == "raise":
            raise ValueError(part)
        yield part.encode()
    if "gate" in do:
        with Path(do["gate"], "sent").open("a") as sent:
            sent.write(".")
