"""The features server refuses the era it was not started for, as a server of the other era does."""

import pytest

from tests.matrix.processes import Features
from tests.support import MODERN, Client, fetch


@pytest.fixture(scope="module", params=["legacy", "modern", "both"])
def features(request):
    with Features(request.param) as server:
        yield server


def test_the_handshake_is_for_servers_that_know_it(features):
    """2026-07-28, versioning: a modern-only server answers `initialize` with 400 and names its versions."""
    answer = Client(features.url).init(initialized=False)
    if features.era == "modern":
        assert (answer.status, answer.error["code"]) == (400, -32020)
        assert MODERN in answer.error["message"]
    else:
        assert answer.result["protocolVersion"] == "2025-11-25"
        assert answer.result["capabilities"]["tools"] == {"listChanged": True}


def test_discovery_is_for_servers_that_know_it(features):
    """What a client takes for a legacy server: 400 without a modern error."""
    answer = Client(features.url).rpc26("server/discover")
    if features.era == "legacy":
        assert (answer.status, answer.error["code"]) == (400, -32600)
    else:
        assert MODERN in answer.result["supportedVersions"]


def test_a_legacy_version_in_the_header_is_told_what_is_supported(features):
    headers = {"MCP-Protocol-Version": "2025-06-18"}
    answer = Client(features.url).rpc("tools/list", headers=headers)
    assert answer.status == 400
    if features.era == "modern":
        assert (answer.error["code"], answer.error["data"]["supported"]) == (-32022, [MODERN])


def test_the_standalone_stream_is_of_the_legacy_era(features):
    answer = fetch(features.url, headers={"accept": "text/event-stream"})
    assert answer.status == (405 if features.era == "modern" else 400)
