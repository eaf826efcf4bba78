"""portico serve | check | status | tools | call: reads the arguments, does the one thing, says how it went."""

import argparse
import asyncio
import json
import sys
from typing import Any

from portico.cli.client import Caller, CallFailed
from portico.cli.serving import serve
from portico.registry import InvalidConfig, load

URL = "http://127.0.0.1:8088/mcp"


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
    parser = argparse.ArgumentParser(prog="portico", description="One /mcp URL in front of many MCP servers.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("serve", help="run the gateway on this machine")
    run.add_argument("--config", default="portico.yaml", help="the configuration (default: portico.yaml)")
    run.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    run.add_argument("--port", type=_port, default=8088, help="the port, 0 picks one (default: 8088)")
    run.add_argument(
        "--insecure", action="store_true", help="serve other machines although auth.mode is none"
    )
    run.set_defaults(run=_serve)
    check = commands.add_parser("check", help="validate a configuration")
    check.add_argument("config", nargs="?", default="portico.yaml")
    check.set_defaults(run=_check)
    for name, text, action in (
        ("status", "how the backends are", _status),
        ("tools", "list the tools", _tools),
        ("call", "call a tool: portico call TOOL key=value ...", _call),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--url", default=URL, help=f"the gateway (default: {URL})")
        if name == "call":
            command.add_argument("tool")
            command.add_argument("arguments", nargs="*", metavar="KEY=VALUE", help="JSON, or else text")
        else:
            command.add_argument("--json", action="store_true", help="as JSON")
        command.set_defaults(run=action)
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"Invalid port number: {text}")
    return int(text)


def _serve(arguments: argparse.Namespace) -> int:
    return serve(arguments.config, arguments.host, arguments.port, insecure=arguments.insecure)


def _check(arguments: argparse.Namespace) -> int:
    registry = load(arguments.config)
    for warning in registry.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    count = len(registry.backends)
    print(f"{arguments.config} is fine: {count} backend{'' if count == 1 else 's'}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    status = asyncio.run(Caller(arguments.url).get("/status"))
    if arguments.json:
        print(json.dumps(status, indent=2))
    else:
        for server in status["servers"]:
            state = "ready" if server["ready"] else "NOT READY"
            print(f"{server['name']:20} {state:10} {server['totalTools']:4} tools  {server['message']}")
    return 0 if status["overallValid"] else 1


def _tools(arguments: argparse.Namespace) -> int:
    tools = asyncio.run(Caller(arguments.url).tools())
    if arguments.json:
        print(json.dumps(tools, indent=2))
    for tool in [] if arguments.json else tools:
        print(f"{tool['name']:32} {(tool.get('description') or '').strip().partition(chr(10))[0]}")
    return 0


def _call(arguments: argparse.Namespace) -> int:
    values = dict(_pair(text) for text in arguments.arguments)
    result = asyncio.run(Caller(arguments.url).call(arguments.tool, values))
    for item in result.get("content", []):
        print(item["text"] if item.get("type") == "text" else json.dumps(item))
    return 1 if result.get("isError") else 0


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"expected KEY=VALUE, found {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
