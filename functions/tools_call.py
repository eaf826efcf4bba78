"""tools/call, prompts/get, resources/read, completion and all else that a backend answers, streamed back."""

import os

from portico.aws.application import Serverless
from portico.settings import settings_from

handler = Serverless(settings_from(os.environ))
