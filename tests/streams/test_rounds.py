"""States by trace, replayed in rounds: kernels give what they give for the rows in order."""

from __future__ import annotations

import math
import random
import struct
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from mtlmon.errors import SnapshotError
from tests.doors import streams_native as native
from tests.sampling import thinned

CHOICES = ("min", "max", "first", "latest")
STEPS = ("integral", "lines", "increase", "rate", "changes", "resets")
BOUNDED = ("count", "sum", "avg", "stddev", "distinct", "quantile", "mad", *STEPS, *CHOICES)
UNBOUNDED = ("count", "sum", "var", "last", "held", *STEPS, *CHOICES)
FLOATS = (0.0, -0.0, 0.1, -2.5, 1e300, -1e300, 5e-324, float("inf"), float("nan"))


class Aggregate(NamedTuple):
    kind: str
    is_float: bool
    lower: int
    upper: int

    def kernel(self) -> native.Kernel:
        kind, is_float, lower, upper = self
        if kind == "count":
            return native.CountWindow(lower, upper)
        if kind in {"sum", "avg", "var", "stddev"}:
            return native.SumWindow(kind, is_float, lower, upper)  # type: ignore[arg-type]
        if kind == "distinct":
            return native.DistinctWindow(is_float, lower, upper)
        if kind in {"quantile", "mad"}:
            share = 0.3 if kind == "quantile" else 0.5
            return native.QuantileWindow(share, lower, upper, kind == "mad")
        if kind in STEPS:
            return native.StepWindow(kind, is_float, lower, upper, 7)  # type: ignore[arg-type]
        if kind in {"last", "held"}:
            return native.Last(lower + 1, kind == "held")
        choice = "last" if kind == "latest" else kind
        if upper < 0:
            return native.Fold(choice, is_float, lower)  # type: ignore[arg-type]
        return native.QueueWindow(choice, is_float, lower, upper)  # type: ignore[arg-type]


def aggregates(source: random.Random, is_float: bool) -> list[Aggregate]:
    """Some kernels that take the same values."""
    found = []
    for _ in range(source.randint(1, 4)):
        lower = source.choice([0, 0, 0, source.randint(1, 20)])
        kind = source.choice(BOUNDED if (is_bounded := source.random() < 0.6) else UNBOUNDED)
        if kind in {"quantile", "mad"} and not is_float:
            kind = "count"
        if kind in {"last", "held"}:
            lower = source.choice([0, 0, 3])
        upper = lower + source.randint(0, 60) if is_bounded else -1
        found.append(Aggregate(kind, is_float, lower, upper))
    return found


def cell(source: random.Random, is_float: bool) -> int:
    if not is_float:
        return source.randint(-4, 9)
    value = source.choice([source.choice(FLOATS), source.random() * 10 ** source.randint(-9, 9)])
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def values_of(results: NDArray[np.int64], validity: NDArray[np.uint8]) -> list[object]:
    """The results as they are compared: any NaN is the same."""
    found: list[object] = []
    for bits, is_valid in zip(results.tolist(), validity.tolist(), strict=True):
        number = struct.unpack("<d", struct.pack("<q", bits))[0]
        found.append(None if not is_valid else "NaN" if math.isnan(number) else bits)
    return found


class Row(NamedTuple):
    time_stamp: int
    number: int
    trace: int
    cell: int
    is_set: int


class Rounds:
    """Rows in rounds, with the results of some kernels at each row."""

    def __init__(self, wanted: list[Aggregate], spacing: int) -> None:
        self.wanted = wanted
        self.spacing = spacing
        self.rows: list[Row] = []
        self.results: dict[int, list[object]] = {}
        self.begin()

    def begin(self) -> None:
        self.kernels = [one.kernel() for one in self.wanted]
        for kernel in self.kernels:
            kernel.by_trace()
        self.history = native.RoundHistory(self.kernels, self.compute, self.spacing)

    def compute(
        self, slots: bytes, where: bytes, moments: bytes | None, saved: bytearray | None
    ) -> None:
        rows = [self.rows[place] for place in np.frombuffer(where, np.int64).tolist()]
        count = len(rows)
        times = np.array([row.time_stamp for row in rows], np.int64)
        batch = native.Batch(times, np.frombuffer(slots, np.uint32), count, 0, True)
        if moments is not None and saved is not None:
            places = np.frombuffer(saved, np.uint64)
            batch.mark(np.frombuffer(moments, np.int64), places, len(self.kernels))
        found = []
        for kernel in self.kernels:
            results, validity = np.empty(count, np.int64), np.empty(count, np.uint8)
            cells = np.array([row.cell for row in rows], np.int64)
            mask = np.array([row.is_set for row in rows], np.uint8)
            kernel.begin()
            assert kernel.feed(batch, cells, mask, results, validity) == count
            found.append(values_of(results, validity))
        for place, row in enumerate(rows):
            self.results[row.number] = [column[place] for column in found]

    def push(self, new: list[Row], removed: list[Row]) -> None:
        first = len(self.rows)
        self.rows += new
        both = [*new, *removed]
        signs = [1] * len(new) + [-1] * len(removed)
        self.history.push(
            np.array([row.trace for row in both], np.uint32),
            np.array([row.time_stamp for row in both], np.int64),
            np.array([row.number for row in both], np.uint64),
            np.arange(first, first + len(both)),
            np.array(signs, np.int8),
        )

    def tidy(self) -> None:
        """Let all places change."""
        places = np.frombuffer(self.history.take_places(), np.int64)
        self.rows = [self.rows[place] for place in places.tolist()]

    def restart(self) -> None:
        """Go on from snapshots, with other kernels."""
        snapshots = self.history.at_starts(lambda: [one.snapshot() for one in self.kernels])
        self.tidy()
        rows, self.rows = self.rows, []
        self.begin()
        for kernel, snapshot in zip(self.kernels, snapshots, strict=True):
            kernel.restore(snapshot)
        self.push(rows, [])


