"""What a modern request repeats in its headers, compared with what the official SDK makes of the same."""

from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound as sdk

from portico.protocol import jsonrpc, mirrors, modern
from portico.protocol.jsonrpc import Message, Rejection

TEXT = st.text(st.characters(codec="utf-8"))
HEADER = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"))
SENTINEL = st.builds("=?base64?{}?=".format, st.text("ABab01+/=", max_size=8))
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8)
SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string", "x-mcp-header": "S"},
        "i": {"type": "integer", "x-mcp-header": "I"},
        "o": {"type": "object", "properties": {"b": {"type": "boolean", "x-mcp-header": "B"}}},
    },
}
WANTED = mirrors.read(SCHEMA)


def call(arguments):
    params = {"name": "t", "arguments": arguments}
    found = jsonrpc.read(jsonrpc.request(1, "tools/call", params).decode())
    assert isinstance(found, Message)
    return found


@given(TEXT)
def test_a_value_comes_back_from_its_header(value):
    """G1.98"""
    encoded = modern.encode_value(value)
    assert encoded == sdk.encode_header_value(value)
    assert encoded.isascii() and encoded.isprintable() and encoded == encoded.strip()
    assert modern.decode_value(encoded) == value


@given(HEADER | SENTINEL)
def test_a_header_is_read_as_others_read_it(header):
    """G1.98"""
    assert modern.decode_value(header) == sdk.decode_header_value(header)


ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"s": JSON, "i": JSON, "o": JSON | st.fixed_dictionaries({"b": JSON})}
)


@given(ARGUMENTS)
def test_headers_made_for_a_call_are_those_that_are_asked_for(arguments):
    """G1.98, G1.100"""
    made = mirrors.param_headers(WANTED, arguments)
    expected = sdk.mcp_param_headers(sdk.x_mcp_header_map(SCHEMA), arguments)
    assert {name.lower(): value for name, value in made.items()} == {
        name.lower(): value for name, value in expected.items()
    }
    sent = {name.lower(): value for name, value in made.items()}
    assert mirrors.check_params(WANTED, call(arguments), sent, frozenset()) is None


NUMBER = st.integers(-(2**70), 2**70).map(str) | st.from_regex(r"-?[0-9]{1,5}(\.[0-9]{1,3})?", fullmatch=True)


@given(st.fixed_dictionaries({"i": st.integers() | st.floats(-1e6, 1e6)}), NUMBER | HEADER | SENTINEL)
def test_numbers_in_headers_are_compared_as_others_compare_them(arguments, header):
    """G1.98"""
    headers = {"mcp-param-i": header.strip()}
    found = mirrors.check_params(WANTED, call(arguments), headers, frozenset())
    expected = sdk.validate_mcp_param_headers(SCHEMA, arguments, headers)
    assert (found is None) == (expected is None)


@given(JSON)
def test_no_schema_is_too_odd_to_be_judged(schema):
    """G1.98"""
    wrapped = {"properties": {"p": schema}, "allOf": schema, "items": schema, "$defs": schema}
    for odd in (schema, wrapped):
        try:
            mirrors.read(odd)
        except ValueError:
            assert sdk.find_invalid_x_mcp_header(odd) is not None
        else:
            assert sdk.find_invalid_x_mcp_header(odd) is None


ANNOTATION = st.sampled_from(["A", "a", "B", "a b", "", 5, None, ["A"]])
ANNOTATED = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean", "number", "object", ["string"], {"x": 1}])},
    optional={"x-mcp-header": ANNOTATION},
)


@given(st.dictionaries(st.sampled_from("pqr"), ANNOTATED), ANNOTATED)
def test_annotations_are_judged_as_others_judge_them(properties, inner):
    """G1.98"""
    for schema in (
        {"type": "object", "properties": properties},
        {"properties": {"o": {"properties": properties}}},
        {"properties": {"o": {"items": inner}}},
        {"anyOf": [inner]},
    ):
        valid = sdk.find_invalid_x_mcp_header(schema) is None
        try:
            mirrors.read(schema)
        except ValueError:
            assert not valid
        else:
            assert valid


META = st.dictionaries(
    st.sampled_from(
        [modern.VERSION_KEY, modern.CAPABILITIES_KEY, modern.CLIENT_KEY, modern.LEVEL_KEY, "progressToken"]
    ),
    JSON | st.just("2026-07-28") | st.just({}),
)
HEADERS = st.dictionaries(
    st.sampled_from([modern.VERSION_HEADER, modern.METHOD_HEADER, modern.NAME_HEADER]),
    HEADER | SENTINEL | st.sampled_from(["2026-07-28", "tools/call", "tools/list", "t"]),
)


@given(st.sampled_from(["tools/call", "tools/list", "x"]), META | JSON, JSON | st.just("t"), HEADERS)
def test_an_envelope_is_read_or_refused_as_others_do(method, meta, name, headers):
    """G1.98"""
    body = {"jsonrpc": "2.0", "id": "q", "method": method, "params": {"_meta": meta, "name": name}}
    message = jsonrpc.read(jsonrpc.dumps(body))
    assert isinstance(message, Message)
    found = modern.read_envelope(message, headers, frozenset())
    expected = sdk.classify_inbound_request(body, headers=headers)
    if isinstance(found, Rejection):
        assert (found.status, found.id) == (400, "q")
    if isinstance(expected, sdk.InboundLadderRejection):
        assert isinstance(found, Rejection)
        assert found.code == expected.code
