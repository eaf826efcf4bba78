"""tools/call, prompts/get, resources/read, completion and all else that a backend answers, streamed back."""

import os

from portico.aws.application import Serverless
from portico.aws.observability import Observed
from portico.settings import settings_from

handler = Observed(Serverless(settings_from(os.environ)))
