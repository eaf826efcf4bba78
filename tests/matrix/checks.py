"""What every client must be able to do with every server: one short function per feature, for clients of either era.

A check gets a connected client and the features server itself, of which it asks only what no client can see.
"""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from tests.matrix.peer import LOG_LEVEL, ROOTS, Peer, until
from tests.matrix.processes import Features

Check = Callable[[Peer, Features], Awaitable[None]]

CHECKS: dict[str, Check] = {}
TOOLS = {
    "plain",
    "structured",
    "fail",
    "progress",
    "log",
    "wait",
    "ask",
    "ask_url",
    "ask_model",
    "ask_roots",
    "ask_thrice",
    "ask_together",
}


def feature(name: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return register


@feature("capabilities")
async def capabilities(peer: Peer, server: Features) -> None:
    offered = peer.client.server_capabilities
    assert offered.tools.list_changed and offered.prompts.list_changed and offered.resources.list_changed
    assert offered.resources.subscribe
    assert offered.logging is not None
    assert offered.completions is not None
    assert peer.client.server_info.name


@feature("list")
async def lists(peer: Peer, server: Features) -> None:
    assert {peer.name(tool) for tool in TOOLS} <= set(await peer.names("tools"))
    assert {peer.name("greeting"), peer.name("asking")} <= set(await peer.names("prompts"))
    assert {server.uri("text"), server.uri("watched")} <= set(await peer.names("resources"))
    templates = (await peer.client.list_resource_templates()).resource_templates
    assert server.uri("item/{id}") in [template.uri_template for template in templates]


@feature("pagination")
async def pagination(peer: Peer, server: Features) -> None:
    pages = [page async for page in peer.pages("tools")]
    names = [name for page in pages for name in page]
    assert len(pages) > 1
    assert len(names) == len(set(names))
    assert {peer.name(tool) for tool in TOOLS} <= set(names)


@feature("call")
async def call(peer: Peer, server: Features) -> None:
    assert await peer.text("plain", {"text": "grüße"}) == "grüße"


@feature("tool error")
async def tool_error(peer: Peer, server: Features) -> None:
    result = await peer.call("fail")
    assert result.is_error
    assert result.content[0].text == "this tool fails"


@feature("structured content")
async def structured_content(peer: Peer, server: Features) -> None:
    result = await peer.call("structured", {"a": 2, "b": 3})
    assert result.structured_content == {"sum": 5, "terms": [2, 3]}
    listed = [tool async for tool in every_tool(peer)]
    (definition,) = [tool for tool in listed if tool.name == peer.name("structured")]
    assert definition.output_schema["required"] == ["sum", "terms"]


async def every_tool(peer: Peer):
    cursor = None
    while True:
        result = await peer.client.list_tools(cursor=cursor)
        for tool in result.tools:
            yield tool
        cursor = result.next_cursor
        if cursor is None:
            return


@feature("read")
async def read(peer: Peer, server: Features) -> None:
    (contents,) = (await peer.client.read_resource(server.uri("text"))).contents
    assert contents.text == f"{server.uri('text')} version 0"
    assert contents.mime_type == "text/plain"


@feature("read from a template")
async def read_from_template(peer: Peer, server: Features) -> None:
    (contents,) = (await peer.client.read_resource(server.uri("item/7"))).contents
    assert contents.text == f"{server.uri('item/7')} version 0"


@feature("read what is not there")
async def read_nothing(peer: Peer, server: Features) -> None:
    """The code is not the same in both eras. -32002 came with 2024-11-05, and went with 2026-07-28."""
    with pytest.raises(MCPError) as refused:
        await peer.client.read_resource(server.uri("item"))
    assert refused.value.code == (-32002 if peer.legacy else -32602)


@feature("read, with a question")
async def read_with_question(peer: Peer, server: Features) -> None:
    peer.answers = {"Which key?": {"key": "iron"}}
    (contents,) = (await peer.client.read_resource(server.uri("asking"))).contents
    assert contents.text == "opened with iron"


@feature("get")
async def get(peer: Peer, server: Features) -> None:
    prompt = await peer.client.get_prompt(peer.name("greeting"), {"name": "Anna"})
    assert prompt.description == "A greeting"
    assert [(message.role, message.content.text) for message in prompt.messages] == [("user", "Hello Anna")]


@feature("get, with a question")
async def get_with_question(peer: Peer, server: Features) -> None:
    peer.answers = {"Which tone?": {"tone": "dry"}}
    prompt = await peer.client.get_prompt(peer.name("asking"))
    assert prompt.messages[0].content.text == "in a dry tone"


@feature("complete")
async def complete(peer: Peer, server: Features) -> None:
    prompt = PromptReference(type="ref/prompt", name=peer.name("greeting"))
    answer = await peer.client.complete(prompt, {"name": "name", "value": "an"})
    assert answer.completion.values == ["anna", "anton"]
    template = ResourceTemplateReference(type="ref/resource", uri=server.uri("item/{id}"))
    answer = await peer.client.complete(template, {"name": "id", "value": "12"})
    assert answer.completion.values == ["12", "123"]


@feature("progress")
async def progress(peer: Peer, server: Features) -> None:
    seen = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    assert await peer.text("progress", {"steps": 3}, progress_callback=note) == "3 steps"
    await until(lambda: len(seen) == 3)
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@feature("logging")
async def logging(peer: Peer, server: Features) -> None:
    for level, count in (("error", 4), ("warning", 5)):
        peer.logs.clear()
        meta = {LOG_LEVEL: level}
        if peer.legacy:
            await peer.client.set_logging_level(level)
            meta = None
        assert await peer.text("log", meta=meta) == "logged"
        await until(lambda count=count: len(peer.logs) >= count)
        assert [log.level for log in peer.logs] == [
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ][-count:]
        assert peer.logs[-1].data == {"said": "emergency"}


@feature("no logging unless asked for")
async def no_logging(peer: Peer, server: Features) -> None:
    """In the legacy era it is the server that decides what is sent before a level is set."""
    if peer.legacy:
        await peer.client.set_logging_level("emergency")
    await peer.text("log")
    await peer.text("plain", {"text": "after"})
    assert [log.level for log in peer.logs] == (["emergency"] if peer.legacy else [])


@feature("cancellation")
async def cancellation(peer: Peer, server: Features) -> None:
    tag = secrets.token_hex(4)
    waiting = asyncio.create_task(peer.call("wait", {"tag": tag}))
    await until(lambda: waiting.done() or tag in server.report()["running"])
    assert not waiting.done(), waiting.result()
    waiting.cancel()
    await until(lambda: tag in server.report()["cancelled"])
    assert await peer.text("plain", {"text": "still here"}) == "still here"


@feature("resource subscription")
async def resource_subscription(peer: Peer, server: Features) -> None:
    uri, other = server.uri("watched"), server.uri("item/other")
    async with peer.watching(uri=uri) as told:
        before = (await peer.client.read_resource(uri, cache_mode="bypass")).contents[0].text
        server.control("update", uri=other)
        server.control("update", uri=uri)
        assert await told() == uri
        after = (await peer.client.read_resource(uri, cache_mode="bypass")).contents[0].text
        assert int(after.rpartition(" ")[2]) == int(before.rpartition(" ")[2]) + 1


async def change(peer: Peer, server: Features, kind: str) -> None:
    own = f"fresh_{secrets.token_hex(4)}"
    name = server.uri(own) if kind == "resources" else peer.name(own)
    async with peer.watching(kind) as told:
        server.control("add", kind=kind, name=own)
        assert await told() == kind
        assert name in await peer.names(kind)
        server.control("remove", kind=kind, name=own)
        assert await told() == kind
        assert name not in await peer.names(kind)


@feature("tools list change")
async def tools_change(peer: Peer, server: Features) -> None:
    await change(peer, server, "tools")


@feature("prompts list change")
async def prompts_change(peer: Peer, server: Features) -> None:
    await change(peer, server, "prompts")


@feature("resources list change")
async def resources_change(peer: Peer, server: Features) -> None:
    await change(peer, server, "resources")


@feature("elicitation form: accept")
async def elicitation_accepted(peer: Peer, server: Features) -> None:
    peer.answers = {"What is your name?": {"name": "Anna"}}
    assert json.loads(await peer.text("ask")) == {"action": "accept", "content": {"name": "Anna"}}
    assert peer.asked[0].requested_schema["properties"] == {"name": {"type": "string"}}


@feature("elicitation form: decline")
async def elicitation_declined(peer: Peer, server: Features) -> None:
    peer.action = "decline"
    assert json.loads(await peer.text("ask")) == {"action": "decline"}


@feature("elicitation form: cancel")
async def elicitation_cancelled(peer: Peer, server: Features) -> None:
    peer.action = "cancel"
    assert json.loads(await peer.text("ask")) == {"action": "cancel"}


@feature("elicitation URL")
async def elicitation_url(peer: Peer, server: Features) -> None:
    page = "https://example.com/log-in?user=1"
    assert await peer.text("ask_url", {"url": page}) == "accept"
    (asked,) = peer.asked
    assert (asked.mode, asked.url, asked.message) == ("url", page, "Please log in")
    if peer.legacy:
        assert asked.elicitation_id  # that era's schema requires it
    if peer.legacy and server.era == "legacy":
        done = await peer.notification("notifications/elicitation/complete")
        assert done.params.elicitation_id == asked.elicitation_id


@feature("sampling")
async def sampling(peer: Peer, server: Features) -> None:
    assert await peer.text("ask_model", {"prompt": "a joke"}) == "mute: <a joke>"
    assert peer.asked[0].max_tokens == 100


@feature("roots")
async def roots(peer: Peer, server: Features) -> None:
    assert json.loads(await peer.text("ask_roots")) == ROOTS


@feature("several rounds in one call")
async def several_rounds(peer: Peer, server: Features) -> None:
    peer.answers = {"name?": {"name": "Anna"}, "Anna's colour?": {"colour": "red"}}
    assert await peer.text("ask_thrice") == "Anna, red, <red for Anna>"
    assert len(peer.asked) == 3


@feature("several questions in one round")
async def several_questions(peer: Peer, server: Features) -> None:
    """None is answered before all of them are asked."""
    peer.meeting = asyncio.Barrier(3)
    peer.answers = {"name?": {"name": "Anna"}, "colour?": {"colour": "red"}}
    assert await peer.text("ask_together") == "Anna, red, <a poem>"
    assert len(peer.asked) == 3


@feature("several calls with questions")
async def several_calls(peer: Peer, server: Features) -> None:
    """Each gets its own answer."""
    prompts = ["red", "green", "blue"]
    peer.meeting = asyncio.Barrier(len(prompts))
    answers = await asyncio.gather(*(peer.text("ask_model", {"prompt": prompt}) for prompt in prompts))
    assert answers == [f"mute: <{prompt}>" for prompt in prompts]
