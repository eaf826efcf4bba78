"""Clients that other people wrote, as they come: given Portico's URL and nothing else."""

import json
import subprocess

import anyio
import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from tests import npm
from tests.support import ROOT

pytestmark = [
    pytest.mark.timeout(300),  # the first run installs
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

INSPECTOR = "@modelcontextprotocol/inspector"
INSPECTOR_VERSION = "2.12.0"
TYPESCRIPT = "@modelcontextprotocol/sdk"
TYPESCRIPT_VERSION = "1.32.2"


@pytest.fixture
def listed(portico):
    """What the plain client of the tests is told, by method."""
    client = portico.client()
    client.init()
    methods = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    return {method: client.rpc(method).result for method in methods}


# The Inspector


@pytest.fixture(scope="module")
def inspector(portico, tmp_path_factory):
    entry = npm.install(f"{INSPECTOR}@{INSPECTOR_VERSION}") / INSPECTOR / "clients/launcher/build/index.js"
    home = tmp_path_factory.mktemp("inspector")
    command = [npm.node(), str(entry), "--cli", portico.url, "--transport", "http", "--method"]

    def run(*arguments):
        return subprocess.run(
            [*command, *arguments],
            env={"HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
)
def test_the_inspector_lists_all_there_is(inspector, listed, method):
    done = inspector(method)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == listed[method]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tools/call", "--tool-name", "s1_echo", "--tool-arg", "text=grüß dich"], "grüß dich"),
        (["tools/call", "--tool-name", "s1_slow", "--tool-arg", "seconds=0.2"], "slept 0.2 s in 5 steps"),
        (["prompts/get", "--prompt-name", "s1_greet", "--prompt-args", "name=Ann"], "Say hello to Ann"),
        (["resources/read", "--uri", "echo://item/7"], "echo://item/7"),
        (["logging/setLevel", "--log-level", "debug"], "{}"),
    ],
)
def test_the_inspector_gets_answers(inspector, arguments, expected):
    done = inspector(*arguments)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_the_inspector_sees_a_tool_fail(inspector):
    done = inspector("tools/call", "--tool-name", "s1_fail")
    assert json.loads(done.stdout)["isError"]
    assert "returned isError" in done.stderr


# The TypeScript SDK