def in_order(wanted: list[Aggregate], rows: list[Row]) -> list[list[object]]:
    """The results at the rows of one trace, which are in the order of time."""
    found = []
    count = len(rows)
    for one in wanted:
        kernel = one.kernel()
        results, validity = np.empty(count, np.int64), np.empty(count, np.uint8)
        batch = native.Batch(np.array([row.time_stamp for row in rows], np.int64), None, count)
        cells = np.array([row.cell for row in rows], np.int64)
        mask = np.array([row.is_set for row in rows], np.uint8)
        kernel.begin()
        assert kernel.feed(batch, cells, mask, results, validity) == count
        found.append(values_of(results, validity))
    return [list(row) for row in zip(*found, strict=True)]


class Log:
    """Rows of some traces, of which some come late, and some go again."""

    def __init__(self, source: random.Random, is_float: bool) -> None:
        self.source = source
        self.is_float = is_float
        self.traces = source.randint(1, 8)
        self.late = source.choice([0.0, 0.01, 0.1, 0.5])
        self.lateness = source.choice([0, 30, 200, 10**6])
        self.now = 0
        self.count = 0
        self.rows: dict[int, list[Row]] = {}

    def batch(self) -> tuple[list[Row], list[Row]]:
        """New rows in the order of time, and those that go."""
        source = self.source
        new: list[Row] = []
        removed: set[Row] = set()
        bound = self.now - self.lateness
        for _ in range(source.randint(0, 30)):
            trace = source.randrange(self.traces)
            known = [row for row in self.rows.get(trace, []) if row.time_stamp >= bound]
            if known and source.random() < 0.1:
                removed.add(source.choice(known))
                continue
            time_stamp = self.now + source.randint(0, 3)
            if source.random() < self.late:
                time_stamp = max(0, bound, self.now - source.choice([5, 50, 300]))
            self.now = max(self.now, time_stamp)
            own = cell(source, self.is_float)
            new.append(Row(time_stamp, self.count, trace, own, source.random() < 0.9))
            self.count += 1
        new.sort(key=lambda row: row.time_stamp)
        for row in new:
            self.rows.setdefault(row.trace, []).append(row)
        for trace, rows in self.rows.items():
            kept = [row for row in rows if row not in removed]
            self.rows[trace] = sorted(kept, key=lambda row: row.time_stamp)
        return new, list(removed)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_results_are_those_of_the_rows_in_order(first: int) -> None:
    """After each batch, whatever came late, went, was forgotten, moved or went on elsewhere."""
    for seed in thinned(range(first, first + 20)):
        source = random.Random(seed)
        is_float = source.random() < 0.5
        log = Log(source, is_float)
        wanted = aggregates(source, is_float)
        rounds = Rounds(wanted, source.choice([1, 2, 4, 16]))
        for _ in range(source.randint(1, 20)):
            bound = log.now - log.lateness
            rounds.push(*log.batch())
            if source.random() < 0.5 and bound > 0:
                rounds.history.forget(bound, 0)
            if source.random() < 0.2:
                rounds.tidy()
            if source.random() < 0.2:
                rounds.restart()
            for rows in log.rows.values():
                expected = in_order(wanted, rows)
                assert [rounds.results[row.number] for row in rows] == expected, (seed, wanted)


def test_a_late_row_sees_what_has_left_the_window_of_the_next_row() -> None:
    """The chunk before which it comes begins with the state at the bound, not at its first row."""
    rounds = Rounds([Aggregate("count", False, 0, 60)], 16)
    rounds.push([Row(100, 0, 0, 1, 1)], [])
    rounds.history.forget(150, 0)
    rounds.push([Row(300, 1, 0, 1, 1)], [])
    rounds.push([Row(155, 2, 0, 1, 1)], [])
    assert rounds.results[2] == [2]


