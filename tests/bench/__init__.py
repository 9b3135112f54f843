"""Tests of the benchmarks' own code; nothing is timed here.

The package `bench` stands in the checkout root, which stays off `sys.path`: it is made importable
by itself.
"""

import importlib.util
import sys
from pathlib import Path

_BENCH = Path(__file__).resolve().parent.parent.parent / "bench"

if "bench" not in sys.modules:
    _spec = importlib.util.spec_from_file_location(
        "bench", _BENCH / "__init__.py", submodule_search_locations=[str(_BENCH)]
    )
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["bench"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["bench"])
