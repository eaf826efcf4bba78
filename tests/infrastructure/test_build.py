"""What `sam build` makes: what is in it, and that a bare Python of Lambda's version can import it."""

import importlib.util
import json
import os
import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.bench.coldstart import ISSUER
from tests.infrastructure import tools
from tests.infrastructure.stack import Stack
from tests.infrastructure.tools import BIN, ROOT

MEGABYTES = 50
LAYERS = {"arm64": "PorticoLayerArm64", "x86_64": "PorticoLayerX86"}
MACHINES = {"arm64": 183, "x86_64": 62}  # as ELF numbers them
ARCHITECTURE = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"


@pytest.fixture(scope="session")
def built(deployment_tools):
    """What `sam build` makes: a folder for each function and layer."""
    tools.run("sam", "build", "--build-dir", ".cache/built", "--region", "us-east-1")
    return ROOT / ".cache" / "built"


@pytest.fixture(scope="session")
def layer(built):
    """That for this machine."""
    return built / LAYERS[ARCHITECTURE] / "python"


def files(layer):
    return [path for path in layer.rglob("*") if path.is_file()]


def names(layer):
    return {path.relative_to(layer) for path in files(layer)}


def python(layer, code, folder, **environment):
    """A Python without site-packages, and with nothing in its environment but what is given."""
    done = subprocess.run(
        [BIN / "python", "-B", "-S", "-s", "-c", code],
        env={"PYTHONPATH": f"{folder}:{layer}", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("architecture", LAYERS)
def test_a_layer_is_small_enough_and_for_its_machine(built, architecture):
    found = files(built / LAYERS[architecture])
    assert sum(path.stat().st_size for path in found) / 1e6 <= MEGABYTES
    native = [path.read_bytes()[:20] for path in found if path.suffix == ".so"]
    assert native
    assert {struct.unpack("<H", head[18:])[0] for head in native} == {MACHINES[architecture]}


def test_a_layer_can_be_built_without_sam(layer):
    tools.run("make", "layer", f"ARCH={ARCHITECTURE}")
    other = ROOT / ".cache" / "layer" / ARCHITECTURE / "python"
    assert names(other) == names(layer)


def test_every_module_has_bytecode_that_is_never_checked_against_its_source(layer):
    """Lambda's files are read-only, and their times are not those of the build."""
    for source in layer.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        assert compiled.exists(), source
        assert compiled.read_bytes()[4:8] == b"\x01\0\0\0", source  # hash-based, unchecked: PEP 552


def test_nothing_is_in_the_layer_that_is_of_no_use_there(layer):
    top = {path.name for path in layer.iterdir()}
    assert not top & {"boto3", "botocore", "uvicorn", "uvloop", "pytest", "pip", "bin"}
    assert not (layer / "portico" / "cli").exists()
    assert not (layer / "portico" / "devauth").exists()
    useless = {path for path in files(layer) if path.suffix in {".pyi", ".pyx", ".pxd", ".c", ".h"}}
    other = {path for path in layer.rglob("*.pyc") if ".cpython-313." not in path.name}
    assert useless | other == set()
    assert not [path for path in layer.rglob("tests") if path.is_dir()]


def test_the_layer_holds_what_was_locked(layer):
    locked = dict(
        re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements/lambda.txt").read_text(), re.MULTILINE)
    )
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    there = json.loads(python(layer, code, layer))
    assert {name.lower().replace("_", "-"): version for name, version in there.items()} == locked


def test_native_parts_can_be_loaded(layer):
    code = (
        "import cryptography.hazmat.bindings._rust, httptools, pydantic_core, yaml, jwt, mangum, fastapi\n"
        "from aws_lambda_powertools import Logger, Metrics\nassert yaml.CSafeLoader"
    )
    python(layer, code, layer)


def test_every_module_of_the_package_can_be_imported(layer):
    modules = [
        ".".join(path.relative_to(layer).with_suffix("").parts).removesuffix(".__init__")
        for package in ("portico", "authz")
        for path in (layer / package).rglob("*.py")
    ]
    assert "portico.aws.edge" in modules
    python(layer, f"import importlib\nfor name in {modules!r}: importlib.import_module(name)", layer)


def test_the_streaming_layer_lies_where_the_functions_look_for_it(built):
    assert (built / "StreamingLayer" / "bootstrap").stat().st_mode & 0o111
    assert (built / "StreamingLayer" / "python" / "portico_streaming.py").exists()


def test_every_function_has_the_configuration_at_hand(built, smallest):
    for name, function in smallest.of_type("AWS::Lambda::Function").items():
        assert (built / name / function["Environment"]["Variables"]["PORTICO_CONFIG"]).is_file(), name


def test_a_layer_is_not_built_into_nowhere(deployment_tools):
    for folder in ("portico", "streaming"):
        done = subprocess.run(
            ["make", "-f", ROOT / "layers" / folder / "Makefile"], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert "ARTIFACTS_DIR" in done.stderr


@pytest.mark.parametrize(
    ("lacking", "said"),
    [("UV", "the layer is built by uv"), ("RUNTIME", "the layer is built by Python 3.13")],
)
def test_what_a_build_lacks_is_named_before_anything_is_touched(deployment_tools, tmp_path, lacking, said):
    (tmp_path / "python").mkdir()
    makefile = ROOT / "layers" / "portico" / "Makefile"
    command = ["make", "-f", makefile, "build-PorticoLayerX86", f"ARTIFACTS_DIR={tmp_path}"]
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, f"{lacking}=not-there"],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert "not-there" in done.stderr
    assert (tmp_path / "python").is_dir()


PARAMETERS = [
    {},
    {"DispatchMode": "inline"},
    {"AuthMode": "jwt", "PublicBaseUrl": "https://mcp.example.com"},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=["default", "inline", "jwt"])
def test_every_handler_imports_with_exactly_the_environment_declared_for_it(
    built, layer, template, parameters, tmp_path
):
    stack = Stack(template, Architecture=ARCHITECTURE, **parameters)
    functions = stack.of_type("AWS::Lambda::Function")
    assert ("AuthorizerFunction" in functions) == ("AuthMode" in parameters)
    for name, function in functions.items():
        folder = shutil.copytree(built / name, tmp_path / name)
        if "AuthMode" in parameters:
            with (folder / "portico.yaml").open("a") as declared:
                declared.write(ISSUER)
        module, _, handler = function["Handler"].rpartition(".")
        code = f"import {module} as found; assert callable(found.{handler})"
        # Lambda itself adds the region.
        python(layer, code, folder, **function["Environment"]["Variables"], AWS_REGION="us-east-1")


def test_an_authorizer_without_an_issuer_says_what_is_wrong(built, layer, template):
    """Else everybody would be kept out, and nobody would know why."""
    stack = Stack(template, Architecture=ARCHITECTURE, **PARAMETERS[-1])
    variables = stack.of_type("AWS::Lambda::Function")["AuthorizerFunction"]["Environment"]["Variables"]
    code = "import authorizer"
    with pytest.raises(AssertionError, match=r"AuthMode is jwt, but auth\.mode in portico\.yaml is none"):
        python(layer, code, built / "AuthorizerFunction", **variables, AWS_REGION="us-east-1")


def test_no_handler_hides_a_library(layer):
    """Python looks into the functions' folder first."""
    for path in Path(ROOT, "functions").glob("*.py"):
        assert importlib.util.find_spec(path.stem) is None, path.name
        assert not (layer / path.stem).exists(), path.name
