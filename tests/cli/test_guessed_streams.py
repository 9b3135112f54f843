"""Values of streams that read numbers of text are written alike, whatever block they come in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow.parquet as pq

from tests.cli.process import mtlmon

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
time "ts"
stream total = sum[0,1](v)
stream largest = max[0,1](v)
stream doubled = total + total
stream mean = avg[0,1](v)
stream declared: float = v
stream half = v / 2
stream rows = count[0,1](v > 0)
stream text = v
"""
# how many rows come first, so that the others are in another block
_MANY = 40_000
CELLS = ["3", "5.5", "3", "-2", "0", ""]
BIG = 9_007_199_254_740_993


def log_of(path: Path, cells: list[str], first: int = 0) -> Path:
    """Write a log of some numbers, in the format that its name says."""
    rows = [("ts", "v", "more"), *((str(first + k), one, "x" * 40) for k, one in enumerate(cells))]
    if path.suffix == ".csv":
        path.write_text("".join(",".join(row) + "\n" for row in rows))
    else:
        lines = (f'{{"ts":{ts},"v":{v or "null"},"more":"{more}"}}\n' for ts, v, more in rows[1:])
        path.write_text("".join(lines))
    return path


def lines_of(rules: Path, log: Path, *more: str) -> list[str]:
    done = mtlmon("streams", "--no-summary", *more, str(rules), str(log))
    assert done.status == 0, done.errors
    return done.output.splitlines()


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_lines_do_not_depend_on_blocks(ending: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES)
    before = ["7"] * _MANY
    whole = lines_of(rules, log_of(tmp_path / f"a.{ending}", [*before, *CELLS]))
    # the rows from the last one on that the rows of the second part look at
    last = lines_of(rules, log_of(tmp_path / f"b.{ending}", ["7", *CELLS], _MANY - 1))
    first = lines_of(rules, log_of(tmp_path / f"c.{ending}", ["7"] * 3))
    assert whole[-len(CELLS) :] == last[1:]
    assert whole[:3] == first
    found = [json.loads(line) for line in last]
    # by hand: whole numbers have no point, except where all values are floats
    assert '"total":10,"largest":7,"doubled":20,"mean":5.0,"declared":3.0,"half":1.5' in last[1]
    assert '"total":8.5,"largest":5.5,"doubled":17,"mean":4.25' in last[2]
    assert [one["rows"] for one in found[1:4]] == [2, 2, 2]
    assert '"largest":-0' not in "".join(last)


def test_long_integers_are_exact_in_lines(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text('time "ts"\nstream largest = max[0,1](v)\n')
    lines = lines_of(rules, log_of(tmp_path / "a.csv", [str(BIG), "1"]))
    assert lines == [f'{{"time":0,"largest":{BIG}}}', f'{{"time":1,"largest":{BIG}}}']
    done = mtlmon(
        "streams", "--output-format", "parquet", "-o", str(tmp_path / "o.parquet"), str(rules),
        str(tmp_path / "a.csv"),
    )  # fmt: skip
    assert done.status == 2
    assert "the numbers of largest may have fractions" in done.errors
    assert "stream largest: int" in done.errors
    rules.write_text('time "ts"\nstream largest: int = max[0,1](v)\n')
    table = parquet_of(rules, tmp_path / "a.csv", tmp_path)
    assert table["largest"].to_pylist() == [BIG, BIG]


def parquet_of(rules: Path, log: Path, path: Path) -> Any:
    done = mtlmon(
        "streams", "--output-format", "parquet", "-o", str(path / "o.parquet"), str(rules), str(log)
    )
    assert done.status == 0, done.errors
    return pq.read_table(path / "o.parquet")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_types_of_parquet_do_not_depend_on_blocks(ending: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES)
    found = [
        parquet_of(rules, log_of(tmp_path / f"a.{ending}", cells), tmp_path)
        for cells in (["7", "8"], ["7", "5.5"], [*["7"] * _MANY, "5.5"])
    ]
    assert found[0].schema == found[1].schema == found[2].schema
    types = {field.name: str(field.type) for field in found[0].schema}
    assert types["total"] == types["doubled"] == types["mean"] == "double"
    assert types["rows"] == "int64"
    assert found[2]["total"].to_pylist()[-2:] == [14.0, 12.5]


def test_columns_with_types_keep_them(tmp_path: Path) -> None:
    """Nothing is a guess in Parquet, nor where a file declares a column."""
    import pyarrow as pa

    rules = tmp_path / "rules.mtl"
    rules.write_text('time "ts"\nstream total = sum[0,1](v)\n')
    table = pa.table({"ts": [0, 1], "v": [7, 8]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert parquet_of(rules, tmp_path / "a.parquet", tmp_path).schema.field("total").type == "int64"
    pq.write_table(table.set_column(1, "v", pa.array([7.0, 8.0])), tmp_path / "a.parquet")
    assert lines_of(rules, tmp_path / "a.parquet")[0] == '{"time":0,"total":7.0}'
    log = log_of(tmp_path / "a.csv", ["7", "8"])
    rules.write_text('time "ts"\ncolumn v: int\nstream total = sum[0,1](v)\n')
    assert parquet_of(rules, log, tmp_path).schema.field("total").type == "int64"
    rules.write_text('time "ts"\ncolumn v: float\nstream total = sum[0,1](v)\n')
    assert lines_of(rules, log)[0] == '{"time":0,"total":7.0}'


def test_a_pipe_writes_what_a_file_does(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES)
    log = log_of(tmp_path / "a.csv", [*["7"] * 3, *CELLS])
    done = mtlmon("streams", "--format", "csv", str(rules), "-", log=log.read_bytes())
    assert done.output.splitlines() == lines_of(rules, log)
