"""The tests, a package so that they share helpers: `from tests.reference import ...`.

pytest runs in import mode `importlib`: it makes this package importable without touching
`sys.path`, so `import mtlmon` means the installed package. In the checkout root stands a source
tree of the same name without its native modules; it must not come first. `python -m pytest` puts
the working directory on `sys.path`, as `python -m mtlmon` does in a child process. Both are
undone here, before the first test module or conftest.py is imported.
"""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent

sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != _ROOT]
os.environ["PYTHONSAFEPATH"] = "1"
