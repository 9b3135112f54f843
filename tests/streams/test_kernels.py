"""The native kernels against the reference, with batches, traces, snapshots and undone batches."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import SnapshotError
from tests.doors import streams_native as native
from tests.reference import aggregates as reference
from tests.reference.aggregates import Value

QUANTILES = ("median", "quantile", "mad")
AGGREGATES = (
    *("count", "sum", "avg", "first", "last", "min", "max"),
    *("var", "stddev", "distinct", *QUANTILES, "integral", "lines"),
    *("increase", "rate", "changes", "resets"),
)
AREAS = {"integral": reference.integral, "lines": reference.line_integral}
SHARE = 0.3

NUMBERS = {
    "int": st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
    "float": st.one_of(
        st.sampled_from([0.0, -0.0, 0.1, -0.1, 1.5, 1e300, -1e300, 5e-324, 2.0**70, 3.0]),
        st.floats(width=64),
    ),
}


def kernel_of(name: str, is_float: bool, lower: int, upper: int | None) -> native.Kernel:
    bound = -1 if upper is None else upper
    if name == "count":
        return native.CountWindow(lower, bound)
    if name in {*AREAS, "increase", "rate", "changes", "resets"}:
        return native.StepWindow(name, is_float, lower, bound, SHARE)  # type: ignore[arg-type]
    if name == "distinct":
        return native.DistinctWindow(is_float, lower, bound)
    if name in QUANTILES:
        share = SHARE if name == "quantile" else 0.5
        return native.QuantileWindow(share, lower, bound, name == "mad")
    if name in {"sum", "avg", "var", "stddev"}:
        return native.SumWindow(name, is_float, lower, bound)  # type: ignore[arg-type]
    if upper is None:
        return native.Fold(name, is_float, lower)  # type: ignore[arg-type]
    return native.QueueWindow(name, is_float, lower, upper)  # type: ignore[arg-type]


class Feeder:
    """Feeds rows to a kernel, and reads the results."""

    def __init__(self, kernel: native.Kernel, is_float: bool, gives_float: bool) -> None:
        self.kernel = kernel
        self.is_float = is_float
        self.gives_float = gives_float
        self.clock = 0

    def feed(self, rows: list[tuple[int, int, Value]]) -> list[Value]:
        """The results up to the first row that overflows."""
        count = len(rows)
        time_stamps = np.array([row[0] for row in rows], np.int64)
        numbers = np.array([row[1] for row in rows], np.uint32)
        kind = np.float64 if self.is_float else np.int64
        values = np.array([row[2] if row[2] is not None else 7 for row in rows], kind)
        mask = np.array([row[2] is not None for row in rows], np.uint8)
        results, validity = np.zeros(count, np.int64), np.zeros(count, np.uint8)
        batch = native.Batch(time_stamps, numbers, count, self.clock)
        done = self.kernel.feed(batch, values.view(np.int64), mask, results, validity)
        if count:
            self.clock = int(time_stamps[-1])
        found = results.view(np.float64) if self.gives_float else results
        return [
            value if is_valid else None
            for value, is_valid in zip(found[:done].tolist(), validity[:done], strict=True)
        ]


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same; floats bit by bit, other than NaN."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return struct.pack("d", one) == struct.pack("d", other)
    return type(one) is type(other) and one == other


def expected(
    name: str, rows: list[tuple[int, int, Value]], lower: int, upper: int | None
) -> list[Value]:
    """The results up to the first row that overflows."""
    found: list[Value] = []
    for row, (_, trace, _) in enumerate(rows):
        own = [one for one in rows[: row + 1] if one[1] == trace]
        values = [one[2] if name != "count" or one[2] is None else True for one in own]
        times = [one[0] for one in own]
        if name in AREAS:
            found.append(AREAS[name](times, values, len(own) - 1, lower, upper))
            continue
        window = reference.in_window(times, values, len(own) - 1, lower, upper)
        try:
            found.append(reference.fold(name, window, SHARE))
        except reference.Overflow:
            break
    return found


def gives_floats(name: str, is_float: bool) -> bool:
    if name in {"count", "distinct", "changes", "resets"}:
        return False
    return is_float or name in {"avg", "var", "stddev", "rate", *AREAS}


@st.composite
def cases(draw: st.DrawFn, kind: str | None = None) -> dict[str, Any]:
    kind = kind or draw(st.sampled_from(["int", "float"]))
    lower = draw(st.sampled_from([0, 0, 0, 1, 2, 5]))
    upper = draw(st.sampled_from([None, lower, lower + 1, lower + 3, lower + 10]))
    steps = st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 7]),
        st.integers(0, 2),
        st.one_of(st.none(), NUMBERS[kind]) if draw(st.booleans()) else NUMBERS[kind],
    )
    time, rows = draw(st.integers(0, 3)), []
    for step, trace, value in draw(st.lists(steps, max_size=40)):
        time += step
        rows.append((time, trace, value))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    names = [name for name in AGGREGATES if kind == "float" or name not in QUANTILES]
    return {
        "name": draw(st.sampled_from(names)),
        "is_float": kind == "float",
        "bounds": (lower, upper),
        "rows": rows,
        "batches": list(zip([0, *cuts], [*cuts, len(rows)], strict=True)),
        "actions": draw(st.lists(st.sampled_from(["none", "undo", "snapshot"]), min_size=5)),
    }


def compare(
    case: dict[str, Any],
    make: Callable[[], native.Kernel],
    gives_float: bool,
    wanted: list[Value],
) -> None:
    """Feed the batches of a case, some of them twice, and compare the results."""
    rows = case["rows"]
    feeder = Feeder(make(), case["is_float"], gives_float)
    found: list[Value] = []
    for (start, end), action in zip(case["batches"], case["actions"], strict=False):
        if action == "snapshot":
            snapshot = feeder.kernel.snapshot()
            clock = feeder.clock
            feeder = Feeder(make(), case["is_float"], gives_float)
            feeder.kernel.restore(snapshot)
            feeder.clock = clock
        feeder.kernel.begin()
        if action == "undo":
            clock = feeder.clock
            later = [(time + 100, trace, value) for time, trace, value in rows[start:]]
            feeder.feed(rows[start:] + later)
            feeder.kernel.undo()
            feeder.clock = clock
        results = feeder.feed(rows[start:end])
        found += results
        if len(results) < end - start:
            break
    assert len(found) == len(wanted[: len(found)])
    assert [
        (row, one, other)
        for row, (one, other) in enumerate(zip(found, wanted, strict=False))
        if not same(one, other)
    ] == []
    if len(found) < len(rows) and len(case["batches"]) <= len(case["actions"]):
        assert len(found) == len(wanted)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in AGGREGATES
        for kind in NUMBERS
        if kind == "float" or name not in QUANTILES
    ],
)
@settings(max_examples=100)
@given(st.data())
def test_windows_are_those_of_the_reference(name: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    is_float = kind == "float"
    lower, upper = case["bounds"]
    gives_float = gives_floats(name, is_float)
    wanted = expected(name, case["rows"], lower, upper)
    compare(case, lambda: kernel_of(name, is_float, lower, upper), gives_float, wanted)


@given(cases(), st.integers(1, 4), st.booleans())
def test_last_values_are_those_of_the_reference(
    case: dict[str, Any], distance: int, counts_present: bool
) -> None:
    wanted = []
    for row, (_, trace, _) in enumerate(case["rows"]):
        own = [one[2] for one in case["rows"][: row + 1] if one[1] == trace]
        if counts_present:
            wanted.append(reference.latest(own, len(own) - 1, distance - 1))
        else:
            wanted.append(reference.last(own, len(own) - 1, distance))
    compare(case, lambda: native.Last(distance, counts_present), case["is_float"], wanted)


@given(cases())
def test_settled_traces_can_be_forgotten(case: dict[str, Any]) -> None:
    """A trace that is settled has the results of a new one, and may have another's number."""
    name, is_float = case["name"], case["is_float"]
    lower, upper = case["bounds"]
    gives_float = gives_floats(name, is_float)
    rows = case["rows"]
    wanted = expected(name, rows, lower, upper)
    feeder = Feeder(kernel_of(name, is_float, lower, upper), is_float, gives_float)
    numbers: dict[int, int] = {}
    found: list[Value] = []
    for start, end in case["batches"]:
        batch = []
        for time, trace, value in rows[start:end]:
            batch.append((time, numbers.setdefault(trace, len(numbers)), value))
        feeder.kernel.begin()
        found += feeder.feed(batch)
        if len(found) < end:
            break
        flags = np.ones(len(numbers), np.uint8)
        feeder.kernel.settled(flags)
        kept = [trace for trace, number in numbers.items() if not flags[number]]
        new = np.full(len(numbers), 2**32 - 1, np.uint32)
        for place, trace in enumerate(kept):
            new[numbers[trace]] = place
        numbers = {trace: place for place, trace in enumerate(kept)}
        feeder.kernel.keep(new.tobytes())
    assert all(map(same, found, wanted))


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("bounds", [(0, None), (1, None), (0, 20), (1, 20)])
def test_a_trace_without_rows_takes_no_state_over(
    name: str, bounds: tuple[int, int | None]
) -> None:
    """Rationale: a state that stays where it was, too, becomes that of the next trace there."""
    gives_float = gives_floats(name, True)
    feeder = Feeder(kernel_of(name, True, *bounds), True, gives_float)
    feeder.kernel.begin()
    feeder.feed([(1, 0, 5.0), (1, 1, 3.0), (2, 1, 4.0)])
    # the third trace has had rows, which this kernel does not get
    feeder.kernel.keep(np.array([2**32 - 1, 0, 1], np.uint32).tobytes())
    restored = Feeder(kernel_of(name, True, *bounds), True, gives_float)
    restored.kernel.restore(feeder.kernel.snapshot())
    restored.clock = feeder.clock
    rows: list[tuple[int, int, Value]] = [(4, 1, 7.0), (5, 1, 2.0), (7, 1, 9.0), (9, 0, 6.0)]
    own: list[tuple[int, int, Value]] = [(1, 0, 3.0), (2, 0, 4.0), *rows]
    wanted = expected(name, own, *bounds)[2:]
    assert all(map(same, feeder.feed(rows), wanted))
    assert all(map(same, restored.feed(rows), wanted))


