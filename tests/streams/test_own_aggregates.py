"""Aggregates that a program defines, against folds of whole windows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon import streams
from mtlmon.errors import MtlmonError, PolicyError, RowError
from tests.doors import StreamProgram
from tests.doors import predicates_own_aggregates as own_aggregates
from tests.reference.aggregates import in_window
from tests.streams.programs import SCHEMA, Row, Texts, predicate, rows
from tests.tables.begun import events_of

WINDOWS = [(0, 0), (0, 3), (1, 4), (0, None), (2, None), (0, 7)]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    known = dict(own_aggregates._registered)
    streams.register_aggregate("joined", lambda s: [s], lambda a, b: a + b, "".join, result="text")
    streams.register_aggregate(
        "total", lambda i: (i % 97, 1), _added, lambda a: a[0] * 1000 + a[1], _less, result="int"
    )
    yield
    own_aggregates._registered.clear()
    own_aggregates._registered.update(known)


def _added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _less(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] - other[0], one[1] - other[1]


def expected(log: list[Row], lower: int, upper: int | None) -> list[tuple[Any, Any]]:
    found = []
    for place, (_, trace, _) in enumerate(log):
        own = [(time, cells) for time, other, cells in log[: place + 1] if other == trace]
        times = [time for time, _ in own]
        texts = in_window(times, [cells["s"] for _, cells in own], len(own) - 1, lower, upper)
        numbers = in_window(times, [cells["i"] for _, cells in own], len(own) - 1, lower, upper)
        total = sum(one % 97 for one in numbers if isinstance(one, int)) * 1000 + len(numbers)
        joined = "".join(str(one) for one in texts) if texts else "-"
        found.append((joined, total if numbers else None))
    return found


def program(lower: int, upper: int | None) -> StreamProgram:
    interval = f"[{lower},{'*)' if upper is None else f'{upper}]'}"
    wanted = {"j": f'joined{interval}(s, or: "-")', "t": f"total{interval}(i)"}
    return StreamProgram({name: predicate(text) for name, text in wanted.items()}, {}, SCHEMA)


def evaluated(of: StreamProgram, log: list[Row]) -> list[tuple[Any, Any]]:
    batch = pa.RecordBatch.from_pylist([cells for _, _, cells in log], SCHEMA)
    times = np.array([time for time, _, _ in log], np.int64)
    numbers = np.array([trace for _, trace, _ in log], np.uint32)
    found = of.evaluate(batch, times, numbers)
    return list(zip(found["j"].to_pylist(), found["t"].to_pylist(), strict=True))


@given(
    rows(),
    st.sampled_from(WINDOWS),
    st.lists(st.integers(0, 30), max_size=3),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_windows_are_folds_of_their_values(
    log: list[Row], window: tuple[int, int | None], cuts: list[int], saved: int, undone: int
) -> None:
    own = program(*window)
    found = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved:
            snapshot = own.snapshot()
            own = program(*window)
            own.restore(snapshot)
            assert own.snapshot() == snapshot
        if batch == undone:
            evaluated(own, log[start:])
            own.undo()
        found += evaluated(own, log[start:end])
    assert found == expected(log, *window)


def test_long_windows_drop_their_rows() -> None:
    log: list[Row] = [(time, 0, {"i": time, "s": "ab"[time % 2]}) for time in range(500)]
    for window in [(0, 3), (0, None)]:
        own = program(*window)
        found = [evaluated(own, [row])[0] for row in log]
        assert found == expected(log, *window)
        (kernel, _), _ = own.kernels
        assert kernel.native.held_bytes < 200 * 110
    assert own.settled(2).tolist() == [False, True]


def test_traces_are_settled_when_their_rows_have_left() -> None:
    own = program(0, 3)
    evaluated(own, [(1, 0, {"i": 1, "s": "a"}), (2, 1, {"i": 1, "s": "b"})])
    assert own.settled(2).tolist() == [False, False]
    evaluated(own, [(5, 1, {"i": 1, "s": "c"})])
    assert own.settled(2).tolist() == [True, False]
    own.keep(np.array([2**32 - 1, 0], np.uint32).tobytes())
    assert evaluated(own, [(5, 0, {"i": 1, "s": "d"})]) == [("bcd", 3003)]


TABLE = pa.table({"ts": [1, 2, 3, 15], "k": ["a", "a", "b", "a"], "x": [1, 0, 4, 5]})


def test_they_work_in_policies_and_at_ticks() -> None:
    text = "key k\npolicy p: total[0,5](x) < 1002\npolicy t on every 10: total[0,9](x) = 1002"
    found = mtlmon.check(text, TABLE).to_arrow().to_pylist()
    assert [(row["policy"], row["k"], row["time"], row["verdict"]) for row in found] == [
        *(("p", "a", 1, True), ("p", "a", 2, False), ("p", "b", 3, False)),
        *(("t", "a", 10, True), ("t", "b", 10, False), ("p", "a", 15, False)),
    ]


def test_errors_of_functions_are_errors_of_rows() -> None:
    streams.register_aggregate("inverted", lambda x: 1 / x, lambda a, b: a + b, lambda a: a)
    message = (
        r"row 2: inverted\[0,5\]\(x\): lift of aggregate inverted has failed with "
        "ZeroDivisionError: division by zero"
    )
    text = "key k\npolicy p: inverted[0,5](x) > 0"
    with pytest.raises(MtlmonError, match=message):
        mtlmon.check(text, TABLE).to_arrow()
    check = mtlmon.check(text, TABLE, on_error="skip")
    assert len(check.to_arrow()) == 3
    assert events_of(check).skipped == 1
    streams.register_aggregate("odd", lambda x: x, lambda a, b: a / 0, lambda a: a)
    with pytest.raises(RowError, match="combine of aggregate odd has failed with ZeroDivision"):
        streams.compile("stream s = odd[0,5](x)", TABLE.schema).evaluate(TABLE)
    streams.register_aggregate("wrong", lambda x: x, lambda a, b: a, lambda a: "text")
    with pytest.raises(RowError, match="gives 'text', which is not a number"):
        streams.compile("stream s = wrong[0,5](x)", TABLE.schema).evaluate(TABLE)
    half = "\ud800"
    streams.register_aggregate("cut", lambda x: x, lambda a, b: a, lambda a: half, result="text")
    with pytest.raises(RowError, match=r"gives '.ud800', which is not a text"):
        streams.compile("stream s = cut[0,5](x)", TABLE.schema).evaluate(TABLE)


def test_late_rows_take_their_places() -> None:
    rows = [(1, "a", 3), (5, "a", 90), (2, "b", 7), (4, "a", 50), (3, "b", 60), (9, "a", 1)]
    text = "key k\npolicy p: total[0,4](i) % 5 < 3"

    def verdicts(some: list[tuple[int, str, int]], **options: Any) -> dict[Any, Any]:
        columns = zip(("ts", "k", "i"), map(list, zip(*some, strict=True)), strict=True)
        found = {}
        for one in mtlmon.check(text, pa.table(dict(columns)), **options):
            found[one["k"], one["time"], one["offset"]] = one["verdict"]
        return found

    corrected = verdicts(rows, lateness=9)
    assert corrected == verdicts(sorted(rows, key=lambda row: row[0]))
    assert set(corrected.values()) == {True, False}


def test_states_are_plain_values() -> None:
    streams.register_aggregate("distinct_texts", lambda x: {x}, lambda a, b: a | b, len)
    texts = Texts({}, ["distinct_texts[0,5](i)"])
    own = texts.program()
    batch = pa.RecordBatch.from_pylist([{"i": 1}], SCHEMA)
    own.evaluate(batch, np.array([1], np.int64))
    with pytest.raises(MtlmonError, match="of type set, but states are plain values"):
        own.snapshot()


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("a b", "int", "an aggregate cannot be called 'a b'"),
        ("not", "int", "an aggregate cannot be called 'not'"),
        ("sum", "int", "there is an aggregate sum already"),
        ("sqrt", "int", "there is a function sqrt already"),
        ("mine", "decimal", "the result must be one of int, float, bool, text, not 'decimal'"),
    ],
)
def test_names_and_types_are_checked(name: str, result: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        streams.register_aggregate(name, abs, max, abs, result=result)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream s = joined[0,5](x", "this parenthesis is never closed"),
        ("stream s = joined[0,5]()", "joined takes an argument"),
        ("stream s = total[0,5](s.last(or: 0)) + 1", "it cannot be of a stream that reads itself"),
        ("stream s = totale[0,5](x)", "expected"),
    ],
)
def test_mistakes_have_a_place(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        streams.compile(text, TABLE.schema)
