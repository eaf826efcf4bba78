"""/backends, /services, /status: the operators' API."""

import os

from mangum import Mangum

from portico.aws.application import Operators
from portico.aws.observability import Observed
from portico.settings import settings_from

handler = Mangum(Observed(Operators(settings_from(os.environ))), lifespan="off")
