"""Clients that publish what they say about themselves, and what this server will not fetch for them."""

import asyncio
import contextlib
import re
import socket
import threading
import time

import pytest

from portico.devauth import documents as documents_module
from portico.devauth.documents import Documents, address
from portico.devauth.model import OAuthError
from tests.support.client_documents import REDIRECT, client_documents


@pytest.fixture(scope="module")
def served():
    with client_documents() as documents:
        yield documents


@pytest.fixture
def documents(served, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificate))
    served.answers.clear()
    served.asked.clear()
    return served


class Found:
    def __init__(self):
        self.now = 1000.0
        self._documents = Documents(lambda: self.now)

    def __call__(self, url):
        return asyncio.run(self._documents.find(url))

    def refused(self, url):
        with pytest.raises(OAuthError) as raised:
            self(url)
        assert raised.value.code == "invalid_client"
        return str(raised.value)


@pytest.fixture
def find():
    return Found()


def test_a_client_is_known_by_its_document(documents, find):
    url = documents.publish(client_name="Known by\u202e document")
    client = find(url)
    assert (client.id, client.name) == (url, "Known by document")
    assert client.redirect_uris == (REDIRECT,)
    assert client.grants == {"authorization_code", "refresh_token"}
    assert client.method == "none"


def test_who_says_nothing_of_a_method_has_no_secret(documents, find):
    assert find(documents.publish(token_endpoint_auth_method=None)).method == "none"


@pytest.mark.parametrize(
    ("cache_control", "fresh_s"),
    [
        (None, 60),
        ("max-age=600", 600),
        ("public, MAX-AGE=600", 600),
        ("max-age=9999999", 86_400),
        ("max-age=1", 60),
        ("max-age=x", 60),
        ("max-age=-1", 60),
    ],
)
def test_a_document_is_kept_as_long_as_it_says(documents, find, cache_control, fresh_s):
    headers = {"cache-control": cache_control} if cache_control else {}
    url = documents.publish(headers=headers)
    find(url)
    find.now += fresh_s - 1
    find(url)
    assert len(documents.asked) == 1
    find.now += 2
    find(url)
    assert len(documents.asked) == 2


def test_what_is_not_to_be_kept_is_not_and_neither_is_a_failure(documents, find):
    url = documents.publish(headers={"cache-control": "no-store"})
    find(url)
    find(url)
    assert len(documents.asked) == 2
    documents.publish(status=500)
    find.refused(url)
    documents.publish()
    assert find(url).id == url


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"client_id": "https://other.example.com/client.json"}, "not its own address"),
        ({"client_id": None}, "not its own address"),
        ({"client_name": None}, "no client_name"),
        ({"client_name": "\u202e\x00"}, "no client_name"),
        ({"redirect_uris": None}, "redirect_uris"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "redirect_uris|javascript"),
        ({"client_secret": "x"}, "no secret"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "no secret"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "no secret"),
        ({"grant_types": ["client_credentials"]}, "grant_types"),
        ({"status": 404}, "404"),
        ({"status": 302, "headers": {"location": "/other.json"}}, "302"),
        ({"client_uri": "x" * 20_000}, "more than"),
    ],
    ids=str,
)
def test_a_document_that_will_not_do_is_refused_with_the_reason(documents, find, changes, why):
    assert re.search(why, find.refused(documents.publish(**changes)))


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b"\xff", b"[" * 9000])
def test_what_is_no_document_is_refused(documents, find, body):
    documents.answers["/client.json"] = (200, {}, body)
    find.refused(f"{documents.base}/client.json")


def test_a_server_that_cannot_prove_itself_is_not_believed(documents, find, monkeypatch):
    url = documents.publish()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "SSLCertVerificationError" in find.refused(url)
    assert documents.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://app.example.com/client.json",
        "https://app.example.com",
        "https://app.example.com/",
        "https://app.example.com/a/../client.json",
        "https://app.example.com/./client.json",
        "https://app.example.com/client.json#x",
        "https://user@app.example.com/client.json",
        "https://app.example.com:0/client.json",
        "https://app.example.com:99999/client.json",
        "https:///client.json",
        "https://[::1/client.json",
        "https://app.example.com/" + "x" * 1000,
        "https://app.example.com/client json",
        "https://app.example.com/client.json\r\nx: y",
        "https://äpp.example.com/client.json",
    ],
)
def test_an_address_that_will_not_do_is_not_fetched(find, url, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("looked up"))
    find.refused(url)


def resolving(*addresses):
    return lambda *_, **__: [(0, 0, 0, "", (one, 443)) for one in addresses]


PRIVATE = """127.0.0.1 10.0.0.1 192.168.1.1 172.16.0.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
::1 :: fe80::1%eth0 fd00::1 ::ffff:169.254.169.254 ::ffff:127.0.0.1 2002:7f00:1::1 64:ff9b::a00:1"""


@pytest.mark.parametrize("inner", PRIVATE.split())
def test_no_name_leads_into_a_private_network(inner):
    """Not even if only one of its addresses lies there."""
    for found in ((inner,), ("93.184.215.14", inner), (inner, "93.184.215.14")):
        with pytest.raises(OAuthError, match="private network"):
            address("app.example.com", 443, resolving(*found))


def test_names_of_this_machine_lead_to_this_machine():
    assert address("localhost", 80, resolving("127.0.0.1")) == "127.0.0.1"
    assert address("app.example.com", 443, resolving("93.184.215.14")) == "93.184.215.14"
    with pytest.raises(OAuthError, match="private network"):
        address("localhost", 80, resolving("93.184.215.14"))


def test_a_name_that_is_unknown_is_refused():
    def unknown(*_, **__):
        raise socket.gaierror

    with pytest.raises(OAuthError, match="unknown"):
        address("app.example.com", 443, unknown)
    with pytest.raises(OAuthError, match="private network"):
        address("app.example.com", 443, resolving())


def test_a_place_that_never_ends_its_answer_keeps_no_thread(monkeypatch, find):
    """Any page can send a browser here with such an address, and threads are few."""
    monkeypatch.setattr(documents_module, "SECONDS", 0.2)
    ended = threading.Event()

    def feed(listening):
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.05):
                connection.sendall(b"x-more: 1\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=feed, args=(listening,), daemon=True).start()
        try:
            began = time.monotonic()
            # asyncio.run waits for its threads
            assert "in time" in find.refused(f"http://127.0.0.1:{listening.getsockname()[1]}/client")
            assert time.monotonic() - began < 4
        finally:
            ended.set()
