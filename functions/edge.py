"""POST /mcp: handed over to initialize, tools_list or tools_call, or served right here (PORTICO_DISPATCH=inline)."""

import os

from portico.aws.edge import Edge
from portico.aws.observability import Observed
from portico.settings import dispatch_from, settings_from


def _handler():
    dispatch = dispatch_from(os.environ)
    if dispatch.mode == "invoke":
        return Edge(dispatch)
    from portico.aws.application import Serverless  # noqa: PLC0415 - the whole gateway is what edge must not wait for

    return Serverless(settings_from(os.environ))


handler = Observed(_handler())
