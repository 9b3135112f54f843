"""Bounds on the memory of streams hold, for kernels, programs and random logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon.errors import PolicyError
from mtlmon.policy import parse_policies
from tests.doors import (
    TEXT_BYTES,
    Assumption,
    KeyTable,
    Load,
    StreamProgram,
    TickError,
    bounds_of,
    kept_by,
    key_bytes,
    length_text,
    number_rows,
)
from tests.doors import streams_bounds as bounds_module
from tests.doors import streams_cells as cells
from tests.doors import streams_instances as instances_module
from tests.doors import streams_native as native
from tests.streams.programs import (
    SCHEMA,
    Row,
    Texts,
    evaluated,
    programs,
    recursive_programs,
    recursive_ticking_programs,
    rows,
    ticking_programs,
)
from tests.streams.test_born_at_ticks import files as files_born_at_ticks
from tests.streams.test_instance_ticks import files as files_of_ticks
from tests.streams.test_kernels import AGGREGATES, QUANTILES, kernel_of
from tests.streams.test_templates import SCHEMA as SCHEMA_OF_INSTANCES
from tests.streams.test_templates import File, files
from tests.streams.test_templates import rows as rows_of_instances

Rows = list[tuple[int, int]]
"""The time-stamps and traces of rows."""


def most_rows(log: Rows, length: int, *, by_trace: bool) -> int:
    """The most rows, of a trace or of all, whose time-stamps are at most so far apart."""
    times = np.array([time for time, _ in log], np.int64)
    owners = np.array([trace if by_trace else 0 for _, trace in log], np.int64)
    most = 0
    for owner in set(owners.tolist()):
        own = times[owners == owner]
        inside = np.searchsorted(own, own, "right") - np.searchsorted(own, own - length, "left")
        most = max(most, int(inside.max()))
    return most


def feed(kernel: native.Kernel, log: Rows, values: list[int], clock: int) -> None:
    times = np.array([time for time, _ in log], np.int64)
    traces = np.array([trace for _, trace in log], np.uint32)
    results, validity = np.empty(len(log), np.int64), np.empty(len(log), np.uint8)
    cells = None if isinstance(kernel, native.CountWindow) else np.array(values, np.int64)
    kernel.feed(native.Batch(times, traces, len(log), clock), cells, None, results, validity)


KERNELS = [
    *((name, 0, 9) for name in AGGREGATES),
    *((name, 2, 9) for name in AGGREGATES),
    *((name, 0, None) for name in AGGREGATES if name not in {"distinct", *QUANTILES}),
    *((name, 4, None) for name in AGGREGATES if name not in {"distinct", *QUANTILES}),
]


@pytest.mark.parametrize(("name", "lower", "upper"), KERNELS)
@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("steps", [(0, 1), (1, 12), (0, 0, 0, 0, 30)])
def test_kernels_hold_no_more_than_their_bound(
    name: str, lower: int, upper: int | None, is_float: bool, steps: tuple[int, ...]
) -> None:
    random = np.random.default_rng(3)
    size, traces, batch = 1500, 40, 60
    time_stamps = np.cumsum(random.choice(steps, size))
    owners = np.minimum(random.geometric(0.2, size) - 1, traces - 1)
    log = list(zip(time_stamps.tolist(), owners.tolist(), strict=True))
    values = random.standard_normal(size) * 10.0 ** random.integers(-300, 300, size)
    cells = values.view(np.int64) if is_float else random.integers(-(2**40), 2**40, size)
    length = upper if upper is not None else lower - 1
    kept = most_rows(log, length, by_trace=False) if length >= 0 else 0
    of_trace = most_rows(log, length, by_trace=True) if length >= 0 else 0
    kernel = kernel_of(name, is_float, lower, upper)
    clock = 0
    bound = kernel.most_bytes(traces, kept, of_trace, batch)
    for first in range(0, size, batch):
        part = log[first : first + batch]
        for is_taken_back in (True, False):
            kernel.begin()
            feed(kernel, part, cells[first : first + batch].tolist(), clock)
            assert kernel.held_bytes <= bound
            if is_taken_back:
                kernel.undo()
                assert kernel.held_bytes <= bound
        clock = part[-1][0]


def test_last_values_hold_no_more_than_their_bound() -> None:
    kernel = native.Last(5)
    bound = kernel.most_bytes(30, 0, 0, 20)
    for first in range(0, 600, 20):
        kernel.begin()
        feed(kernel, [(first, number % 30) for number in range(20)], [1] * 20, first)
        assert kernel.held_bytes <= bound


def test_small_blocks_of_sorted_values_are_joined() -> None:
    # Values leave in an order that empties each block from above before the next one below.
    count = 4000
    parts = [np.arange(500 * part + 499, 500 * part - 1, -1) for part in range(8)]
    values = np.concatenate(parts)[::-1].astype(np.float64).view(np.int64).tolist()
    kernel = native.QuantileWindow(0.5, 0, count)
    log = [(time, 0) for time in range(count)]
    feed(kernel, log, values, 0)
    kernel.begin()
    for left in range(1, 40):
        feed(kernel, [(count + 100 * left, 0)], [0], count + 100 * left - 1)
        kernel.begin()
        assert kernel.held_bytes <= kernel.most_bytes(1, count, count, 1)


@given(
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 3)), max_size=40),
    st.sampled_from(["ms", "s", "m"]),
    st.sampled_from(["ms", "s", "m"]),
    st.integers(0, 30),
)
def test_loads_are_those_of_logs_within_the_assumptions(
    drawn: Rows, unit: str, other: str, length: int
) -> None:
    log = sorted(drawn)
    # shorter units than those of time, so that logs are not spread out
    renamed = {"ms": "ns", "s": "us", "m": "ms"}
    factor = {"ms": 1, "s": 1000, "m": 1_000_000}
    scale = factor[unit]
    of_units: dict[tuple[int, int | None], int] = {}
    for time, trace in log:
        first, last = time * scale // factor[other], ((time + 1) * scale - 1) // factor[other]
        for number in range(first, min(last, first) + 1):
            for owner in (None, trace):
                of_units[number, owner] = of_units.get((number, owner), 0) + 1
    limit = max((count for (_, owner), count in of_units.items() if owner is None), default=0)
    own = max((count for (_, owner), count in of_units.items() if owner is not None), default=0)
    assumptions = [
        Assumption("rate", limit, renamed[other]),
        Assumption("rate per key", own, renamed[other]),
        Assumption("keys", 4, None),
    ]
    load = Load(assumptions, renamed[unit], has_keys=True)
    found, of_trace = load.rows(length), load.rows_of_trace(length)
    assert found is not None
    assert of_trace is not None
    assert most_rows(log, length, by_trace=False) <= found
    assert most_rows(log, length, by_trace=True) <= of_trace
    assert load.traces == 4


def test_loads_are_exact() -> None:
    load = Load([Assumption("rate", 3, "m")], "s", has_keys=False)
    assert [load.rows(length) for length in (0, 1, 60, 61, 120)] == [3, 6, 6, 9, 9]
    load = Load([Assumption("rate", 3, "s")], "m", has_keys=False)
    assert [load.rows(length) for length in (0, 1)] == [180, 360]
    load = Load(
        [Assumption("rate per key", 2, "s"), Assumption("keys", 5, None)], "s", has_keys=True
    )
    assert (load.rows(1), load.rows_of_trace(1), load.traces) == (20, 4, 5)
    load = Load(
        [Assumption("rate per key", 2, "s"), Assumption("keys", 5, None)], "s", has_keys=False
    )
    assert (load.rows(1), load.rows_of_trace(1), load.traces) == (20, 20, 1)
    load = Load([], "s", has_keys=True)
    assert (load.rows(1), load.rows_of_trace(1), load.traces) == (None, None, None)


def total_bound(program: StreamProgram, log: list[Row], instances: int | None = None) -> int | None:
    """The bound of a program, under the tightest assumptions that the log keeps.

    Args:
        program: the program.
        log: the rows.
        instances: how many instances are alive at once, if that is assumed, too.
    """
    rates: dict[int, int] = {}
    own: dict[tuple[int, int], int] = {}
    for time, trace, _ in log:
        rates[time] = rates.get(time, 0) + 1
        own[time, trace] = own.get((time, trace), 0) + 1
    assumptions = [
        Assumption("rate", max(rates.values(), default=0), "s"),
        Assumption("rate per key", max(own.values(), default=0), "s"),
        Assumption("keys", 3, None),
    ]
    if instances is not None:
        assumptions.append(Assumption("instances", instances, None))
    load = Load(assumptions, "s", has_keys=True)
    has_ticks = bool(program.periods)
    family_of = {id(kernel): one for one in program.families for kernel in one.kernels}
    periods = {ticks.frame: ticks.period for ticks in program.instance_ticks}
    periods |= {family.frame: family.lifetime.clock for family in program.families}
    found = []
    for kernel, period in program.kernels:
        family = family_of.get(id(kernel))
        if family is None:
            found.append(kept_by(kernel, load, "s", period, has_ticks=has_ticks))
            continue
        found.append(
            kept_by(
                kernel,
                load.of_instances(family),
                "s",
                periods.get(period, 0),
                has_ticks=has_ticks,
                of_instances=bounds_module.instances_of(family, load),
            )
        )
    found += [
        bounds_module.kept_instances(family, load, "s", 1 << 16, has_ticks=has_ticks)
        for family in program.families
    ]
    if any(kept.total is None for kept in found):
        assert all(kept.reason for kept in found if kept.total is None)
        return None
    return sum(kept.total or 0 for kept in found)


@given(
    st.one_of(programs(), recursive_programs(), ticking_programs(), recursive_ticking_programs()),
    rows(),
    st.data(),
)
def test_programs_hold_no_more_than_their_bound(
    texts: Texts, log: list[Row], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, 8))
    with pytest.MonkeyPatch.context() as patch:
        try:
            program = texts.program()
        except PolicyError:
            # some arguments of recursive streams mix time-points
            assume(False)
        # as many rows, and their ticks: three traces, and steps of at most six units of time
        patch.setattr(bounds_module, "LARGEST_BATCH", size * (1 + 18 * bool(program.periods)))
        bound = total_bound(program, log)
        for first in range(0, len(log), size):
            try:
                part = log[first : first + size]
                evaluated(program, part, periods=texts.periods, ticks=[])
            except TickError:
                return
            if bound is not None:
                # the table of texts that no kernel keeps, and the traces
                assert program.held_bytes <= bound + EMPTY_TEXTS


@given(
    st.one_of(files(), files(has_ticks=True), files_of_ticks(), files_born_at_ticks()),
    rows_of_instances(60),
    st.data(),
)
def test_instances_hold_no_more_than_their_bound(
    file: File, log: list[Row], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, 8))
    with pytest.MonkeyPatch.context() as patch:
        program = file.program(only_due=data.draw(st.booleans()))
        if program.due_ticks is not None:
            # what these keep is another thing
            program = file.program()
        patch.setattr(bounds_module, "LARGEST_BATCH", size * (1 + 18 * bool(program.periods)))
        patch.setattr(bounds_module, "MOST_ENDED", 4)
        patch.setattr(instances_module, "MOST_ENDED", 4)
        instances = None
        if data.draw(st.booleans()):
            counted, instances = file.program(), 0
            for row in log:
                evaluated(counted, [row], SCHEMA_OF_INSTANCES, periods=file.periods, ticks=[])
                instances = max(instances, *counted.most_instances.values())
        bound = total_bound(program, log, instances)
        for first in range(0, len(log), size):
            part = log[first : first + size]
            evaluated(program, part, SCHEMA_OF_INSTANCES, periods=file.periods, ticks=[])
            if bound is not None:
                assert program.held_bytes <= bound + EMPTY_TEXTS


@pytest.mark.parametrize(
    "text",
    [
        "stream n = count[0,99]() per k\nstream w = max(n over n)",
        "stream n = n.last(or: 0) + 1 per k until silence() > 99\nstream w = sum(n over n)",
        "stream n = n.last(or: 0) + 1 per k until age() > 99 or n > 2",
        "stream n = count[0,99]() per k, k % 2 as q\nstream w = avg(n over n by k)",
        "stream n = avg[0,99](k) per k\nstream w = max(n over n by k = 2)",
        "stream n = 1 per k as p on k = p or m = p until silence() > 99\n"
        "stream x = sum[0,50](n) per k as p until silence() > 99\nstream w = sum(x over x)",
        "stream n = k per k as p on k > 2 until silence() > 99\n"
        "stream x = max[0,50](n) per k as p until silence() > 99\nstream w = sum(x over x)",
    ],
)
def test_bounds_of_many_instances_are_close(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds_module, "LARGEST_BATCH", 500)
    monkeypatch.setattr(bounds_module, "MOST_ENDED", 16)
    monkeypatch.setattr(instances_module, "MOST_ENDED", 16)
    program = File(text).program()
    cells = dict.fromkeys(SCHEMA_OF_INSTANCES.names)
    log: list[Row] = [(place // 20, 0, {**cells, "k": place // 3}) for place in range(20_000)]
    load = Load([Assumption("rate", 20, "s")], "s", has_keys=False)
    (family,) = program.families
    bound = bounds_module.kept_instances(family, load, "s", 1 << 16, has_ticks=False).total
    assert bound is not None
    most = 0
    for first in range(0, len(log), 500):
        evaluated(program, log[first : first + 500], SCHEMA_OF_INSTANCES)
        most = max(most, family.held_bytes)
    assert most <= bound
    # nothing says how many rows call all instances
    assert bound <= 50 * most or "on k > 2" in text


def test_what_limits_instances() -> None:
    rate = Assumption("rate", 10, "s")

    def living(clauses: str, value: str = "i.last()") -> int | None:
        program = File(f"stream x = {value} {clauses}").program()
        (family,) = program.families
        return Load([rate], "s", has_keys=False).living(family)

    assert living("per k") is None
    assert living("per k until row.b") is None
    assert living("per k until silence() > 9") == 110
    assert living("per k until age() >= 4 or silence() > 9") == 50
    assert living("per row.b") == 2
    assert living("per k % 4, row.b") == 14
    assert living("per if row.b then 1 else 2") == 2
    assumed = Load([rate, Assumption("instances", 7, None)], "s", has_keys=False)
    (family,) = File("stream x = i.last() per k").program().families
    assert assumed.living(family) == 7
    # it is forgotten when the window has emptied
    assert living("per k", "count[0,9]()") == 110
    # each key has a tick every 5, whatever rows there are
    text = "stream h = i.hold() every 5\nstream x = h per h every 5 until silence() > 9"
    (family,) = File(text).program().families
    assert Load([rate], "s", has_keys=False).living(family) == 3
    assert Load([rate], "s", has_keys=True).living(family) is None
    keys = Assumption("keys", 4, None)
    assert Load([rate, keys], "s", has_keys=True).living(family) == 12


def test_ticks_without_rows_do_not_pile_up() -> None:
    texts = Texts({"a": ("count[0,5]()", None, 1)}, [("sum[0,9](a)", 0)])
    program = texts.program()
    evaluated(program, [(0, 0, dict.fromkeys("ifbs"))])
    batch = pa.RecordBatch.from_pylist([], SCHEMA)
    for until in range(100, 20_000, 100):
        empty = np.empty(0, np.int64)
        program.evaluate(batch, empty, np.empty(0, np.uint32), until=until)
    kernels = [kernel for kernel, _ in program.kernels]
    assert sum(kernel.native.held_bytes for kernel in kernels) < 40_000


EMPTY_TEXTS = cells.Texts().held_bytes + 1024


@pytest.mark.parametrize(
    ("length", "unit", "text"),
    [
        (600, "s", "10m"),
        (90, "s", "90s"),
        (0, "s", "0s"),
        (86400000, "ms", "1d"),
        (1, None, "1 time unit"),
        (1500, None, "1,500 time units"),
    ],
)
def test_lengths_of_time_are_written_in_the_largest_unit(
    length: int, unit: str | None, text: str
) -> None:
    assert length_text(length, unit) == text


@pytest.mark.parametrize(
    ("text", "words", "reason"),
    [
        ("count[0,600]()", "rows of the last 10m", ""),
        ("count[0,0]()", "rows of the present time-stamp", ""),
        ("sum[0,*)(i)", "1 number", ""),
        ("max[0,*)(i)", "1 value", ""),
        ("avg[60,*)(i)", "1 number, rows of the last 1m", ""),
        ("distinct[0,*)(i)", "all values", "distinct keeps all values"),
        ("median[5,*)(i)", "all values", "median keeps all values"),
        ("i.last(3)", "3 values", ""),
        ("i.hold()", "1 value", ""),
        ("i.at(-60)", "1 value, rows of the last 1m", ""),
    ],
)
def test_what_is_kept_is_said_in_words(text: str, words: str, reason: str) -> None:
    kernels = Texts({}, [text]).program().kernels
    load = Load([Assumption("rate", 10, "s")], "s", has_keys=False)
    kept: Any = kept_by(kernels[0][0], load, "s")
    assert kept.words == words
    assert kept.reason.startswith(reason)
    assert (kept.total is None) == bool(reason)


def test_at_ticks_a_value_is_kept_for_each_of_them() -> None:
    """The memory bound of a fixed rate does not depend on that of the rows."""
    texts = Texts(
        {"a": ("i.hold()", None, 1), "b": ("i.hold()", None, 1)},
        [("abs(a.hold(or: 0) - b.at(-10, or: 0))", 10)],
    )
    load = Load([], "s", has_keys=False)
    found = [
        kept_by(kernel, load, "s", period, has_ticks=True)
        for kernel, period in texts.program().kernels
    ]
    assert [kept.words for kept in found if kept.expression.startswith(("a", "b"))] == [
        "1 value",
        "1 value, panes of 10s in the last 10s",
    ]
    assert all(kept.total is not None for kept in found)


@pytest.mark.parametrize("only_due", [False, True])
def test_slower_ticks_keep_panes_of_faster_ones(
    only_due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 panes of an hour are enough for a day of ticks every second, read every hour."""
    monkeypatch.setattr(bounds_module, "LARGEST_BATCH", 200)
    windows = ["max[0,600](a)", "min[120,600](a)", "a.at(-600)", "last[60,300](a)"]
    texts = Texts(
        {"a": ("count[0,50](b)", None, 1)},
        [(window, 60) for window in [*windows, *([] if only_due else ["avg[0,600](a)"])]],
    )
    program = texts.program(only_due=only_due)
    load = Load([Assumption("rate", 1, "s")], "s", has_keys=False)
    of_ticks = [(kernel, period) for kernel, period in program.kernels if period == 1]
    kept = [kept_by(kernel, load, "s", period, has_ticks=True) for kernel, period in of_ticks]
    of_panes = [one for one in kept if "panes of 60s" in one.words or "panes of 1m" in one.words]
    # of windows that end earlier, ticks that rest keep every value
    assert len(of_panes) == (2 if only_due else 5)
    random = np.random.default_rng(5)
    for first in range(0, 6000, 100):
        rows = [
            (first + place, 0, {**dict.fromkeys("ifs"), "b": bool(random.integers(2))})
            for place in range(0, 100, 7)
        ]
        evaluated(program, rows, periods=texts.periods, ticks=[])
        for (kernel, _), one in zip(of_ticks, kept, strict=True):
            assert one.total is not None
            assert sum(native.held_bytes for native in kernel.natives) <= one.total, kernel.node


