"""Requests that nobody should send, as hypothesis makes them up."""

from hypothesis import strategies as st

from tests.support import MODERN

META = "io.modelcontextprotocol/"
TEXT = st.text(max_size=6) | st.sampled_from(
    ["\ud800", "\0", "s1_echo", "echo://static/one", "portico.a.b", "?"]
)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=6)
METHODS = st.sampled_from(
    [
        "tools/call",
        "tools/list",
        "prompts/get",
        "prompts/list",
        "resources/read",
        "resources/list",
        "resources/subscribe",
        "completion/complete",
        "server/discover",
        "subscriptions/listen",
        "tasks/get",
        "ping",
        "initialize",
        "logging/setLevel",
        "notifications/cancelled",
        "notifications/progress",
        "nonsense",
    ]
)
NAMES = st.sampled_from(["old_echo", "new_echo", "new_region", "old_elicit", "old_greet", "no"])
URIS = st.sampled_from(["echo://static/one", "echo://item/1", "no://x", ""])
REF = st.fixed_dictionaries(
    {"type": st.sampled_from(["ref/prompt", "ref/resource", "x"])},
    optional={"name": NAMES | JSON, "uri": URIS | JSON},
)
ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        f"{META}protocolVersion": st.just(MODERN) | JSON,
        f"{META}clientCapabilities": st.just({}) | st.just({"elicitation": {}}) | JSON,
        f"{META}clientInfo": JSON,
        f"{META}logLevel": st.just("info") | JSON,
        "progressToken": JSON,
    },
)
GOOD = st.just({f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {"elicitation": {}}})
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": GOOD | ENVELOPE | JSON,
        "name": NAMES | JSON,
        "uri": URIS | JSON,
        "arguments": st.just({"text": "hi"}) | JSON,
        "ref": REF | JSON,
        "argument": JSON,
        "cursor": JSON,
        "level": JSON,
        "taskId": JSON,
        "notifications": st.dictionaries(
            st.sampled_from(["toolsListChanged", "resourceSubscriptions", "taskIds"]), JSON
        )
        | JSON,
        "inputResponses": st.dictionaries(st.sampled_from(["elicitation-0", "q0"]), JSON) | JSON,
        "requestState": TEXT.map("portico.{}".format) | JSON,
        "requestId": JSON,
        "protocolVersion": JSON,
    },
)
MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": METHODS},
    optional={"id": st.integers() | st.text(max_size=4) | JSON, "params": PARAMS | JSON},
) | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON)
LATIN = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=6).map(str.strip)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "mcp-protocol-version": st.sampled_from([MODERN, "2025-11-25", "2099-01-01", ""]) | LATIN,
        "mcp-method": METHODS | LATIN,
        "mcp-name": NAMES | LATIN | st.just("=?base64?/w==?="),
        "mcp-param-region": LATIN,
        "mcp-session-id": LATIN,
        "last-event-id": LATIN,
        "authorization": LATIN,
    },
)
