"""The commands but `serve`, which has a module of its own: reads the arguments, does the one thing, says how it went."""

import argparse
import asyncio
import json
import math
import os
import sys
from typing import Any

from portico import __version__
from portico.assembly import check_references
from portico.cli import devauth, doctor, envoy, login, operators
from portico.cli.client import Caller, CallFailed
from portico.cli.doctor.reading import is_web_address
from portico.cli.login.asking import LoginFailed
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
AUTHZ = """\
The same portico.yaml as the gateway's says who may do what. A request is asked about with its own method, path (after
PATH), headers and body: 200 and who it is (x-portico-principal, x-portico-issuer, x-portico-scopes), or the refusal as it
should reach the client. What only the gateway knows (annotations, addresses, virtual servers) the gateway decides behind it.
examples/envoy.yaml is an Envoy that asks.
"""
DOCTOR = """\
examples:
  portico doctor http://127.0.0.1:8088/mcp
  portico doctor https://gw.example.com/mcp --token-env TOKEN --tool clock_countdown steps=3

Each line says ok, WARNING, FAILED, or - for what cannot be asked and why; under what is not well stands the fix.
A tool is called only if it is named, or if it says that it is read-only and needs no arguments.
Tokens and query strings are never shown. Exit status: 0 nothing failed, 1 something did, 2 wrong arguments.
"""


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except InvalidConfig as error:
        print(error, file=sys.stderr)
        return 2
    except (CallFailed, LoginFailed, OSError, ValueError) as error:
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
    parser.add_argument("--version", action="version", version=f"portico {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = _command(commands, "serve", "run the gateway on this machine", _serve)
    _add_config(run, "--config", default=CONFIG)
    run.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    run.add_argument("--port", type=_port, default=8088, help="the port, 0 picks one (default: 8088)")
    run.add_argument(
        "--insecure", action="store_true", help="serve other machines although auth.mode is none"
    )
    run.add_argument(
        "--log-calls", action="store_true", help="a line for each request, which costs some speed"
    )
    run.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how lines look (default: text)"
    )
    authz = _command(commands, "authz", "answer Envoy (ext_authz) whether requests may pass", _authz)
    authz.epilog = AUTHZ
    authz.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_config(authz, "--config", default=CONFIG)
    authz.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    authz.add_argument("--port", type=_port, default=8090, help="the port, 0 picks one (default: 8090)")
    authz.add_argument("--below", default="/check", metavar="PATH", help="path_prefix (default: /check)")
    authz.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how lines look (default: text)"
    )
    front = _command(
        commands, "envoy", "write a configuration of Envoy, with the filter in front", envoy.write
    )
    _add_config(front, "--config", default=CONFIG)
    envoy.add(front)
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
    _add_login(commands)
    _add_doctor(commands)
    issuing = _command(
        commands, "dev-auth", "run an authorization server, for development only", devauth.serve
    )
    issuing.add_argument(
        "--port", type=_port, default=devauth.PORT, help=f"0 picks one (default: {devauth.PORT})"
    )
    issuing.add_argument(
        "--token-seconds",
        type=_seconds,
        default=3600.0,
        metavar="SECONDS",
        help="how long tokens are good (default: 3600)",
    )
    devauth.add(issuing)
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


def _add_login(commands: Any) -> None:
    """What lets the others in where a gateway asks for tokens."""
    begin = _command(
        commands, "login", "get a token for a gateway that asks for one, in a browser", login.login
    )
    begin.add_argument(
        "url", type=_url, nargs="?", default=URL, metavar="URL", help=f"the gateway (default: {URL})"
    )
    begin.add_argument(
        "--scope",
        action="append",
        default=[],
        metavar="SCOPE",
        help="one scope more than the gateway asks for",
    )
    begin.add_argument(
        "--client-id", metavar="ID", help="a client that the authorization server knows already"
    )
    begin.add_argument(
        "--no-browser", dest="browser", action="store_false", help="only print what to open in a browser"
    )
    end = _command(commands, "logout", "forget the token for a gateway", login.logout)
    end.add_argument(
        "url", type=_url, nargs="?", default=URL, metavar="URL", help=f"the gateway (default: {URL})"
    )


def _add_doctor(commands: Any) -> None:
    command = _command(
        commands, "doctor", "check a gateway step by step, with the fix for what is not well", _doctor
    )
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = DOCTOR
    command.usage = (
        "portico doctor URL [--token-env NAME | --token TOKEN] [--tool NAME [KEY=VALUE ...]] "
        "[--wait SECONDS] [--json]"
    )
    command.add_argument("url", type=_url, metavar="URL", help=f"the gateway, such as {URL}")
    token = command.add_mutually_exclusive_group()
    token.add_argument(
        "--token-env", metavar="NAME", help="the environment variable that holds a bearer token"
    )
    token.add_argument("--token", help="the token itself, for all to see who may list processes")
    command.add_argument(
        "--tool", nargs="+", metavar=("NAME", "KEY=VALUE"), help="a tool to call, and its arguments"
    )
    command.add_argument(
        "--wait",
        type=_seconds,
        default=20.0,
        metavar="SECONDS",
        help="how long to listen to a stream (default: 20)",
    )
    command.add_argument("--json", action="store_true", help="everything, as JSON; the lines go to stderr")


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


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, found {text!r}")
    return seconds


def _url(text: str) -> str:
    if not is_web_address(text):
        shown = text.rpartition("@")[2]  # what stands before it may be a password
        raise argparse.ArgumentTypeError(f"expected a URL such as {URL}, found {shown!r}")
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
    return serve(
        arguments.config,
        arguments.host,
        arguments.port,
        insecure=arguments.insecure,
        lines=arguments.log_format,
        log_calls=arguments.log_calls,
    )


def _authz(arguments: argparse.Namespace) -> int:
    from portico.cli.checking import check_requests  # noqa: PLC0415 - what looks at tokens is slow to import

    return check_requests(
        arguments.config, arguments.host, arguments.port, arguments.below, arguments.log_format
    )


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


def _doctor(arguments: argparse.Namespace) -> int:
    token = arguments.token
    if arguments.token_env is not None:
        token = os.environ.get(arguments.token_env)
        if not token:
            print(f"portico: the environment variable {arguments.token_env} is not set", file=sys.stderr)
            return 2
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        print(
            "portico: the token cannot stand in a header: it has spaces around it, or other than ASCII",
            file=sys.stderr,
        )
        return 2
    tool, *pairs = arguments.tool or [None]
    try:
        given = dict(map(_pair, pairs))
    except argparse.ArgumentTypeError as error:
        print(f"portico: --tool: {error}", file=sys.stderr)
        return 2
    target = doctor.Target(arguments.url, token, tool, given, arguments.wait)
    return asyncio.run(doctor.run(target, as_json=arguments.json))
