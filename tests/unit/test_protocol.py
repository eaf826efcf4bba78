import json

import pytest

from portico.protocol import jsonrpc, sse, versions
from portico.protocol.jsonrpc import Message, Rejection
from portico.protocol.names import template_pattern
from portico.protocol.tickets import Cursor, Ticket, decode_cursor, issue_ticket, redeem_ticket


def test_one_member_is_replaced_and_every_other_byte_stays():
    """G1.19"""
    text = (
        '{ "jsonrpc":"2.0",\t"id":1,"method":"tools/call","params":{"arguments":{"name":"s1_echo","n":'
        '12345678901234567890123,"f":1.0,"e":"\\u00e9\\ud800","x":1e400},"name" : "s1_echo","_meta":{"progressToken":7}}}'
    )
    message = jsonrpc.read(text)
    assert isinstance(message, Message)
    assert message.splice(message.params["name"], "echo") == text.replace(
        '"name" : "s1_echo"', '"name" : "echo"'
    )


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("{", -32700, "Parse error"),
        ("", -32700, "Parse error"),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":NaN}}', -32700, "Parse error"),
        ('{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', -32700, "Parse error"),
        ('{"jsonrpc":"2.0","id":1,"method":"a"} x', -32700, "Parse error"),
        ('{"a":' * 100_000, -32700, "Parse error"),
        ('{"jsonrpc":"1.0","id":1,"method":"a"}', -32600, "json rpc version invalid"),
        ('{"jsonrpc":"2.0","id":1}', -32600, "no method set in json rpc payload"),
        ('{"jsonrpc":"2.0","id":null,"method":"a"}', -32600, "the id must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":[]}', -32602, "params must be an object"),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(text, code, message):
    """G0.64, G1.9, C11"""
    found = jsonrpc.read(text)
    assert isinstance(found, Rejection)
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize("id_", [1, "1", "ü", 0, 2**60])
def test_ids_are_echoed_with_their_type(id_):
    """G0.64"""
    assert json.loads(jsonrpc.result(id_, {}))["id"] == id_


@pytest.mark.parametrize("version", versions.LEGACY)
def test_a_known_version_is_agreed_to(version):
    """G1.7"""
    assert versions.negotiate(version) == version


def test_an_unknown_version_gets_the_newest_legacy_one_and_none_the_oldest_over_http():
    """G1.7, G1.8, C18"""
    assert versions.negotiate("1999-01-01") == "2025-11-25"
    assert versions.negotiate("zzz") == "2025-11-25"
    assert versions.negotiate("") == "2025-03-26"


@pytest.mark.parametrize("text", ["[1 2]", "[1,]", "[,1]", "[1", "[", "[1]]", "[1],"])
def test_what_is_no_array_is_no_batch(text):
    """C30"""
    with pytest.raises(jsonrpc.Malformed):
        jsonrpc.elements(text)


def test_the_elements_of_an_array_are_as_they_were():
    """C30"""
    assert jsonrpc.elements(" [ ] ") == []
    assert jsonrpc.elements('[{"a": 1.0} , [2],"x"]') == ['{"a": 1.0}', "[2]", '"x"']


def test_a_time_to_retry_that_is_none_is_passed_over():
    (frame,) = sse.Decoder(10_000).feed(b"retry: " + b"9" * 5000 + b"\ndata: x\n\n")
    assert (frame.data, frame.retry) == (b"x", None)


def test_frames_are_the_same_however_the_bytes_are_cut():
    raw = "\ufeffid: 1\r\nretry: 5\r\ndata: \r\n\r\n: note\n\ndata: ä\ndata:b\n\nevent: x\rdata: q\r\r\n".encode()
    whole = sse.Decoder(1000).feed(raw)
    for size in range(1, len(raw)):
        decoder = sse.Decoder(1000)
        pieces = [frame for at in range(0, len(raw), size) for frame in decoder.feed(raw[at : at + size])]
        assert pieces == whole
    assert [frame.data.decode() for frame in whole] == ["", "ä\nb", "q"]
    assert (whole[0].id, whole[0].retry, whole[2].event) == ("1", 5, "x")


def test_a_frame_beyond_the_limit_is_refused():
    with pytest.raises(sse.FrameTooLarge):
        sse.Decoder(100).feed(b"data: " + b"x" * 200)


def test_a_frame_is_one_data_line():
    """G0.65"""
    assert sse.encode(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert sse.encode(b"", "7", 200) == b"id: 7\nretry: 200\ndata: \n\n"


@pytest.mark.parametrize("upstream_id", [0, "0", "a.b", 7])
def test_a_ticket_finds_its_way_home_with_the_type_of_the_id(upstream_id):
    """G1.95"""
    text = issue_ticket("session", Ticket("echo", upstream_id), 100)
    assert redeem_ticket("session", text, 50) == Ticket("echo", upstream_id)


def test_a_ticket_is_worth_nothing_to_others_or_too_late():
    """G1.95"""
    text = issue_ticket("session", Ticket("echo", 0), 100)
    assert redeem_ticket("other", text, 50).status == 403
    assert redeem_ticket("session", text, 101).status == 400
    for forged in (
        7,
        None,
        "",
        "x",
        "a.b",
        text.replace(".", ".\ud800"),
        text[:-1] + "0" if text[-1] != "0" else text[:-1] + "1",
    ):
        assert redeem_ticket("session", forged, 50).status in (400, 403)


def test_a_cursor_is_read_back_and_garbage_is_none():
    """G1.94"""
    cursor = Cursor("echo", "17", {"b": "3"}, {"tools": "abc"})
    assert decode_cursor(cursor.encode()) == cursor
    assert decode_cursor("17") is None
    assert decode_cursor("é%$") is None


@pytest.mark.parametrize(
    ("template", "uri", "matches"),
    [
        ("echo://item/{id}", "echo://item/7", True),
        ("echo://item/{id}", "echo://item/7/8", False),
        ("file://{+path}", "file://a/b/c", True),
        ("db://t{?q}", "db://t?q=1", True),
        ("a.c://{x}", "abc://1", False),
    ],
)
def test_a_template_knows_the_addresses_it_makes(template, uri, matches):
    """C16"""
    assert bool(template_pattern(template).fullmatch(uri)) is matches