def test_the_typescript_sdk_does_all_it_can(portico, echo, listed):
    home = npm.install(f"{TYPESCRIPT}@{TYPESCRIPT_VERSION}")
    script = ROOT / "tests" / "clients" / "typescript.mjs"
    done = subprocess.run(
        [npm.node(), str(script), str(home), portico.url, f"{echo.base}/control"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    assert saw["server"] == "portico"
    assert [tool["name"] for tool in saw["tools"]] == [tool["name"] for tool in listed["tools/list"]["tools"]]
    assert saw["echo"] == "grüße"
    assert saw["structured"]["conditions"] == "wolkig, 多云"
    assert [step["progress"] for step in saw["progress"]] == [1, 2]
    assert saw["slow"] == "slept 0.2 s in 2 steps"
    assert saw["elicited"] == {"action": "accept", "content": {"name": "Who? Ann"}}
    assert saw["sampled"]["content"]["text"] == "re: hello"
    assert saw["roots"] == {"roots": [{"uri": "file:///ann"}]}
    assert saw["logged"] == ["loud"]
    assert saw["prompt"] == "Say hello to Ann from echo."
    assert saw["resource"] == "echo://item/7"
    assert saw["completion"]
    assert saw["refused"] == -32602
    assert saw["added"]
    assert saw["updated"] == "echo://static/one"


# The Python SDK


@pytest.fixture(params=["legacy", "auto"])
def python_client(request, portico):
    """Told to be of the old era, or told nothing."""

    def make(**callbacks):
        mode = {"mode": "legacy"} if request.param == "legacy" else {}
        return Client(portico.url, **mode, **callbacks)

    return make


async def elicited(context, params):
    return types.ElicitResult(action="accept", content={"name": f"{params.message} Ann"})


async def sampled(context, params):
    text = f"re: {params.messages[0].content.text}"
    return types.CreateMessageResult(
        role="assistant", model="none", content=types.TextContent(type="text", text=text)
    )


async def rooted(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///ann")])


async def test_the_python_sdk_lists_all_there_is(python_client, listed):
    async with python_client() as client:
        assert client.server_info.name == "portico"
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
    assert [tool.name for tool in tools] == [tool["name"] for tool in listed["tools/list"]["tools"]]
    assert [prompt.name for prompt in prompts] == [item["name"] for item in listed["prompts/list"]["prompts"]]
    assert [str(resource.uri) for resource in resources] == [
        item["uri"] for item in listed["resources/list"]["resources"]
    ]
    assert [template.uri_template for template in templates] == ["echo://item/{id}"]


async def test_the_python_sdk_calls_tools(python_client):
    async with python_client() as client:
        assert (await client.call_tool("s1_echo", {"text": "grüße"})).content[0].text == "grüße"
        structured = await client.call_tool("s1_structured")
        assert structured.structured_content["serial"] == 12345678901234567890
        assert (await client.call_tool("s1_fail")).is_error
        with pytest.raises(MCPError) as refused:
            await client.call_tool("s1_rpc_error")
        assert refused.value.error.data["serial"] == 2**70


async def test_the_python_sdk_sees_progress(python_client):
    steps = []

    async def seen(progress, total, message):
        steps.append((progress, total, message))

    async with python_client() as client:
        await client.call_tool("s1_slow", {"seconds": 0.2, "steps": 2}, progress_callback=seen)
    assert steps == [(1, 2, "step 1 of 2"), (2, 2, "step 2 of 2")]


async def test_the_python_sdk_is_asked(python_client):
    callbacks = {
        "elicitation_callback": elicited,
        "sampling_callback": sampled,
        "list_roots_callback": rooted,
    }
    async with python_client(**callbacks) as client:

        async def said(tool, **arguments):
            return json.loads((await client.call_tool(tool, arguments)).content[0].text)

        assert (await said("s1_elicit", message="Who?"))["content"] == {"name": "Who? Ann"}
        assert [answer["content"]["name"] for answer in await said("s1_two_questions")] == [
            "First name? Ann",
            "Last name? Ann",
        ]
        assert (await said("s1_sample", prompt="hello"))["content"]["text"] == "re: hello"
        assert (await said("s1_roots"))["roots"] == [{"uri": "file:///ann"}]


async def test_the_python_sdk_reads_prompts_and_resources(python_client):
    async with python_client() as client:
        prompt = await client.get_prompt("s1_greet", {"name": "Ann"})
        assert prompt.messages[0].content.text == "Say hello to Ann from echo."
        assert (await client.read_resource("echo://static/one")).contents[0].text.startswith("one")
        assert (await client.read_resource("echo://item/7")).contents[0].uri == "echo://item/7"
        reference = types.PromptReference(type="ref/prompt", name="s1_greet")
        assert (await client.complete(reference, {"name": "name", "value": "A"})).completion.values


async def test_the_python_sdk_hears_log_messages_of_its_level(portico):
    logged = []

    async def heard(params):
        logged.append(params.data)

    async with Client(portico.url, mode="legacy", logging_callback=heard) as client:
        await client.set_logging_level("warning")
        await client.call_tool("s1_log", {"level": "info", "text": "too quiet"})
        await client.call_tool("s1_log", {"level": "error", "text": "loud"})
    assert logged == ["loud"]


async def test_the_python_sdk_hears_changes(portico, echo):
    heard = []
    news = anyio.Event()

    async def received(message):
        heard.append(str(message.params.uri))
        news.set()

    async with Client(portico.url, mode="legacy", message_handler=received) as client:
        await client.subscribe_resource("echo://static/one")
        with anyio.fail_after(10):
            while not news.is_set():  # the SDK opens its stream when it likes, and does not say when
                echo.control("update_resource", uri="echo://static/one")
                with anyio.move_on_after(0.2):
                    await news.wait()
    assert set(heard) == {"echo://static/one"}
