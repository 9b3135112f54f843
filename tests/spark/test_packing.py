"""Rows of a stream, packed by bucket before they go to the states of buckets."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
import pytest

from mtlmon import MtlmonError
from tests.doors import (
    NO_SETTINGS,
    BucketRecords,
    EventClock,
    EventRecords,
    PackRows,
    compile_policies,
    event_source,
    key_types,
    order_integers,
    order_type_trouble,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def packer(
    keys: tuple[str, ...],
    orders: int,
    types: Sequence[tuple[str, pa.DataType]] = (),
    count: int = 3,
) -> tuple[PackRows, BucketRecords]:
    policies = compile_policies("request IMPLIES EVENTUALLY[0,5] response", "local")
    source = event_source(policies, time="ts", keys=keys, event="what")
    records = BucketRecords(
        EventRecords(policies.atoms, orders), key_types(keys, pa.schema(list(types))), NO_SETTINGS
    )
    return PackRows(source, records, EventClock.of_unit("s"), count), records


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """With columns in the order of the source, called otherwise."""
    columns = pa.Table.from_pylist(rows)
    return columns.rename_columns([f"column{i}" for i in range(columns.num_columns)])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_by_bucket_in_the_order_of_rows(size: int) -> None:
    rows = [
        {"ts": 100 - i % 9, "key": f"k{i % 5}", "part": i % 2, "what": ["x", "request"][i % 3 == 0]}
        for i in range(60)
    ]
    types = [("key", pa.string()), ("part", pa.int64())]
    pack, records = packer(("key", "part"), 0, types)
    found: dict[tuple[Any, ...], list[list[int]]] = defaultdict(list)
    bucket_of: dict[tuple[Any, ...], int] = {}
    places = []
    for number, batch in enumerate(pack(iter(table(rows).to_batches(size)))):
        buckets = batch.column(0).to_pylist()
        assert len(set(buckets)) == len(buckets)
        # the first batch of a task says what the query was made with
        assert number or 0 in buckets
        places += batch.column(2).to_pylist()
        latest = batch.column(4).to_pylist()
        for bucket, block, time in zip(buckets, batch.column(3).to_pylist(), latest, strict=True):
            keys, events = records.read_blocks([block])
            for key, event in zip(zip(*keys, strict=True), events.rows.tolist(), strict=True):
                values = tuple(one.as_py() for one in key)
                found[values].append(event)
                assert bucket_of.setdefault(values, bucket) == bucket
            if len(events.rows):
                assert time == datetime.fromtimestamp(int(events.rows[:, 0].max()), UTC)
    assert places == list(range(len(places)))
    assert set(bucket_of.values()) == {0, 1, 2}
    expected = defaultdict(list)
    for row in rows:
        expected[row["key"], row["part"]].append([row["ts"], int(row["what"] == "request")])
    assert found == expected


def test_buckets_are_the_same_in_all_versions() -> None:
    """A query that is restarted looks for the state of a key in the bucket that it was in."""
    rows = [{"ts": 1, "key": f"user {number}", "what": "x"} for number in range(6)]
    pack, records = packer(("key",), 0, [("key", pa.string())], 100)
    (batch,) = pack(iter(table(rows).to_batches()))
    found = {}
    for bucket, block in zip(batch.column(0).to_pylist(), batch.column(3).to_pylist(), strict=True):
        for key in records.read_blocks([block])[0][0].to_pylist():
            found[key] = bucket
    expected = [crc32(f"user {number}".encode()) % 100 for number in range(6)]
    assert [found[f"user {number}"] for number in range(6)] == expected


def test_equal_numbers_are_one_key() -> None:
    """Spark groups by -0.0 and 0.0 as by one value, and so by all that are not numbers."""
    rows = [{"ts": 1, "key": key, "what": "x"} for key in (0.0, -0.0, math.nan, -math.nan)]
    pack, records = packer(("key",), 0, [("key", pa.float64())], 1)
    (batch,) = pack(iter(table(rows).to_batches()))
    keys, _ = records.read_blocks(batch.column(3).to_pylist())
    assert [str(key) for key in keys[0].to_pylist()] == ["0.0", "0.0", "nan", "nan"]


def test_without_key_and_with_an_order() -> None:
    rows: list[dict[str, Any]] = [
        {"ts": 2, "what": "request", "order": date(2024, 1, 2)},
        {"ts": 1, "what": "request|response", "order": None},
    ]
    pack, records = packer((), 1)
    (batch,) = pack(iter(table(rows).to_batches()))
    (_, found) = records.read_blocks(batch.column(3).to_pylist())
    assert found.rows.tolist() == [[2, 1, 19724], [1, 3, -(2**63)]]


@pytest.mark.parametrize(
    "values",
    [
        [None, -(2**63) + 1, -1, 0, 5, 2**63 - 1],
        [None, False, True],
        [None, date(1960, 1, 1), date(2024, 5, 1)],
        [None, datetime(1960, 1, 1), datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 13)],
        [None, datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)],
    ],
)
def test_what_tells_the_order(values: list[Any]) -> None:
    column = pa.array(values)
    assert order_type_trouble(column.type) is None
    integers = order_integers(column).tolist()
    assert integers == sorted(set(integers))


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.list_(pa.int8()), pa.uint64()])
def test_what_does_not_tell_the_order(kind: pa.DataType) -> None:
    assert f"of type {kind}" in str(order_type_trouble(kind))


def test_rows_that_are_no_events() -> None:
    pack, _ = packer(("key",), 0, [("key", pa.string())])
    rows: list[dict[str, Any]] = [
        {"ts": 1, "key": "a", "what": "x"},
        {"ts": 1, "key": None, "what": "x"},
    ]
    with pytest.raises(
        MtlmonError, match=r"'key' is empty in this row.*; the row is ts=1, key=None"
    ):
        list(pack(iter(table(rows).to_batches())))
