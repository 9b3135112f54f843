"""Streams from Python say what those of a log say."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon.errors import FormulaError, MtlmonError, PolicyError, RowError, TimeStampError
from mtlmon.policy import parse_policies
from mtlmon.streams import compile
from mtlmon.tables import open_tables
from tests.doors import StreamTable

TEXT = """\
unit s
key k, n
stream fails = count[0,10s](failed)
stream before = x.last(or: 0.0)
stream mean = avg[0,20s](x) every 5s
stream late = hour(ts)
"""
NAMES = ["fails", "before", "mean", "late"]


def make_rows(seed: int, count: int) -> pa.Table:
    source = random.Random(seed)
    time = 0
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        time += source.choice([0, 0, 1, 3, 8])
        rows.append(
            {
                "ts": time,
                "k": source.choice("abc"),
                "n": source.randrange(2),
                "x": source.choice([None, 0.5, 1.5, 4.0]),
                "failed": source.choice([None, True, False]),
            }
        )
    return pa.Table.from_pylist(rows)


def from_log(text: str, rows: pa.Table) -> list[dict[str, Any]]:
    file = parse_policies(text, needs_policy=False)
    streams = tuple(file.streams)
    found: list[dict[str, Any]] = []
    options: dict[str, Any] = {"key": file.key or (), "resolution": file.unit}
    with open_tables(rows, (), policies=file, streams=streams, **options) as log:
        table = StreamTable(streams, log.partitions[0], log.keys, log.times)
        for events in log:
            assert events.values is not None
            for batch in table.batches(events.values):
                found += batch.to_pylist()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_batches_say_what_a_log_says(seed: int) -> None:
    rows = make_rows(seed, 200)
    streams = compile(TEXT, rows.schema)
    source = random.Random(seed)
    found: list[dict[str, Any]] = []
    start = 0
    while start < len(rows):
        size = source.choice([0, 1, 7, 60])
        found += streams.evaluate(rows.slice(start, size)).to_pylist()
        start += size
    wanted = from_log(TEXT, rows)
    assert [{**row, "n": str(row["n"])} for row in found] == wanted
    assert streams.names == tuple(NAMES)
    assert streams.held_bytes > 0


def test_keys_of_any_type_and_of_dictionaries() -> None:
    texts = pa.array(["b", "a", "b", "a"])
    rows = {"ts": [0, 1, 2, 3], "n": [1, 1, 1, 2], "d": texts.dictionary_encode(), "k": texts}
    table = pa.table(rows)
    for key in "k", "d":
        streams = compile("stream s = count[0,9]()", table.schema, key=[key, "n"])
        found = streams.evaluate(table)
        assert found.column("s").to_pylist() == [1, 1, 2, 1]
        assert found.column(key).to_pylist() == ["b", "a", "b", "a"]
        again = streams.evaluate(pa.table({**rows, "ts": [4, 5, 6, 7]}, table.schema))
        assert again.column("s").to_pylist() == [3, 2, 4, 2]


@pytest.mark.parametrize(("unit", "expected"), [("s", [1, 2, 2]), ("ms", [1, 1, 1])])
def test_times_of_arrow(unit: str, expected: list[int]) -> None:
    start = datetime(2024, 5, 1, tzinfo=UTC)
    times = [start + timedelta(milliseconds=step) for step in (0, 1500, 3900)]
    table = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    streams = compile("stream s = count[0,2]()", table.schema, time="at", unit=unit)
    found = streams.evaluate(table)
    assert found.column("s").to_pylist() == expected
    scale = {"s": 1, "ms": 1000}[unit]
    seconds = [start.timestamp() + step for step in ((0, 1, 3) if unit == "s" else (0, 1.5, 3.9))]
    assert found.column("time").to_pylist() == [int(second * scale) for second in seconds]


def test_an_error_leaves_the_state_as_it_was() -> None:
    table = pa.table({"ts": [0, 1], "x": [2**62, 5]})
    streams = compile("stream s = sum[0,9](x)", table.schema)
    streams.evaluate(table.slice(0, 1))
    with pytest.raises(RowError, match="overflows"):
        streams.evaluate(pa.table({"ts": [1], "x": [2**62]}))
    assert streams.evaluate(table.slice(1)).column("s").to_pylist() == [2**62 + 5]


def test_what_is_refused() -> None:
    table = pa.table({"ts": [5, 9], "x": [1, 2], "k": ["a", None]})
    with pytest.raises(MtlmonError, match="declares no streams"):
        compile("policy p: x > 5", table.schema)
    with pytest.raises(FormulaError, match="there is no column y"):
        compile("stream s = y.last()", table.schema)
    with pytest.raises(MtlmonError, match=r"no column 'tz'\. The columns are 'ts'"):
        compile("stream s = x.last()", table.schema, time="tz")
    with pytest.raises(MtlmonError, match="no column 'failed'"):
        compile("stream s = count[0,9](failed)", table.schema)
    with pytest.raises(MtlmonError, match="used as an atom"):
        compile("stream s = count[0,9](x)", table.schema).evaluate(table)
    streams = compile("stream s = x.last()", table.schema)
    streams.evaluate(table)
    with pytest.raises(TimeStampError, match="row 0: time-stamp 5 comes after 9"):
        streams.evaluate(table)
    with pytest.raises(TimeStampError, match="is null"):
        streams.evaluate(pa.table({"ts": [None], "x": [1], "k": ["a"]}, table.schema))
    with pytest.raises(MtlmonError, match="column 'x' is of type double"):
        streams.evaluate(pa.table({"ts": [9], "x": [1.5], "k": ["a"]}))
    with pytest.raises(MtlmonError, match="column 'k' is missing"):
        streams.evaluate(pa.table({"ts": [9], "x": [1]}))
    with pytest.raises(MtlmonError, match="'k' is null"):
        compile("stream s = x.last()", table.schema, key="k").evaluate(table)
    texts = pa.table({"ts": ["a"], "x": [1]})
    with pytest.raises(MtlmonError, match="times are integers or timestamps"):
        compile("stream s = x.last()", texts.schema).evaluate(texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stream x = x.last(or: 0.5) * 0.5 + (x + x).last(or: 0.25)", [0.5, 1.25, 3.125]),
        ("stream x = x.last(or: 0.5) * 0.5 + sum[1,4](x + x, or: 0.25)", [0.5, 1.25, 4.125]),
    ],
)
def test_types_of_streams_that_read_themselves_are_found_step_by_step(
    text: str, expected: list[float]
) -> None:
    table = pa.table({"ts": [1, 2, 5]})
    assert compile(text, table.schema).evaluate(table).column("x").to_pylist() == expected


# What stands for a name has a place in its own declaration, or none, as atoms of the log and lets
# have; the error is at the name, which is what the text around it can mend.
MISFITS = {
    "an atom of the log, first": (
        "stream x = coalesce(b, row.t) or row.b",
        (1, 21),
        "coalesce chooses between b (true or false) and column t of type string",
    ),
    "an atom of the log, second": (
        "stream x = coalesce(row.t, b) or row.b",
        (1, 21),
        "coalesce chooses between column t of type string and b (true or false)",
    ),
    "a let": (
        "let l = ONCE b\nstream x = if row.b then l else row.t",
        (2, 26),
        "'if' chooses between l (true or false) and column t of type string",
    ),
    "a stream that is a column": (
        "stream y = row.b\nstream x = if row.b then y else row.t",
        (2, 26),
        "'if' chooses between y (true or false) and column t of type string",
    ),
    "an atom of the file": (
        "atom a = row.b\nstream x = if row.b then a else row.t",
        (2, 26),
        "'if' chooses between a (true or false) and column t of type string",
    ),
}


@pytest.mark.parametrize("name", list(MISFITS))
def test_a_name_whose_type_does_not_fit(name: str) -> None:
    text, place, message = MISFITS[name]
    schema = pa.schema({"ts": pa.int64(), "b": pa.bool_(), "t": pa.string()})
    with pytest.raises(PolicyError) as raised:
        compile(text, schema)
    assert (raised.value.line, raised.value.column) == place
    assert raised.value.message == f"stream x: {message}"
