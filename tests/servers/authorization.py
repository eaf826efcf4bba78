"""A small authorization server, for tests of what the gateway does as the client of one.

`python -m tests.servers.authorization --port 0` prints `ready http://127.0.0.1:N` on stderr. It consents at once, for
the user it was told of. POST /control {"do": ...} changes it, GET /control tells what it was asked.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import secrets
import time
from typing import Any
from urllib.parse import parse_qs, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.servers.echo import Message, Receive, Send, read_body, reply, serve

Json = dict[str, Any]
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class OAuthError(Exception):
    def __init__(self, error: str, status: int = 400) -> None:
        super().__init__(error)
        self.error, self.status = error, status


class Authorization:
    """The ASGI application."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.issuer = ""
        self.log: list[Json] = []
        self.switches: Json = {}
        self.clients: dict[str, Json] = {"portico": {"secret": "s3cret/+:"}}
        self.codes: dict[str, Json] = {}
        self.refresh: dict[str, Json] = {}
        self.live: dict[str, Json] = {}
        self.in_flight = self.most_in_flight = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        self.issuer = f"http://{headers['host']}"
        path, verb = scope["path"], scope["method"]
        if path == "/control":
            await self.control(verb, body, send)
            return
        query = parse_qs(scope["query_string"].decode())
        form = parse_qs(body.decode()) if "urlencoded" in headers.get("content-type", "") else {}
        said = {name: values[0] for name, values in (query | form).items()}
        self.log.append({"path": path, "said": said, "authorization": headers.get("authorization", "")})
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.switches.get("delay", 0))
            await self.answer(path, said, headers, body, send)
        except OAuthError as error:
            await answer(send, {"error": error.error, "error_description": "hush-internal"}, error.status)
        finally:
            self.in_flight -= 1

    async def control(self, verb: str, body: bytes, send: Send) -> None:
        if verb == "GET":
            await answer(
                send, {"log": self.log, "most_in_flight": self.most_in_flight, "tokens": list(self.live)}
            )
            return
        said = json.loads(body)
        match said.pop("do"):
            case "set":
                self.switches |= said
            case "reset":
                self.switches, self.log, self.most_in_flight = {}, [], 0
            case "revoke":
                self.live.clear()
                if said.get("refresh"):
                    self.refresh.clear()
            case "sign":
                await answer(send, {"token": self.token(said)})
                return
        await answer(send, {"ok": True})

    async def answer(self, path: str, said: Json, headers: Json, body: bytes, send: Send) -> None:
        if path == "/.well-known/oauth-authorization-server":
            await answer(send, self.metadata() | self.switches.get("metadata", {}))
        elif path == "/jwks":
            jwk = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            await answer(send, {"keys": [jwk | {"kid": "1", "alg": "ES256", "use": "sig"}]})
        elif path == "/register":
            client = f"c-{secrets.token_hex(4)}"
            self.clients[client] = json.loads(body)
            await answer(send, {"client_id": client, **json.loads(body)}, 201)
        elif path == "/authorize":
            await reply(send, 302, headers=[(b"location", self.consented(said).encode())])
        elif path == "/introspect":
            found = self.live.get(said["token"])
            await answer(send, {"active": bool(found and found["exp"] > time.time()), **(found or {})})
        elif path == "/token":
            if status := self.switches.get("fail"):
                raise OAuthError(self.switches.get("error", "server_error"), status)
            await answer(send, self.granted(said, headers.get("authorization", "")))
        else:
            await answer(send, {}, 404)

    def metadata(self) -> Json:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "jwks_uri": f"{self.issuer}/jwks",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def consented(self, said: Json) -> str:
        known = self.clients[said["client_id"]]
        assert said["redirect_uri"] in known.get("redirect_uris", [said["redirect_uri"]])
        assert said["code_challenge_method"] == "S256" and said["response_type"] == "code"
        back = {"state": said["state"], "iss": self.switches.get("iss", self.issuer)}
        if error := self.switches.get("deny"):
            back["error"] = error
        else:
            back["code"] = secrets.token_urlsafe()
            self.codes[back["code"]] = said | {"sub": self.switches.get("user", "ada")}
        return f"{said['redirect_uri']}?{urlencode(back)}"

    def granted(self, said: Json, authorization: str) -> Json:
        self.authenticate(said, authorization)
        match said["grant_type"]:
            case "authorization_code":
                code = self.codes.pop(said["code"], None)
                digest = hashlib.sha256(said["code_verifier"].encode()).digest()
                proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                if (
                    code is None
                    or proof != code["code_challenge"]
                    or said["redirect_uri"] != code["redirect_uri"]
                ):
                    raise OAuthError("invalid_grant")
                return self.issued(code["sub"], said, code.get("scope", ""), refresh=True)
            case "refresh_token":
                kept = self.refresh.pop(said["refresh_token"], None)
                if kept is None:
                    raise OAuthError("invalid_grant")
                return self.issued(kept["sub"], kept | said, kept["scope"], refresh=True)
            case "client_credentials":
                return self.issued("portico", said, said.get("scope", ""))
            case grant if grant == EXCHANGE:
                subject = jwt.decode(said["subject_token"], options={"verify_signature": False})
                return self.issued(subject["sub"], said, said.get("scope", "")) | {
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"
                }
        raise OAuthError("unsupported_grant_type")

    def authenticate(self, said: Json, authorization: str) -> None:
        client, secret = said.get("client_id", ""), said.get("client_secret", "")
        if authorization:
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            client, secret = (parse_qs(f"x={part}")["x"][0] for part in pair.split(":"))
        known = self.clients.get(client)
        if known is None or known.get("secret", "") != secret:
            raise OAuthError("invalid_client", 401)

    def issued(self, subject: str, said: Json, scope: str, *, refresh: bool = False) -> Json:
        lasts = self.switches.get("expires_in", 3600)
        audience = [said[name] for name in ("resource", "audience") if name in said]
        token = self.token({"sub": subject, "aud": audience, "scope": scope, "lasts": lasts})
        found = {"access_token": token, "token_type": "Bearer", "expires_in": lasts, "scope": scope}
        if refresh:
            found["refresh_token"] = secrets.token_urlsafe()
            self.refresh[found["refresh_token"]] = {
                "sub": subject,
                "scope": scope,
                "resource": said.get("resource"),
            }
        return found

    def token(self, said: Json) -> str:
        now = time.time()
        lasts = said.pop("lasts", 3600)
        claims = {"iss": self.issuer, "iat": now, "exp": now + lasts, "jti": secrets.token_hex(8), **said}
        token = jwt.encode(claims, self.key, "ES256", headers={"kid": "1"})
        self.live[token] = claims
        return token


async def answer(send: Send, said: Json, status: int = 200) -> None:
    await reply(send, status, json.dumps(said).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    serve(Authorization(), parser.parse_args().port)


if __name__ == "__main__":
    main()
