"""Imports go one way: cli -> assembly -> {asgi, broker, ...} -> {router, catalogue} -> protocol."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import authz
import emulator
import portico

ROOT = Path(portico.__file__).parent
LAYERS = [
    {"protocol"},
    {"redaction"},
    {"errors", "loglines", "catalogue", "registry", "replies", "settings", "signing", "status"},
    {"router", "publication", "http1", "stores", "sessions", "errands", "caller"},
    {"client", "observability", "credentials"},
    {"backends", "relay", "mailbox", "requests", "hearing", "registrations"},
    {"tasks"},
    {"answers", "consenting", "consent", "metadata", "toolmetadata"},
    {"discovery", "upstream"},
    {"carriers"},
    {"listening", "personal", "subscriptions"},
    {"broker"},
    {"permissions", "parties", "devauth"},
    {"views"},
    {"asgi", "control"},
    {"admission"},
    {"assembly"},
    {"cli", "aws"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found |= {f"portico.{alias.name}" for alias in node.names if node.module == "portico"}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_lies_below_it(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    if own == "__init__":
        return
    used = {name.split(".")[1] for name in imports(path) if name.startswith("portico.")} - {"__version__"}
    above = {name for name in used if name != own and RANK[name] > RANK[own]}
    assert not above, f"{own} imports {above}, which stand above it"


def test_authz_never_imports_portico():
    for path in Path(authz.__file__).parent.rglob("*.py"):
        assert not {name for name in imports(path) if name.split(".")[0] == "portico"}, path


def test_the_emulator_and_what_it_runs_know_nothing_of_each_other():
    for path in [*ROOT.rglob("*.py"), *Path(authz.__file__).parent.rglob("*.py")]:
        assert "emulator" not in {name.split(".")[0] for name in imports(path)}, path
    for path in Path(emulator.__file__).parent.rglob("*.py"):
        assert not {"portico", "authz"} & {name.split(".")[0] for name in imports(path)}, path


@pytest.mark.parametrize("path", sorted((ROOT / "protocol").glob("*.py")), ids=lambda path: path.name)
def test_the_protocol_is_pure(path):
    assert not imports(path) & {"asyncio", "time", "os", "socket", "logging", "random"}


def test_the_gateway_starts_without_what_only_some_need():
    """FastAPI is imported when operators ask, boto3 where the store is DynamoDB."""
    seen = "import sys, portico.cli; print({'fastapi', 'pydantic', 'boto3'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_ciphers_are_imported_when_a_users_token_is_kept_and_not_before():
    seen = (
        "import sys, portico.assembly, portico.credentials.wiring, portico.toolmetadata;"
        "print({'cryptography', 'jwt'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    light = "import sys, portico.assembly; print('portico.credentials.consents' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
