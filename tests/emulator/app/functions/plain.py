"""Does what the request's body says, and else tells what it was given."""

import json
import os
import sys
import time
from pathlib import Path

import layered

calls = []


def handler(event, context):
    calls.append(context.aws_request_id)
    asked = json.loads(event.get("body") or "{}") if not event.get("isBase64Encoded") else {}
    do = (asked if isinstance(asked, dict) else {}) or event.get("queryStringParameters") or {}
    if "say" in do:
        print(do["say"], flush=True)
    if "sleep" in do:
        time.sleep(float(do["sleep"]))
    if "wait_for" in do:
        wait_for(do["wait_for"], do["together"])
    if "exit" in do:
        os._exit(int(do["exit"]))
    if "raise" in do:
        raise RuntimeError(do["raise"])
    if "size" in do:
        return {"statusCode": 200, "body": "x" * int(do["size"])}
    return do["answer"] if "answer" in do else told(event, context)


def wait_for(directory, together):
    """Until so many processes have come here at the same time."""
    place = Path(directory)
    (place / str(os.getpid())).touch()
    while len(list(place.iterdir())) < int(together):
        time.sleep(0.01)


def told(event, context):
    found = {
        "event": event,
        "environment": dict(os.environ),
        "path": sys.path,
        "pid": os.getpid(),
        "count": len(calls),
        "layer": layered.NAME,
        "name": context.function_name,
        "left_ms": context.get_remaining_time_in_millis(),
    }
    return {"statusCode": 200, "body": json.dumps(found)}
