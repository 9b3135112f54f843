"""Rows that ticks cannot tell apart are merged: results stay the same, and memory stays small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.policy import parse_policies  # noqa: E402
from tests.doors import (  # noqa: E402
    Expression,
    StreamProgram,
    streams_kernels,
    streams_of,
)
from tests.doors import predicates_operators as ops  # noqa: E402
from tests.doors import streams_native as native  # noqa: E402
from tests.reference import aggregates as reference  # noqa: E402
from tests.streams.test_kernels import NUMBERS, gives_floats, kernel_of, same  # noqa: E402

Point = tuple[int, int, Any, bool]
"""A time-stamp, a trace, a value (None without one), and whether this is a tick."""

NAMES = ("count", "sum", "avg", "var", "stddev", "first", "last", "min", "max", "distinct")
TRACES = 3


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Rows and all ticks, in the order in which they are fed."""
    kind = draw(st.sampled_from(["int", "float"]))
    width = draw(st.sampled_from([1, 2, 3, 5]))
    lower = width * draw(st.sampled_from([0, 0, 0, 1, 2]))
    upper = draw(st.sampled_from([None, lower, lower + width, lower + 3 * width]))
    values = st.one_of(st.none(), NUMBERS[kind]) if draw(st.booleans()) else NUMBERS[kind]
    steps = st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2, 4]), st.integers(0, TRACES - 1), values)
    time = 0
    points: list[Point] = []
    for step, trace, value in draw(st.lists(steps, max_size=60)):
        for tick in range(time, time + step):
            if tick % width == 0:
                points += [(tick, number, None, True) for number in range(TRACES)]
        time += step
        points.append((time, trace, value, False))
    end = -(-time // width) * width
    points += [(end, number, None, True) for number in range(TRACES)]
    return {
        "is_float": kind == "float",
        "width": width,
        "bounds": (lower, upper),
        "points": points,
        "cuts": sorted(draw(st.lists(st.integers(0, len(points)), max_size=9))),
        "actions": draw(
            st.lists(st.sampled_from(["none", "undo", "snapshot", "keep"]), min_size=10)
        ),
    }


def expected(case: dict[str, Any]) -> list[Any]:
    """The results at the ticks, up to the first that overflows."""
    found: list[Any] = []
    name, points = case["name"], case["points"]
    lower, upper = case["bounds"]
    for place, (_, trace, _, is_tick) in enumerate(points):
        if not is_tick:
            continue
        own = [one for one in points[: place + 1] if one[1] == trace]
        values = [True if name == "count" and one[2] is not None else one[2] for one in own]
        times = [one[0] for one in own]
        window = reference.in_window(times, values, len(own) - 1, lower, upper)
        try:
            found.append(reference.fold(name, window, 0.5))
        except reference.Overflow:
            break
    return found


def fed(kernel: native.Kernel, case: dict[str, Any], points: list[Point], clock: int) -> list[Any]:
    """Feed points, and return the results at ticks, up to the first that overflows.

    They are fed together, of which only ticks are wanted, or `apart`, the rows as arguments.
    """
    kind = np.float64 if case["is_float"] else np.int64
    rows = [one for one in points if not one[3]] if case.get("apart") else points
    values = np.array([0 if one[2] is None else one[2] for one in rows], kind).view(np.int64)
    mask = np.array([one[2] is not None for one in rows], np.uint8)
    ticks = [one for one in points if one[3]] if case.get("apart") else points
    is_tick = np.array([one[3] for one in ticks], np.uint8)
    batch = batch_of(ticks, clock)
    results, validity = np.zeros(len(ticks), np.int64), np.zeros(len(ticks), np.uint8)
    if case.get("apart"):
        done = kernel.feed(batch, values, mask, results, validity, arguments=batch_of(rows, clock))
    else:
        done = kernel.feed(batch, values, mask, results, validity, is_tick)
    floats = gives_floats(case["name"], case["is_float"])
    found = (results.view(np.float64) if floats else results).tolist()
    return [found[k] if validity[k] else None for k in range(done) if is_tick[k]]


def batch_of(points: list[Point], clock: int) -> native.Batch:
    time_stamps = np.array([one[0] for one in points], np.int64)
    numbers = np.array([one[1] for one in points], np.uint32)
    return native.Batch(time_stamps, numbers, len(points), clock)


def merging(case: dict[str, Any]) -> native.Kernel:
    kernel = kernel_of(case["name"], case["is_float"], *case["bounds"])
    assert kernel.set_panes(case["width"])
    return kernel


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("name", NAMES)
@given(cases())
@example(
    {
        # numbers become wider while a pane is open
        "is_float": True,
        "width": 5,
        "bounds": (0, 5),
        "points": [(1, 0, 2.0**200, False), (1, 0, -1.0, False), (5, 0, None, True)],
        "cuts": [2],
        "actions": ["none", "none"],
    }
)
@example(
    {
        # rows of a batch that is undone were merged into a row from before
        "is_float": False,
        "width": 5,
        "bounds": (0, 10),
        "points": [(time, 0, time, False) for time in (1, 2, 3)] + [(5, 0, None, True)],
        "cuts": [2],
        "actions": ["none", "undo"],
    }
)
def test_merged_rows_have_the_results_of_all_rows(
    name: str, apart: bool, case: dict[str, Any]
) -> None:
    case = {"name": name, "apart": apart, **case}
    points = case["points"]
    wanted = expected(case)
    kernel = merging(case)
    found: list[Any] = []
    clock = 0
    ends = [*case["cuts"], len(points)]
    for start, end, action in zip([0, *case["cuts"]], ends, case["actions"], strict=False):
        if action == "snapshot":
            snapshot = kernel.snapshot()
            kernel = merging(case)
            kernel.restore(snapshot)
        if action == "keep":
            kernel.keep(np.arange(TRACES, dtype=np.uint32).tobytes())
        kernel.begin()
        if action == "undo":
            # other values, which must leave nothing behind
            others = [
                (time, trace, None if value is None else (-1) ** k * 10**6, is_tick)
                for k, (time, trace, value, is_tick) in enumerate(points[start:])
            ]
            fed(kernel, case, others, clock)
            kernel.undo()
        ticks = sum(one[3] for one in points[start:end])
        results = fed(kernel, case, points[start:end], clock)
        found += results
        if len(results) < ticks:
            break
        clock = points[end - 1][0] if end else clock
    assert len(found) == len(wanted)
    assert all(map(same, found, wanted))


def test_panes_are_declared_before_the_first_row() -> None:
    kernel = native.CountWindow(0, 10)
    with pytest.raises(ValueError, match="width"):
        kernel.set_panes(0)
    case = {"name": "count", "is_float": False}
    fed(kernel, case, [(1, 0, 1, False)], 0)
    with pytest.raises(ValueError, match="before the first row"):
        kernel.set_panes(5)
    assert not native.QuantileWindow(0.5, 0, 10).set_panes(5)


STREAMS = """\
stream n = count[0,1000](x > 0) every 100
stream mean = avg[0,1000](x) every 100
stream spread = stddev[0,1000](x) every 100
stream kinds = distinct[0,1000](k) every 100
stream total = sum[100,1000](k, or: 0) every 200
stream most = max[0,500](x) every 100
stream before = x.at(-300) every 100
"""


def held(rate: int) -> tuple[int, dict[str, list[Any]]]:
    """The bytes held after 200,000 rows, of which so many have the same 1,000 units of time."""
    file = parse_policies(STREAMS, unit="ms", needs_policy=False)
    wanted = {
        name: file.predicate(Expression(ops.STREAM, (), name), name, "stream")
        for name in file.streams
    }
    schema = pa.schema([("x", pa.float64()), ("k", pa.int64())])
    periods = {name: 200 if name == "total" else 100 for name in file.streams}
    program = StreamProgram(wanted, streams_of(file, "ms"), schema, periods=periods)
    count, size = 200_000, 10_000
    source = np.random.default_rng(1)
    found: dict[str, list[Any]] = {name: [] for name in file.streams}
    most = 0
    for start in range(0, count, size):
        times = np.arange(start, start + size) * 1000 // rate
        values = np.round(source.normal(40, 15, size), 2)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(values), pa.array(times.astype(np.int64) % 97)], schema=schema
        )
        for name, values in program.evaluate(batch, times).items():
            found[name] += values.to_pylist()
        most = max(most, program.held_bytes)
    return most, found