def test_without_assumptions_windows_have_no_bound() -> None:
    kernels = Texts({}, ["count[0,600]()", "i.last()"]).program().kernels
    load = Load([], "s", has_keys=False)
    assert [kept_by(kernel, load, "s").total is None for kernel, _ in kernels] == [True, False]
    load = Load([Assumption("rate", 10, "s")], "s", has_keys=True)
    found = [kept_by(kernel, load, "s") for kernel, _ in kernels]
    assert all(kept.total is None and kept.per_key is not None for kept in found)
    assert {kept.reason for kept in found} == {"nothing limits the keys: add assume keys <= N"}


def test_texts_are_counted() -> None:
    schema = pa.schema([("s", pa.string())])
    kernels = Texts({}, ["s.last()"]).program(schema).kernels
    load = Load([Assumption("keys", 10, None)], "s", has_keys=True)
    total = kept_by(kernels[0][0], load, "s").total
    assert total is not None
    assert total > 100_000


@pytest.mark.parametrize(
    ("stream", "has_limit"),
    [
        ("count[0,5s]() per x", True),
        ("n.last(or: 0) + 1 per x until silence() > 1h", True),
        ("n.last(or: 0) + 1 per x", False),
        ("count[0,5s]() per x from x > 3", False),
    ],
)
def test_what_limits_instances_has_bounds(stream: str, has_limit: bool) -> None:
    text = f"assume rate <= 9/s\nunit s\nstream n = {stream}\ntrigger t: any(n > 1 over n)"
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    bounds = bounds_of(parse_policies(text), schema)
    found = [kept for bound in bounds.bounds if bound.name == "n" for kept in bound.kept]
    assert found[-1].expression == "per x"
    assert (bounds.total is not None) is has_limit
    for kept in found:
        assert ("nothing limits the instances" in kept.reason) is not has_limit


