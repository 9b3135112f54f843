"""Windows and streams over rows that are sorted first: as if the log had been sorted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mtlmon import check as check_log
from mtlmon.errors import TableError
from tests.cli.process import mtlmon
from tests.doors import RowStore
from tests.tables.begun import events_of

POLICIES = """\
unit s
key k
stream n = count[0,20s]() every 10s
policy busy: count[0,9s](x > 2) < 3
policy text: last[0,30s](s) != "b" OR PREVIOUS x > 4
policy tick on every 10s: n > 1
policy later: coalesce(x, 0).next() < 8
policy plain: x > 1
trigger high: sum[0,9s](x) > 9 message "{sum[0,9s](x)} of {k}"
"""


def shuffled(count: int) -> list[dict[str, Any]]:
    source = random.Random(count)
    return [
        {
            "ts": source.randrange(count // 3),
            "k": source.choice("abc"),
            "x": source.choice([None, 1, 2, 3, 5, 9]),
            "s": source.choice(["a", "b", None]),
        }
        for _ in range(count)
    ]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["ts"])


def batches(rows: list[dict[str, Any]], size: int) -> pa.RecordBatchReader:
    table = pa.Table.from_pylist(rows)
    place = table.schema.get_field_index("k")
    table = table.set_column(place, "k", table.column("k").dictionary_encode())
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("memory", [1, 1 << 12, 1 << 28])
def test_checks_are_those_of_the_sorted_log(size: int, memory: int) -> None:
    rows = shuffled(300)
    wanted = check_log(POLICIES, batches(in_order(rows), 100), end_time="inf").to_arrow()
    check = check_log(POLICIES, batches(rows, size), end_time="inf", sort=True, sort_memory=memory)
    assert check.to_arrow().to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_command_sorts(suffix: str, tmp_path: Path) -> None:
    rows = shuffled(500)
    policies, streams = tmp_path / "p.mtl", tmp_path / "s.mtl"
    policies.write_text(POLICIES)
    streams.write_text("key k\nstream t = sum[0,9](x)\nstream e = count[0,9]() every 10\n")
    logs = []
    for name, some in ("log", rows), ("sorted", in_order(rows)):
        logs.append(str(tmp_path / f"{name}.{suffix}"))
        if suffix == "csv":
            cells = [["" if one is None else str(one) for one in row.values()] for row in some]
            lines = [",".join(row) for row in cells]
            text = "\n".join(["ts,k,x,s", *lines])
        else:
            text = "\n".join(json.dumps(row) for row in some)
        Path(logs[-1]).write_text(f"{text}\n")
    arguments = ["--output-format", "jsonl", "--end-time", "last", str(policies)]
    wanted = mtlmon(*arguments, logs[1])
    assert wanted.status == 1, wanted.errors
    assert "message" in wanted.output
    assert mtlmon("--sort", *arguments, logs[0]).output == wanted.output
    explained = mtlmon("--sort", "--explain", *arguments, logs[0])
    assert " of a" in explained.errors
    values = mtlmon("streams", str(streams), logs[1])
    assert values.output.count("\n") > 500
    assert mtlmon("streams", "--sort", str(streams), logs[0]).output == values.output


def test_errors_name_the_place_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"ts,x\n5,1\n3,{2**62}\n4,{2**62}\n1,7\n")
    text = "policy p: sum[0,1](x) < 3"
    message = r"log.csv:4: sum\[0,1\]\(x\) overflows 64 bits"
    with pytest.raises(TableError, match=message):
        check_log(text, str(log), sort=True).to_arrow()
    check = check_log(text, str(log), sort=True, on_error="skip")
    found = [(row["time"], row["verdict"]) for row in check.to_arrow().to_pylist()]
    assert found == [(1, False), (3, False), (5, True)]
    assert events_of(check).skipped == 1


def test_types_that_change_are_joined() -> None:
    store = RowStore(1)
    for values in ([1, 2], [1.5]):
        store.add(pa.RecordBatch.from_pydict({"x": values}))
    assert store.take(pa.array([2, 0]).to_numpy()).column("x").to_pylist() == [1.5, 1.0]
    store.close()
