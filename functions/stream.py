"""GET /mcp: changes, and what backends say on their own."""

import os

from portico.aws.application import Serverless
from portico.aws.observability import Observed
from portico.settings import settings_from

handler = Observed(Serverless(settings_from(os.environ)))
