"""Benchmarks: `python -m bench` measures whole commands, `pytest bench` the parts of the library.

Both measure the installed mtlmon; the checkout root, which Python puts on `sys.path` for
`python -m bench`, holds a source tree of the same name and must not come first.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]
