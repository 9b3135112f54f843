"""`python -m mtlmon` is the command `mtlmon`."""

import sys

from mtlmon.cli import main

sys.exit(main())