@pytest.mark.parametrize("bounds", [(0, None), (0, 20)])
@pytest.mark.parametrize("name", ["count", "min", "max", "first", "last", "median", "of rows"])
def test_snapshots_get_smaller_where_traces_are_forgotten(
    name: str, bounds: tuple[int, int | None]
) -> None:
    def new() -> Feeder:
        kernel = native.Last(2, False) if name == "of rows" else kernel_of(name, False, *bounds)
        return Feeder(kernel, False, name == "median")

    feeder, alone = new(), new()
    for one, count in ((feeder, 1000), (alone, 1)):
        one.kernel.begin()
        one.feed([(1, trace, 5) for trace in range(count)])
    kept = np.full(1000, 2**32 - 1, np.uint32)
    kept[0] = 0
    feeder.kernel.keep(kept.tobytes())
    assert len(feeder.kernel.snapshot()) <= len(alone.kernel.snapshot()) + 8
    restored = new()
    restored.kernel.restore(feeder.kernel.snapshot())
    restored.clock = feeder.clock
    rows: list[tuple[int, int, Value]] = [(4, 0, 7), (5, 999, 2), (6, 0, 1), (6, 1, 3)]
    feeder.kernel.begin()
    assert all(map(same, restored.feed(rows), feeder.feed(rows)))


