"""Failures of the authorizer, counted apart from its 401s: those are exceptions as well, and Lambda counts both as errors."""

import json
import os
import time
from collections.abc import Callable
from typing import Any, Final

METRIC: Final = "AuthorizerFailures"
REFUSAL: Final = "Unauthorized"
"""What API Gateway wants an exception to say for a 401."""

Handler = Callable[[Any, Any], Any]


def counted(make: Callable[[], Handler]) -> Handler:
    """The handler that is made; that it cannot be made is a failure, too."""
    try:
        handler = make()
    except Exception:
        _tell()
        raise

    def entry(event: Any, context: Any) -> Any:
        try:
            return handler(event, context)
        except Exception as error:
            if str(error) != REFUSAL:
                _tell()
            raise

    return entry


def _tell() -> None:
    """In CloudWatch's embedded format, which Powertools is too slow to import for."""
    metrics = {
        "Namespace": "Portico",
        "Dimensions": [["function"]],
        "Metrics": [{"Name": METRIC, "Unit": "Count"}],
    }
    said = {
        "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [metrics]},
        "function": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
        METRIC: 1,
    }
    print(json.dumps(said), flush=True)  # noqa: T201 - what is written there is the metric
