"""Run the command `mtlmon` as `python -m mtlmon`."""

import sys

from mtlmon.cli import main

sys.exit(main())
