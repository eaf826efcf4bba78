"""Who may use the gateway, by token: asked by API Gateway before every function but metadata."""

import logging
import os

from authz.authorizer import Authorizer
from authz.guard import Guard
from portico.aws.named import named_by
from portico.registry import at, load
from portico.settings import settings_from


def _handler():
    # Why a token was refused is for the log alone; Powertools would take longer to import than all else here.
    logging.getLogger("authz").setLevel(os.environ.get("LOG_LEVEL", "INFO"))
    settings = settings_from(os.environ)
    registry = at(load(settings.config), settings.public_url or "")
    if registry.access is None:
        raise ValueError(f"AuthMode is jwt, but auth.mode in {settings.config} is none")
    cached = int(os.environ.get("PORTICO_AUTHORIZER_CACHE", "0"))
    return Authorizer(Guard(registry.access), None if cached else named_by(registry))


handler = _handler()
