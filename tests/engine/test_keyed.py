"""Events of many streams from arrays: each stream answers as a monitor of its own would."""

from __future__ import annotations

import ctypes
import mmap
import random
import signal
from typing import Any

import numpy as np
import pytest

from mtlmon import LimitError, Monitor, TimeStampError, Verdict, VerdictArray
from mtlmon.tables import KeyedMonitors
from mtlmon.verdict_arrays import verdict_type
from tests.doors import EventColumns
from tests.doors import expressions_bdd as bdd

FORMULAS = [
    "p",
    "p IMPLIES EVENTUALLY[0,5] q",
    "p UNTIL[2,40] q",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "p SINCE[2,8] (q AND NEXT[0,1] p)",
    "ALWAYS (p IMPLIES EVENTUALLY q)",
    "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))",
    f"EVENTUALLY[0,{1 << 62}] (p AND q)",
]


def verdicts(records: bytes) -> list[Verdict]:
    return list(VerdictArray(np.frombuffer(records, verdict_type())))


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("streams", [1, 7, 300])
def test_each_stream_is_a_monitor_of_its_own(formula: str, mode: str, streams: int) -> None:
    source = random.Random(f"{formula} {mode} {streams}")
    together = KeyedMonitors(formula, mode)  # type: ignore[arg-type]
    apart = [Monitor(formula, mode) for _ in range(streams)]  # type: ignore[arg-type]
    atoms = together.atoms
    clock = 0
    for _ in range(12):
        size = source.choice([0, 1, 5, 255, 700])
        gaps = [source.choice([0, 0, 1, 1, 2, 5, 9, 30]) for _ in range(size)]
        times = clock + np.cumsum(np.array(gaps, np.int64))
        letters = np.array(
            [source.getrandbits(2) & source.getrandbits(2) for _ in range(size)], np.uint64
        )
        numbers = np.array([source.randrange(streams) for _ in range(size)], np.uint32)
        events = EventColumns(times, size)
        events.add_letters(len(atoms), letters)
        records, owners = together.feed(events, numbers)
        expected = [
            (int(number), verdict)
            for time_stamp, letter, number in zip(times, letters, numbers, strict=True)
            for verdict in apart[number].step(time_stamp, letter)
        ]
        found = zip(np.frombuffer(owners, np.uint32).tolist(), verdicts(records), strict=True)
        assert list(found) == expected
        clock = int(times[-1]) if size else clock
    assert together.counters["events"] == sum(one.counters["events"] for one in apart)
    for number, monitor in enumerate(apart):
        if monitor.counters["events"]:
            assert verdicts(together.finish(number, "last")) == monitor.finish(clock)
        else:
            assert together.finish(number, "last") == b""


@pytest.mark.parametrize("formula", FORMULAS)
def test_streams_that_go_and_come_back_have_any_numbers(formula: str) -> None:
    """As in workers that have the streams of some groups in memory, and lose them again."""
    source = random.Random(formula)
    together = KeyedMonitors(formula, own_clocks=True)
    apart = [Monitor(formula) for _ in range(12)]
    numbers = np.frombuffer(together.add(12), np.uint32).copy()
    assert numbers.tolist() == list(range(12))
    time = 0
    for _ in range(40):
        removed = np.array(sorted(source.sample(range(12), source.randrange(6))), np.int64)
        snapshot = together.snapshot(numbers[removed])
        if source.random() < 0.5:
            other = KeyedMonitors(formula, own_clocks=True)
            other.restore(snapshot)
            snapshot = other.snapshot(np.arange(len(removed), dtype=np.uint32))
        together.drop(numbers[removed])
        # streams without an event take some of the free numbers, and the next ones
        new = np.frombuffer(together.add(source.randrange(8)), np.uint32)
        numbers[removed] = np.frombuffer(together.restore(snapshot), np.uint32)
        assert len({*numbers.tolist(), *new.tolist()}) == 12 + len(new)
        together.drop(new)
        time += source.choice([0, 1, 5])
        letter = np.array([source.getrandbits(2)], np.uint64)
        key = source.randrange(12)
        events = EventColumns(np.array([time]), 1)
        events.add_letters(len(together.atoms), letter)
        records, owners = together.feed(events, numbers[key : key + 1])
        assert set(np.frombuffer(owners, np.uint32).tolist()) <= {int(numbers[key])}
        assert verdicts(records) == apart[key].step(time, int(letter[0]))
    assert len(together) < 32


