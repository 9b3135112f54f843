"""Policies that take ticks by themselves, against those that are given every tick."""

from __future__ import annotations

import random
from itertools import cycle
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import LimitError, SnapshotError
from mtlmon.tables import KeyedMonitors
from tests.checking.test_policy_monitors import taken
from tests.doors import EventColumns, PolicyMonitors, policies_snapshot, restore_policies
from tests.doors import expressions_bdd as bdd

FORMULAS = [
    "p",
    "NOT q",
    "p IMPLIES EVENTUALLY[0,9] q",
    "q IMPLIES ONCE[0,12] p",
    "NOT ONCE p",
    "HISTORICALLY[0,20] NOT p",
    "PREVIOUS[0,9] p",
    "ALWAYS[0,15] NOT q",
    "p SINCE[3,9] q",
]


class Tick(NamedTuple):
    """An event of a stream at a tick."""

    time: int
    stream: int
    atoms: str


class Case(NamedTuple):
    """Rows, and for each policy its formula, its period, all its ticks and those that are given."""

    rows: list[int]
    end: int
    formulas: list[str]
    periods: list[int]
    ticks: list[list[Tick]]
    given: list[list[Tick]]

    def makers(self, **options: object) -> tuple[PolicyMonitors, PolicyMonitors]:
        """Monitors that are given all ticks, and monitors that take them by themselves."""
        both = [
            PolicyMonitors([KeyedMonitors(one) for one in self.formulas], **options)  # type: ignore[arg-type]
            for _ in range(2)
        ]
        both[1].run_ticks(self.periods)
        return both[0], both[1]


def case_of(
    source: random.Random, formulas: list[str], rows: list[int], streams: int, changes: float
) -> Case:
    end = rows[-1] + source.choice([1, 4, 60]) if rows else 0
    periods = [source.choice([2, 3, 4]) for _ in formulas]
    ticks: list[list[Tick]] = []
    given: list[list[Tick]] = []
    begins = sorted(source.choice(rows) for _ in range(streams)) if rows else []
    for period in periods:
        letters = ["" for _ in begins]
        ticks.append([])
        given.append([])
        for time in range(0, end, period):
            for stream, begin in enumerate(begins):
                if time < begin:
                    continue
                is_first = time - period < begin
                is_changed = source.random() < changes
                if is_first or is_changed:
                    letters[stream] = source.choice(["", "", "p", "q", "pq"])
                one = Tick(time, stream, letters[stream])
                ticks[-1].append(one)
                # what does not change may be given, too
                if is_first or is_changed or source.random() < 0.05:
                    given[-1].append(one)
    return Case(rows, end, formulas, periods, ticks, given)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 2, 9, 40]), max_size=12))
    rows = [sum(gaps[: k + 1]) for k in range(len(gaps))]
    formulas = draw(st.lists(st.sampled_from(FORMULAS), min_size=1, max_size=3))
    source = random.Random(draw(st.integers(0, 10**6)))
    return case_of(source, formulas, rows, source.randint(1, 4), source.choice([0.02, 0.3]))


def arrays(
    monitors: PolicyMonitors, ticks: list[list[Tick]], rows: list[int]
) -> tuple[list[EventColumns], list[np.ndarray], list[np.ndarray]]:
    columns = []
    for one, own in zip(monitors.monitors, ticks, strict=True):
        times = np.array([tick.time for tick in own], np.int64)
        columns.append(EventColumns(times, len(own)))
        for place, name in enumerate(one.atoms):
            columns[-1].add_bytes(place, np.array([name in tick.atoms for tick in own], bool))
    numbers = [np.array([tick.stream for tick in own], np.uint32) for own in ticks]
    places = [
        np.searchsorted(rows, [tick.time for tick in own], "right").astype(np.uint32)
        for own in ticks
    ]
    return columns, numbers, places


