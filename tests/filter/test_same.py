"""The filter and the service judge alike, to the byte: good and bad tokens, bodies of all kinds, rules, headers."""

import asyncio
import json
import time

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.serialization import load_der_public_key
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.model import Access, Challenge, Match, Require, Rule
from authz.model import Issuer as Declared
from tests.attacks.tokens import bad_tokens
from tests.filter.same import Both
from tests.support.issuer import RESOURCE, Issuer
from tests.vectors.cases import Request

ISSUER = Issuer()
JWKS = "https://as.example.com/jwks"
BAD = bad_tokens(ISSUER)
NOW = time.time()
ACCESS = Access(
    RESOURCE,
    (Declared(ISSUER.url, algorithms=("RS256", "ES256", "EdDSA"), jwks_url=JWKS),),
    required_scopes=("mcp:use",),
    implied_scopes=(("root", ("tool:add", "ä")),),
    roles_claim=("access", "{backend}", "roles"),
    rules=(
        Rule(Match(tool="s1_add*"), Require(scopes=("tool:add", "tool:more"))),
        Rule(Match(tool="s1_?"), Require(never=True), Challenge("https://o.example/{tool}", 'Äsk "them".')),
        Rule(Match(tool="s2_*", annotations=(("readOnlyHint", True),)), Require(never=True)),
        Rule(Match(prompt="*", backend="long"), Require(roles=("{prompt}:{backend}",))),
        Rule(Match(method="completion/*"), Require(any_scope=("a", "b"))),
        Rule(Match(method="ping"), Require(claims=(("team", ("x", "1", "true")),))),
    ),
    default="deny",
)
TOKENS = {
    "plain": ISSUER.token(),
    "es256": ISSUER.token("es256"),
    "eddsa": ISSUER.token("eddsa"),
    "root": ISSUER.token(scope="mcp:use root"),
    "adding": ISSUER.token(scope="mcp:use tool:add tool:more z a z"),
    "in a list": ISSUER.token(scope=["mcp:use", "a", 1, "b c"]),
    "scp": ISSUER.token(scope=None, scp="mcp:use b"),
    "role": ISSUER.token(access={"long": {"roles": ["x:long", 7]}}),
    "team": ISSUER.token(team=[True, 2]),
    "number": ISSUER.token(team=1),
    "float": ISSUER.token(team=1.0),
    "nobody": ISSUER.token(scope=""),
    "server": ISSUER.token(aud=f"{RESOURCE}/v/d%20v"),
    "no server": ISSUER.token(aud=[f"{RESOURCE}/v/"]),
    "a server and none": ISSUER.token(aud=[f"{RESOURCE}/v/", f"{RESOURCE}/v/dev"]),
    "both": ISSUER.token(aud=[RESOURCE, f"{RESOURCE}/v/dev"]),
    "no kid": ISSUER.signed('{"alg":"RS256"}', json.dumps(ISSUER.claims())),
    "in parts": ISSUER.token(exp=NOW + 10.25),
    "hardly": ISSUER.token(exp=int(NOW) - 58),
    "far": ISSUER.token(exp=999999999999999),
    "too far": ISSUER.token(exp=10**15),
    "exponent": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', json.dumps(ISSUER.claims()).replace('"exp":', '"exp":3e9,"x":')),
    "umlaut": ISSUER.token(sub="Ädä <ä@x> 100% 😀"),
    "nbsp": ISSUER.token(sub="a\u00a0b"),
    "format": ISSUER.token(sub="a\u200bb"),
}  # fmt: skip
NAMES = (
    "s1_add",
    "s1_x",
    "s1_ädd",
    "s1_add more",
    " s1_add",
    "s1_add\u00a0more\u2028",
    "\ts1_add",
    "s2_any",
    "s1_long_x",
    "s1_",
    "s3_x",
    "",
)
METHODS = ("tools/call", "prompts/get", "resources/read", "completion/complete", "ping", "tools/list", "é")
PATHS = ("/mcp", "/mcp?x=1", "/mcp/v/dev", "/mcp/v/d%20v", "/%6dcp", "/mcp/", "/status", "/health", "/x%")


def verify_signature(arguments: bytes) -> bytes:
    """As Envoy has it: hash, key, signature and text as a protocol buffer."""
    fields, at = {}, 0
    while at < len(arguments):
        number, at, size, shift = arguments[at] >> 3, at + 1, 0, 0
        while True:
            byte, at = arguments[at], at + 1
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        fields[number], at = arguments[at : at + size], at + size
    assert fields[1] == b"sha256"
    key = load_der_public_key(fields[2])
    more = (padding.PKCS1v15(), hashes.SHA256())
    try:
        key.verify(fields[3], fields[4], *((ec.ECDSA(hashes.SHA256()),) if hasattr(key, "curve") else more))
    except InvalidSignature:
        return b"\x12\x05wrong"
    return b"\x08\x01"


@pytest.fixture(scope="module", params=["by itself", "by the host"])
def both(request):
    foreign = {"verify_signature": verify_signature} if request.param == "by the host" else {}
    return Both(ACCESS, {JWKS: ISSUER.jwks()}, NOW, foreign)


@pytest.fixture(scope="module")
def alone():
    return Both(ACCESS, {JWKS: ISSUER.jwks()}, NOW)


