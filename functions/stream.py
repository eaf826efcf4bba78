"""GET /mcp: changes, and what backends say on their own."""

import os

from portico.aws.application import Serverless
from portico.settings import settings_from

handler = Serverless(settings_from(os.environ))
