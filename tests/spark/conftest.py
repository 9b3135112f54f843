"""Tests of Spark are there where it is installed, and has what they are about."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def ignored() -> list[str]:
    try:
        numbers = version("pyspark").split(".")
    except PackageNotFoundError:
        # an install of the extra `test-local`
        return ["test_*.py"]
    if (int(numbers[0]), int(numbers[1])) < (4, 1):
        own = [
            "test_bucket_state.py",
            "test_relation_streams.py",
            "test_slice_state.py",
            "test_sql.py",
        ]
        return [*own, "test_stream*.py"]
    return []


collect_ignore_glob = ignored()
