"""Histories against their reference: after every batch, what an ordered run would say."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import (
    EventError,
    EventTypeError,
    Formula,
    History,
    LimitError,
    Monitor,
    MonitorBrokenError,
    MtlmonError,
    SnapshotError,
    TimeStampError,
)
from tests.doors import DELETED, INSERTED, UPDATED
from tests.doors import expressions_bdd as bdd
from tests.history.cases import Case, load_cases
from tests.history.comparing import (
    FORMULAS,
    LATENESS,
    SPACING,
    Batches,
    arrivals,
    compare,
    push,
)
from tests.reference.history import Insert, monitored, states_of
from tests.traces import MODES, Advance, EndTime, Mode

# ---- named cases and random ones ---------------------------------------------------------------

CASES = [
    case
    for case in load_cases()
    if not (case.clock == "key" and any(isinstance(a, Advance) for b in case.batches for a in b))
]


@pytest.mark.parametrize("spacing", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases(case: Case, spacing: int) -> None:
    is_keyed = any(isinstance(a, Insert) and a.key for batch in case.batches for a in batch)
    compare(
        case.formula,
        case.batches,
        case.lateness,
        end_time=case.end_time,
        is_keyed=is_keyed,
        clock=case.clock,
        spacing=spacing,
    )


@settings(max_examples=300)
@given(
    FORMULAS,
    st.sampled_from(MODES),
    arrivals(),
    LATENESS,
    SPACING,
    st.sampled_from([None, 3, 40, "last", "inf"]),
)
def test_every_batch(
    formula: Formula,
    mode: Mode,
    batches: Batches,
    lateness: int | None,
    spacing: int,
    end_time: EndTime,
) -> None:
    compare(formula, batches, lateness, mode, end_time=end_time, spacing=spacing)


@settings(max_examples=150)
@given(
    FORMULAS,
    st.sampled_from(MODES),
    arrivals(advances=True, keys=("a", "b")),
    LATENESS,
    SPACING,
    st.integers(0, 8),
)
def test_keys_advances_and_snapshots(
    formula: Formula,
    mode: Mode,
    batches: Batches,
    lateness: int | None,
    spacing: int,
    interrupt: int,
) -> None:
    compare(formula, batches, lateness, mode, is_keyed=True, spacing=spacing, interrupt=interrupt)


@settings(max_examples=100)
@given(FORMULAS, arrivals(keys=("a", "b", "c")), LATENESS, SPACING, st.integers(0, 8))
def test_a_clock_for_each_key(
    formula: Formula,
    batches: Batches,
    lateness: int | None,
    spacing: int,
    interrupt: int,
) -> None:
    compare(
        formula, batches, lateness, is_keyed=True, clock="key", spacing=spacing, interrupt=interrupt
    )


def workload(
    seed: int, count: int, rate: int, share: float, latest: int
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.uint64]]]:
    """Time-stamps and letters as they arrive; a share of them comes up to `latest` late."""
    source = np.random.default_rng(seed)
    stamps = np.sort(source.integers(0, max(1, count // rate), count)).astype(np.int64)
    arrival = stamps + np.where(source.random(count) < share, source.random(count) * latest, 0)
    order = np.argsort(arrival, kind="stable")
    letters = (source.random((count, 2)) < source.choice([0.05, 0.3, 0.5])).astype(np.uint64)
    return stamps[order], (letters @ np.array([1, 2], np.uint64))[order]


LONG = [
    "p",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "p SINCE[2,8] q",
    "ONCE[0,20] (p AND EVENTUALLY[0,9] q)",
    "PREVIOUS p",
    "NEXT q",
    "p SINCE q",
    "ONCE p",
    "(PREVIOUS[0,2] p) UNTIL[0,5] q",
    "HISTORICALLY[0,5] ONCE[0,5] q",
    "EVENTUALLY q",
]


@pytest.mark.parametrize("formula", LONG)
def test_long_histories_end_like_ordered_runs(formula: str) -> None:
    """More events than a chunk has, more chunks than a replay looks at, and forgetting."""
    for seed, (mode, spacing, rate) in enumerate(itertools.product(MODES, (0, 1, 5, 32), (1, 7))):
        stamps, letters = workload(seed, 300, rate, 0.3, 20)
        ordered = np.argsort(stamps, kind="stable")
        monitor = Monitor(formula, mode)
        expected = monitor.feed(stamps[ordered], letters[ordered], unknown="ignore")
        for lateness in (None, 21):
            history = History(formula, mode, lateness=lateness, _spacing=spacing)
            lines: dict[str, str] = {}
            source = random.Random(seed)
            start = 0
            while start < len(stamps):
                stop = start + source.randint(1, 20)
                for line in history.push(stamps[start:stop], letters[start:stop]):
                    if not line.startswith("!@"):
                        lines[line.removeprefix("!").split()[0]] = line.removeprefix("!")
                start = stop
            counters = history.counters
            assert counters["refused"] == 0
            assert counters["late"] > 20
            found = {line for line in lines.values() if " " in line}
            assert found == set(map(str, expected)), (mode, spacing, lateness)
            if lateness is None:
                latest = history.latest()
                assert list(map(str, latest)) == [
                    str(verdict)
                    for verdict in sorted(expected, key=lambda v: (v.time_stamp, v.offset))
                ]


@pytest.mark.parametrize("pace", ["even", "piles", "gaps"])
@pytest.mark.parametrize("formula", ["p SINCE[2,8] q", "p IMPLIES EVENTUALLY[0,3] q", "NEXT q"])
def test_late_events_find_their_chunk_among_thousands(formula: str, pace: str) -> None:
    source = np.random.default_rng(len(formula) + len(pace))
    gaps = {
        "even": source.integers(0, 3, 3000),
        "piles": np.where(source.random(3000) < 0.002, 50, 0),
        # so that a place that is guessed is far off
        "gaps": np.minimum(source.pareto(0.2, 3000), 1e14).astype(np.int64),
    }
    stamps = np.cumsum(gaps[pace]).astype(np.int64)
    letters = source.integers(0, 4, 3000).astype(np.uint64)
    arrival = np.arange(3000) + np.where(source.random(3000) < 0.3, source.random(3000) * 3000, 0)
    order = np.argsort(arrival, kind="stable")
    ordered = order[np.argsort(stamps[order], kind="stable")]
    monitor = Monitor(formula, "naive")
    expected = monitor.feed(stamps[ordered], letters[ordered], unknown="ignore")
    history = History(formula, "naive", lateness=None, _spacing=1)
    for start in range(0, 3000, 250):
        some = order[start : start + 250]
        history.push(stamps[some], letters[some])
    assert history.counters["late"] > 500
    assert set(map(str, history.latest())) == set(map(str, expected))


def test_replays_end_where_the_state_is_what_it_was() -> None:
    history = History("p IMPLIES EVENTUALLY[0,3] q", lateness=None)
    history.push(np.arange(1000), np.tile(np.array([1, 2], np.uint64), 500))
    history.push([300], [0])
    counters = history.counters
    assert (counters["replays"], counters["early_stops"]) == (1, 1)
    assert counters["replayed_events"] < 60
    # the chunk that the event is in, and the one behind it, which begins with another state
    assert counters["replayed_chunks"] == 1


def test_what_is_final_is_forgotten() -> None:
    history = History("EVENTUALLY[0,3] p", lateness=10)
    for start in range(0, 20_000, 100):
        stamps = np.arange(start, start + 100)
        changes = history.push(stamps, np.zeros(100, np.uint64))
        assert changes.final_below == history.final_below() == start + 99 - 13
    assert len(history.latest()) < 40
    assert history.counters["held_bytes"] < 10_000
    unbounded = History("EVENTUALLY p", lateness=10)
    changes = unbounded.push(np.arange(100), np.zeros(100, np.uint64))
    assert (changes.final_below, unbounded.final_below()) == (None, None)


@settings(max_examples=100)
@given(FORMULAS, arrivals(), st.integers(0, 9), st.integers(0, 9), SPACING)
def test_waiting(formula: Formula, batches: Batches, wait: int, more: int, spacing: int) -> None:
    """What has waited long enough is judged as if the rest had not come."""
    lateness = wait + more
    history = History(formula, lateness=lateness, wait=wait, _spacing=spacing)
    judge = monitored(formula)
    now = 0
    admitted: list[Insert] = []
    for batch in batches:
        for arrival in batch:
            assert isinstance(arrival, Insert)
            now = max(now, arrival.time_stamp)
            if now - arrival.time_stamp <= lateness:
                admitted.append(arrival)
        lines = list(push(history, batch, False))
        assert more or not any(line.startswith("!") for line in lines if line[1] != "@")
        released = [event for event in admitted if now - event.time_stamp >= wait]
        assert history.counters["waiting"] == len(admitted) - len(released)
        [state] = states_of([released], None, judge)
        known = {(v.time_stamp, v.offset): str(v) for v in history.latest()}
        for (_, point), verdict in state.verdicts.items():
            if point[0] >= (history.final_below() or 0):
                assert known.get(point) == (None if verdict is None else str(verdict))
        snapshot = history.snapshot()
        history = History(formula, lateness=lateness, wait=wait, _spacing=spacing)
        history.restore(snapshot)
    history.finish()
    assert history.counters["waiting"] == 0
    assert history.counters["events"] == len(admitted)


# ---- the interface -----------------------------------------------------------------------------


def test_changes() -> None:
    history = History("EVENTUALLY[0,5] p", lateness=20)
    first = history.push([1, 1, 9], [0, 0, 0])
    assert list(first) == ["1:1 = 1:0", "1:0 false"]
    assert first.operation.tolist() == [INSERTED, INSERTED]
    second = history.push([4, 7], [1, 1])
    assert list(second) == ["!1:0 true", "4:0 true", "7:0 true"]
    assert second.operation.tolist() == [UPDATED, INSERTED, INSERTED]
    assert list(map(str, second.updated)) == ["1:0 true"]
    assert list(map(str, second.inserted)) == ["4:0 true", "7:0 true"]
    assert (second.deleted, second.keys, len(second)) == ([], None, 3)
    assert repr(second) == "<Changes: 2 inserted, 1 updated, 0 deleted, 0 withdrawn>"
    assert list(map(str, history.latest())) == ["1:0 true", "1:1 = 1:0", "4:0 true", "7:0 true"]


def test_a_verdict_is_withdrawn_and_comes_back() -> None:
    """A late event makes an operator look at what is not known yet."""
    history = History("PREVIOUS[0,9] NEXT[0,9] NEXT[0,9] p", lateness=None)
    assert list(history.push([1, 2, 3], [0, 0, 1])) == ["1:0 false", "2:0 true"]
    changes = history.push([2], [0])
    assert list(changes) == ["!2:0 false", "2:1 true"]
    history = History("NEXT[0,9] NEXT[0,9] p", lateness=None)
    assert list(history.push([1, 2, 3], [0, 0, 0])) == ["1:0 false"]
    assert list(history.advance(30)) == ["2:0 false", "3:0 false"]
    assert list(history.push([29], [0])) == []


def test_withdrawn_verdicts() -> None:
    history = History("(NOT p) OR EVENTUALLY[0,5] q", lateness=None)
    assert history.atoms == ("p", "q")
    assert list(history.push([1, 4], [0b01, 0b10])) == ["1:0 true", "4:0 true"]
    history = History("(PREVIOUS[0,5] p) OR EVENTUALLY[0,5] q", lateness=None)
    assert list(history.push([1, 4], [0b01, 0b00])) == ["4:0 true"]
    changes = history.push([2], [0b00])
    assert list(changes) == ["2:0 true", "!4:0"]
    assert (changes.operation.tolist(), changes.deleted) == ([INSERTED, DELETED], [(4, 0)])
    assert list(history.push([5], [0b10])) == ["1:0 true", "!4:0 true", "5:0 true"]


def test_keys() -> None:
    history = History("ONCE[0,5] p", lateness=10)
    changes = history.push([3, 4, 5], [1, 0, 0], keys=np.array(["b", "a", "b"]))
    assert list(changes) == ["b\t3:0 true", "b\t5:0 true", "a\t4:0 false"]
    assert changes.keys == ["b", "b", "a"]
    assert history.keys == ("b", "a")
    assert list(history.push([2], [1], keys=["a"])) == ["a\t2:0 true", "a\t!4:0 true"]
    assert list(map(str, history.latest("a"))) == ["2:0 true", "4:0 true"]
    with pytest.raises(KeyError):
        history.latest("c")
    with pytest.raises(EventError, match="say which one"):
        history.latest()
    with pytest.raises(EventError, match="events have no keys"):
        history.push([3], [1])
    with pytest.raises(EventError, match="2 keys for 1 time-stamps"):
        history.push([3], [1], keys=["a", "b"])
    with pytest.raises(EventError, match="give no key"):
        history.advance(5, key="a")


@pytest.mark.parametrize("key_count", [1, 2, 3, 8, 21])
def test_what_waits_for_any_key_is_not_final(key_count: int) -> None:
    """The time of a key only passes with its own events, so some wait for long."""
    source = random.Random(key_count)
    history = History("EVENTUALLY[0,5] q", lateness=10)
    # by key: the time-stamps of events without a q so far, and the latest one
    waiting: dict[int, list[int]] = {}
    latest = 0
    for _ in range(400):
        key = source.randrange(key_count) if source.random() < 0.9 else 0
        latest += source.choice([0, 1, 4])
        has_q = source.random() < 0.5
        still = [time for time in waiting.get(key, []) if latest <= time + 5]
        waiting[key] = [] if has_q else [*still, latest]
        history.insert(latest, {"q"} if has_q else (), key=key)
        if latest < 15:
            continue
        earliest = min((times[0] for times in waiting.values() if times), default=latest)
        assert history.final_below() == min(latest - 15, earliest)


def test_one_event_at_a_time() -> None:
    history = History("p IMPLIES EVENTUALLY[0,5] q", lateness=None)
    assert list(history.insert(3, {"p"})) == []
    assert list(history.insert(4, 0b10)) == ["3:0 true", "4:0 true"]
    assert list(history.insert(3, {"p": True, "q": False})) == ["3:1 = 3:0"]
    with pytest.raises(EventTypeError, match="not the one string 'p': pass"):
        history.insert(3, "p")
    with pytest.raises(EventTypeError, match="'p'"):
        history.insert(3, {"p": 2})
    with pytest.raises(EventError, match="cannot be negative"):
        history.insert(3, -1)
    for wrong in (1.5, True, "3"):
        with pytest.raises(EventTypeError, match="integers"):
            history.insert(wrong)  # type: ignore[arg-type]
    with pytest.raises(TimeStampError, match="not between"):
        history.insert(-1)


def test_bad_arguments() -> None:
    with pytest.raises(MtlmonError, match="wait is at most lateness"):
        History("p", lateness=3, wait=4)
    with pytest.raises(MtlmonError, match="one formula"):
        History(["p", "q"], lateness=3)  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="clock is 'all' or 'key'"):
        History("p", lateness=3, clock="none")  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="lateness is an integer"):
        History("p", lateness=1.5)  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match=r"lateness is from 0 to 2\^63-1"):
        History("p", lateness=-1)
    history = History("p", lateness=3)
    with pytest.raises(TimeStampError, match="time-stamp -4 at index 1 is not between") as caught:
        history.push([5, -4], [0, 0])
    assert caught.value.index == 1
    assert history.counters["events"] == 0
    assert list(history.push([5], [0])) == ["5:0 false", "!@2"]
    history.finish()
    with pytest.raises(MtlmonError, match="no event can follow"):
        history.push([5], [0])
    with pytest.raises(SnapshotError, match="finished"):
        history.snapshot()


def test_damaged_snapshots() -> None:
    history = History("EVENTUALLY[0,5] p", lateness=20, wait=2)
    history.push([1, 1, 9, 4], [0, 0, 0, 1])
    snapshot = history.snapshot()
    other = History("EVENTUALLY[0,5] p", lateness=20, wait=2)
    for wrong in (b"", b"text", snapshot[:-1], snapshot[:40], snapshot.replace(b"20", b"21")):
        with pytest.raises(SnapshotError):
            other.restore(wrong)
    for place in range(0, len(snapshot), 7):
        damaged = bytearray(snapshot)
        damaged[place] ^= 0x55
        with pytest.raises(SnapshotError):
            other.restore(damaged)
    for another in (
        History("EVENTUALLY[0,6] p", lateness=20, wait=2),
        History("EVENTUALLY[0,5] p", lateness=21, wait=2),
        History("EVENTUALLY[0,5] p", lateness=20),
        History("EVENTUALLY[0,5] p", "global", lateness=20, wait=2),
        History("EVENTUALLY[0,5] p", lateness=20, wait=2, clock="key"),
    ):
        with pytest.raises(SnapshotError):
            another.restore(snapshot)
    assert len(other.latest()) == 0
    other.restore(snapshot)
    assert list(other.push([12], [0])) == list(history.push([12], [0]))
    keyed = History("p", lateness=3)
    keyed.push([1], [1], keys=[("a", 1)])
    with pytest.raises(SnapshotError, match="neither an integer nor a text"):
        keyed.snapshot()


def test_what_is_held_follows_the_lateness_and_not_the_size_of_batches() -> None:
    """Many keys with few events, in large batches."""
    held = {}
    for lateness in (5, 10**6):
        history = History("p IMPLIES EVENTUALLY[0,5] q", lateness=lateness)
        for start in range(0, 400, 50):
            stamps = np.repeat(np.arange(start, start + 50), 40)
            keys = np.arange(len(stamps)) * 7 % 400
            history.push(stamps, np.zeros(len(stamps), np.uint64), keys=keys)
        held[lateness] = history.counters["held_bytes"]
    assert held[10**6] > 2 * held[5]


# With one key, the session holds the state of the trace when the table forgets.
@pytest.mark.parametrize(
    ("formula", "key_count", "events"),
    [
        ("EVENTUALLY[0,300] p", 3, 30_000),
        ("(EVENTUALLY[0,300] p) EQUIV EVENTUALLY[7,90] p", 1, 30_000),
    ],
)
def test_configurations_that_never_come_back_are_forgotten(
    formula: str, key_count: int, events: int
) -> None:
    """The states at the ends of traces outlive those that the table forgets, also after replays."""
    source = random.Random(2)
    history = History(formula, "naive", lateness=600)
    clock = 0
    stamps = []
    for _ in range(events):
        clock += source.choice([0, 1, 3, 5, 7, 11, 13, 20])
        stamps.append(clock - 500 * (source.random() < 0.02 and clock > 500))
    holds = np.array([[source.random() < 0.01] for _ in stamps])
    keys = np.array([source.randrange(key_count) for _ in stamps])
    found = {}
    for start in range(0, len(stamps), 5):
        part = slice(start, start + 5)
        for record in history.push(stamps[part], holds[part], keys=keys[part]).records.tolist():
            found[record[7], record[0], record[1]] = record[4]
    for record in history.finish("inf").records.tolist():
        found[record[7], record[0], record[1]] = record[4]
    expected = {}
    for number, key in enumerate(history.keys):
        monitor = Monitor(formula, "naive")
        verdicts = []
        for k in np.argsort(stamps, kind="stable").tolist():
            if keys[k] == key:
                verdicts += monitor.step(stamps[k], ["p"] if holds[k, 0] else [])
        for verdict in [*verdicts, *monitor.finish("inf")]:
            expected[number, verdict.time_stamp, verdict.offset] = int(verdict.value is True)
    assert found == expected
    counters = history._histories.session.counters
    assert counters["table_flushes"] > 1
    assert counters["held_bytes"] < 3_200_000


def test_states_at_the_ends_count_as_memory() -> None:
    """A state that has no configuration takes hundreds of bytes for each key."""
    history = History("ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,50] q)", lateness=100)
    before = history.counters["state_bytes"]
    for time_stamp in range(0, 40, 2):
        history.push([time_stamp] * 50, [[True, False]] * 50, keys=list(range(50)))
    assert 50 * 500 < history.counters["state_bytes"] - before < 50 * 20_000


WIDE = "(EVENTUALLY[2,9] p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"


@pytest.mark.parametrize("broken", ["push", "advance", "complete", "finish"])
def test_a_history_that_was_interrupted_does_not_go_on(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was that the engine could not do: events may be judged in part."""
    history = History(WIDE, mode="global", lateness=5, wait=0 if broken == "push" else 5)
    history.push([0, 1], [0, 0])
    before = history.snapshot()
    calls: dict[str, Callable[[], object]] = {
        "push": lambda: history.push([2], [0]),
        "advance": lambda: history.advance(30),
        "complete": lambda: history.complete(0, 2, 2),
        "finish": lambda: history.finish("last"),
    }
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        calls[broken]()
    for call in (*calls.values(), history.snapshot):
        with pytest.raises(MonitorBrokenError, match="interrupted in the middle of a batch"):
            call()
    history = History(WIDE, mode="global", lateness=5, wait=0 if broken == "push" else 5)
    history.restore(before)
    assert "0:0 true" in map(str, history.push([30, 60], [0, 0]))
