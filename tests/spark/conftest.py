"""Tests of Spark are there where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

# An install of the extra `test-local` has no Spark.
collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]