def posted(token, message, path="/mcp", more=(), verb="POST"):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Request(verb, path, [("authorization", f"Bearer {token}"), *more], body)


def call(name, method="tools/call"):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": name, "uri": name}}


def judged(both, said, piece=1 << 20):
    return asyncio.run(both.judged(said, piece))


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_is_as_good_here_as_there(both, name):
    statuses = {judged(both, posted(TOKENS[name], call("s1_add"), path))[0] for path in PATHS}
    assert statuses <= {200, 401, 403}
    for method in METHODS:
        for wanted in NAMES:
            judged(both, posted(TOKENS[name], call(wanted, method)))


@pytest.mark.parametrize("name", BAD)
def test_a_token_is_as_bad_here_as_there(both, name):
    said = posted(BAD[name].encode().decode("latin-1"), call("s1_add"))
    assert judged(both, said)[0] == 401
    assert judged(both, Request("GET", "/mcp/v/dev", said.headers, b""))[0] == 401


NO_REQUESTS = [
    b"{", b"[]", b"[1", b"null", b"{} x", b"\xff", b"\xef\xbb\xbf{}", b'{"a":NaN}', b'{"a":01}', b'{"a":"\x00"}', b'{"a":"\\x"}',
    b'{"id":1,"id":1}', b'{"id":1,"\\u0069d":1}', b'{"a":{"b":1,"b":2}}', b'{"method":"ping","id":1,"params":{"a":1,"a":1}}',
    b'{"method":"ping","params":{"a":1,"a":1}}', b'{"method":1,"id":1}', b'{"method":"ping","id":true}',
    b'{"method":"ping","id":1.0}', b'{"method":"ping","id":-0}', b'{"method":"ping","id":1e2}', b'{"method":"ping","id":null}',
    b'{"method":"ping","id":"\\ud83d\\ude00\\ud800\\n\\u007f\\""}', b'{"method":"ping","id":' + b"9" * 4301 + b"}",
    b'{"method":"ping","id":' + b"9" * 4300 + b"}", b'{"method":"ping","id":1,"params":[1]}', b"[" * 400 + b"]" * 400,
    b'{"method":"tools/call","id":1,"params":{"name":["s1_add"]}}', b" \t\r\n{}", b"\x0c{}", b"{,}", b'{"a":1,}', b"[1,]",
    b'{"method":"tools/call","id":"x","params":{"name":"s1_\\u0061dd"}}', b"{\"a\":'b'}", b"tru", b'"x"', b"-", b"1.", b"1e", b".5",
]  # fmt: skip


@pytest.mark.parametrize("body", NO_REQUESTS, ids=range(len(NO_REQUESTS)))
def test_a_body_is_read_here_as_there(alone, body):
    for token in (TOKENS["plain"], TOKENS["adding"], "bad"):
        for more in ((), (("mcp-method", "ping"),), (("mcp-method", "tools/call"), ("mcp-name", "s1_add"))):
            judged(alone, posted(token, body, more=more), piece=3)


SENT = ("s1_add", "=?base64?czFfYWRk?=", "=?base64?czFfYWRk", "=?base64?czFf?YWRk?=", "=?base64?!?=", "s1_\xe4dd", "",
        "=?base64?czFfw6RkZA==?=", "=?base64?czFfYWR=?=", "=?base64??=", " s1_add ", "=?BASE64?czFfYWRk?=", "=?base64?/w==?=")  # fmt: skip


@pytest.mark.parametrize("sent", SENT)
def test_a_header_is_compared_here_as_there(alone, sent):
    for name in ("s1_add", "s1_ädd", "s1_äd", "", None):
        for message in (call(name), b""):
            more = [("mcp-method", "tools/call"), ("mcp-name", sent)]
            judged(alone, posted(TOKENS["adding"], message, more=more))
            judged(alone, posted(TOKENS["adding"], message, more=[*more, ("mcp-name", sent)]))
            judged(alone, posted(TOKENS["adding"], message, more=more[1:]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(method=st.sampled_from(METHODS) | JSON, id_=JSON, name=st.sampled_from(NAMES) | JSON, rest=JSON)
def test_whatever_is_asked_is_understood_here_as_there(alone, method, id_, name, rest):
    message = {"method": method, "id": id_, "params": {"name": name, "rest": rest}, "rest": rest}
    judged(alone, posted(TOKENS["plain"], message), piece=11)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0d89"truefalsn.eE+- ', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_here_as_there(alone, body):
    judged(alone, posted(TOKENS["plain"], body))


@settings(max_examples=150, deadline=None)
@given(header=JSON, claims=JSON, more=st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "aud", "sub", "scope", "scp", "typ"]), JSON))  # fmt: skip
def test_whatever_an_issuer_signs_is_judged_here_as_there(alone, header, claims, more):
    said = ISSUER.claims() | {name: value for name, value in more.items() if name != "typ"}
    head = {"alg": "RS256", "kid": "rs256"} | ({"typ": more["typ"]} if "typ" in more else {})
    for one, other in ((head, said), (header, said), (head, claims)):
        judged(alone, posted(ISSUER.signed(json.dumps(one), json.dumps(other)), call("s1_add")))
