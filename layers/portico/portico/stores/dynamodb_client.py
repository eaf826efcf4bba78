"""The six DynamoDB operations that the store needs, called as boto3's client is. Blocking, a connection per thread."""

import base64
import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from portico.signing import Credentials, signed
from portico.stores.base import Unavailable

ATTEMPTS: Final = 5
SECONDS: Final = 10.0
PASSING: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "InternalServerError",
    }
)
"""Errors after which the same request may go through."""


class DynamoError(Unavailable):
    """DynamoDB refused, or could not be reached."""


class ConditionalCheckFailedException(DynamoError):
    pass


class DynamoClient:
    class exceptions:  # noqa: N801 - as boto3 has it
        ConditionalCheckFailedException = ConditionalCheckFailedException

    def __init__(
        self, region: str, credentials: Callable[[], Credentials | None], endpoint: str | None = None
    ) -> None:
        self._region = region
        self._credentials = credentials
        self._endpoint = urlsplit(endpoint or f"https://dynamodb.{region}.amazonaws.com")
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def get_item(self, **request: Any) -> dict[str, Any]:
        return self._call("GetItem", request)

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._call("PutItem", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._call("DeleteItem", request)

    def query(self, **request: Any) -> dict[str, Any]:
        return self._call("Query", request)

    def scan(self, **request: Any) -> dict[str, Any]:
        return self._call("Scan", request)

    def batch_write_item(self, **request: Any) -> dict[str, Any]:
        return self._call("BatchWriteItem", request)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(_packed(request)).encode()
        for attempt in range(ATTEMPTS):
            status, answer = self._post(operation, body)
            kind = str(answer.get("__type", "")).rpartition("#")[2]
            if status == 200:
                found: dict[str, Any] = _unpacked(answer)
                return found
            if kind == "ConditionalCheckFailedException":
                raise ConditionalCheckFailedException(kind)
            if status < 500 and kind not in PASSING:
                break
            time.sleep(0.05 * 2**attempt)
        said = answer.get("message") or answer.get("Message") or f"HTTP {status}"
        raise DynamoError(f"DynamoDB refused {operation}: {kind} {said}")

    def _post(self, operation: str, body: bytes) -> tuple[int, dict[str, Any]]:
        credentials = self._credentials()
        if credentials is None:
            raise DynamoError("DynamoDB cannot be used: there are no credentials in the environment")
        target, kind = f"DynamoDB_20120810.{operation}", "application/x-amz-json-1.0"
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers = signed(
            *(credentials, "dynamodb", self._region, self._endpoint.netloc, "/", body, stamp),
            x_amz_target=target,
            content_type=kind,
        )
        try:
            return self._exchanged(body, headers)
        except (http.client.HTTPException, OSError):
            # An idle connection, likely, that the other end has closed, or that was lost while Lambda stood still.
            self._forget()
        try:
            return self._exchanged(body, headers)
        except (http.client.HTTPException, OSError) as error:
            self._forget()
            raise DynamoError(f"DynamoDB cannot be reached: {error}") from None

    def _exchanged(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        connection = self._connection()
        connection.request("POST", "/", body, headers)
        with connection.getresponse() as response:
            data = response.read()
        try:
            answer = json.loads(data)
        except ValueError:
            answer = {}
        return response.status, answer if isinstance(answer, dict) else {}

    def _forget(self) -> None:
        connection, self._local.connection = self._local.connection, None
        if connection is not None:
            connection.close()
            self._connections.remove(connection)

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            tls = self._endpoint.scheme == "https"
            kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
            connection = kind(self._endpoint.netloc, timeout=SECONDS)
            self._local.connection = connection
            self._connections.append(connection)
        return connection


def _packed(value: Any) -> Any:
    """Binary values as the wire has them."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _packed(item) for key, item in value.items()}
    return [_packed(item) for item in value] if isinstance(value, list) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"B"} and isinstance(value["B"], str):
            return {"B": base64.b64decode(value["B"])}
        return {key: _unpacked(item) for key, item in value.items()}
    return [_unpacked(item) for item in value] if isinstance(value, list) else value
