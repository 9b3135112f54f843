"""Many streams in one object: each answers as a monitor of its own would."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import (
    EventError,
    Formula,
    LimitError,
    Monitor,
    MonitorBrokenError,
    Monitors,
    Program,
    TimeStampError,
)
from tests.doors import expressions_bdd as bdd
from tests.engines import with_expressions, with_network
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


# The bytes of a stream and of a pending time-point; how many streams there is room for at first.
STREAM, REGISTER, ROOM = 56, 24, 4


def compare(
    formula: Formula | Program | str,
    mode: Any,
    source: random.Random,
    keys: int,
    count: int,
    share: float = 0.4,
) -> tuple[int, int]:
    """How often the workspace was compacted, and how many streams were whole ones at most."""
    monitors: Monitors[int] = Monitors(formula, mode)
    apart = {key: Monitor(formula, mode) for key in range(keys)}
    clocks = dict.fromkeys(apart, 0)
    most_whole = 0
    for _ in range(count):
        key = source.randrange(keys)
        monitor = apart[key]
        clocks[key] += source.choice([0, 0, 1, 1, 2, 7])
        if key in monitors and source.random() < 0.02:
            assert monitors.advance(key, clocks[key]) == monitor.advance(clocks[key])
            continue
        atoms = [name for name in "pqr" if source.random() < share]
        assert monitors.step(key, clocks[key], atoms) == monitor.step(clocks[key], atoms)
        most_whole = max(most_whole, monitors.counters["whole"])
        if source.random() < 0.02:
            assert monitors.pending(key) == monitor.pending
    counters = monitors.counters
    for name in ("events", "true", "false"):
        assert counters[name] == sum(monitor.counters[name] for monitor in apart.values())
    for key, verdicts in monitors.finish("inf"):
        assert verdicts == apart[key].finish("inf")
    assert len(monitors) == 0
    assert monitors.counters["whole"] == 0
    return counters["compactions"], most_whole


@given(st.one_of(formulas(), sandwiches()), st.sampled_from(MODES), st.integers(0, 2**32))
def test_any_formula(formula: Formula, mode: str, seed: int) -> None:
    compare(formula, mode, random.Random(seed), 3, 60)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_many_streams(formula: str, mode: str) -> None:
    compare(formula, mode, random.Random(formula), 50, 4000)


def test_streams_share_a_workspace_that_is_compacted() -> None:
    formula = "ALWAYS[0,200] (p IMPLIES (EVENTUALLY[0,90] q) OR EVENTUALLY[30,150] r)"
    compactions, _ = compare(formula, "global", random.Random(1), 20, 12_000)
    assert compactions > 0


def test_what_is_remembered_of_the_past_is_in_the_compacted_workspace_too() -> None:
    """The words of a configuration that hold an expression hold a count besides; whole states keep
    expressions of their own."""
    formula = "(EVENTUALLY[0,90] q) SINCE[0,200] (p OR PREVIOUS EVENTUALLY[30,150] r)"
    compactions, whole = compare(with_expressions(formula), "naive", random.Random(3), 8, 600, 0.04)
    assert compactions > 0
    assert whole > 0


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


def test_states_that_are_now_whole_and_now_small() -> None:
    """Streams in turn with many pending time-points, with few, and with none."""
    formula = "(EVENTUALLY[0,1000] p) AND PREVIOUS[0,5] q"
    monitors: Monitors[int] = Monitors(formula, "naive")
    apart = {key: Monitor(formula, "naive") for key in range(3)}
    seen = set()
    for time_stamp in range(1200):
        for key, monitor in apart.items():
            # In each time, another stream gathers time-points; the next one has some by then.
            is_over = (time_stamp + 100 * key) % 300 < 190 and time_stamp % 7
            atoms = ["p", "q"] if is_over else ["q"]
            assert monitors.step(key, time_stamp, atoms) == monitor.step(time_stamp, atoms)
        seen.add(monitors.counters["whole"])
    assert {0, 1} <= seen
    for key, verdicts in monitors.finish("inf"):
        assert verdicts == apart[key].finish("inf")
    assert monitors.counters["bytes"] == ROOM * STREAM


def test_a_state_that_is_too_large_before_its_first_event() -> None:
    """It has a word for each PREVIOUS, of which a configuration has no room for so many."""
    formula = " OR ".join(f"(PREVIOUS[0,{bound}] p)" for bound in range(300))
    monitors: Monitors[int] = Monitors(formula)
    apart = [Monitor(formula) for _ in range(3)]
    for time_stamp in range(0, 1500, 70):
        for key, monitor in enumerate(apart):
            atoms = ["p"] if (time_stamp + key) % 3 == 0 else []
            assert monitors.step(key, time_stamp, atoms) == monitor.step(time_stamp, atoms)
    assert monitors.counters["whole"] == 3


def test_the_clock_of_a_stream_without_an_event() -> None:
    """An event that is refused makes a stream; so does no verdict, but time passes for it."""
    monitors: Monitors[str] = Monitors("EVENTUALLY[0,5] p", unknown="error")
    with pytest.raises(EventError):
        monitors.step("a", 3, ("q",))
    assert monitors.advance("a", 9) == []
    with pytest.raises(TimeStampError, match="below 9"):
        monitors.step("a", 8)
    assert monitors.step("a", 9) == []
    assert list(map(str, monitors.step("a", 9, ("p",)))) == ["9:0 true", "9:1 true"]


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


@pytest.mark.parametrize(
    ("most", "left", "room"),
    [
        (2, 2, 2),
        # room for more than twice of what is left, and two, is given back
        (6, 2, 6),
        (7, 2, 2),
        (4, 1, 4),
        (5, 1, 1),
        # all is decided
        (2, 0, 2),
        (3, 0, 0),
    ],
)
def test_what_a_stream_takes(most: int, left: int, room: int) -> None:
    """The documented sizes, and room for pending time-points that is not kept for long."""
    monitors: Monitors[int] = Monitors("EVENTUALLY[0,10] p", "naive")
    monitors.step(0, 0, ("p",))
    monitors.step(2, 0, ("p",))
    assert monitors.counters["bytes"] == ROOM * STREAM
    for time_stamp in range(most):
        monitors.step(1, time_stamp)
    assert len(monitors.pending(1)) == most
    if left == 0:
        monitors.step(1, most, ("p",))
    elif left < most:
        # all but the last ones are false then, and there is one more
        monitors.step(1, 10 + most - left + 1)
    assert len(monitors.pending(1)) == left
    assert monitors.counters["bytes"] == ROOM * STREAM + room * REGISTER
    monitors.forget(1)
    assert monitors.counters["bytes"] == ROOM * STREAM


@pytest.mark.parametrize(
    ("program", "most"),
    [
        (with_expressions("EVENTUALLY[0,1000] p"), 64),
        (with_network("EVENTUALLY[0,1000] p"), 63),
    ],
    ids=["expressions", "network"],
)
def test_a_stream_that_is_kept_whole_takes_no_room_among_the_small_ones(
    program: Program, most: int
) -> None:
    monitors: Monitors[int] = Monitors(program, "naive")
    small = monitors.counters["held_bytes"]
    for time_stamp in range(65):
        monitors.step(0, time_stamp)
        assert monitors.counters["whole"] == (time_stamp >= most)
    assert monitors.counters["bytes"] == ROOM * STREAM
    monitors.forget(0)
    assert monitors.counters["whole"] == 0
    # What the table has learnt meanwhile; a whole state alone takes more.
    assert monitors.counters["held_bytes"] - small < 200_000


def test_configurations_that_never_come_back_are_forgotten() -> None:
    """The table has its budget, whatever streams have been through."""
    source = random.Random(2)
    monitors: Monitors[int] = Monitors("EVENTUALLY[0,300] p", "naive")
    clocks = [0] * 3
    for _ in range(40_000):
        key = source.randrange(3)
        clocks[key] += source.choice([3, 5, 7, 11, 13, 20])
        monitors.step(key, clocks[key])
    assert monitors.counters["held_bytes"] < 3_000_000
    assert monitors.counters["table_flushes"] > 5


@pytest.mark.parametrize(
    ("program", "most"),
    [
        (with_expressions("EVENTUALLY[0,300] p"), 8_000_000),
        (with_network("EVENTUALLY[0,300] p"), 16_000_000),
    ],
    ids=["expressions", "network"],
)
def test_many_configurations_that_are_in_use(program: Program, most: int) -> None:
    """The table grows to twice of what it must keep, so that it is not forgotten all the time."""
    source = random.Random(3)
    monitors: Monitors[int] = Monitors(program, "naive")
    for round_number in range(20):
        for key in range(4000):
            monitors.step(key, 10 * round_number + source.randrange(9))
    assert monitors.counters["held_bytes"] < most
    assert 5 < monitors.counters["table_flushes"] < 50


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
        "(EVENTUALLY[2,9] p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)", "global"
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


def test_a_whole_stream_that_breaks_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    formula = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,800] EVENTUALLY[1,300] q)"
    monitors: Monitors[str] = Monitors(formula, "naive")
    apart = Monitor(formula, "naive")
    for time_stamp in range(0, 700, 10):
        monitors.step("bad", time_stamp)
        assert monitors.step("good", time_stamp) == apart.step(time_stamp)
    assert monitors.counters["whole"] == 2
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        for time_stamp in range(700, 720):
            monitors.step("bad", time_stamp)
    assert monitors.counters["whole"] == 1
    with pytest.raises(MonitorBrokenError, match="'bad'"):
        monitors.step("bad", 900)
    for time_stamp in range(701, 2000, 7):
        atoms = ("p", "q") if time_stamp > 1500 else ()
        assert monitors.step("good", time_stamp, atoms) == apart.step(time_stamp, atoms)
        assert monitors.pending("good") == apart.pending


def test_a_stream_that_breaks_at_its_end_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its state is one in the middle of an event, which nobody may go on with."""
    formula = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    monitors: Monitors[int] = Monitors(formula)
    apart = Monitor(formula)
    for time_stamp in range(12):
        monitors.step(0, time_stamp)
        assert monitors.step(1, time_stamp) == apart.step(time_stamp)
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        list(monitors.finish(14))
    assert list(monitors) == [1]
    for time_stamp in range(12, 40):
        assert monitors.step(1, time_stamp, ("p",)) == apart.step(time_stamp, ("p",))
