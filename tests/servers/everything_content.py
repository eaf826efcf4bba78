"""What the everything server serves without asking anybody: content blocks, resources, prompts.

All of it is in wire form (camelCase dicts); the SDK checks every result against the schema of the
protocol version it answers in.
"""

import base64
import json
import re
import struct
import zlib

TEXT_URI = "test://static-text"
BINARY_URI = "test://static-binary"
WATCHED_URI = "test://watched-resource"
TEMPLATE_URI = "test://template/{id}/data"

_TEMPLATE = re.compile(r"test://template/(?P<id>[^/]+)/data")


def _png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _red_pixel():
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(*chunk) for chunk in chunks)


def _silence():
    samples = bytes(16)
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + layout + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


PNG = base64.b64encode(_red_pixel()).decode()
WAV = base64.b64encode(_silence()).decode()


def text(value):
    return {"type": "text", "text": value}


def image():
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def audio():
    return {"type": "audio", "data": WAV, "mimeType": "audio/wav"}


def embedded(uri, value, mime_type="text/plain"):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": value}}


RESOURCES = [
    {
        "uri": TEXT_URI,
        "name": "static-text",
        "description": "A text that never changes",
        "mimeType": "text/plain",
    },
    {"uri": BINARY_URI, "name": "static-binary", "description": "One red pixel", "mimeType": "image/png"},
    {
        "uri": WATCHED_URI,
        "name": "watched-resource",
        "description": "One to subscribe to",
        "mimeType": "text/plain",
    },
]

TEMPLATES = [
    {
        "uriTemplate": TEMPLATE_URI,
        "name": "template",
        "description": "Data of one id",
        "mimeType": "application/json",
    }
]


def read(uri):
    """The contents entry for a URI, or None when there is no such resource."""
    if uri == TEXT_URI:
        return {
            "uri": uri,
            "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }
    if uri == BINARY_URI:
        return {"uri": uri, "mimeType": "image/png", "blob": PNG}
    if uri == WATCHED_URI:
        return {"uri": uri, "mimeType": "text/plain", "text": "Watch this."}
    if found := _TEMPLATE.fullmatch(uri):
        data = {"id": found["id"], "templateTest": True, "data": f"Data for ID: {found['id']}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    return None


def _said(*blocks):
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


def _with_arguments(arguments):
    pairs = ", ".join(f"{name}='{arguments[name]}'" for name in ("arg1", "arg2"))
    return _said(text(f"Prompt with arguments: {pairs}"))


def _with_embedded_resource(arguments):
    block = embedded(arguments["resourceUri"], "Embedded resource content for testing.")
    return _said(block, text("Please process the embedded resource above."))


# name: (description, names of the arguments, all required, what prompts/get answers)
PROMPTS = {
    "test_simple_prompt": (
        "One sentence",
        (),
        lambda _: _said(text("This is a simple prompt for testing.")),
    ),
    "test_prompt_with_arguments": ("Two arguments, repeated", ("arg1", "arg2"), _with_arguments),
    "test_prompt_with_embedded_resource": (
        "A resource in a message",
        ("resourceUri",),
        _with_embedded_resource,
    ),
    "test_prompt_with_image": (
        "A picture in a message",
        (),
        lambda _: _said(image(), text("Please analyze the image above.")),
    ),
}

COMPLETIONS = {"arg1": ["test", "testament", "paris", "park"], "arg2": ["world"], "id": ["123", "124"]}


def complete(argument, typed):
    return [value for value in COMPLETIONS.get(argument, ()) if value.startswith(typed)]