def run(
    monitors: PolicyMonitors,
    case: Case,
    sizes: list[int],
    saves: random.Random | None = None,
    **options: object,
) -> list[tuple[int, int, str]]:
    """Feed all rows in parts of these sizes; perhaps go on in new monitors now and then."""
    is_running = bool(monitors.awake)
    ticks = case.given if is_running else case.ticks
    columns, numbers, places = arrays(monitors, ticks, case.rows)
    row_times = np.array(case.rows, np.int64)
    found: list[tuple[int, int, str]] = []
    violations: list[tuple[int, int, str]] = []
    first = 0
    for size in cycle(sizes):
        count = min(size, len(case.rows) - first)
        is_last = first + count == len(case.rows)
        end = case.end if is_last else case.rows[first + count - 1]
        if is_running and saves is not None and case.rows and saves.random() < 0.3:
            # some of the ticks before the first row
            before = saves.randint(0, case.rows[first] if first < len(case.rows) else case.end)
            monitors.feed(
                columns, numbers, first, 0, places=places, rows=len(case.rows),
                row_times=row_times, tick_end=before,
            )  # fmt: skip
            found += taken(monitors)
        if is_running:
            monitors.feed(
                columns, numbers, first, count, places=places, rows=len(case.rows),
                row_times=row_times, tick_end=end,
            )  # fmt: skip
        else:
            monitors.feed(columns, numbers, first, count, places=places, rows=len(case.rows))
        found += taken(monitors)
        first += count
        if is_last:
            break
        violations += taken(monitors, of_violations=True)
        if is_running and saves is not None and saves.random() < 0.5:
            snapshot = policies_snapshot(monitors)
            monitors = case.makers(**options)[1]
            restore_policies(monitors, snapshot)
            assert policies_snapshot(monitors) == snapshot
    counts = [
        {name: one.counters[name] for name in ("events", "true", "false")}
        for one in monitors.monitors
    ]
    monitors.finish(case.end, False)
    violations += taken(monitors, of_violations=True)
    return [*found, *taken(monitors), (len(counts), 0, str(counts)), *violations]


SELECTIONS: list[dict[str, object]] = [
    {"verdicts": "all"},
    {"verdicts": "boolean"},
    {"verdicts": "false"},
    {"verdicts": "none"},
    {"verdicts": "false", "resolve": True},
    {"verdicts": "none", "collect": True},
]


@given(
    cases(),
    st.integers(0, len(SELECTIONS) - 1),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(0, 100),
)
def test_ticks_between_changes_are_those_of_the_same_letter(
    case: Case, selection: int, sizes: list[int], saved: int
) -> None:
    plain, running = case.makers(**SELECTIONS[selection])
    wanted = run(plain, case, sizes)
    saves = random.Random(saved) if saved else None
    found = run(running, case, sizes, saves, **SELECTIONS[selection])
    assert found == wanted


@given(
    cases(),
    st.integers(0, len(SELECTIONS) - 1),
    st.integers(0, 12),
    st.integers(0, 9),
    st.booleans(),
)
def test_all_ticks_can_be_given_from_some_time_on(
    case: Case, selection: int, row: int, seed: int, saves: bool
) -> None:
    options = SELECTIONS[selection]
    plain, running = case.makers(**options)
    row = min(row, len(case.rows))
    since = case.rows[row - 1] if row else 0
    # A tick is left out for all policies.
    lost = {
        (time, stream)
        for time in range(since, case.end)
        for stream in range(4)
        if random.Random(f"{seed} {time} {stream}").random() < 0.2
    }
    kept = [[tick for tick in own if (tick.time, tick.stream) not in lost] for own in case.ticks]
    wanted = run(plain, case._replace(ticks=kept), [100])
    given = [
        [tick for tick in before if tick.time < since]
        + [tick for tick in own if tick.time >= since]
        for before, own in zip(case.given, kept, strict=True)
    ]
    columns, numbers, places = arrays(running, given, case.rows)
    found: list[tuple[int, int, str]] = []
    violations: list[tuple[int, int, str]] = []
    for first, count, end in ((0, row, since), (row, len(case.rows) - row, case.end)):
        running.feed(
            columns, numbers, first, count, places=places, rows=len(case.rows),
            row_times=np.array(case.rows, np.int64), tick_end=end,
        )  # fmt: skip
        found += taken(running)
        violations += taken(running, of_violations=True)
        if not first:
            running.give_all_ticks()
        if saves:
            snapshot = policies_snapshot(running)
            running = case.makers(**options)[1]
            restore_policies(running, snapshot)
        assert running.needs_all_ticks
    assert all(count == 0 for _, count in running.awake)
    counts = [
        {name: one.counters[name] for name in ("events", "true", "false")}
        for one in running.monitors
    ]
    running.finish(case.end, False)
    violations += taken(running, of_violations=True)
    assert [*found, *taken(running), (len(counts), 0, str(counts)), *violations] == wanted


def test_many_rows_come_in_turns() -> None:
    source = random.Random(3)
    rows = sorted(source.randrange(3_000) for _ in range(30_000))
    case = case_of(source, ["NOT p", "q IMPLIES ONCE[0,12] p"], rows, 5, 0.02)
    plain, running = case.makers(verdicts="false")
    assert run(running, case, [20_000]) == run(plain, case, [20_000])