def test_streams_that_time_has_passed_are_small() -> None:
    """They took 15 kB each, as states that are kept whole."""
    count = 2000
    monitors = KeyedMonitors("ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)", own_clocks=True)
    numbers = np.frombuffer(monitors.add(count), np.uint32)
    sizes = []
    for time in (5, 15, 25):
        events = EventColumns(np.full(count, time), count)
        events.add_letters(2, np.arange(count, dtype=np.uint64) % 4)
        monitors.feed(events, numbers)
        monitors.pass_time(numbers, time + 4)
        sizes.append(monitors.held_bytes / count)
    assert max(sizes) < 400
    snapshot = monitors.snapshot(numbers)
    assert len(snapshot) < 12 * count
    other = KeyedMonitors("ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)", own_clocks=True)
    other.restore(snapshot)
    found = [monitors.pass_time(numbers, time) for time in (30, 40)]
    assert found == [other.pass_time(numbers, time) for time in (30, 40)]
    assert found[1][0]


def test_more_events_than_are_worked_on_at_a_time() -> None:
    """Between two looks for signals no event is passed over, and none comes twice."""
    count = (1 << 16) + (1 << 15)
    times = np.arange(count, dtype=np.int64) // 3
    letters = (np.arange(count, dtype=np.uint64) * 7 % 11) & 3
    numbers = (np.arange(count, dtype=np.uint32) * 5) % 3

    def fed(*ends: int) -> list[tuple[bytes, bytes]]:
        monitors = KeyedMonitors("p SINCE[2,8] q")
        parts, start = [], 0
        for end in ends:
            events = EventColumns(times[start:end], end - start)
            events.add_letters(2, letters[start:end])
            parts.append(monitors.feed(events, numbers[start:end]))
            start = end
        return parts

    (whole,) = fed(count)
    parts = fed(1000, 40_000, 80_000, count)
    assert len(whole[1]) == 4 * count
    assert whole == (b"".join(part[0] for part in parts), b"".join(part[1] for part in parts))


def test_an_event_with_more_verdicts_than_are_collected_at_a_time() -> None:
    """The rest of its block follows once they are, each event once and none beyond the block."""
    source = random.Random(6)
    formula = "EVENTUALLY[0,100000] q"
    together = KeyedMonitors(formula, "naive")
    apart = [Monitor(formula, "naive") for _ in range(3)]
    clock = 0
    for _ in range(4):
        numbers = [source.randrange(3) for _ in range(9000)]
        letters = [int(k % 2000 in (700, 701, 900)) for k in range(len(numbers))]
        events = EventColumns(np.arange(clock, clock + len(numbers), dtype=np.int64), len(numbers))
        events.add_letters(1, np.array(letters, np.uint64))
        records, owners = together.feed(events, np.array(numbers, np.uint32))
        expected = [
            (number, verdict)
            for k, (letter, number) in enumerate(zip(letters, numbers, strict=True))
            for verdict in apart[number].step(clock + k, letter)
        ]
        found = zip(np.frombuffer(owners, np.uint32).tolist(), verdicts(records), strict=True)
        assert list(found) == expected
        clock += len(numbers)


def test_time_is_common_to_all_streams() -> None:
    monitors = KeyedMonitors("EVENTUALLY[0,5] p")
    events = EventColumns(np.array([5, 9], np.int64), 2)
    monitors.feed(events, np.array([0, 1], np.uint32))
    with pytest.raises(TimeStampError, match="8 at index 0 is below 9") as caught:
        monitors.feed(EventColumns(np.array([8], np.int64), 1), np.array([0], np.uint32))
    assert caught.value.index == 0
    with pytest.raises(TimeStampError, match="10 at index 1 is below 11"):
        monitors.feed(EventColumns(np.array([11, 10], np.int64), 2), np.array([0, 0], np.uint32))
    with pytest.raises(ValueError, match="an array of 1 items instead of 2"):
        monitors.feed(EventColumns(np.array([11, 11], np.int64), 2), np.array([0], np.uint32))
    assert monitors.counters["events"] == 2


def test_streams_with_clocks_of_their_own_refuse_negative_time_stamps() -> None:
    monitors = KeyedMonitors("p", own_clocks=True)
    events = EventColumns(np.array([9, 2, -3, -4]), 4)
    events.add_letters(1, np.array([1, 1, 1, 1], np.uint64))
    with pytest.raises(TimeStampError, match=r"-3 at index 2 is not between 0 and 2\^63-1"):
        monitors.feed(events, np.array([0, 1, 0, 1], np.uint32))
    assert feed(monitors, 1, 1, 1) == ["1:0 true"]


