"""/.well-known/*, /health: open to everybody."""

import os

from mangum import Mangum

from portico.aws.application import Serverless
from portico.aws.observability import Observed
from portico.settings import settings_from

handler = Mangum(Observed(Serverless(settings_from(os.environ))), lifespan="off")
