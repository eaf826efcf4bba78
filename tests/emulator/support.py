"""The application in app/, built by `sam build` and run by the emulator."""

import http.client
import json
import os
import subprocess
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support import ROOT, Process

APP = Path(__file__).parent / "app"
LAMBDA = ROOT / ".cache" / "lambda" / "bin"
MIB = 2**20


def build(place):
    command = [LAMBDA / "sam", "build", "--template", APP / "template.yaml", "--build-dir", place]
    done = subprocess.run(
        command,
        env=os.environ | {"SAM_CLI_TELEMETRY": "0", "PATH": f"{LAMBDA}{os.pathsep}{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return place


class Emulator(Process):
    def __init__(self, built, *args, env=None):
        command = [str(LAMBDA / "python"), "-m", "emulator", str(APP / "template.yaml"), str(built)]
        super().__init__([*command, *args], env=env)

    def request(self, method, path, body=None, headers=()):
        """Headers are pairs: a name may come again. The body is sent as JSON unless it is bytes."""
        with self.opened(method, path, body, headers) as answer:
            return Answer(answer.status, answer.getheaders(), answer.read())

    @contextmanager
    def opened(self, method, path, body=None, headers=()):
        """The answer as soon as its head is there."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with closing(connection):
            connection.putrequest(method, f"{urlsplit(self.url).path}{path}")
            for name, value in [
                *headers,
                *([("Content-Length", str(len(data)))] if data is not None else []),
            ]:
                connection.putheader(name, value)
            connection.endheaders(data)
            with closing(connection.getresponse()) as answer:
                yield answer

    def get(self, path, *headers):
        return self.request("GET", path, None, headers)

    def post(self, path, body, *headers):
        return self.request("POST", path, body, headers)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name):
        found = self.all(name)
        assert len(found) <= 1, f"{name} came more than once: {found}"
        return found[0] if found else None

    def json(self):
        return json.loads(self.body)

    @property
    def event(self):
        return self.json()["event"]
