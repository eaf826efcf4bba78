"""What `auth` and `policies` may say of refusals, and of who else may limit a request."""

import json

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from authz.model import Challenge
from portico.registry import InvalidConfig, load, parse
from tests.vectors.sign import private, public_pem

AUTH = "auth: {mode: jwt, issuers: [{issuer: 'https://as.example.com'}]}\n"
RULE = "policies: [{match: {tool: a_*}, require: {scopes: [a]}, challenge: %s}]\n"


def problem(text):
    with pytest.raises(InvalidConfig) as refused:
        parse(text)
    (found,) = refused.value.problems
    return found


def test_a_rule_may_say_what_its_refusals_say():
    """G1.76"""
    said = "{resource_metadata: 'https://owner.example.com/{tool}', description: Ask us.}"
    rule = parse(AUTH + RULE % said).access.rules[0]
    assert rule.challenge == Challenge("https://owner.example.com/{tool}", "Ask us.")
    assert parse(AUTH + RULE % "null").access.rules[0].challenge == Challenge()


@pytest.mark.parametrize(
    ("said", "path", "expected"),
    [
        ("{resource_metadata: 'http://owner.example.com/'}", "resource_metadata", "an https:// URL"),
        ("{resource_metadata: 5}", "resource_metadata", "an https:// URL"),
        ('{description: "a\\r\\nb: c"}', "description", "text without control characters"),
        ("{describtion: a}", "describtion", "(did you mean description?)"),
    ],
)
def test_a_bad_challenge_is_named(said, path, expected):
    found = problem(AUTH + RULE % said)
    assert found.path == f"policies[0].challenge.{path}"
    assert expected in found.expected


def test_the_key_of_who_stands_before_the_gateway_is_read_with_the_file(tmp_path):
    """G1.83: whether or not anybody is asked for a token."""
    (tmp_path / "front.pem").write_text(public_pem("front"))
    file = tmp_path / "portico.yaml"
    file.write_text("auth: {authorized: {key: file:front.pem, enforce: true}}\n")
    read = load(file)
    assert read.access is None
    assert (read.trusted.key.strip(), read.trusted.enforce) == (public_pem("front").strip(), True)
    inline = "auth:\n  authorized:\n    key: |\n" + "".join(
        f"      {line}\n" for line in public_pem("front").splitlines()
    )
    assert parse(inline).trusted.key.strip() == public_pem("front").strip()
    assert parse(AUTH).trusted is None


SECRET = private("front").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("said", "path", "expected"),
    [
        ({"enforce": True}, ".key", "a public key as PEM"),
        ({"key": "hunter2"}, ".key", "a public key as PEM"),
        ({"key": "file:nowhere.pem"}, ".key", "a key that can be read"),
        ({"key": "env:PORTICO_NOT_SET"}, ".key", "a key that can be read"),
        ({"key": SECRET}, ".key", "a public key as PEM"),
        ({"key": public_pem("rs1")}, ".key", "the public key of ES256"),
        ({"key": public_pem("front"), "enforce": "yes"}, ".enforce", "true or false"),
        ({"key": public_pem("front"), "issuer": "x"}, ".issuer", "one of enforce, key"),
    ],
)
def test_a_bad_key_is_named_and_not_shown(said, path, expected):
    """G1.83"""
    found = problem(json.dumps({"auth": {"authorized": said}}))
    assert found.path == f"auth.authorized{path}"
    assert expected in found.expected
    assert "BEGIN" not in found.found
    assert "hunter2" not in found.found


@pytest.mark.parametrize("name", ["x-forwarded-user", "x-portico-*", "X-Amzn-Oidc-Data", "x-forwarded-*"])
def test_headers_that_say_who_somebody_is_are_never_forwarded(name):
    """G1.84"""
    found = problem(f"backends: {{a: {{url: 'http://127.0.0.1/', forward_headers: ['{name}']}}}}\n")
    assert found.path == "backends.a.forward_headers[0]"
    assert "a header that may be forwarded" in found.expected
