"""/backends, /services, /status: the operators' API."""

import os

from mangum import Mangum

from portico.aws.application import Operators
from portico.settings import settings_from

handler = Mangum(Operators(settings_from(os.environ)), lifespan="off")
