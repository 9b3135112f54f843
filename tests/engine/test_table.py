"""The transition table answers as the engine does.

Reading `pending` brings a monitor's structures up to date, and an event right after that is the
engine's: so a monitor that is read before every event never uses the table.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Monitor, Verdict, parse
from tests.strategies import formulas, sandwiches

if TYPE_CHECKING:
    from mtlmon import Formula

MODES = ("naive", "local", "global")
GAPS = {
    "one time-stamp": [0],
    "high rate": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    "low rate": [0, 1],
    "no two alike": [1],
    "irregular": [0, 0, 1, 2, 7],
    "far apart": [0, 100_000],
    "around the bounds": list(range(24)),
}


def agree(formula: Formula, mode: str, source: random.Random, gaps: list[int], count: int) -> int:
    """Compare both on random events; how many of them the table answered."""
    monitor = Monitor(formula, mode)  # type: ignore[arg-type]
    engine = Monitor(formula, mode)  # type: ignore[arg-type]
    density = {name: source.choice([0.05, 0.5, 0.95]) for name in "pqr"}
    time_stamp = 0
    for _ in range(count):
        time_stamp += source.choice(gaps)
        assert engine.pending is not None
        if source.random() < 0.005:
            assert monitor.advance(time_stamp) == engine.advance(time_stamp)
        else:
            atoms = [name for name, part in density.items() if source.random() < part]
            assert monitor.step(time_stamp, atoms) == engine.step(time_stamp, atoms)
        if source.random() < 0.01:
            assert monitor.pending == engine.pending
    used, unused = monitor.counters, engine.counters
    assert unused.pop("table_hits") == 0
    hits = used.pop("table_hits")
    for name in ("events", "true", "false", "pending", "peak_pending"):
        assert used[name] == unused[name], name
    assert monitor.finish("inf") == engine.finish("inf")
    return hits


@given(st.one_of(formulas(), sandwiches()), st.sampled_from(MODES), st.data())
def test_any_formula(formula: Formula, mode: str, data: st.DataObject) -> None:
    source = random.Random(data.draw(st.integers(0, 2**32)))
    agree(formula, mode, source, GAPS[data.draw(st.sampled_from(sorted(GAPS)))], 200)


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "formula",
    [
        "p",
        "EVENTUALLY[0,5] p",
        "p UNTIL[2,5] q",
        "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
        "p SINCE[2,8] (q AND NEXT[0,1] r)",
        "ONCE[1,*) EVENTUALLY[1,4] (p SINCE[0,2] PREVIOUS q)",
        "(EVENTUALLY[0,4] p) EQUIV (EVENTUALLY[0,3] p) SINCE[0,3] q",
        "ALWAYS (p IMPLIES EVENTUALLY q)",
    ],
)
def test_long_logs(formula: str, mode: str, gaps: str) -> None:
    source = random.Random(f"{formula} {mode} {gaps}")
    agree(parse(formula), mode, source, GAPS[gaps], 1500)


@pytest.mark.parametrize("gap", [1, 1000, 100_000])
def test_most_events_are_look_ups_whatever_the_unit(gap: int) -> None:
    formula = parse(f"ALWAYS[0,{10 * gap}] (p IMPLIES EVENTUALLY[0,{3 * gap}] q)")
    assert agree(formula, "local", random.Random(1), [0, gap], 10_000) > 8_000


@pytest.mark.parametrize(
    "formula",
    [
        "p IMPLIES EVENTUALLY[0,3600] q",
        "(PREVIOUS[0,3600] p) AND q",
        "ALWAYS[600,3600] (p IMPLIES q)",
        "ALWAYS (p IMPLIES ONCE[0,600] q)",
    ],
)
def test_all_distances_are_alike_once_nothing_is_within_reach(formula: str) -> None:
    source = random.Random(formula)
    monitor = Monitor(formula)
    time_stamp = 0
    for _ in range(2000):
        time_stamp += source.randrange(3601, 1_000_000)
        monitor.step(time_stamp, [name for name in "pq" if source.random() < 0.5])
    assert monitor.counters["table_hits"] > 1900


def test_many_atoms_are_columns_as_they_come() -> None:
    names = [f"a{number}" for number in range(40)]
    formula = f"EVENTUALLY[0,3] ({' AND '.join(names[:20])} AND NOT ({' OR '.join(names[20:])}))"
    monitor, engine = Monitor(formula), Monitor(formula)
    source = random.Random(3)
    letters = [names[:20], names, [], *(source.sample(names, 7) for _ in range(100))]
    for number in range(5000):
        atoms = letters[source.randrange(3) if number % 50 else source.randrange(len(letters))]
        assert engine.pending is not None
        assert monitor.step(number // 5, atoms) == engine.step(number // 5, atoms)
    assert monitor.counters["table_hits"] > 2000


def test_the_table_gives_way_when_nothing_comes_back() -> None:
    monitor = Monitor("ALWAYS[0,3600] (p IMPLIES EVENTUALLY[0,60] q)", "global")
    engine = Monitor(monitor.program, "global")
    source = random.Random(9)
    time_stamp = 0
    verdicts: list[Verdict] = []
    expected: list[Verdict] = []
    for _ in range(60_000):
        time_stamp += source.randrange(40)
        atoms = [name for name in "pq" if source.random() < 0.3]
        verdicts += monitor.step(time_stamp, atoms)
        assert engine.pending is not None
        expected += engine.step(time_stamp, atoms)
    assert verdicts == expected
    assert monitor.counters["table_hits"] < 10_000


def test_the_table_is_there_again_when_events_come_back() -> None:
    monitor = Monitor("ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,600] q)")
    random = np.random.default_rng(9)
    time_stamps = np.cumsum(random.integers(0, 40, 60_000))
    monitor.feed(time_stamps, random.integers(0, 4, 60_000))
    hits = monitor.counters["table_hits"]
    assert hits < 1000
    # after a pause, which depends on how long it was of no use
    monitor.feed(time_stamps[-1] + np.arange(400_000), np.zeros(400_000, np.int64))
    assert monitor.counters["table_hits"] - hits > 100_000


def test_times_too_large_for_the_table() -> None:
    monitor, engine = Monitor("EVENTUALLY[0,5] p"), Monitor("EVENTUALLY[0,5] p")
    base = (1 << 48) - 500
    for number in range(1000):
        assert engine.pending is not None
        atoms = ["p"] * (number % 3 == 0)
        assert monitor.step(base + number, atoms) == engine.step(base + number, atoms)
    assert 300 < monitor.counters["table_hits"] < 500


@pytest.mark.parametrize("formula", ["EVENTUALLY[0,5] p", "p UNTIL[2,5] q", "NEXT[0,3] q"])
@pytest.mark.parametrize("mode", MODES)
def test_a_second_log_counts_like_the_first(formula: str, mode: Any) -> None:
    """The second time the table answers; what it has counted before is gone."""
    source = random.Random(formula)
    log = [(k // 2, [name for name in "pq" if source.random() < 0.2]) for k in range(200)]
    monitor = Monitor(formula, mode)
    seen = []
    for _ in range(3):
        verdicts = list(monitor(log))
        # how much room arrays have depends on what was there before
        counters = {k: v for k, v in monitor.counters.items() if not k.startswith("held_")}
        hits = counters.pop("table_hits")
        seen.append((verdicts, counters))
        monitor.reset()
    assert hits > 150
    assert seen[0] == seen[1] == seen[2]
