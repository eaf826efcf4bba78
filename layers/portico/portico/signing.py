"""AWS Signature Version 4, for where nobody should wait for boto3 to be imported. Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Credentials:
    key_id: str
    secret: str
    token: str = ""


def signed(
    credentials: Credentials,
    service: str,
    region: str,
    host: str,
    path: str,
    body: bytes,
    stamp: str,
    **more: str,
) -> dict[str, str]:
    """The headers of a signed POST. `stamp` is the time as 20260728T120000Z; `more` are further headers, with _ for -."""
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join(["POST", quote(path, safe="/-_.~"), "", lines, names, digest])
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in (stamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    where = f"Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return headers | {"authorization": f"{ALGORITHM} {where}"}


def credentials_from(environment: Mapping[str, str]) -> Credentials | None:
    """Those that Lambda and most others put into the environment."""
    key_id, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return None
    return Credentials(key_id, secret, environment.get("AWS_SESSION_TOKEN", ""))
