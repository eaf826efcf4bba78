"""The authorization server in this process, with a clock of its own, and a client of it."""

import asyncio
import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt

from portico.devauth.application import DevAuth
from portico.devauth.model import Terms

ISSUER = "http://127.0.0.1:8088"
RESOURCE = f"{ISSUER}/mcp"
REDIRECT = "http://127.0.0.1:5000/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
TERMS = Terms(ISSUER, (RESOURCE,), ("mcp:use", "notes:write", "portico:operate"), ("mcp:use",))
GRANTS = ["authorization_code", "refresh_token", "client_credentials"]
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert self.status >= 400, self
        return self.json()["error"]

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def said(self) -> dict[str, str]:
        """What the address that it redirects to says."""
        assert self.status == 303, self.text
        query = parse_qs(urlsplit(self.headers["location"]).query, strict_parsing=True)
        return {name: values[0] for name, values in query.items()}

    @property
    def number(self) -> str:
        """Of a consent page, the one that its answer must bear."""
        return self.text.partition('name="request" value="')[2].partition('"')[0]

    @property
    def cookie(self) -> str:
        return self.headers["set-cookie"].partition(";")[0]


class Server:
    def __init__(self, terms: Terms = TERMS, kept=None) -> None:
        self.now = 1_800_000_000.0
        self.application = DevAuth(terms, kept, lambda: self.now)

    def ask(self, verb: str, path: str, body: bytes = b"", query: str = "", **headers: str) -> Answer:
        sent = {"host": "127.0.0.1:8088"} | {name.replace("_", "-"): text for name, text in headers.items()}
        scope = {
            "type": "http",
            "method": verb,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode("latin-1")) for name, text in sent.items()],
        }
        told: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            told.append(message)

        asyncio.run(self.application(scope, receive, send))
        start, end = told
        found = {name.decode(): text.decode() for name, text in start["headers"]}
        assert int(found["content-length"]) == len(end["body"])
        return Answer(start["status"], found, end["body"])

    def post(self, path: str, form: dict[str, str], **headers: str) -> Answer:
        kind = {"content_type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, urlencode(form).encode(), **(kind | headers))

    def register(self, **metadata: Any) -> Answer:
        about = {
            "client_name": "A client",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        said = {name: value for name, value in (about | metadata).items() if value is not None}
        return self.ask("POST", "/oauth/register", json.dumps(said).encode(), content_type="application/json")

    def client(self, **metadata: Any) -> "Client":
        answer = self.register(**metadata)
        assert answer.status == 201, answer.text
        return Client(self, answer.json())

    def confidential(self, *more: str, method: str = "client_secret_basic") -> "Client":
        return self.client(token_endpoint_auth_method=method, grant_types=[*GRANTS, *more])

    def claims(self, token: str, audience: str = RESOURCE) -> dict[str, Any]:
        """Checked by the keys that it publishes, whatever time it is there."""
        keys = jwt.PyJWKSet.from_dict(self.ask("GET", "/oauth/jwks").json())
        key = next(key for key in keys.keys if key.key_id == jwt.get_unverified_header(token)["kid"])
        options = {"verify_exp": False, "verify_iat": False}
        return jwt.decode(token, key, ["ES256"], audience=audience, issuer=ISSUER, options=options)


class Client:
    def __init__(self, server: Server, registered: dict[str, Any]) -> None:
        self.server = server
        self.id = registered["client_id"]
        self.secret = registered.get("client_secret")
        self.registered = registered

    def authorize(self, **changes: str | None) -> Answer:
        asked = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": REDIRECT,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "scope": "mcp:use offline_access",
            "resource": RESOURCE,
            "state": "s",
        }
        said = {name: value for name, value in (asked | changes).items() if value is not None}
        return self.server.ask("GET", "/oauth/authorize", query=urlencode(said))

    def answer(self, page: Answer, decision: str = "allow", **changes: Any) -> Answer:
        scopes = changes.pop("scopes", ["mcp:use", "notes:write", "offline_access"])
        form = {"request": page.number, "subject": "ada", "decision": decision} | changes
        pairs = [*form.items(), *(("scope", scope) for scope in scopes)]
        return self.server.ask(
            "POST",
            "/oauth/authorize",
            urlencode(pairs).encode(),
            content_type="application/x-www-form-urlencoded",
            cookie=page.cookie,
            origin="http://127.0.0.1:8088",
        )

    def code(self, **changes: str | None) -> str:
        page = self.authorize(**changes)
        assert page.status == 200, page.text
        return self.answer(page).said["code"]

    def token(self, **form: str) -> Answer:
        own = {"client_id": self.id} if self.secret is None else {}
        return self.server.post("/oauth/token", own | form, **self.basic())

    def basic(self) -> dict[str, str]:
        if self.secret is None:
            return {}
        pair = base64.b64encode(f"{self.id}:{self.secret}".encode()).decode()
        return {"authorization": f"Basic {pair}"}

    def redeem(self, code: str, **changes: str) -> Answer:
        form = {"code": code, "code_verifier": VERIFIER, "redirect_uri": REDIRECT} | changes
        return self.token(grant_type="authorization_code", **form)

    def refresh(self, token: str, **more: str) -> Answer:
        return self.token(grant_type="refresh_token", refresh_token=token, **more)
