import sys

from portico.cli.commands import main

sys.exit(main())
