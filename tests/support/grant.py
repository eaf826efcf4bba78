"""A token the quick way: registered, asked for, allowed and redeemed, without any client's library."""

import base64
import hashlib
import secrets
from urllib.parse import urlencode

from tests.support.client_documents import REDIRECT
from tests.support.exchange import Answer, fetch
from tests.support.visitor import Visitor

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Granting:
    """A public client of the authorization server at `base`."""

    def __init__(self, base: str, **metadata) -> None:
        self.base = base
        about = {
            "client_name": "quick",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
        }
        registered = fetch(f"{base}/oauth/register", about | metadata)
        assert registered.status == 201, registered.raw
        self.client = registered.json()
        self.form: dict[str, str] = {}

    def granted(self, scope: str = "", subject: str = "ada", **more: str) -> dict:
        verifier = secrets.token_urlsafe(32)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": self.client["client_id"],
            "redirect_uri": REDIRECT,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
            "scope": scope,
        }
        said = Visitor().allow(f"{self.base}/oauth/authorize?{urlencode(asked | more)}", subject=subject)
        self.form = {
            "grant_type": "authorization_code",
            "client_id": self.client["client_id"],
            "code": said["code"],
            "code_verifier": verifier,
        }
        answer = self.redeem()
        assert answer.status == 200, answer.raw
        return answer.json()

    def redeem(self) -> Answer:
        """The last code, again."""
        return self.post("token", self.form)

    def post(self, endpoint: str, form: dict[str, str], **headers: str) -> Answer:
        return fetch(f"{self.base}/oauth/{endpoint}", urlencode(form).encode(), headers=FORM | headers)
