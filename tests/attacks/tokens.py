"""Tokens that nobody should be let in with, by what is wrong with them."""

import hashlib
import hmac
import json
import time

import jwt

from tests.support.issuer import Issuer, part

HEADER = '{"alg":"RS256","kid":"rs256"}'


def bad_tokens(issuer: Issuer) -> dict[str, str]:
    """Of an issuer that is trusted, and of others that pretend to be it."""
    other = Issuer(issuer.url, issuer.resource)
    good, now = issuer.token(), int(time.time())
    head, body, signature = good.split(".")
    claims = json.dumps(issuer.claims())
    public = json.dumps(issuer.jwks()["keys"][0]).encode()
    stolen = next(key for key in other.jwks()["keys"] if key["kid"] == "rs256")

    def hs256(secret: bytes) -> str:
        text = f"{part(json.dumps({'alg': 'HS256', 'kid': 'rs256'}))}.{part(claims)}"
        return f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}"

    def unsigned(header: dict) -> str:
        return f"{part(json.dumps(header))}.{part(claims)}"

    def saying(**more: object) -> str:
        """What the library would not sign."""
        return issuer.signed(HEADER, json.dumps(issuer.claims() | more))

    return {
        "alg none": f"{unsigned({'alg': 'none'})}.",
        "alg none with a signature": f"{unsigned({'alg': 'none'})}.{signature}",
        "alg NoNe": f"{unsigned({'alg': 'NoNe', 'kid': 'rs256'})}.{signature}",
        "alg missing": f"{unsigned({'kid': 'rs256'})}.{signature}",
        "alg no text": f"{unsigned({'alg': ['RS256'], 'kid': 'rs256'})}.{signature}",
        "HS256 with the public key": hs256(public),
        "HS256 with an empty secret": hs256(b""),
        "RS384, which is not listed": jwt.encode(
            issuer.claims(), issuer.keys["rs256"][1], "RS384", {"kid": "rs256"}
        ),
        "another algorithm for the same key": issuer.signed('{"alg":"ES256","kid":"rs256"}', claims),
        "another's key under our kid": other.token(),
        "a key in the header": other.token(headers={"jwk": stolen}),
        "keys by jku": other.token(headers={"jku": "https://evil.example/jwks"}),
        "keys by x5u": other.token(headers={"x5u": "https://evil.example/cert"}),
        "kid unknown": issuer.signed('{"alg":"RS256","kid":"nobody"}', claims),
        "kid as a path": issuer.signed('{"alg":"RS256","kid":"../../dev/null"}', claims),
        "kid as SQL": issuer.signed('{"alg":"RS256","kid":"x\' OR 1=1"}', claims),
        "kid no text": issuer.signed('{"alg":"RS256","kid":{"a":1}}', claims),
        "kid of 10,000 characters": issuer.signed(json.dumps({"alg": "RS256", "kid": "k" * 10_000}), claims),
        "no kid where several keys would fit nobody": other.signed('{"alg":"RS256"}', claims),
        "critical extension": issuer.token(headers={"crit": ["exp"]}),
        "unencoded payload": issuer.signed('{"alg":"RS256","kid":"rs256","b64":false}', claims),
        "an ID token of another type": issuer.token(headers={"typ": "secevent+jwt"}),
        "issuer unknown": issuer.token(iss="https://evil.example"),
        "issuer with a slash more": issuer.token(iss=f"{issuer.url}/"),
        "issuer missing": issuer.token(iss=None),
        "issuer no text": issuer.signed(HEADER, claims.replace(f'"{issuer.url}"', "1")),
        "audience another": issuer.token(aud="https://other.example/mcp"),
        "audience with ours in it": issuer.token(aud=f"{issuer.resource}.evil.example"),
        "audience as a prefix": issuer.token(aud="https://gw.example.com"),
        "audience missing": issuer.token(aud=None),
        "audience no text": saying(aud=[1, {}]),
        "expired": issuer.token(exp=now - 3600),
        "expired beyond the skew": issuer.token(exp=now - 62),
        "no expiry": issuer.token(exp=None),
        "expiry as text": saying(exp="9999999999"),
        "expiry true": saying(exp=True),
        "expiry infinite": saying(exp=float("inf")),
        "expiry 1e400": issuer.signed(HEADER, claims.replace('"exp":', '"exp": 1e400, "e":')),
        "not yet": issuer.token(nbf=now + 3600),
        "issued tomorrow": issuer.token(iat=now + 86400),
        "no subject": issuer.token(sub=None),
        "subject empty": issuer.token(sub=""),
        "subject no text": saying(sub=7),
        "subject blank": issuer.token(sub=" "),
        "subject with a line's end": issuer.token(sub="ada\r\nx-role: admin"),
        "subject that is no Unicode": saying(sub="\ud800"),
        "signature cut": good[:-4],
        "signature missing": f"{head}.{body}.",
        "signature of another": f"{head}.{body}.{issuer.token(sub='eve').split('.')[2]}",
        "signature padded": f"{good}==",
        "signature in the other alphabet": f"{head}.{body}.{signature.replace('-', '+').replace('_', '/')}+/",
        "signature with bits left over": issuer.token("es256")[:-1] + "B",
        "claims changed": f"{head}.{part(json.dumps(issuer.claims(scope='admin')))}.{signature}",
        "a claim twice": issuer.signed(HEADER, claims[:-1] + ',"sub":"root"}'),
        "a header twice": issuer.signed('{"alg":"none","alg":"RS256","kid":"rs256"}', claims),
        "claims no object": issuer.signed(HEADER, "[]"),
        "claims no JSON": issuer.signed(HEADER, "{"),
        "claims no UTF-8": issuer.signed(HEADER, b'{"sub":"\xff"}'),
        "claims very deep": issuer.signed(HEADER, "[" * 5000 + "]" * 5000),
        "oversized": issuer.token(more="x" * 20_000),
        "four parts": f"{good}.x",
        "five parts, encrypted": "a.b.c.d.e",
        "no parts": "opaque-7f3a",
        "a space inside": f"{head}. {body}.{signature}",
        "a newline inside": f"{head}.{body}\n.{signature}",
        "unicode": "ä.ö.ü",
        "NUL": "\0.\0.\0",
    }
