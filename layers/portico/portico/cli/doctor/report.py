"""Findings as somebody reads them, while they come, and as JSON. No secret gets through here."""

import dataclasses
import json
import sys
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

from portico.cli.doctor.examination import Target, examine
from portico.cli.doctor.finding import Finding

MARKS: Final = {"ok": "ok", "warning": "WARNING", "failed": "FAILED", "not applicable": "-"}

LONGEST: Final = 600


async def run(target: Target, *, as_json: bool) -> int:
    """The exit status: 0, or 1 if something failed."""
    out = sys.stderr if as_json else sys.stdout
    findings: list[Finding] = []
    print(
        f"{shown_url(target.url)} (a stream is listened to for up to {target.wait:.0f} s)",
        file=out,
        flush=True,
    )

    def say(raw: Finding) -> None:
        findings.append(cleaned(raw, target))
        show(findings[-1], out)

    await examine(target, say)
    counts = {mark: sum(finding.verdict == mark for finding in findings) for mark in MARKS}
    print(summary(counts), file=out)
    if as_json:
        print(json.dumps(document(target, findings, counts), indent=2))
    return 1 if counts["failed"] else 0


def show(finding: Finding, out: TextIO) -> None:
    print(f"{MARKS[finding.verdict]:8}{finding.step:22} {finding.text}", file=out, flush=True)
    if finding.fix:
        print(f"{'':31}fix: {finding.fix}", file=out, flush=True)


def summary(counts: dict[str, int]) -> str:
    word = (
        "not well"
        if counts["failed"]
        else "well, as far as it was asked"
        if counts["not applicable"]
        else "well"
    )
    found = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{word}: {found}"


def document(target: Target, findings: list[Finding], counts: dict[str, int]) -> dict[str, Any]:
    return {
        "url": shown_url(target.url),
        "verdict": "failed" if counts["failed"] else "warning" if counts["warning"] else "ok",
        "counts": counts,
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }


def cleaned(finding: Finding, target: Target) -> Finding:
    """What a server says may hold the token it was given, or orders to the terminal."""
    parts = urlsplit(target.url)
    token = target.token or ""
    secrets = [token, parts.query, parts.password, *(part for part in token.split(".") if len(part) > 15)]
    return dataclasses.replace(
        finding, text=_masked(finding.text, secrets), fix=_masked(finding.fix, secrets)
    )


def _masked(text: str, secrets: list[str | None]) -> str:
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST])


def shown_url(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="***" if parts.query else "").geturl()
