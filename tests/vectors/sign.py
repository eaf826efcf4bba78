"""Recipe -> token. `python -m tests.vectors.sign` writes authz/vectors/jwks.json and the texts in credentials.json anew.

The same recipes give the same texts, to the byte: ES256 is signed as RFC 6979 has it.
"""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from jwt.algorithms import get_default_algorithms

from tests.support.issuer import part

VECTORS = Path(__file__).parent.parent.parent / "authz" / "vectors"
KEYS = json.loads((Path(__file__).parent / "keys.json").read_text())
TIMES = ("exp", "nbf", "iat")


def private(name: str) -> Any:
    return load_pem_private_key(KEYS[name]["pem"].encode(), None)


def jwks() -> dict[str, Any]:
    """Per issuer."""
    found: dict[str, Any] = {}
    for name, about in KEYS.items():
        if "issuer" in about:
            jwk = get_default_algorithms()[about["alg"]].to_jwk(private(name).public_key(), as_dict=True)
            keys = found.setdefault(about["issuer"], {"keys": []})["keys"]
            keys.append(jwk | {"kid": name, "use": "sig", "alg": about["alg"]})
    return found


def public_pem(name: str) -> str:
    public = private(name).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def token(recipe: dict[str, Any], later: int = 0) -> str:
    """`later`: by how many seconds all its times are moved."""
    header, claims = recipe["header"], recipe["claims"]
    if isinstance(claims, dict):
        claims = {
            name: value + later if name in TIMES and type(value) is int else value
            for name, value in claims.items()
        }
    text = f"{part(_text(header))}.{part(_text(claims))}"
    made = f"{text}.{part(_signature(recipe, text.encode()))}"
    return _changed(made, recipe.get("then"))


def _text(what: Any) -> str:
    return what if isinstance(what, str) else json.dumps(what, separators=(",", ":"))


def _signature(recipe: dict[str, Any], text: bytes) -> bytes:
    if recipe.get("sign") == "none":
        return b""
    if recipe.get("sign") == "hmac":
        return hmac.digest(public_pem(recipe["key"]).encode(), text, hashlib.sha256)
    key = private(recipe["key"])
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        made = key.sign(text, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        return b"".join(number.to_bytes(32) for number in decode_dss_signature(made))
    return key.sign(text)


def _changed(made: str, how: str | None) -> str:
    head, _, signature = made.rpartition(".")
    match how:
        case None:
            return made
        case "drop signature":
            return f"{head}."
        case "drop last part":
            return head
        case "cut signature":
            return f"{head}.{signature[:-4]}"
        case "flip signature":
            return f"{head}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
        case "pad signature":
            return f"{made}=="
        case "other alphabet":
            return f"{head}.+{signature[1:]}"
        case "another part":
            return f"{made}.e30"
    raise ValueError(how)


def main() -> None:
    path = VECTORS / "credentials.json"
    found = json.loads(path.read_text())
    for recipe in found["tokens"].values():
        recipe["text"] = token(recipe)
    _write(path, found)
    _write(VECTORS / "jwks.json", jwks())


def _write(path: Path, found: Any) -> None:
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
