"""What the features server offers: tools, prompts and resources, each showing one feature of the protocol."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.servers.features_calls import SEVERITIES, Audience, Call, Json, form, list_roots, sample, visit

STRING = {"type": "string"}
NUMBER = {"type": "number"}

Run = Callable[[Call], Awaitable[Any]]


def takes(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


class Shelf:
    """Named things in the order they came: their definitions as they are listed, and what they do."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.items: dict[str, tuple[Json, Run]] = {}

    def put(self, definition: Json, run: Run) -> None:
        self.items[definition[self.key]] = definition, run

    def listed(self) -> list[Json]:
        return [definition for definition, _ in self.items.values()]

    def page(self, cursor: str | None, size: int) -> tuple[list[Json], str | None]:
        start = int(cursor or 0)
        rest = self.listed()[start:]
        return rest[:size], str(start + size) if len(rest) > size else None


TOOLS: list[tuple[Json, Run]] = []


def tool(description: str, *, output: Json | None = None, **arguments: Json) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        definition = {"name": run.__name__, "description": description, "inputSchema": takes(**arguments)}
        TOOLS.append((definition | ({"outputSchema": output} if output else {}), run))
        return run

    return register


@tool("Says it again", text=STRING)
async def plain(call: Call) -> str:
    return call.arguments["text"]


@tool("Adds", output=takes(sum=NUMBER, terms={"type": "array", "items": NUMBER}), a=NUMBER, b=NUMBER)
async def structured(call: Call) -> Json:
    a, b = call.arguments["a"], call.arguments["b"]
    value = {"sum": a + b, "terms": [a, b]}
    return {"content": [text(json.dumps(value))], "structuredContent": value}


@tool("Fails, always")
async def fail(call: Call) -> Json:
    return {"isError": True, "content": [text("this tool fails")]}


@tool("Tells how far it is", steps=NUMBER)
async def progress(call: Call) -> str:
    steps = call.arguments["steps"]
    for step in range(1, steps + 1):
        await call.progress(step, steps, f"step {step}")
    return f"{steps} steps"


@tool("Logs once in every severity")
async def log(call: Call) -> str:
    for level in SEVERITIES:
        await call.log(level, {"said": level})
    return "logged"


@tool("Waits until it is cancelled", tag=STRING)
async def wait(call: Call) -> str:
    tag, audience = call.arguments["tag"], call.audience
    audience.running.append(tag)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        audience.cancelled.append(tag)
        raise
    finally:
        audience.running.remove(tag)
    return "never"


@tool("Asks for a name")
async def ask(call: Call) -> str:
    answers = await call.ask(name=form("What is your name?", name=STRING))
    return json.dumps(answers["name"], sort_keys=True)


@tool("Sends the user to a web page", url=STRING)
async def ask_url(call: Call) -> str:
    answers = await call.ask(page=visit("Please log in", call.arguments["url"]))
    return answers["page"]["action"]


@tool("Has the client's model answer", prompt=STRING)
async def ask_model(call: Call) -> str:
    answer = (await call.ask(said=sample(call.arguments["prompt"])))["said"]
    return f"{answer['model']}: {answer['content']['text']}"


@tool("Lists the client's roots")
async def ask_roots(call: Call) -> str:
    answer = (await call.ask(roots=list_roots()))["roots"]
    return json.dumps([root["uri"] for root in answer["roots"]])


@tool("Asks three times, each question made of the answer before")
async def ask_thrice(call: Call) -> str:
    name = (await call.ask(name=form("name?", name=STRING)))["name"]["content"]["name"]
    colour = (await call.ask(colour=form(f"{name}'s colour?", colour=STRING)))["colour"]["content"]["colour"]
    poem = (await call.ask(poem=sample(f"{colour} for {name}")))["poem"]["content"]["text"]
    return f"{name}, {colour}, {poem}"


@tool("Asks three things at once")
async def ask_together(call: Call) -> str:
    answers = await call.ask(
        name=form("name?", name=STRING), colour=form("colour?", colour=STRING), poem=sample("a poem")
    )
    name, colour = (answers[key]["content"][key] for key in ("name", "colour"))
    return f"{name}, {colour}, {answers['poem']['content']['text']}"


async def greeting(call: Call) -> Json:
    content = text(f"Hello {call.arguments['name']}")
    return {"description": "A greeting", "messages": [{"role": "user", "content": content}]}


async def asking_prompt(call: Call) -> Json:
    tone = (await call.ask(tone=form("Which tone?", tone=STRING)))["tone"]["content"]["tone"]
    return {"messages": [{"role": "assistant", "content": text(f"in a {tone} tone")}]}


PROMPTS: list[tuple[Json, Run]] = [
    (
        {
            "name": "greeting",
            "description": "A greeting",
            "arguments": [{"name": "name", "description": "Whom to greet", "required": True}],
        },
        greeting,
    ),
    ({"name": "asking", "description": "Asks for its tone"}, asking_prompt),
]

NAMES = ("anna", "anton", "berta")


async def added(_: Call) -> str:
    return "added"


async def added_prompt(_: Call) -> Json:
    return {"messages": [{"role": "user", "content": text("added")}]}


def contents(uri: str, value: str) -> Json:
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": value}]}


class Content:
    """All that is on offer; URIs carry the server's name, so that several servers can share a gateway."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.audience = Audience()
        self.tools, self.prompts, self.resources = Shelf("name"), Shelf("name"), Shelf("uri")
        self.versions: dict[str, int] = {}
        for shelf, things in ((self.tools, TOOLS), (self.prompts, PROMPTS)):
            for definition, run in things:
                shelf.put(definition, run)
        for own, run in (("text", self.read), ("watched", self.read), ("asking", self.read_asking)):
            self.put_resource(own, run)

    def uri(self, own: str) -> str:
        return f"features-{self.name}://{own}"

    @property
    def template(self) -> str:
        return self.uri("item/{id}")

    def put_resource(self, own: str, run: Run | None = None) -> None:
        definition = {"uri": self.uri(own), "name": own, "mimeType": "text/plain"}
        self.resources.put(definition, run or self.read)

    async def read(self, call: Call) -> Json:
        """How often the resource has been updated is part of it."""
        uri = call.arguments["uri"]
        return contents(uri, f"{uri} version {self.versions.get(uri, 0)}")

    async def read_asking(self, call: Call) -> Json:
        key = (await call.ask(key=form("Which key?", key=STRING)))["key"]["content"]["key"]
        return contents(call.arguments["uri"], f"opened with {key}")

    def reader(self, uri: str) -> Run | None:
        if uri in self.resources.items:
            return self.resources.items[uri][1]
        return self.read if uri.startswith(self.uri("item/")) else None

    def put(self, kind: str, name: str) -> None:
        if kind == "tools":
            self.tools.put({"name": name, "description": "added", "inputSchema": takes()}, added)
        elif kind == "prompts":
            self.prompts.put({"name": name, "description": "added"}, added_prompt)
        else:
            self.put_resource(name)

    def drop(self, kind: str, name: str) -> None:
        shelf = getattr(self, kind)
        del shelf.items[self.uri(name) if kind == "resources" else name]
