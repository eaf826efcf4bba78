"""/backends, /services, /status: the operators' API."""

import os

from mangum import Mangum

from portico.aws.application import Operators
from portico.aws.observability import Observed
from portico.settings import settings_from

# What is not text to Mangum goes out in base64, and a REST API would hand that on as it is.
TEXT = ["application/json", "application/problem+json", "text/"]

handler = Mangum(Observed(Operators(settings_from(os.environ))), lifespan="off", text_mime_types=TEXT)
