"""The edges that are processes: `portico serve`, `portico authz`, and whatever answers at a URL."""

import http.client
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.support.processes import Process
from tests.support.servers import Gateway
from tests.vectors.answers import Answer
from tests.vectors.backends import urls
from tests.vectors.cases import Request, Vector, config, request
from tests.vectors.edges import beginning


@contextmanager
def serving(name: str, base: str) -> Iterator[Gateway]:
    with Gateway(config(name, urls(base), base)) as process:
        yield process


@contextmanager
def checking(name: str, base: str, directory: Path) -> Iterator[Process]:
    file = directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump(config(name, urls(base), base), sort_keys=False))
    command = [sys.executable, "-m", "portico.cli", "authz", "--config", str(file), "--port", "0"]
    with Process([*command, "--log-format", "json"]) as process:
        yield process


def over_http(vector: Vector, url: str) -> Answer:
    said = request(vector, now=True)
    if vector.session:
        begun = send(beginning(said), url)
        assert begun.status == 200, (str(vector), begun)
        said = replace(said, headers=[*said.headers, ("mcp-session-id", begun.headers["mcp-session-id"])])
    return send(said, url)


def send(said: Request, url: str) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.putrequest(said.verb, said.path)
    for name, value in said.headers:
        connection.putheader(name, value)
    if said.body:
        connection.putheader("content-length", str(len(said.body)))
    connection.endheaders(said.body or None)
    answer = connection.getresponse()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    found = Answer(answer.status, headers, answer.read())
    connection.close()
    return found
