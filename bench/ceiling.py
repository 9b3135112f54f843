"""The least a monitor has to do: scan a log, write a constant verdict for each line.

    python -m bench.ceiling LOG

It runs the native scanner and writer of mtlmon and no engine between them.
"""

from __future__ import annotations

import os
import sys

from mtlmon import _text


def main() -> None:
    log = os.open(sys.argv[1], os.O_RDONLY)
    _text.ceiling(log, sys.stdout.fileno())


if __name__ == "__main__":
    main()
