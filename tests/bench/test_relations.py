"""The measure of relations compares what it times with DuckDB."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="duckdb (mtlmon[bench]) is not installed")

import bench.relations
from bench.catalogue import MEASURES
from bench.commands import BenchmarkError

SETTINGS = replace(MEASURES["relations"].defaults, events=3000, repeats=1)


def test_all_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.relations, "_LOOK_UPS", (20,))
    result = bench.relations.relations(SETTINGS)
    names = [str(row["relation"]).split()[0] for row in result["rows"]]
    assert names == [*["count", "sum", "avg", "max"] * 2, "join", "join", "join", "look-up"]
    assert result["rows"][-1]["records"] == 200
    assert all(float(row["mtlmon M rows/s"]) > 0 for row in result["rows"])
    assert all("DuckDB M rows/s" in row for row in result["rows"])


def test_other_violations_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def above(log: pa.Table, limits: pa.Table) -> int:
        return -1

    monkeypatch.setattr(bench.relations, "_above_limit", above)
    with pytest.raises(BenchmarkError, match="finds other violations"):
        bench.relations._look_up(20, SETTINGS, has_duckdb=True)
