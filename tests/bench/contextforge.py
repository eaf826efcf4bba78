"""What ContextForge needs beyond a command: secrets of its own and its backends registered through its API.

MCP clients come without a token (AUTH_REQUIRED=false), as they do to the other targets. Its rate limit, 100 calls a
minute, and its refusal of loopback backends are switched off. Sessions are stateful, as in its compose file: without
them it opens a backend session per call and is several times slower. Everything else is as it ships (SQLite).
"""

import http.client
import json
import os
import secrets
import subprocess
from pathlib import Path

from tests.bench.processes import UnavailableError

ADMIN = "admin@example.com"
REGISTER_TIMEOUT_S = 60


def environment(directory: Path) -> dict[str, str]:
    generated = ("JWT_SECRET_KEY", "AUTH_ENCRYPTION_SECRET", "PLATFORM_ADMIN_PASSWORD", "BASIC_AUTH_PASSWORD")
    return {
        **{name: f"{secrets.token_urlsafe(48)}aA1!" for name in generated},
        "PLATFORM_ADMIN_EMAIL": ADMIN,
        "DATABASE_URL": f"sqlite:///{directory / 'contextforge.db'}",
        "AUTH_REQUIRED": "false",
        "RATE_LIMITING_ENABLED": "false",
        "USE_STATEFUL_SESSIONS": "true",
        "SSRF_ALLOW_LOCALHOST": "true",
        "ENVIRONMENT": "production",
        "LOG_LEVEL": "ERROR",
    }


def token(python: Path, settings: dict[str, str]) -> str:
    """A token for registering backends, made by ContextForge's own tool from the secret it was started with."""
    command = [str(python), "-m", "mcpgateway.utils.create_jwt_token", "--username", ADMIN, "--exp", "60"]
    made = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=60
    )
    if made.returncode or not made.stdout.strip():
        raise UnavailableError("its token tool made no token")
    return made.stdout.strip().splitlines()[-1]


def register(port: int, bearer: str, backends: list[str]) -> None:
    for number, url in enumerate(backends):
        body = json.dumps({"name": f"b{number}", "url": url, "transport": "STREAMABLEHTTP"})
        headers = {"content-type": "application/json", "authorization": f"Bearer {bearer}"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REGISTER_TIMEOUT_S)
        try:
            connection.request("POST", "/gateways", body, headers)
            answer = connection.getresponse()
            if answer.status not in (200, 201):
                raise UnavailableError(f"registration refused: HTTP {answer.status} {answer.read()[:120]!r}")
        finally:
            connection.close()
