"""`portico doctor` meets a deployment as it meets any gateway: nothing that API Gateway does is a finding."""

import os
import subprocess

from tests.functions.conftest import declaring, running
from tests.support import module
from tests.support.issuer import published


def test_a_deployment_with_tokens_is_well(tmp_path, backends):
    with published() as issuer:
        access = {"auth": {"mode": "jwt", "issuers": [{"issuer": issuer.url}]}}
        declared = declaring(backends, **access, limits={"keepalive_s": 1})
        # At the root, as with a domain of its own.
        parameters = {"AuthMode": "jwt", "PublicBaseUrl": "http://127.0.0.1:{port}"}
        with running(tmp_path / "build", declared, **parameters) as process:
            issuer.resource = f"{process.base}/mcp"
            done = subprocess.run(
                module("portico.cli", "doctor", issuer.resource, "--token-env", "TOKEN", "--wait", "4"),
                env=os.environ | {"TOKEN": issuer.token()},
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
    assert done.returncode == 0, done.stdout
    verdicts = {line.split()[0] for line in done.stdout.splitlines()[1:-1]}
    assert verdicts == {"ok"}, done.stdout