@pytest.mark.parametrize(
    ("verdicts", "formula", "atoms", "awake"),
    [
        ("false", "NOT p", "", 0),
        ("false", "NOT p", "p", 1),
        ("none", "NOT p", "p", 0),
        ("all", "NOT p", "", 1),
        ("boolean", "NOT p", "", 1),
        ("false", "p IMPLIES EVENTUALLY[0,9] q", "", 0),
        ("false", "p IMPLIES EVENTUALLY[0,9] q", "p", 1),
        ("false", "NOT ONCE p", "", 0),
        ("none", "ONCE p", "p", 0),
        ("none", "ONCE[0,20] p", "p", 0),
        ("none", "EVENTUALLY[0,9] p", "", 1),
        ("none", "PREVIOUS p", "p", 0),
    ],
)
def test_streams_rest_where_nothing_happens(
    verdicts: str, formula: str, atoms: str, awake: int
) -> None:
    monitors = PolicyMonitors([KeyedMonitors(formula)], verdicts=verdicts)  # type: ignore[arg-type]
    monitors.run_ticks([10])
    case = Case([0], 10**4, [formula], [10], [], [[Tick(0, 0, atoms)]])
    run(monitors, case, [1])
    assert monitors.awake == [(10, awake)]
    assert monitors.monitors[0].counters["events"] == 1000


def test_streams_at_rest_cost_nothing() -> None:
    monitors = PolicyMonitors([KeyedMonitors("NOT p")], verdicts="false")
    monitors.run_ticks([1])
    end = 10**15
    case = Case(
        [0], end, ["NOT p"], [1], [], [[Tick(0, 0, ""), Tick(7, 0, ""), Tick(10**9, 0, "")]]
    )
    assert run(monitors, case, [1]) == [(1, 0, str([{"events": end, "true": end, "false": 0}]))]


def test_what_does_not_fit_is_refused() -> None:
    monitors = PolicyMonitors([KeyedMonitors("p")], find_first=True)
    with pytest.raises(ValueError, match="no first violation"):
        monitors.run_ticks([1])
    monitors = PolicyMonitors([KeyedMonitors("p")])
    with pytest.raises(ValueError, match="period"):
        monitors.run_ticks([])
    with pytest.raises(ValueError, match="not -1"):
        monitors.run_ticks([-1])
    monitors.run_ticks([5])
    columns, numbers, places = arrays(monitors, [[Tick(0, 0, "p")]], [0])
    with pytest.raises(ValueError, match="end of ticks"):
        monitors.feed(columns, numbers, places=places, rows=1)


def test_damaged_snapshots_are_refused() -> None:
    source = random.Random(8)
    case = case_of(source, ["NOT p", "ONCE[0,9] p"], [0, 5, 9, 30], 4, 0.1)
    _, monitors = case.makers(verdicts="false")
    run(monitors, case, [10])
    snapshot = policies_snapshot(monitors)
    for place in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[place] ^= source.randrange(1, 256)
        other = case.makers(verdicts="false")[1]
        try:
            restore_policies(other, bytes(damaged))
        except (SnapshotError, MemoryError):
            continue
        # what cannot be told from a state is used like one
        assert len(other.awake) == 2
    plain = case.makers(verdicts="false")[0]
    with pytest.raises(SnapshotError):
        restore_policies(plain, snapshot)


def test_an_error_at_a_tick_ends_all_policies_there(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 4)
    found = []
    for is_running in (False, True):
        monitors = PolicyMonitors([KeyedMonitors(wide), KeyedMonitors("NOT p")])
        rows = [0]
        ticks = [Tick(time, 0, "") for time in range(100)]
        own = [[ticks[0]], [ticks[0]]] if is_running else [ticks, ticks]
        if is_running:
            monitors.run_ticks([1, 1])
        columns, numbers, places = arrays(monitors, own, rows)
        with pytest.raises(LimitError):
            if is_running:
                monitors.feed(
                    columns, numbers, places=places, rows=1,
                    row_times=np.array(rows, np.int64), tick_end=100,
                )  # fmt: skip
            else:
                monitors.feed(columns, numbers, places=places, rows=1)
        found.append(taken(monitors))
    assert found[0] == found[1]
    assert found[0]


def test_the_first_ticks_are_far_from_the_beginning_of_time() -> None:
    """Rationale: three keys have their first ticks 2^62 ticks behind time 0.

    The product of both is no number of 64 bits. Time went on in steps then, without end.
    """
    first = 2**62 + 1
    table = pa.table({"ts": [first, first + 1, first + 2, first + 3], "k": ["a", "b", "c", "a"]})
    run = mtlmon.check("key k\npolicy p on every 1: count[0,1]() > 0", table)
    found = [(answer.time - first, answer["k"], answer.verdict) for answer in run]
    assert found == [
        *((0, "a", True), (1, "a", True), (1, "b", True)),
        *((2, "a", False), (2, "b", True), (2, "c", True)),
    ]
