"""What `portico login` keeps: one file for each gateway, for this user's eyes only."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows, where two commands at once may have to log in again
    fcntl = None  # type: ignore[assignment,unused-ignore]


@dataclass(frozen=True, slots=True)
class Login:
    url: str
    """The gateway's, as it was typed."""
    resource: str
    token_endpoint: str
    client_id: str
    client_secret: str | None
    access_token: str
    refresh_token: str | None
    scope: str
    expires_at: float | None
    """None: nobody has said when."""


def home() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "portico" / "logins"


def _path(url: str) -> Path:
    return home() / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def find(url: str) -> Login | None:
    """None also where what is there cannot be used: logging in again replaces it."""
    try:
        found = Login(**json.loads(_path(url).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.url == url and isinstance(found.access_token, str) else None


def keep(login: Login) -> None:
    path = _path(login.url)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(login), file)
    draft.replace(path)


def forget(url: str) -> None:
    _path(url).unlink(missing_ok=True)


@contextlib.contextmanager
def alone(url: str) -> Iterator[None]:
    """Of two commands at once only one refreshes: a refresh token that comes twice is taken for stolen."""
    path = _path(url).with_suffix(".lock")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
