"""An issuer of tokens: its keys, what it signs, and a server that publishes them."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

RESOURCE = "https://gw.example.com/mcp"
_MAKE = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


class Issuer:
    def __init__(self, url: str = "https://as.example.com", resource: str = RESOURCE) -> None:
        self.url = url
        self.resource = resource
        self.asked: list[str] = []
        self.down = False
        self.open = threading.Event()
        """While it is not set, nobody is answered."""
        self.open.set()
        self.waiting = self.at_once = 0
        """How many requests there are now, and how many there ever were at a time."""
        self.keys: dict[str, tuple[str, Any]] = {}
        for algorithm in _MAKE:
            self.add(algorithm, algorithm.lower())

    def add(self, algorithm: str, kid: str) -> None:
        self.keys[kid] = (algorithm, _MAKE[algorithm]())

    def jwks(self) -> dict[str, Any]:
        found = []
        for kid, (algorithm, key) in self.keys.items():
            jwk = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
            found.append(jwk | {"kid": kid, "use": "sig", "alg": algorithm})
        return {"keys": found}

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        said = {
            "iss": self.url,
            "aud": self.resource,
            "sub": "ada",
            "iat": now,
            "exp": now + 7200,
            "scope": "mcp:use",
        }
        return {name: value for name, value in (said | changes).items() if value is not None}

    def token(self, kid: str = "rs256", *, headers: dict[str, Any] | None = None, **changes: Any) -> str:
        algorithm, key = self.keys[kid]
        return jwt.encode(self.claims(**changes), key, algorithm, headers={"kid": kid} | (headers or {}))

    def signed(self, header: str | bytes, claims: str | bytes, kid: str = "rs256") -> str:
        """Whatever is between the dots, with a good signature."""
        algorithm, key = self.keys[kid]
        text = f"{part(header)}.{part(claims)}"
        return f"{text}.{part(get_default_algorithms()[algorithm].sign(text.encode(), key))}"


def part(data: str | bytes) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@contextmanager
def published(
    resource: str = RESOURCE, *, host: str = "127.0.0.1", certificate: Path | None = None
) -> Iterator[Issuer]:
    """With its metadata and its keys, by https if there is a certificate."""
    issuer = Issuer(resource=resource)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.waiting += 1
            issuer.at_once = max(issuer.at_once, issuer.waiting)
            issuer.open.wait(30)
            issuer.waiting -= 1
            documents = {
                "/.well-known/oauth-authorization-server": {
                    "issuer": issuer.url,
                    "authorization_endpoint": f"{issuer.url}/authorize",
                    "token_endpoint": f"{issuer.url}/token",
                    "code_challenge_methods_supported": ["S256"],
                    "jwks_uri": f"{issuer.url}/jwks",
                },
                "/jwks": issuer.jwks(),
            }
            found = None if issuer.down else documents.get(self.path)
            body = json.dumps(found).encode()
            self.send_response(503 if issuer.down else 200 if found else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer((host, 0), Handler) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        issuer.url = f"{'https' if certificate else 'http'}://{host}:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield issuer
        finally:
            server.shutdown()
