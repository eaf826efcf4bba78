"""Whether a stream streams: what is sent must arrive when it is sent, not when a buffer is full or the stream ends."""

import re
from typing import Final

from portico.cli.doctor.finding import Finding, Heard, failed, ok, skipped, warning
from portico.cli.doctor.refusals import refused

UNBUFFER: Final = (
    "turn buffering off in between (SAM: ResponseTransferMode: RESPONSE_STREAM, not STREAM; nginx: proxy_buffering "
    "off; no compression on this path)"
)
ACKNOWLEDGED: Final = b"notifications/subscriptions/acknowledged"
SLOW_S: Final = 3.0
_COMMENT: Final = re.compile(rb"^:", re.MULTILINE)
_EVENT: Final = re.compile(rb"^(?:data|id|retry|event):", re.MULTILINE)
QUIET: Final = "set limits.keepalive_s below the shortest idle time-out in between (API Gateway: 5 min; many proxies: 60 s)"


def stream(step: str, heard: Heard) -> Finding:
    """Of a GET stream or a subscription."""
    answer = heard.answer
    if answer.status == 405:
        return skipped(step, "the server offers none")
    if not answer.status and not heard.ended and not answer.failure:
        return failed(
            step,
            f"not even its head came in {heard.seconds:.0f} s: something in between buffers it",
            UNBUFFER,
        )
    if answer.status != 200:
        return refused(step, answer)
    if answer.media_type != "text/event-stream":
        text = f"it is {answer.media_type or 'of no type'}, not text/event-stream"
        return failed(step, text, "let the content type pass as the gateway sends it")
    if not heard.pieces:
        return failed(
            step,
            f"its head came, but nothing else in {heard.seconds:.0f} s: something in between buffers it, or the server sends no keep-alives",
            UNBUFFER,
        )
    return _pieces(step, heard)


def _pieces(step: str, heard: Heard) -> Finding:
    first = heard.pieces[0][0]
    if heard.ended:
        return failed(
            step,
            f"it ended after {heard.seconds:.1f} s, all at once: something in between buffers or cuts it",
            UNBUFFER,
        )
    if step == "subscription" and ACKNOWLEDGED not in b"".join(piece for _, piece in heard.pieces):
        return failed(step, "it is not acknowledged", "update the gateway; the acknowledgement comes first")
    if _came_together([piece for _, piece in heard.pieces]):
        text = "keep-alives came together with what was sent long before: something in between buffers it"
        return failed(step, text, UNBUFFER)
    if len(heard.pieces) == 1:
        return warning(
            step, f"open after {first * 1000:.0f} ms, then nothing for {heard.seconds - first:.0f} s", QUIET
        )
    if first > SLOW_S:
        return warning(
            step, f"its first event took {first:.1f} s: something in between may buffer it", UNBUFFER
        )
    gaps = [later - sooner for (sooner, _), (later, _) in zip(heard.pieces, heard.pieces[1:], strict=False)]
    return ok(step, f"open after {first * 1000:.0f} ms, then something every {max(gaps):.1f} s or sooner")


def _came_together(pieces: list[bytes]) -> bool:
    """Keep-alives are sent when nothing else was for a while, so each comes alone, unless something held it back."""
    held = any(len(_COMMENT.findall(piece)) > 1 for piece in pieces)
    return held or bool(_COMMENT.search(pieces[0]) and _EVENT.search(pieces[0]))
