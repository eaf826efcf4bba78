"""/.well-known/*, /health: open to everybody."""

import os

from mangum import Mangum

from portico.aws.application import Serverless
from portico.settings import settings_from

handler = Mangum(Serverless(settings_from(os.environ)), lifespan="off")