def test_a_trace_settles_when_its_rows_have_left_the_window() -> None:
    kernel = native.CountWindow(2, 5)
    feeder = Feeder(kernel, False, False)

    def settled() -> list[int]:
        flags = np.ones(3, np.uint8)
        kernel.settled(flags)
        return flags.tolist()

    feeder.feed([(0, 0, 1), (3, 1, 1)])
    assert settled() == [0, 0, 1]
    feeder.feed([(5, 2, 1)])
    assert settled() == [0, 0, 0]
    feeder.feed([(6, 2, 1)])
    assert settled() == [1, 0, 0]
    feeder.feed([(9, 2, None)])
    assert settled() == [1, 1, 0]


def test_sums_of_floats_are_those_of_fsum() -> None:
    random = np.random.default_rng(1)
    count = 3000
    time_stamps = np.sort(random.integers(0, 1000, count))
    values = random.normal(size=count) * 10.0 ** random.integers(-12, 12, count)
    results, validity = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    kernel = native.SumWindow("sum", True, 0, 50)
    kernel.feed(
        native.Batch(time_stamps, None, count), values.view(np.int64), None, results, validity
    )
    sums = results.view(np.float64)
    for row in range(count):
        first = int(np.searchsorted(time_stamps, time_stamps[row] - 50))
        assert sums[row] == math.fsum(values[first : row + 1])


@pytest.mark.parametrize("name", ["median", "mad", "distinct", "min", "var", "increase", "resets"])
def test_large_windows_are_those_of_the_reference(name: str) -> None:
    """Values in many blocks, and tables that grow and shrink."""
    random = np.random.default_rng(2)
    gaps = [np.zeros(3000, np.int64), np.ones(2000, np.int64), random.integers(0, 3, 3000)]
    time_stamps = np.cumsum(np.concatenate(gaps))
    values = random.choice(random.normal(size=2000), len(time_stamps)).round(3)
    kernel = kernel_of(name, True, 0, 1500)
    found: list[Value] = []
    for start in range(0, len(time_stamps), 1000):
        part = slice(start, start + 1000)
        results, validity = np.zeros(1000, np.int64), np.zeros(1000, np.uint8)
        batch = native.Batch(time_stamps[part], None, 1000, int(time_stamps[max(0, start - 1)]))
        kernel.begin()
        for _ in range(2):
            kernel.undo()
            kernel.feed(batch, values[part].view(np.int64), None, results, validity)
        found += (results if name in {"distinct", "resets"} else results.view(np.float64)).tolist()
    for row in [0, 1, *range(50, len(time_stamps), 97)]:
        first = int(np.searchsorted(time_stamps, time_stamps[row] - 1500))
        window: list[Value] = values[first : row + 1].tolist()
        wanted = reference.fold(name, window)
        assert same(found[row] if wanted is not None else None, wanted), row


