"""Answers as `portico doctor` may observe them, and what is expected of a finding."""

import base64
import json

from portico.cli.doctor.finding import Answer

URL = "https://gw.example/mcp"
NOW = 1_800_000_000.0


def answer(result=None, *, status=200, error=None, headers=None, message=None):
    if message is None:
        message = {"error": error} if error else {"result": result} if result is not None else None
    return Answer(status, {"content-type": "application/json"} | (headers or {}), b"", message, 0.01)


def is_like(finding, verdict, text, fix=""):
    assert (finding.verdict, text in finding.text, fix in finding.fix) == (verdict, True, True), finding
    assert bool(finding.fix) == (verdict in ("warning", "failed")), finding
    return True


def jwt(**claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"
