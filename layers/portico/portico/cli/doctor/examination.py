"""What is asked, in which order, and what is not asked because of what was found before."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin

from portico.cli.doctor import challenges, clock, metadata, speech, streams, surroundings
from portico.cli.doctor.finding import Answer, Finding, skipped
from portico.cli.doctor.probe import Probe, resolve
from portico.cli.doctor.reading import is_web_address
from portico.http1 import address

ELSEWHERE: Final = "https://elsewhere.invalid"
CLOSED: Final = "a token is asked for: give one with --token-env NAME"
CONNECTIONS: Final = 3
"""As many new ones are tried with one session: behind a balancer they reach several instances."""

NO_SESSION: Final = "`initialize` failed"
OTHERS_MAY_WORK: Final = frozenset({400, 500, 502, 503, 504})
"""What a failed `initialize` may be answered with while modern requests are not: on AWS others serve them."""

PUBLIC: Final = (
    "connection",
    "health",
    "challenge",
    "metadata",
    "authorization servers",
    "forged token",
    "clock",
)
LEGACY: Final = ("tools/list", "tools/call", "ping", "session")
MODERN: Final = ("modern tools/list", "header check")
PRIVATE: Final = (
    "token",
    "initialize",
    *LEGACY,
    "server/discover",
    *MODERN,
    "GET stream",
    "subscription",
    "end",
    "origin",
    "headers",
)


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    token: str | None = field(default=None, repr=False)
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    wait: float = 20.0
    """How long a stream is listened to at the most."""


async def examine(target: Target, say: Callable[[Finding], None]) -> None:
    """Says every finding as soon as it is known."""
    probe = Probe(target.url, target.token, target.wait)
    try:
        await Examination(target, probe, say).run()
    finally:
        probe.close()


class Examination:
    def __init__(self, target: Target, probe: Probe, say: Callable[[Finding], None]) -> None:
        self._target = target
        self._probe = probe
        self._say = say
        self._health = urljoin(target.url.rstrip("/"), "health")
        self._closed = ""
        """Why what needs to be let in is not asked; empty if it is."""
        self._session = ""
        self._modern = False

    async def run(self) -> None:
        to = address(self._target.url)
        found = surroundings.address(to.host, *await resolve(to.host, to.port))
        self._say(found)
        if found.verdict == "failed":
            self._skip(PUBLIC + PRIVATE, "the name has no address")
            return
        first = await self._probe.get(self._health)
        self._say(surroundings.connection(self._target.url, first))
        if not first.status:
            self._skip(PUBLIC[1:] + PRIVATE, "nothing answers")
            return
        await self._public(first)
        await self._private()

    def _skip(self, steps: tuple[str, ...], reason: str) -> None:
        for step in steps:
            self._say(skipped(step, reason))

    # What everybody may see

    async def _public(self, first: Answer) -> None:
        self._say(surroundings.health(self._health, first))
        told = await self._probe.initialize(token=False)
        await self._forget(told)
        self._say(challenges.challenge(told, loopback=surroundings.is_loopback(self._target.url)))
        if challenges.asks_for_token(told):
            self._closed = "" if self._target.token else CLOSED
            await self._documents(told)
            forged = await self._probe.initialize(token=False, forged=challenges.FORGED)
            await self._forget(forged)
            self._say(challenges.forged(forged))
        else:
            reason = "no token is asked for" if told.result is not None else "there was no MCP answer"
            self._skip(("metadata", "authorization servers", "forged token"), reason)
        self._say(clock.skew(told.headers.get("date"), time.time(), told.seconds))

    async def _documents(self, told: Answer) -> None:
        where = challenges.metadata_url(told) or metadata.default_url(self._target.url)
        document = await self._document(where)
        self._say(metadata.resource(self._target.url, where, document))
        issuers = metadata.issuers(document.message)
        if not issuers:
            self._say(skipped(metadata.SERVERS, "none is known"))
        for issuer in issuers:
            answers: dict[str, Answer] = {}
            for place in metadata.server_urls(issuer) if is_web_address(issuer) else [issuer]:
                answers[place] = await self._document(place)
                if answers[place].status == 200:
                    break
            self._say(metadata.server(issuer, answers))

    async def _document(self, where: str) -> Answer:
        """At an address that somebody else wrote."""
        if not is_web_address(where):
            return Answer(failure="it is no web address")
        return await self._probe.get(where)

    # What those may see who are let in

    async def _private(self) -> None:
        if self._closed:
            self._skip(PRIVATE, self._closed)
            return
        token = self._target.token
        if token:
            self._say(clock.token(clock.claims(token), self._target.url, time.time()))
        else:
            self._say(skipped("token", "none was given"))
        opened = await self._probe.initialize()
        found = speech.initialize(opened)
        self._say(found)
        if found.verdict != "failed":
            self._session = opened.headers.get(speech.SESSION_HEADER, "")
            await self._legacy(opened)
            await self._modern_era()
            await self._streams(opened)
            await self._end(opened)
            await self._around()
        elif opened.status in OTHERS_MAY_WORK:
            self._skip(LEGACY, NO_SESSION)
            await self._modern_era()
            self._skip(("GET stream",), NO_SESSION)
            self._say(await self._subscription())
            self._skip(("end",), NO_SESSION)
            await self._around()
        else:
            await self._forget(opened)
            self._skip(PRIVATE[2:], NO_SESSION)

    async def _legacy(self, opened: Answer) -> None:
        await self._probe.initialized(self._session)
        tools = await self._probe.legacy(self._session, "tools/list")
        stripped = speech.stripped(opened, tools)
        if stripped is not None:
            self._skip(LEGACY[:-1], "there is no session")
            self._say(stripped)
            return
        self._say(speech.listing("tools/list", tools))
        tool = self._target.tool or speech.harmless(tools)
        if tool:
            params = {"name": tool, "arguments": self._target.arguments}
            self._say(speech.call(tool, await self._probe.legacy(self._session, "tools/call", params)))
        else:
            self._say(
                skipped("tools/call", "`tools/list` failed" if tools.result is None else speech.NO_TOOL)
            )
        self._say(speech.ping(await self._probe.legacy(self._session, "ping")))
        again = []
        for _ in range(CONNECTIONS):
            self._probe.anew()
            again.append(await self._probe.legacy(self._session, "ping"))
        self._say(speech.session(opened, again))

    async def _modern_era(self) -> None:
        found = speech.discover(await self._probe.modern("server/discover"))
        self._say(found)
        self._modern = found.verdict == "ok"
        if not self._modern:
            self._skip(MODERN, "`server/discover` failed")
            return
        self._say(speech.listing("modern tools/list", await self._probe.modern("tools/list")))
        self._say(speech.mismatch(await self._probe.modern("tools/list", said="prompts/list")))

    async def _streams(self, opened: Answer) -> None:
        """Both at once: a keep-alive takes its time."""
        heard, found = await asyncio.gather(self._probe.listen(self._session), self._subscription())
        no_session = speech.SESSION_HEADER not in opened.headers and heard.answer.status == 400
        nowhere = skipped("GET stream", "there is no session")
        self._say(nowhere if no_session else streams.stream("GET stream", heard))
        self._say(found)

    async def _subscription(self) -> Finding:
        if not self._modern:
            return skipped("subscription", "`server/discover` failed")
        return streams.stream("subscription", await self._probe.subscribe())

    async def _end(self, opened: Answer) -> None:
        deleted, after = Answer(), Answer()
        if self._session:
            deleted = await self._probe.delete(self._session)
            after = await self._probe.legacy(self._session, "ping")
        self._say(speech.ending(opened, deleted, after))

    async def _around(self) -> None:
        told = await self._probe.initialize(origin=ELSEWHERE)
        await self._forget(told)
        self._say(surroundings.origin(told))
        self._say(surroundings.headers(self._probe.answers))

    async def _forget(self, opened: Answer) -> None:
        """Ends a session that only a question has made."""
        if session := opened.headers.get(speech.SESSION_HEADER, ""):
            await self._probe.delete(session)
