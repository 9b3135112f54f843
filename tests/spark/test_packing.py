"""Rows of a stream, packed by key before they go to the keys' states."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from mtlmon import MtlmonError
from mtlmon.spark.common.events import event_source
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.streaming.event_clock import EventClock
from mtlmon.spark.streaming.event_records import EventRecords, order_integers, order_type_trouble
from mtlmon.spark.streaming.packing import PackRows


def packer(keys: tuple[str, ...], orders: int) -> tuple[PackRows, EventRecords]:
    policies = compile_policies("request IMPLIES EVENTUALLY[0,5] response", "local")
    source = event_source(policies, time="ts", keys=keys, event="what")
    records = EventRecords(policies.atoms, orders)
    return PackRows(source, records, EventClock.of_unit("s")), records


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """With columns in the order of the source, called otherwise."""
    columns = pa.Table.from_pylist(rows)
    return columns.rename_columns([f"column{i}" for i in range(columns.num_columns)])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_by_key_in_the_order_of_rows(size: int) -> None:
    rows = [
        {"ts": 100 - i % 9, "key": f"k{i % 5}", "part": i % 2, "what": ["x", "request"][i % 3 == 0]}
        for i in range(60)
    ]
    pack, records = packer(("key", "part"), 0)
    found: dict[tuple[Any, ...], list[list[int]]] = defaultdict(list)
    places = []
    for batch in pack(iter(table(rows).to_batches(size))):
        keys = list(zip(*(batch.column(i).to_pylist() for i in range(2)), strict=True))
        assert len(set(keys)) == len(keys)
        places += batch.column(3).to_pylist()
        latest = batch.column(5).to_pylist()
        for key, block, time in zip(keys, batch.column(4).to_pylist(), latest, strict=True):
            events = records.read([block])
            found[key] += events.tolist()
            assert time == datetime.fromtimestamp(int(events[:, 0].max()), UTC)
    assert places == list(range(len(places)))
    expected = defaultdict(list)
    for row in rows:
        expected[row["key"], row["part"]].append([row["ts"], int(row["what"] == "request")])
    assert found == expected


def test_without_key_and_with_an_order() -> None:
    rows: list[dict[str, Any]] = [
        {"ts": 2, "what": "request", "order": date(2024, 1, 2)},
        {"ts": 1, "what": "request|response", "order": None},
    ]
    pack, records = packer((), 1)
    (batch,) = pack(iter(table(rows).to_batches()))
    assert batch.num_rows == 1
    (block,) = batch.column(3).to_pylist()
    assert records.read([block]).tolist() == [[2, 1, 19724], [1, 3, -(2**63)]]


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
    pack, _ = packer(("key",), 0)
    rows: list[dict[str, Any]] = [
        {"ts": 1, "key": "a", "what": "x"},
        {"ts": 1, "key": None, "what": "x"},
    ]
    with pytest.raises(
        MtlmonError, match=r"'key' is empty in this row.*; the row is ts=1, key=None"
    ):
        list(pack(iter(table(rows).to_batches())))