def test_streams_without_events_are_nothing() -> None:
    monitors = KeyedMonitors("p IMPLIES EVENTUALLY[0,5] q")
    events = EventColumns(np.array([5], np.int64), 1)
    events.add_letters(2, np.array([1], np.uint64))
    assert monitors.feed(events, np.array([1_000_000], np.uint32)) == (b"", b"")
    assert monitors.counters["bytes"] < 150_000_000
    assert monitors.finish(17, "inf") == b""
    assert monitors.pending(17) == monitors.pending(1_000_001) == monitors.pending(2**32 - 1) == []
    assert monitors.pending(1_000_000) == [(5, 0)]
    assert monitors.pending_streams == [1_000_000]
    assert list(map(str, verdicts(monitors.finish(1_000_000, "inf")))) == ["5:0 false"]
    assert monitors.finish(2_000_000, "inf") == b""


def test_only_equivalences_refer_to_other_time_points() -> None:
    source = random.Random(5)
    monitors = KeyedMonitors("p IMPLIES EVENTUALLY[0,50] q", "global")
    parts = []
    for clock in range(40):
        times = np.full(30, clock, np.int64)
        events = EventColumns(times, 30)
        events.add_letters(2, np.array([source.choice([0, 1, 1, 2]) for _ in times], np.uint64))
        parts.append(monitors.feed(events, np.arange(30, dtype=np.uint32) % 7)[0])
    parts += [monitors.finish(number, "inf") for number in range(7)]
    records = np.frombuffer(b"".join(parts), verdict_type())
    others = records[records["kind"] != 2]
    assert len(others) < len(records)
    assert not others["reference_time_stamp"].any()
    assert not others["reference_offset"].any()


def test_what_is_pending_unless_time_is_said_to_have_passed() -> None:
    monitors = KeyedMonitors("EVENTUALLY[0,0] p")
    events = EventColumns(np.zeros(1, np.int64), 1)
    events.add_letters(1, np.zeros(1, np.uint64))
    monitors.feed(events, np.zeros(1, np.uint32))
    assert [tuple(point) for point in monitors.pending(0)] == [(0, 0)]
    assert monitors.pending(0, 1) == []


def feed(monitors: KeyedMonitors, time_stamp: int, number: int, letter: int = 0) -> list[str]:
    """An event alone: the verdicts it brings, all of its stream."""
    events = EventColumns(np.array([time_stamp], np.int64), 1)
    events.add_letters(len(monitors.atoms), np.array([letter], np.uint64))
    records, owners = monitors.feed(events, np.array([number], np.uint32))
    assert set(np.frombuffer(owners, np.uint32).tolist()) <= {number}
    return list(map(str, verdicts(records)))


def test_what_a_monitor_says_of_itself() -> None:
    monitors = KeyedMonitors("p UNTIL q", "local")
    assert monitors.atoms == ("p", "q")
    assert monitors.mode == "global"


def test_pending_time_points_of_a_state_that_is_kept_whole() -> None:
    """Too many for a register each."""
    monitors = KeyedMonitors("EVENTUALLY[0,1000] p", "naive")
    for time_stamp in range(3, 103):
        assert feed(monitors, time_stamp, 1) == []
    assert monitors.counters["whole"] == 1
    assert monitors.pending_streams == [1]
    assert monitors.pending(1) == [(time_stamp, 0) for time_stamp in range(3, 103)]
    assert len(feed(monitors, 103, 1, 1)) == 101
    assert monitors.pending_streams == []


def test_a_whole_state_with_nothing_pending() -> None:
    """What it has seen is too much for a configuration."""
    formula = " OR ".join(f"(PREVIOUS[0,{bound}] p)" for bound in range(300))
    monitors = KeyedMonitors(formula)
    assert feed(monitors, 5, 0, 1) == ["5:0 false"]
    assert monitors.counters["whole"] == 1
    assert monitors.pending_streams == []
    assert feed(monitors, 100, 1) == ["100:0 false"]
    assert feed(monitors, 104, 0) == ["104:0 true"]