def test_memory_does_not_depend_on_the_rate() -> None:
    slow, few = held(20_000)
    fast, many = held(400_000)
    assert len(few["n"]) == 100
    assert len(many["n"]) == 5
    assert many["n"][-1] > 150_000
    assert fast < 1.3 * slow
    assert fast < 6_000_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("action", ["none", "undo", "snapshot", "keep"])
def test_a_trace_has_one_row_in_a_cell(name: str, action: str) -> None:
    """Whatever comes between two batches."""
    case = {"name": name, "is_float": True, "width": 1000, "bounds": (0, 5000)}
    kernel = merging(case)
    clock = 0
    for step in range(400):
        points: list[Point] = [(10 * step + k, k % TRACES, 1.5 * k, False) for k in range(10)]
        kernel.begin()
        fed(kernel, case, points, clock)
        if action == "undo":
            kernel.undo()
            fed(kernel, case, points, clock)
        if action == "keep":
            kernel.keep(np.arange(TRACES, dtype=np.uint32).tobytes())
        if action == "snapshot":
            snapshot = kernel.snapshot()
            kernel = merging(case)
            kernel.restore(snapshot)
        clock = points[-1][0]
    # each of the four multiples and the four ranges between them
    cells = 8 * TRACES
    assert kernel.held_bytes <= kernel.most_bytes(TRACES, cells, 8, 10)
    kernel.keep(np.arange(TRACES, dtype=np.uint32).tobytes())
    assert len(kernel.snapshot()) < 60 * cells


def test_results_are_those_of_rows_that_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    _, merged = held(50_000)
    monkeypatch.setattr(streams_kernels, "gcd", lambda *_: 1)
    _, apart = held(50_000)
    assert merged == apart
