"""python -m emulator TEMPLATE BUILD_DIR: runs what `sam build` made. Ctrl-C ends it, and all that it started."""

import argparse
import asyncio
import contextlib
import functools
import signal
import sys
import tempfile
from pathlib import Path

from emulator import interpreters, schedules
from emulator.application import Application, Unsupported, read
from emulator.functions import Functions
from emulator.gateway import Gateway
from emulator.interpreters import NoInterpreter
from emulator.intrinsics import Unresolved
from emulator.invoking import Invoking
from emulator.sandboxes import Sandboxes
from emulator.tables import dynamodb
from emulator.translation import built_paths, translate
from emulator.wire import Server, listen


def main() -> None:
    options = _arguments()
    try:
        asyncio.run(_until_told(options))
    except (Unresolved, Unsupported, NoInterpreter, OSError) as error:
        sys.exit(f"emulator: {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m emulator", description=__doc__)
    parser.add_argument("template", type=Path, help="the SAM template")
    parser.add_argument("build", type=Path, help="what sam build made of it: .aws-sam/build")
    parser.add_argument("--port", type=int, default=0, help="of the REST API; default: a free one")
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_parameter,
        help="of the template; {port} in the value is the REST API's",
    )
    parser.add_argument("--python", help="the interpreter for the functions; default: their runtime's own")
    parser.add_argument("--dynamodb", metavar="URL", help="a DynamoDB that runs already; default: moto's")
    parser.add_argument("--once-schedules", action="store_true", help="fire each schedule once, at the start")
    parser.add_argument(
        "--minute", type=float, default=60.0, metavar="SECONDS", help="how long a schedule's minute takes"
    )
    return parser.parse_args()


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


async def _until_told(options: argparse.Namespace) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with contextlib.AsyncExitStack() as stack:
        socket = stack.enter_context(listen(options.port))
        port = socket.getsockname()[1]
        application = _application(options, port)
        functions = await _functions(application, options, stack)
        server = await Server(Gateway(application.api, functions).handle).start(socket)
        stack.callback(server.close)
        fired = schedules.run(
            application.schedules, functions, once=options.once_schedules, minute_s=options.minute
        )
        stack.callback(asyncio.create_task(fired).cancel)
        _say(f"emulator ready on {server.url}/{application.api.stage}")
        await told.wait()


def _application(options: argparse.Namespace, port: int) -> Application:
    parameters = {name: value.replace("{port}", str(port)) for name, value in options.parameter}
    return read(translate(options.template, parameters), built_paths(options.build))


async def _functions(
    application: Application, options: argparse.Namespace, stack: contextlib.AsyncExitStack
) -> Functions:
    """With what they find beside them: each other, and the tables."""
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emulator-")))
    endpoints: dict[str, str] = {}
    find = functools.cache(lambda runtime: interpreters.find(runtime, options.python))
    for function in application.functions.values():
        find(function.runtime)
    functions = Functions(application.functions, Sandboxes(scratch, find, endpoints))
    stack.push_async_callback(functions.close)
    invoking = await Server(Invoking(functions).handle).start()
    stack.callback(invoking.close)
    endpoints["AWS_ENDPOINT_URL_LAMBDA"] = invoking.url
    _say(f"functions are invoked at {invoking.url}")
    if application.tables:
        database = dynamodb(application.tables, options.dynamodb)
        endpoints["AWS_ENDPOINT_URL_DYNAMODB"] = await stack.enter_async_context(database)
    return functions


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
