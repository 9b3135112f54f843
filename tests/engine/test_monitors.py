"""Many streams in one object: each answers as a monitor of its own would."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import (
    EventError,
    LimitError,
    Monitor,
    MonitorBrokenError,
    Monitors,
    TimeStampError,
    bdd,
)
from mtlmon.syntax.formula import Formula
from tests.strategies import formulas, sandwiches

MODES = ("naive", "local", "global")
FORMULAS = [
    "p",
    "EVENTUALLY[0,5] p",
    "p UNTIL[2,5] q",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "p SINCE[2,8] (q AND NEXT[0,1] p)",
    "ALWAYS (p IMPLIES EVENTUALLY q)",
    "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))",
]


def compare(formula: Formula | str, mode: Any, source: random.Random, keys: int, count: int) -> int:
    monitors: Monitors[int] = Monitors(formula, mode)
    apart = {key: Monitor(formula, mode) for key in range(keys)}
    clocks = dict.fromkeys(apart, 0)
    for _ in range(count):
        key = source.randrange(keys)
        monitor = apart[key]
        clocks[key] += source.choice([0, 0, 1, 1, 2, 7])
        if key in monitors and source.random() < 0.02:
            assert monitors.advance(key, clocks[key]) == monitor.advance(clocks[key])
            continue
        atoms = [name for name in "pqr" if source.random() < 0.4]
        assert monitors.step(key, clocks[key], atoms) == monitor.step(clocks[key], atoms)
        if source.random() < 0.02:
            assert monitors.pending(key) == monitor.pending
    counters = monitors.counters
    for name in ("events", "true", "false"):
        assert counters[name] == sum(monitor.counters[name] for monitor in apart.values())
    for key, verdicts in monitors.finish("inf"):
        assert verdicts == apart[key].finish("inf")
    assert len(monitors) == 0
    return counters["compactions"]


@given(st.one_of(formulas(), sandwiches()), st.sampled_from(MODES), st.integers(0, 2**32))
def test_any_formula(formula: Formula, mode: str, seed: int) -> None:
    compare(formula, mode, random.Random(seed), 3, 60)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_many_streams(formula: str, mode: str) -> None:
    compare(formula, mode, random.Random(formula), 50, 4000)


def test_streams_share_a_workspace_that_is_compacted() -> None:
    formula = "ALWAYS[0,200] (p IMPLIES (EVENTUALLY[0,90] q) OR EVENTUALLY[30,150] r)"
    assert compare(formula, "global", random.Random(1), 20, 12_000) > 0


def test_states_too_large_for_the_table_are_kept_whole() -> None:
    monitors: Monitors[str] = Monitors("EVENTUALLY[0,1000] p")
    monitor = Monitor("EVENTUALLY[0,1000] p")
    for time_stamp in range(300):
        assert monitors.step("a", time_stamp) == monitor.step(time_stamp)
        assert monitors.step("b", time_stamp, ("p",)) != []
    assert monitors.counters["whole"] == 1
    assert monitors.pending("a") == monitor.pending
    assert monitors.step("a", 300, ("p",)) == monitor.step(300, ("p",))
    assert monitors.counters["whole"] == 0


def test_units_and_unknown_atoms() -> None:
    monitors: Monitors[str] = Monitors("EVENTUALLY[0,5s] p", unit="ms", unknown="error")
    monitors.step("a", 0)
    with pytest.raises(EventError, match="q"):
        monitors.step("a", 0, ("q",))
    assert list(map(str, monitors.step("a", 5001, ("p",)))) == ["0:0 false", "5001:0 true"]


def test_formulas_that_the_table_does_not_take() -> None:
    formula = f"EVENTUALLY[0,{1 << 62}] (p AND q)"
    compare(formula, "local", random.Random(3), 5, 500)
    wide = " AND ".join(f"a{number}" for number in range(70))
    monitors: Monitors[int] = Monitors(f"EVENTUALLY[0,3] ({wide})")
    atoms = [f"a{number}" for number in range(70)]
    assert monitors.step(1, 5, atoms[:-1]) == []
    assert [str(verdict) for verdict in monitors.step(1, 6, atoms)] == ["5:0 true", "6:0 true"]


def test_a_million_streams_are_small() -> None:
    monitors: Monitors[int] = Monitors("ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)")
    source = random.Random(1)
    streams = 30_000
    for key in range(streams):
        for time_stamp in (1, 2, 5):
            monitors.step(key, time_stamp, [name for name in "pq" if source.random() < 0.5])
    counters = monitors.counters
    assert counters["streams"] == streams
    assert counters["whole"] == 0
    assert counters["bytes"] < 250 * streams


def test_streams_that_come_and_go_take_no_memory() -> None:
    monitors: Monitors[int] = Monitors("EVENTUALLY[0,5] p")
    for key in range(3000):
        monitors.step(key, key)
        monitors.step(key, key + 2)
        if key >= 3:
            monitors.forget(key - 3)
    assert monitors.counters["streams"] == 3
    assert monitors.counters["bytes"] < 4000
    assert [monitors.pending(key)[0].time_stamp for key in monitors] == [2997, 2998, 2999]


def test_wrong_calls_leave_all_streams_as_they_are() -> None:
    monitors: Monitors[str] = Monitors("EVENTUALLY[0,5] p")
    monitors.step("a", 5)
    monitors.step("b", 9)
    with pytest.raises(TimeStampError, match="below 5"):
        monitors.step("a", 4)
    with pytest.raises(TypeError):
        monitors.step("b", 9, "p")
    with pytest.raises(KeyError):
        monitors.advance("c", 4)
    with pytest.raises(KeyError):
        monitors.forget("c")
    with pytest.raises(TypeError):
        monitors.step([], 4)  # type: ignore[arg-type]
    assert "c" not in monitors
    assert monitors.pending("a") == [(5, 0)]
    assert monitors.pending("b") == [(9, 0)]
    monitors.forget("a")
    assert list(monitors) == ["b"]
    assert monitors.step("a", 1) == []


def test_a_stream_that_breaks_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 4)
    monitors: Monitors[str] = Monitors(
        "(EVENTUALLY[2,9] p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    )
    monitors.step("good", 1, ("p",))
    with pytest.raises(LimitError):
        for time_stamp in range(20):
            monitors.step("bad", time_stamp)
    with pytest.raises(MonitorBrokenError, match="'bad'"):
        monitors.step("bad", 30)
    assert monitors.step("good", 40) != []
    monitors.forget("bad")
    assert monitors.step("bad", 1) == []