def test_a_trace_is_computed_again_alone() -> None:
    """A late row costs chunks of its own trace, and one call for all that come at once."""
    rounds = Rounds([Aggregate("sum", False, 0, 10)], 4)
    traces = range(50)
    rows = [Row(time, 50 * time + trace, trace, 1, 1) for time in range(40) for trace in traces]
    rounds.push(rows, [])
    before = rounds.history.rounds
    rounds.push([Row(3, 2000 + trace, trace, 1, 1) for trace in range(0, 50, 10)], [])
    assert rounds.history.rounds - before <= 5
    assert rounds.history.replayed <= 5 * 21


def test_states_are_kept_for_what_can_change_only() -> None:
    """With rows in order, a long log needs no more memory than its last part."""
    rounds = Rounds([Aggregate("sum", False, 0, 20), Aggregate("max", False, 0, 20)], 4)
    sizes = []
    for time in range(0, 4000, 10):
        new = [Row(time + k, time + k, k % 3, k, 1) for k in range(10)]
        rounds.push(new, [])
        rounds.history.forget(max(0, time - 30), 3)
        rounds.tidy()
        sizes.append((rounds.history.row_count, rounds.history.state_count))
    assert max(sizes[10:]) <= (3 * (50 // 3 + 8), 3 * 2 * 8)
    assert rounds.history.held_bytes < 50_000


@pytest.mark.parametrize("kind", BOUNDED + UNBOUNDED)
def test_damaged_states_are_refused(kind: str) -> None:
    """Whatever the words of a state are, reading them ends, with an error if they are none."""
    source = random.Random(kind)
    upper = -1 if kind in {"var", "last"} else 30
    rounds = Rounds([Aggregate(kind, True, 0, upper)], 4)
    for k in range(60):
        rounds.push([Row(k, k, k % 3, cell(source, True), 1)], [])
    (kernel,) = rounds.kernels
    snapshot = kernel.snapshot()
    refused = 0
    for _ in range(300):
        damaged = bytearray(snapshot)
        for _ in range(source.randint(1, 3)):
            damaged[source.randrange(len(damaged))] = source.choice([0, 1, 127, 128, 255])
        other = Aggregate(kind, True, 0, upper).kernel()
        other.by_trace()
        try:
            other.restore(bytes(damaged))
            other.snapshot()
        except SnapshotError:
            refused += 1
    assert refused


@pytest.mark.parametrize("kind", ["sum", "avg", "var", "distinct", "max", "first", "last"])
@pytest.mark.parametrize("upper", [-1, 30])
def test_values_of_integers_become_floats(kind: str, upper: int) -> None:
    """A column of integers gets floats: states of integers go on as such of floats."""
    upper = -1 if kind == "last" else 30 if kind == "distinct" else upper
    numbers = [5, -7, 2**60 + 1, 3, -(2**40), 5, 5, 9]

    def fed(one: native.Kernel, values: list[int] | list[float], start: int) -> list[object]:
        count = len(values)
        kind = np.int64 if isinstance(values[0], int) else np.float64
        times = np.arange(start, start + count)
        results, validity = np.empty(count, np.int64), np.empty(count, np.uint8)
        batch = native.Batch(times, np.zeros(count, np.uint32), count, 0, one.is_by_trace)
        one.begin()
        one.feed(batch, np.array(values, kind), None, results, validity)
        return values_of(results, validity)

    before = Aggregate(kind, False, 0, upper).kernel()
    before.by_trace()
    fed(before, numbers, 0)
    after = Aggregate(kind, True, 0, upper).kernel()
    after.by_trace()
    after.restore(before.snapshot(), True)
    whole = Aggregate(kind, True, 0, upper).kernel()
    expected = fed(whole, [float(number) for number in numbers], 0)
    expected = fed(whole, [0.5, 1.5, 5.0], len(numbers))
    found = fed(after, [0.5, 1.5, 5.0], len(numbers))
    # sums of integers have been exact, those of floats are of what the integers became
    if kind in {"sum", "avg", "var"}:
        assert len(found) == len(expected)
    else:
        assert found == expected


def test_kernels_refuse_what_they_cannot_do() -> None:
    kernel = native.DistinctWindow(False, 0, -1)
    assert not kernel.can_be_by_trace
    with pytest.raises(ValueError, match="no states by trace"):
        kernel.by_trace()
    window = native.CountWindow(0, 5)
    window.by_trace()
    times, numbers = np.arange(2), np.zeros(2, np.uint32)
    results, validity = np.empty(2, np.int64), np.empty(2, np.uint8)
    with pytest.raises(ValueError, match="but not both"):
        window.feed(native.Batch(times, numbers, 2), None, None, results, validity)
    batch = native.Batch(times, numbers, 2, 0, True)
    with pytest.raises(ValueError, match="items"):
        batch.mark(np.zeros(2, np.int64), np.zeros(1, np.uint64), 1)
    batch.mark(np.zeros(2, np.int64), np.zeros(2, np.uint64), 1)
    with pytest.raises(ValueError, match="no place"):
        window.feed(batch, None, None, results, validity)
    with pytest.raises(ValueError, match="numbers of their traces"):
        native.Batch(times, None, 2, 0, True)
    with pytest.raises(TypeError, match="states by trace"):
        native.RoundHistory([native.CountWindow(0, 5)], print, 16)