def test_what_lies_beyond_the_numbers_of_the_events_is_not_looked_at() -> None:
    """States are fetched some events ahead, of those that come and of no others. Here the memory
    before the numbers and behind them cannot be read."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    numbers = np.frombuffer(memory, np.uint32, page // 4, page)
    numbers[:] = np.arange(len(numbers)) % 3
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for place in (-page, page):
        assert protect(numbers.ctypes.data + place, page, 0) == 0
    monitors = KeyedMonitors("EVENTUALLY[0,5] p")
    for part in (numbers, numbers[:7], numbers[-7:], numbers[-12:], numbers[-1:]):
        events = EventColumns(np.zeros(len(part), np.int64), len(part))
        events.add_letters(1, np.ones(len(part), np.uint64))
        records, _ = monitors.feed(events, part)
        assert len(verdicts(records)) == len(part)


def test_a_call_of_which_verdicts_are_left_does_not_add_them_to_the_next() -> None:
    monitors = KeyedMonitors("p")
    assert feed(monitors, 0, 0, 1) == ["0:0 true"]
    assert feed(monitors, 0, 0) == ["0:1 false"]
    assert monitors.finish(0, "inf") == b""
    assert feed(monitors, 0, 0, 1) == ["0:0 true"]


@pytest.mark.parametrize(
    ("end_time", "expected"),
    [
        (None, []),
        ("last", ["0:0 false"]),
        (6, ["0:0 false", "2:0 false"]),
        ("inf", ["0:0 false", "2:0 false", "4:0 false"]),
    ],
)
def test_the_end_of_a_stream(end_time: Any, expected: list[str]) -> None:
    """Time is common to all streams, so "last" is the time-stamp of another one's event here."""
    monitors = KeyedMonitors("EVENTUALLY[0,4] p", "naive")
    for time_stamp in (0, 2, 4):
        feed(monitors, time_stamp, 0)
    feed(monitors, 5, 1)
    assert list(map(str, verdicts(monitors.finish(0, end_time)))) == expected
    assert monitors.pending_streams == [1]
    counters = monitors.counters
    assert (counters["events"], counters["true"], counters["false"]) == (4, 0, len(expected))
    # as if there had been none
    assert feed(monitors, 5, 0) == []
    assert monitors.pending(0) == [(5, 0)]


def test_a_stream_that_breaks_at_its_end_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its state is one in the middle of an event, which nobody may go on with."""
    formula = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    monitors = KeyedMonitors(formula)
    apart = Monitor(formula)
    for time_stamp in range(12):
        feed(monitors, time_stamp, 0)
        feed(monitors, time_stamp, 1)
        apart.step(time_stamp)
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        monitors.finish(0, 14)
    assert monitors.pending_streams == [1]
    for time_stamp in range(12, 40):
        expected = list(map(str, apart.step(time_stamp, ("p",))))
        assert feed(monitors, time_stamp, 1, 1 << monitors.atoms.index("p")) == expected


def test_nothing_is_pending_of_a_stream_that_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    monitors = KeyedMonitors("(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)")
    for time_stamp in range(4):
        feed(monitors, time_stamp, 0)
        feed(monitors, time_stamp, 1)
    assert monitors.pending_streams == [0, 1]
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        feed(monitors, 4, 0)
    assert monitors.pending_streams == [1]


def test_what_is_pending_cannot_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one stream, where that fails; the others go on."""
    monitors = KeyedMonitors("(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)")
    for time_stamp in range(12):
        feed(monitors, time_stamp, 0)
        feed(monitors, time_stamp, 1)
    points = monitors.pending(1)
    assert points == monitors.pending(0)
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        monitors.pending(0, 14)
    assert monitors.pending(1) == points


def test_a_signal_breaks_off_a_long_call() -> None:
    """Between two events, so that those before it count and others may follow."""

    class Stopped(Exception):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stopped

    count = 5_000_000
    monitors = KeyedMonitors("EVENTUALLY[0,5] p")
    events = EventColumns(np.zeros(count, np.int64), count)
    events.add_letters(1, np.ones(count, np.uint64))
    numbers = np.zeros(count, np.uint32)
    former = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stopped):
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            monitors.feed(events, numbers)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    done = monitors.counters["events"]
    assert done < count
    assert feed(monitors, 0, 0, 1) == [f"0:{done} true"]


def test_streams_that_are_dropped_twice_are_free_once() -> None:
    """Otherwise two new streams would share one state."""
    monitors = KeyedMonitors("p IMPLIES EVENTUALLY[0,5] q")
    numbers = np.arange(4, dtype=np.uint32)
    events = EventColumns(np.zeros(4, np.int64), 4)
    events.add_letters(2, np.ones(4, np.uint64))
    monitors.feed(events, numbers)
    saved = monitors.snapshot(numbers)
    for _ in range(3):
        monitors.drop(numbers[1:2])
    assert len(set(np.frombuffer(monitors.restore(saved), np.uint32))) == 4
    assert monitors.snapshot(numbers) == saved
