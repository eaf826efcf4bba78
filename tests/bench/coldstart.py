"""What a cold start costs: each handler's import, as a multiple of Python's own start, and the layer's size.

    python -m tests.bench.coldstart LAYER [--rounds N]

LAYER is what `make layer` built, bytecode compiled in. The exit code is 1 if a budget is exceeded or a handler cannot
be imported.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUDGETS = {
    "edge": 10,
    "authorizer": 20,
    "initialize": 25,
    "tools_list": 25,
    "tools_call": 25,
    "stream": 25,
    "metadata": 25,
    "consent": 25,
    "discovery": 25,
    "reaper": 25,
    "control": 60,
}
"""By module, times `python -c pass`. The operators' API has FastAPI in it, and nobody waits for it."""
LAYER_MB = 50
ISSUER = "auth: {mode: jwt, issuers: [{issuer: https://as.example.com}]}\n"
"""Without which there would be nothing for an authorizer to do."""

ENVIRONMENT = {
    "PORTICO_CONFIG": "portico.yaml",
    "PORTICO_STORE": "dynamodb:portico",
    "PORTICO_PUBLIC_URL": "https://mcp.example.com",
    "PORTICO_INITIALIZE_FUNCTION": "i",
    "PORTICO_TOOLS_LIST_FUNCTION": "l",
    "PORTICO_TOOLS_CALL_FUNCTION": "c",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
}


def seconds(code: str, layer: Path, task: Path) -> float:
    """Infinite if it fails, with the reason on standard error."""
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{task}:{layer / 'python'}", "PATH": ""}
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-B", "-c", code], env=environment, cwd=task, check=False)
    return math.inf if done.returncode else time.perf_counter() - begun


def lay_out(folder: Path) -> None:
    """As `sam build` lays the handlers out, which come without bytecode but are a few lines each."""
    for path in (ROOT / "functions").iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    with (folder / ENVIRONMENT["PORTICO_CONFIG"]).open("a") as declared:
        declared.write(ISSUER)


def size_mb(layer: Path) -> float:
    return sum(path.stat().st_size for path in layer.rglob("*") if path.is_file()) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layer", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    layer = options.layer.resolve()
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder)
        lay_out(task)
        codes = {"": "pass"} | {name: f"import {name}" for name in BUDGETS}
        best = {name: seconds(code, layer, task) for name, code in codes.items()}
        importable = {name: code for name, code in codes.items() if best[name] < math.inf}
        for _ in range(options.rounds - 1):
            for name, code in importable.items():
                best[name] = min(best[name], seconds(code, layer, task))
    own = best.pop("")
    print(f"python -c pass: {own * 1000:.1f} ms (best of {options.rounds})")
    exceeded = False
    for name, found in best.items():
        over = found / own > BUDGETS[name]
        exceeded |= over
        word = "" if not over else "  EXCEEDED" if found < math.inf else "  CANNOT BE IMPORTED"
        print(f"{name:16} {found / own:5.1f} x  (at most {BUDGETS[name]}){word}")
    size = size_mb(layer)
    exceeded |= size > LAYER_MB
    print(f"layer            {size:5.1f} MB (at most {LAYER_MB}){'  EXCEEDED' if size > LAYER_MB else ''}")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
