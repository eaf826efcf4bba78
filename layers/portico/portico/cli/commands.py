"""The commands but `serve`, which has a module of its own: reads the arguments, does the one thing, says how it went."""

import argparse
import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from portico.assembly import check_references
from portico.cli import operators
from portico.cli.client import Caller, CallFailed
from portico.cli.serving import serve
from portico.registry import InvalidConfig, load

URL = "http://127.0.0.1:8088/mcp"
CONFIG = "portico.yaml"
EXIT = "Exit status: 0 it went well, 1 it failed, 2 the arguments or the configuration are wrong."
CALL = """\
examples:
  portico call clock_countdown steps=3
  portico call notes_write title=milk text='buy some'
  portico call search filter='{"tags": ["new"]}' limit=5

A value is read as JSON if it is JSON, and as text otherwise; '"5"' is the text 5.
Progress goes to stderr, the result to stdout.
"""


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except InvalidConfig as error:
        print(error, file=sys.stderr)
        return 2
    except (CallFailed, OSError, ValueError) as error:
        print(f"portico: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="portico",
        description="One /mcp URL in front of many MCP servers.",
        epilog=f"`portico COMMAND --help` says more. {EXIT}",
    )
    parser.add_argument("--version", action="version", version=f"portico {version('portico')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = _command(commands, "serve", "run the gateway on this machine", _serve)
    _add_config(run, "--config", default=CONFIG)
    run.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    run.add_argument("--port", type=_port, default=8088, help="the port, 0 picks one (default: 8088)")
    run.add_argument(
        "--insecure", action="store_true", help="serve other machines although auth.mode is none"
    )
    check = _command(commands, "check", "validate a configuration, without running it", _check)
    _add_config(check, "file", nargs="?")
    _add_config(check, "--config")
    _client(commands, "status", "how the backends are: exit status 1 if one is not ready", _status)
    _client(commands, "tools", "list the tools", _tools)
    call = _client(commands, "call", "call a tool", _call)
    call.formatter_class = argparse.RawDescriptionHelpFormatter
    call.epilog = CALL
    call.add_argument("tool", metavar="TOOL", help="its name, as `portico tools` shows it")
    call.add_argument("arguments", nargs="*", type=_pair, metavar="KEY=VALUE", help="what it takes")
    _add_operators(commands)
    return parser


def _add_operators(commands: Any) -> None:
    """What talks to a running gateway's API for operators."""
    _client(commands, "backends", "list the backends, and where each is declared", operators.show)
    add = _client(commands, "add", "declare a backend at a running gateway", operators.add)
    add.add_argument("name", metavar="NAME", help="its name: a-z, 0-9, _ and -")
    add.add_argument("backend_url", type=_url, metavar="URL", help="where its MCP endpoint is")
    add.add_argument("--prefix", help="what its names begin with (default: NAME_)")
    add.add_argument(
        "--credential",
        metavar="REFERENCE",
        help="env:NAME or file:PATH, as the gateway sees it: its credential",
    )
    for name, text, action in (
        ("remove", "remove a backend that was declared by `portico add`", operators.remove),
        ("disable", "disable a backend, be it of the file or not", operators.disable),
        ("enable", "enable a backend again", operators.enable),
    ):
        command = _client(commands, name, text, action)
        command.add_argument("name", metavar="NAME", help="as `portico backends` shows it")


def _command(commands: Any, name: str, text: str, action: Any) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    command.set_defaults(run=action)
    return command


def _client(commands: Any, name: str, text: str, action: Any) -> argparse.ArgumentParser:
    command = _command(commands, name, text, action)
    command.add_argument("--url", type=_url, default=URL, help=f"the gateway (default: {URL})")
    command.add_argument("--json", action="store_true", help="everything, as JSON")
    return command


def _add_config(command: argparse.ArgumentParser, name: str, **more: Any) -> None:
    command.add_argument(name, metavar="FILE", help=f"the configuration (default: {CONFIG})", **more)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"Invalid port number: {text}")
    return int(text)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"expected a URL such as {URL}, found {text!r}")
    return text


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, found {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _serve(arguments: argparse.Namespace) -> int:
    return serve(arguments.config, arguments.host, arguments.port, insecure=arguments.insecure)


def _check(arguments: argparse.Namespace) -> int:
    file = arguments.file or arguments.config or CONFIG
    registry = load(file)
    for warning in [*registry.warnings, *check_references(registry)]:
        print(f"warning: {warning}", file=sys.stderr)
    count = len(registry.backends)
    print(f"{file} is fine: {count} backend{'' if count == 1 else 's'}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    status = asyncio.run(Caller(arguments.url).get("/status"))
    if not {"servers", "configError", "recordErrors", "overallValid"} <= status.keys():
        raise CallFailed(f"what answers at {arguments.url} is no Portico")
    if arguments.json:
        print(json.dumps(status, indent=2))
    for server in [] if arguments.json else status["servers"]:
        state = "ready" if server["ready"] else "NOT READY"
        print(f"{server['name']:20} {state:10} {server['totalTools']:4} tools  {server['message']}".rstrip())
    if status["configError"]:
        print(f"the file has changed and cannot be used:\n{status['configError']}", file=sys.stderr)
    for name, why in status["recordErrors"].items():
        print(f"the record {name} cannot be used: {why}", file=sys.stderr)
    fine = status["overallValid"] and not status["configError"] and not status["recordErrors"]
    return 0 if fine else 1


def _tools(arguments: argparse.Namespace) -> int:
    tools = asyncio.run(Caller(arguments.url).tools())
    if arguments.json:
        print(json.dumps(tools, indent=2))
    for tool in [] if arguments.json else tools:
        about = (tool.get("description") or "").strip().partition("\n")[0]
        print(f"{tool['name']:32} {about}".rstrip())
    return 0


def _call(arguments: argparse.Namespace) -> int:
    result = asyncio.run(Caller(arguments.url).call(arguments.tool, dict(arguments.arguments)))
    failed = bool(result.get("isError"))
    if arguments.json:
        print(json.dumps(result, indent=2))
    for item in [] if arguments.json else result.get("content") or []:
        text = item.get("text") if isinstance(item, dict) and item.get("type") == "text" else None
        print(json.dumps(item) if text is None else text, file=sys.stderr if failed else sys.stdout)
    return 1 if failed else 0