def test_memory_does_not_grow_with_the_log() -> None:
    kernel = native.SumWindow("avg", True, 0, 100)
    sizes = []
    for batch in range(200):
        time_stamps = np.arange(batch * 1000, batch * 1000 + 1000)
        values = np.ones(1000)
        results, validity = np.zeros(1000, np.int64), np.zeros(1000, np.uint8)
        kernel.begin()
        kernel.feed(
            native.Batch(time_stamps, None, 1000), values.view(np.int64), None, results, validity
        )
        sizes.append(kernel.held_bytes)
    assert max(sizes[100:]) == max(sizes[:10])


def test_columns_have_no_gaps_between_rows() -> None:
    """A single row has none, wherever it comes from."""
    for count in (0, 1, 2):
        times, values = (np.arange(9, dtype=np.int64)[::4][:count] for _ in range(2))
        results, validity = np.zeros(count, np.int64), np.zeros(count, np.uint8)
        kernel = native.SumWindow("sum", False, 0, 9)
        if count > 1:
            with pytest.raises(ValueError, match="gaps"):
                native.Batch(times, None, count)
            times = times.copy()
            with pytest.raises(ValueError, match="gaps"):
                kernel.feed(native.Batch(times, None, count), values, None, results, validity)
            continue
        batch = native.Batch(times, None, count)
        assert kernel.feed(batch, values, None, results, validity) == count
        assert validity.all()


def test_a_state_without_texts_marks_none() -> None:
    kernel = native.QueueWindow("min", False, 0, 9, True)
    kernel.mark_texts(bytearray())
    flags = bytearray(3)
    kernel.mark_texts(flags)
    assert flags == bytes(3)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="no interval from 3 to 2"):
        native.CountWindow(3, 2)
    with pytest.raises(ValueError, match="no interval"):
        native.SumWindow("sum", True, -1, 2)
    with pytest.raises(ValueError, match="unknown sum"):
        native.SumWindow("total", True, 0, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown aggregate"):
        native.Fold("total", True, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="distance"):
        native.Last(0)
    with pytest.raises(ValueError, match="decrease"):
        native.Batch(np.array([3, 2]), None, 2)
    with pytest.raises(ValueError, match="decrease"):
        native.Batch(np.array([3, 4]), None, 2, 4)
    with pytest.raises(ValueError, match="negative"):
        native.Batch(np.array([-3, 4]), None, 2)
    batch = native.Batch(np.array([3, 4]), None, 2)
    two = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="expected values"):
        native.Last(1).feed(batch, None, None, two, np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="array of 1 items instead of 2"):
        native.Last(1).feed(batch, two[:1], None, two, np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="gaps"):
        native.Last(1).feed(batch, np.zeros(4, np.int64)[::2], None, two, np.zeros(2, np.uint8))


@pytest.mark.parametrize("upper", [None, 5])
@pytest.mark.parametrize("name", AGGREGATES)
def test_a_damaged_snapshot_is_refused(name: str, upper: int | None) -> None:
    feeder = Feeder(kernel_of(name, False, 0, upper), False, False)
    feeder.feed([(1, 0, 5), (2, 1, -7), (3, 0, 2)])
    snapshot = feeder.kernel.snapshot()
    for size in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            kernel_of(name, False, 0, upper).restore(snapshot[:size])
    with pytest.raises(SnapshotError):
        kernel_of(name, False, 0, upper).restore(snapshot + b"\0")


@pytest.mark.parametrize("upper", [None, 5])
@pytest.mark.parametrize("name", AGGREGATES)
def test_a_snapshot_replaces_what_a_kernel_has(name: str, upper: int | None) -> None:
    def fed(*rows: tuple[int, int, Value]) -> Feeder:
        feeder = Feeder(kernel_of(name, False, 0, upper), False, False)
        feeder.feed(list(rows))
        return feeder

    first: list[tuple[int, int, Value]] = [(1, 0, 5), (2, 1, -7), (3, 0, 2)]
    used = fed((7, 0, 3), (8, 1, 3), (8, 1, 9))
    used.kernel.restore(fed(*first).kernel.snapshot())
    used.clock = 3
    rest: list[tuple[int, int, Value]] = [(3, 1, 4), (4, 0, 6), (9, 1, 1)]
    expected = fed(*first).feed(rest)
    assert used.feed(rest) == expected
    used.kernel.forget_all()
    used.clock = 0
    flags = np.zeros(2, np.uint8) + 1
    used.kernel.settled(flags)
    assert flags.all()
    assert used.feed(first) == Feeder(kernel_of(name, False, 0, upper), False, False).feed(first)
