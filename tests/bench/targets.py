"""Everything that can be measured, as one table: how it is installed, started, and what to know about it."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import contextforge, deployment
from tests.bench.deployment import Deployment
from tests.bench.echo import Era
from tests.bench.install import Node, Python
from tests.bench.session import SESSIONS, RoutedSession, Session

FASTMCP = Python("fastmcp")
MCP_PROXY = Python("mcp-proxy")
CONTEXTFORGE = Python("contextforge")
SUPERGATEWAY = Node("supergateway", "4.0.0")
NPM_MCP_PROXY = Node("mcp-proxy", "6.7.19")
FASTMCP_FRONT = str(Path(__file__).with_name("fastmcp_front.py"))
PORTICO_READY = r"portico ready on (http://\S+)"
PORTICO_CONFIG = """\
version: 1
store: sqlite:{directory}/portico.db
backends:
"""


@dataclass(frozen=True)
class Place:
    """Where a target runs: its port, the backends behind it, the tools each of them has, its own directory."""

    port: int
    backends: list[str]
    fillers: int
    directory: Path


def no_environment(_: Place) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Target:
    name: str
    title: str
    command: Callable[[Place], list[str]]
    note: str
    install: Python | Node | Deployment | None = None
    environment: Callable[[Place], dict[str, str]] = no_environment
    # Called once the port answers, with the environment the target was started with.
    prepare: Callable[[Place, dict[str, str]], None] | None = None
    # Finds the URL in the target's output; without it the URL is /mcp on the given port.
    ready: str | None = None
    aggregates: bool = False
    # Can only front a process: its tables say so (†), for there is no HTTP on its upstream side.
    stdio: bool = False
    # The protocol eras of the clients that call it and of the backends behind it.
    client_era: Era = "legacy"
    backend_era: Era = "legacy"
    # By which path its modern clients come: straight to the function that answers.
    routed: bool = False

    @property
    def session(self) -> type[Session]:
        return RoutedSession if self.routed else SESSIONS[self.client_era]

    @property
    def deployed(self) -> bool:
        """Portico as Lambda functions, on the emulator."""
        return isinstance(self.install, Deployment)

    @property
    def peer(self) -> bool:
        return isinstance(self.install, Python | Node)


def direct(place: Place) -> list[str]:
    return backend(place.port, all_fillers(place), "legacy")


def direct_modern(place: Place) -> list[str]:
    return backend(place.port, all_fillers(place), "modern")


def all_fillers(place: Place) -> int:
    """As many as all backends have together."""
    return (place.fillers + 1) * max(len(place.backends), 1) - 1


def backend(port: int, fillers: int, era: Era) -> list[str]:
    flags = ["--port", str(port), "--tools", str(fillers), "--era", era]
    return [sys.executable, "-m", "tests.bench.backend", *flags]


def stdio_backend(place: Place) -> list[str]:
    return [sys.executable, "-m", "tests.bench.stdio_backend", "--tools", str(place.fillers)]


def portico(place: Place) -> list[str]:
    config = place.directory / "portico.yaml"
    config.write_text(PORTICO_CONFIG.format(directory=place.directory) + declared(place))
    return [str(Path(sys.executable).with_name("portico")), "serve", "--config", str(config), "--port", "0"]


def declared(place: Place) -> str:
    lines = [f"  b{number}: {{kind: remote, url: {url}}}\n" for number, url in enumerate(place.backends)]
    return "".join(lines)


def emulated(dispatch: str) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        build = deployment.with_config(place.directory, f"version: 1\nbackends:\n{declared(place)}")
        return deployment.command(build, place.port, dispatch)

    return command


def fastmcp(place: Place) -> list[str]:
    return [str(FASTMCP.bin / "python"), FASTMCP_FRONT, "--port", str(place.port), *place.backends]


def fastmcp_shared(place: Place) -> list[str]:
    return [*fastmcp(place), "--shared"]


def mcp_proxy(place: Place) -> list[str]:
    flags = ["--port", str(place.port), "--log-level", "WARNING"]
    return [str(MCP_PROXY.bin / "mcp-proxy"), *flags, "--", *stdio_backend(place)]


def contextforge_gateway(place: Place) -> list[str]:
    return [
        str(CONTEXTFORGE.bin / "mcpgateway"),
        "--host",
        "127.0.0.1",
        "--port",
        str(place.port),
        "--no-access-log",
    ]


def contextforge_environment(place: Place) -> dict[str, str]:
    return contextforge.environment(place.directory)


def contextforge_register(place: Place, environment: dict[str, str]) -> None:
    bearer = contextforge.token(CONTEXTFORGE.bin / "python", environment)
    contextforge.register(place.port, bearer, place.backends)


def supergateway(place: Place) -> list[str]:
    flags = [
        "--outputTransport",
        "streamableHttp",
        "--stateful",
        "--logLevel",
        "none",
        "--port",
        str(place.port),
    ]
    return [*SUPERGATEWAY.command(), "--stdio", shlex.join(stdio_backend(place)), *flags]


def npm_mcp_proxy(place: Place) -> list[str]:
    flags = ["--host", "127.0.0.1", "--port", str(place.port), "--server", "stream", "--no-eventStore"]
    return [*NPM_MCP_PROXY.command(), *flags, "--", *stdio_backend(place)]


def modern(target: Target, note: str) -> Target:
    """The same program, asked by modern clients."""
    return replace(
        target,
        name=f"{target.name}-modern",
        title=f"{target.title}, modern",
        note=note,
        aggregates=False,
        client_era="modern",
        backend_era="modern",
    )


FASTMCP_SHARED_TARGET = Target(
    "fastmcp-shared",
    f"FastMCP {FASTMCP.version('fastmcp')}, shared session",
    fastmcp_shared,
    "create_proxy(connected client): one backend session for all clients; log level warning",
    install=FASTMCP,
    aggregates=True,
)
NPM_MCP_PROXY_TARGET = Target(
    "npm-mcp-proxy",
    f"mcp-proxy {NPM_MCP_PROXY.pinned} (npm)",
    npm_mcp_proxy,
    "--server stream --no-eventStore, as advised for requests and answers alone: stateful, one stdio server for all "
    "clients",
    install=NPM_MCP_PROXY,
    stdio=True,
)
LAMBDA = Target(
    "lambda",
    "Portico on Lambda",
    emulated("invoke"),
    "make lambda: template.yaml as `sam build` makes it, DispatchMode=invoke, moto as the table",
    install=Deployment(),
)
LAMBDA_INLINE = replace(
    LAMBDA,
    name="lambda-inline",
    title="Portico on Lambda, inline",
    command=emulated("inline"),
    note="the same with DispatchMode=inline",
)
TARGETS = (
    Target(
        "direct",
        "backend alone",
        direct,
        "no gateway: raw ASGI under uvicorn (uvloop, httptools)",
        aggregates=True,
    ),
    Target(
        "portico",
        "**Portico**",
        portico,
        "portico serve, store sqlite, sessions on: as it ships",
        ready=PORTICO_READY,
        aggregates=True,
    ),
    Target(
        "direct-modern",
        "modern backend alone",
        direct_modern,
        "the same, of protocol 2026-07-28: no sessions, headers that repeat the body are checked",
        aggregates=True,
        client_era="modern",
        backend_era="modern",
    ),
    Target(
        "portico-modern",
        "**Portico**, modern",
        portico,
        "clients and backend of 2026-07-28; the same command and configuration",
        ready=PORTICO_READY,
        aggregates=True,
        client_era="modern",
        backend_era="modern",
    ),
    Target(
        "portico-legacy-to-modern",
        "Portico, legacy clients, modern backend",
        portico,
        "translated: 2025-11-25 in front, 2026-07-28 behind",
        ready=PORTICO_READY,
        backend_era="modern",
    ),
    Target(
        "portico-modern-to-legacy",
        "Portico, modern clients, legacy backend",
        portico,
        "translated: 2026-07-28 in front, 2025-11-25 behind",
        ready=PORTICO_READY,
        client_era="modern",
    ),
    Target(
        "fastmcp",
        f"FastMCP {FASTMCP.version('fastmcp')}",
        fastmcp,
        "create_proxy(url) run over HTTP, as documented: a backend session per request; log level warning",
        install=FASTMCP,
        aggregates=True,
    ),
    FASTMCP_SHARED_TARGET,
    Target(
        "contextforge",
        f"ContextForge {CONTEXTFORGE.version('mcp-contextforge-gateway')}",
        contextforge_gateway,
        "ENVIRONMENT=production, stateful sessions as in its compose file, SQLite, log level error, no access log, "
        "neither client authentication nor rate limit",
        install=CONTEXTFORGE,
        environment=contextforge_environment,
        prepare=contextforge_register,
        aggregates=True,
    ),
    Target(
        "mcp-proxy",
        f"mcp-proxy {MCP_PROXY.version('mcp-proxy')} (PyPI)",
        mcp_proxy,
        "--port, one stdio server for all clients, log level warning",
        install=MCP_PROXY,
        stdio=True,
    ),
    Target(
        "supergateway",
        f"supergateway {SUPERGATEWAY.pinned}",
        supergateway,
        "--outputTransport streamableHttp --stateful --logLevel none: one stdio server per client session",
        install=SUPERGATEWAY,
        stdio=True,
    ),
    NPM_MCP_PROXY_TARGET,
    modern(FASTMCP_SHARED_TARGET, "clients and backend of 2026-07-28, else the same"),
    modern(NPM_MCP_PROXY_TARGET, "clients of 2026-07-28, else the same: it starts legacy stdio servers only"),
    LAMBDA,
    LAMBDA_INLINE,
    modern(LAMBDA, "clients and backend of 2026-07-28"),
    modern(LAMBDA_INLINE, "clients and backend of 2026-07-28"),
    Target(
        "lambda-routed",
        "Portico on Lambda, modern, routed by Mcp-Method",
        emulated("invoke"),
        "POST /mcp/tools-call and /mcp/tools-list, as MethodRouting=cloudfront has it; without CloudFront",
        install=Deployment(),
        client_era="modern",
        backend_era="modern",
        routed=True,
    ),
)
