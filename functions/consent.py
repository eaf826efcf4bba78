"""/oauth/upstream/*: pages on which users let the gateway act for them at backends, and what takes that back."""

import os

from mangum import Mangum

from portico.aws.application import Buffered
from portico.aws.observability import Observed
from portico.settings import settings_from

handler = Mangum(Observed(Buffered(settings_from(os.environ))), lifespan="off")
