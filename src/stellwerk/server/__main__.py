"""`python -m stellwerk.server`: the server, in the foreground."""

import sys

from stellwerk.server.process import main

sys.exit(main())