@pytest.mark.parametrize(
    ("text", "words", "has_limit"),
    [
        ("count[0,60]()", "panes of 10s in the last 1m", True),
        ("max[15,60](i)", "panes of 5s in the last 1m", True),
        ("avg[0,60](f)", "panes of 10s in the last 1m", True),
        ("f.at(-60)", "1 value, panes of 10s in the last 1m", True),
        ("sum[0,60](i)", "panes of 10s in the last 1m", True),
        ("stddev[0,60](f)", "panes of 10s in the last 1m", True),
        ("median[0,60](f)", "rows of the last 1m", False),
        ("max[0,60](s)", "rows of the last 1m", False),
    ],
)
def test_rows_that_ticks_cannot_tell_apart_need_no_rate(
    text: str, words: str, has_limit: bool
) -> None:
    ((kernel, period),) = Texts({}, [(text, 10)]).program().kernels
    kept = kept_by(kernel, Load([], "s", has_keys=False), "s", period, has_ticks=True)
    assert kept.words == words
    assert (kept.total is not None) == has_limit
    assert bool(kept.reason) != has_limit
    of_traces = kept_by(kernel, Load([], "s", has_keys=True), "s", period, has_ticks=True)
    assert of_traces.total is None
    assert ("keys" in of_traces.reason) == has_limit


@pytest.mark.parametrize("is_read_beside", [False, True])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("keys", [1, 70, 1000, 70_000])
def test_keys_hold_no_more_than_their_bound(keys: int, columns: int, is_read_beside: bool) -> None:
    """Also where all of them come in one batch, and no memory is given back during it."""
    table = KeyTable(columns)
    table.read_beside(is_read_beside)
    texts = pa.array([f"{number:0{TEXT_BYTES}}" for number in range(keys)])
    number_rows(table, [texts] * columns)
    assert len(table) == keys
    assert table.held_bytes <= key_bytes(columns, keys) <= 5 * table.held_bytes + 100_000
