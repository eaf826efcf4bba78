"""Logs, metrics and trace ids of a function, by Powertools: all loggers write JSON lines through it, redacted.

Every request has a line (`portico.calls`, or `authz.audit` where everybody is asked who he is) and metrics in the embedded format: Requests of the function, and for what went
to a backend Duration and the outcome. A tool's name is no dimension: each value of one is a metric that is paid for.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.logging.lambda_context import build_lambda_context_model
from aws_lambda_powertools.metrics import Metrics, MetricUnit

from portico.aws.events import Event, correlation_id, headers_of, principal, traced
from portico.client import Application, Receive, Scope, Send
from portico.loglines import written
from portico.redaction import carry, redacted

NAMESPACE: Final = "Portico"
METRICS: Final = {
    "ok": "Ok",
    "tool_error": "ToolError",
    "backend_error": "BackendError",
    "refused": "Refused",
    "failed": "Failed",
    "gone": "Gone",
}

log = logging.getLogger("portico.aws")


class FunctionFailed(Exception):
    """In place of what happened, which is in the log: runtimes print what they are given, with all that is in it."""


class Counting(logging.Handler):
    """Keeps what lines about requests say until it is counted."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.kept: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(vars(record))


class Observability:
    """Of one function. Made once: it takes over the loggers of the process."""

    def __init__(self) -> None:
        self._logger = Logger(json_serializer=written, utc=True)
        self._metrics = Metrics(namespace=NAMESPACE)
        self._counting = Counting()
        self._cold = True
        self._take_over()

    def _take_over(self) -> None:
        handler, level = self._logger.registered_handler, self._logger.log_level
        handler.setLevel(level)
        # Whatever else logs in this process does it at the root.
        for name, least in (("portico", level), ("authz", level), (None, logging.WARNING)):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(least)
        calls = logging.getLogger("portico.calls")
        calls.handlers = [self._counting]
        calls.setLevel(logging.INFO)
        # Who was let in is written down whatever the level is.
        lines = logging.StreamHandler(handler.stream)
        lines.setFormatter(handler.formatter)
        audit = logging.getLogger("authz.audit")
        audit.handlers, audit.propagate = [self._counting, lines], False
        audit.setLevel(logging.INFO)

    @contextmanager
    def invocation(self, event: Event, context: Any) -> Iterator[None]:
        headers = headers_of(event)
        carry(headers)
        about = build_lambda_context_model(context).__dict__
        who = principal(event)
        self._logger.structure_logs(append=True, cold_start=self._cold, principal=who, **about)
        self._logger.set_correlation_id(correlation_id(headers))
        self._cold = False
        try:
            yield
        except Exception:
            log.exception("the function failed")
            raise FunctionFailed("the reason is in the log") from None
        finally:
            self._count(about["function_name"], about["function_request_id"])

    def _count(self, function: str, request_id: str) -> None:
        """One line, unless it was a batch: a request, and the call that was in it."""
        kept, self._counting.kept = self._counting.kept, []
        first, *others = kept or [{}]
        self._metrics.add_metric(name="Requests", unit=MetricUnit.Count, value=1)
        for call in (first, *others):
            self._call(call, function, request_id)

    def _call(self, call: dict[str, Any], function: str, request_id: str) -> None:
        metrics = self._metrics
        metrics.add_dimension(name="function", value=function)
        metrics.add_metadata(key="function_request_id", value=request_id)
        if call:
            metrics.add_metric(name="Duration", unit=MetricUnit.Milliseconds, value=call["duration_ms"])
            metrics.add_metric(name=METRICS[call["outcome"]], unit=MetricUnit.Count, value=1)
            for name in ("method", "tool"):
                if call[name]:
                    metrics.add_metadata(key=name, value=redacted(call[name]))
            if call["backend"]:
                metrics.add_dimensions(function=function, backend=call["backend"])
        metrics.flush_metrics()


class Observed:
    """An ASGI application on Lambda, with its requests logged, counted and traced."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._observability = Observability()
        self._linger: Callable[[], Awaitable[None]] | None = getattr(application, "linger", None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = traced(scope["aws.event"], os.environ.get("_X_AMZN_TRACE_ID", ""))
        headers = list(scope["headers"])
        if event is not scope["aws.event"]:
            headers.append((b"traceparent", event["headers"]["traceparent"].encode()))
        with self._observability.invocation(event, scope["aws.context"]):
            await self._application({**scope, "aws.event": event, "headers": headers}, receive, send)

    async def linger(self) -> None:
        if self._linger is not None:
            await self._linger()


def observed(handler: Callable[[Event, Any], Any]) -> Callable[[Event, Any], Any]:
    """A handler that gets no HTTP."""
    observability = Observability()

    def entry(event: Event, context: Any) -> Any:
        with observability.invocation(event, context):
            return handler(event, context)

    return entry
