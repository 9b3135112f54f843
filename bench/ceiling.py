"""The least a monitor has to do: scan a log, write a constant verdict for each line.

    python -m bench.ceiling LOG ATOM...

It looks for the atoms given, as a monitor would. It is the native scanner and the native writer of
mtlmon, with no engine between them.
"""

from __future__ import annotations

import os
import sys

from mtlmon._ceiling import Ceiling


def main() -> None:
    log, *atoms = sys.argv[1:]
    Ceiling(atoms).copy(os.open(log, os.O_RDONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
