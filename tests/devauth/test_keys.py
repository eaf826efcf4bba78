"""Keys: published before they are needed, replaced by age or by hand, kept for one pair of eyes."""

import json
import stat

import jwt
import pytest

from portico.devauth.keys import RETIRED_S, ROTATE_S
from tests.devauth.support import Server


def kids(server):
    return [key["kid"] for key in server.application.keys.jwks()["keys"]]


def token(server):
    return server.confidential().token(grant_type="client_credentials").json()["access_token"]


def signer(text):
    return jwt.get_unverified_header(text)["kid"]


def test_the_next_key_is_published_before_it_signs(server):
    """Whoever has kept the set needs no other when it does."""
    before = kids(server)
    assert signer(token(server)) == before[0]
    server.application.keys.rotate()
    assert signer(token(server)) == before[1]
    assert set(before) < set(kids(server))


def test_tokens_of_the_old_key_stay_good_for_a_while(server):
    old = token(server)
    server.application.keys.rotate()
    assert server.claims(old)
    server.now += RETIRED_S + 1
    assert signer(old) not in kids(server)


def test_a_key_that_is_old_is_replaced_by_itself(server):
    first = signer(token(server))
    server.now += ROTATE_S + 1
    second = signer(token(server))
    assert second != first
    assert signer(token(server)) == second


def test_what_is_published_is_public(server):
    for key in server.application.keys.jwks()["keys"]:
        assert set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
        assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")


def test_keys_survive_a_restart_and_are_nobody_elses(tmp_path):
    kept = tmp_path / "state" / "keys.json"
    first = Server(kept=kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert list(kept.parent.iterdir()) == [kept]
    assert Server(kept=kept).claims(token(first))


def test_keys_that_others_could_read_are_not_used_any_more(tmp_path):
    kept = tmp_path / "keys.json"
    before = kids(Server(kept=kept))
    kept.chmod(0o644)
    assert not set(before) & set(kids(Server(kept=kept)))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"secret": "zz", "keys": []}', '{"secret": "00", "keys": [{"kid": "x"}]}'],
)
def test_a_file_that_is_none_is_replaced(tmp_path, content):
    kept = tmp_path / "keys.json"
    kept.touch(0o600)
    kept.write_text(content)
    server = Server(kept=kept)
    assert server.claims(token(server))
    assert len(json.loads(kept.read_text())["keys"]) == 2


def test_a_key_of_another_kind_is_not_used(tmp_path):
    kept = tmp_path / "keys.json"
    Server(kept=kept)
    said = json.loads(kept.read_text())
    said["keys"][0]["pem"] = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    kept.write_text(json.dumps(said))
    server = Server(kept=kept)
    assert server.claims(token(server))
