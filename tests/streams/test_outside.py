"""Windows over integers against those of DuckDB and Polars, where these are installed.

Rows of a trace have different time-stamps: of equal ones, the others see all, and streams the ones
before a row and the row itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from tests.streams.programs import Texts

COUNT = 5000
WIDTH = 40


@pytest.fixture(scope="module")
def log() -> dict[str, NDArray[np.int64]]:
    random = np.random.default_rng(3)
    return {
        "t": np.cumsum(random.integers(1, 4, COUNT)),
        "k": random.integers(0, 7, COUNT),
        "i": random.integers(-1000, 1000, COUNT),
    }


def evaluated(log: dict[str, NDArray[np.int64]], texts: list[str]) -> list[list[Any]]:
    schema = pa.schema([("i", pa.int64())])
    program = Texts({}, texts).program(schema)
    found: list[list[Any]] = [[] for _ in texts]
    for start in range(0, COUNT, 700):
        part = slice(start, start + 700)
        batch = pa.RecordBatch.from_pydict({"i": log["i"][part]}, schema)
        numbers = log["k"][part].astype(np.uint32)
        results = program.evaluate(batch, log["t"][part], numbers)
        for number, text in enumerate(texts):
            found[number] += results[text].to_pylist()
    return found


def test_windows_are_those_of_duckdb(log: dict[str, NDArray[np.int64]]) -> None:
    duckdb = pytest.importorskip("duckdb")
    aggregates = {
        "count": "count(*)",
        "sum": "sum(i)",
        "min": "min(i)",
        "max": "max(i)",
        "avg": "avg(i)",
        "first": "first(i)",
        "last": "last(i)",
        "distinct": "count(DISTINCT i)",
        "median": "median(i)",
    }
    texts = [
        f"{name}[{lower},{upper}]({'' if name == 'count' else 'i'})"
        for lower, upper in ((0, WIDTH), (10, WIDTH))
        for name in aggregates
    ]
    selected = ", ".join(
        f"{aggregate} OVER (PARTITION BY k ORDER BY t "
        f"RANGE BETWEEN {upper} PRECEDING AND {lower} PRECEDING)"
        for lower, upper in ((0, WIDTH), (10, WIDTH))
        for aggregate in aggregates.values()
    )
    log_table = pa.table(log)
    rows = duckdb.sql(f"SELECT {selected} FROM log_table ORDER BY t").fetchall()
    for text, found, wanted in zip(
        texts, evaluated(log, texts), zip(*rows, strict=True), strict=True
    ):
        assert found == list(wanted), text
    assert len(log_table) == COUNT


def test_windows_are_those_of_polars(log: dict[str, NDArray[np.int64]]) -> None:
    polars = pytest.importorskip("polars")
    column = polars.col("i")
    window = {"by": "t", "window_size": f"{WIDTH}i", "closed": "both"}
    wanted = polars.DataFrame(log).select(
        sum=column.rolling_sum_by(**window).over("k"),
        min=column.rolling_min_by(**window).over("k"),
        max=column.rolling_max_by(**window).over("k"),
        median=column.rolling_median_by(**window).over("k"),
    )
    texts = [f"{name}[0,{WIDTH}](i)" for name in wanted.columns]
    for text, found, name in zip(texts, evaluated(log, texts), wanted.columns, strict=True):
        assert found == wanted[name].to_list(), text
