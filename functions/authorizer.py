"""Who may use the gateway, by token: asked by API Gateway before every function but metadata."""

import os
import sys

from authz.authorizer import Authorizer
from authz.guard import Guard
from portico.aws.failures import counted
from portico.aws.named import named_by
from portico.loglines import take_over
from portico.registry import at, load
from portico.settings import settings_from


def _handler():
    take_over(sys.stdout, "authz")
    settings = settings_from(os.environ)
    registry = at(load(settings.config), settings.public_url or "")
    if registry.access is None:
        raise ValueError(f"AuthMode is jwt, but auth.mode in {settings.config} is none")
    cached = int(os.environ.get("PORTICO_AUTHORIZER_CACHE", "0"))
    return Authorizer(Guard(registry.access), None if cached else named_by(registry))


handler = counted(_handler)
