"""Windows that go by the numbers of ticks, against the reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import SnapshotError
from tests.doors import streams_native as native
from tests.reference.aggregates import Value
from tests.streams.test_kernels import Feeder, cases, compare, expected, gives_floats, same

NAMES = ["count", "sum", "avg", "var", "stddev"]


def tick_window(name: str, is_float: bool, first: int, last: int) -> native.TickWindow:
    return native.TickWindow(name, is_float, first, last)  # type: ignore[arg-type]


def paned(name: str, is_float: bool, ticks: int, first: int, last: int) -> native.TickPanes:
    return native.TickPanes(name, is_float, 2, ticks, first, last)  # type: ignore[arg-type]


def by_number(rows: list[tuple[int, int, Value]]) -> list[tuple[int, int, Value]]:
    """The rows with their numbers in their trace as times."""
    counts: dict[int, int] = {}
    found = []
    for _, trace, value in rows:
        number = counts[trace] = counts.get(trace, -1) + 1
        found.append((number, trace, value))
    return found


@pytest.mark.parametrize("kind", ["int", "float"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(st.data(), st.integers(0, 3), st.integers(0, 20))
def test_windows_of_ticks_are_those_of_the_reference(
    name: str, kind: str, data: st.DataObject, first: int, length: int
) -> None:
    case = data.draw(cases(kind))
    is_float = kind == "float"
    wanted = expected(name, by_number(case["rows"]), first, first + length)
    compare(
        case,
        lambda: tick_window(name, is_float, first, first + length),
        gives_floats(name, is_float),
        wanted,
    )


@given(cases("int"), st.sampled_from(NAMES), st.integers(0, 2))
def test_traces_can_be_forgotten(case: dict[str, Any], name: str, first: int) -> None:
    rows, last = case["rows"], first + 3
    feeder = Feeder(tick_window(name, False, first, last), False, gives_floats(name, False))
    own: list[tuple[int, int, Value]] = []
    numbers: dict[int, int] = {}
    for start, end in case["batches"]:
        batch = []
        for time, trace, value in rows[start:end]:
            batch.append((time, numbers.setdefault(trace, len(numbers)), value))
        own += rows[start:end]
        wanted = expected(name, by_number(own), first, last)
        feeder.kernel.begin()
        found = feeder.feed(batch)
        if len(found) < len(batch):
            break
        assert all(map(same, found, wanted[len(own) - len(batch) :]))
        # the first trace is forgotten, and begins anew with its next tick
        forgotten = next(iter(numbers), None)
        own = [one for one in own if one[1] != forgotten]
        order = sorted(numbers, key=lambda trace: numbers[trace])
        numbers = {trace: place for place, trace in enumerate(order[1:])}
        new = [2**32 - 1, *range(len(numbers))][: len(order)]
        feeder.kernel.keep(np.array(new, np.uint32).tobytes())


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_without_ticks_takes_no_state_over(name: str) -> None:
    feeder = Feeder(tick_window(name, False, 1, 3), False, gives_floats(name, False))
    feeder.kernel.begin()
    feeder.feed([(1, 0, 5), (1, 1, 3), (2, 1, 4)])
    feeder.kernel.keep(np.array([2**32 - 1, 0, 1], np.uint32).tobytes())
    rows: list[tuple[int, int, Value]] = [(4, 1, 7), (5, 1, 2), (7, 1, 9), (9, 0, 6)]
    own: list[tuple[int, int, Value]] = [(1, 0, 3), (2, 0, 4), *rows]
    assert all(map(same, feeder.feed(rows), expected(name, by_number(own), 1, 3)[2:]))


def test_long_windows_get_room_as_ticks_come() -> None:
    kernel = tick_window("sum", False, 0, 999)
    feeder = Feeder(kernel, False, False)
    rows: list[tuple[int, int, Value]]
    rows = [(time, trace, time % 7) for time in range(1200) for trace in range(2)]
    sizes = []
    found = []
    for place in range(0, len(rows), 100):
        kernel.begin()
        found += feeder.feed(rows[place : place + 100])
        sizes.append(kernel.held_bytes)
    totals = np.cumsum([time % 7 for time in range(1200)])
    wanted = totals - np.concatenate([np.zeros(1000, int), totals[:200]])
    assert found == wanted.repeat(2).tolist()
    assert sizes[0] < sizes[-1] / 5
    assert max(sizes) <= kernel.most_bytes(2, 0, 0, 100)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_snapshot_is_refused(name: str) -> None:
    feeder = Feeder(tick_window(name, False, 1, 3), False, False)
    feeder.feed([(1, 0, 5), (2, 1, None), (3, 0, 2)])
    snapshot = feeder.kernel.snapshot()
    for size in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            tick_window(name, False, 1, 3).restore(snapshot[:size])
    with pytest.raises(SnapshotError):
        tick_window(name, False, 1, 3).restore(snapshot + b"\0")


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_snapshot_of_panes_is_refused(name: str) -> None:
    feeder = Feeder(paned(name, True, 2, 0, 1), True, gives_floats(name, True))
    feeder.feed([(2, 0, 0.5), (4, 0, math.inf), (4, 1, None), (6, 0, 1e300)])
    snapshot = feeder.kernel.snapshot()
    for size in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            paned(name, True, 2, 0, 1).restore(snapshot[:size])
    with pytest.raises(SnapshotError):
        paned(name, True, 2, 0, 1).restore(snapshot + b"\0")


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="no window from 3 to 2 panes of 4 ticks ago"):
        paned("sum", True, 4, 3, 2)
    with pytest.raises(ValueError, match="no window from 3 to 2 ticks ago"):
        tick_window("sum", True, 3, 2)
    with pytest.raises(ValueError, match="unknown sum"):
        tick_window("total", True, 0, 2)
    batch = native.Batch(np.array([3, 4]), None, 2)
    two = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="not among those of the argument"):
        tick_window("sum", True, 0, 2).feed(
            batch, two, None, two, np.zeros(2, np.uint8), None, batch
        )


@st.composite
def gapped(draw: st.DrawFn, kind: str, ticks: int, last: int) -> list[tuple[int, int, Value]]:
    """Ticks of traces every 2, some left out where all values of the window are the same."""
    values: list[Value] = [None, 0, 1, -3, 2**40] if kind == "int" else [None, 0.1, 1e300, math.inf]
    found: list[tuple[int, int, Value]] = []
    for trace in range(2):
        tick = draw(st.integers(0, 9))
        for _ in range(draw(st.integers(0, 3))):
            count = draw(st.sampled_from([1, 2, ticks - 1, ticks, 3 * ticks]))
            value: Value = None
            for _ in range(count):
                value = draw(st.sampled_from(values))
                found.append((2 * tick, trace, value))
                tick += 1
            if draw(st.booleans()):
                rest = ticks * (last + 1)
                found += [(2 * (tick + place), trace, value) for place in range(rest)]
                # what is left out here repeats the value
                tick += rest + draw(st.integers(0, rest))
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.parametrize("kind", ["int", "float"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(st.data(), st.integers(2, 5), st.integers(0, 2), st.integers(0, 3), st.integers(1, 40))
def test_panes_of_ticks_are_those_of_all_ticks(
    name: str, kind: str, data: st.DataObject, ticks: int, first: int, length: int, size: int
) -> None:
    last = first + length
    rows = data.draw(gapped(kind, ticks, last))
    is_float = kind == "float"
    every: list[tuple[int, int, Value]] = []
    for trace in range(2):
        own = [row for row in rows if row[1] == trace]
        for row, behind in zip(own, [*own[1:], None], strict=False):
            end = row[0] + 2 if behind is None else behind[0]
            every += [(time, trace, row[2]) for time in range(row[0], end, 2)]
    every.sort(key=lambda row: row[:2])
    width = 2 * ticks
    wanted = dict(
        zip(
            [row[:2] for row in every],
            expected(name, every, first * width, last * width),
            strict=True,
        )
    )
    kernel = paned(name, is_float, ticks, first, last)
    feeder = Feeder(kernel, is_float, gives_floats(name, is_float))
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        if data.draw(st.booleans()):
            snapshot = feeder.kernel.snapshot()
            feeder.kernel = paned(name, is_float, ticks, first, last)
            feeder.kernel.restore(snapshot)
            assert feeder.kernel.snapshot() == snapshot
        feeder.kernel.begin()
        if data.draw(st.booleans()):
            clock = feeder.clock
            feeder.feed(batch)
            feeder.kernel.undo()
            feeder.clock = clock
        found = feeder.feed(batch)
        at = [
            (value, wanted[time, trace])
            for (time, trace, _), value in zip(batch, found, strict=True)
            if time % width == 0
        ]
        assert all(same(*pair) for pair in at), (at, rows)
    assert feeder.kernel.held_bytes <= kernel.most_bytes(3, 0, 0, size)
