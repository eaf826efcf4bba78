"""Where clients publish what they say about themselves: an https server on loopback, and a certificate to trust it by."""

import datetime as dt
import http.server
import ipaddress
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

REDIRECT = "http://127.0.0.1:41999/callback"


class Documents:
    """What it serves may be changed; `asked` has the paths that were asked for."""

    def __init__(self, base: str, certificate: Path) -> None:
        self.base = base
        self.certificate = certificate
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}

    @property
    def trusted(self) -> dict[str, str]:
        """The environment of a process that trusts it."""
        return {"SSL_CERT_FILE": str(self.certificate)}

    def publish(self, path: str = "/client.json", status: int = 200, headers=None, **changes: Any) -> str:
        """A client that may do what those of the SDKs do; `None` takes a field away."""
        url = f"{self.base}{path}"
        usual = {
            "client_id": url,
            "client_name": "A published client",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
        }
        said = {name: value for name, value in (usual | changes).items() if value is not None}
        self.answers[path] = (status, headers or {}, json.dumps(said).encode())
        return url


@contextmanager
def client_documents() -> Iterator[Documents]:
    with tempfile.TemporaryDirectory(prefix="documents-") as directory:
        certificate, key = _certificate(Path(directory))

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                documents.asked.append(self.path)
                status, headers, body = documents.answers.get(self.path, (404, {}, b"null"))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A caller who does not trust it hangs up: nothing to report."""

        with Server(("127.0.0.1", 0), Handler) as server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            documents = Documents(f"https://127.0.0.1:{server.server_address[1]}", certificate)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield documents
            finally:
                server.shutdown()


def _certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "documents of clients")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    paths = directory / "certificate.pem", directory / "key.pem"
    form = serialization.Encoding.PEM
    paths[0].write_bytes(made.public_bytes(form))
    private = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths[1].write_bytes(private)
    return paths
