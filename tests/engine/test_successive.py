"""Streams one after the other: each answers as a monitor of its own would."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mtlmon import Monitor, MtlmonError, TimeStampError, Verdict, VerdictArray, resolve
from mtlmon.verdict_arrays import verdict_type
from tests.doors import EventColumns, SuccessiveMonitor
from tests.traces import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tests.traces import Mode

FORMULAS = [
    "p",
    "p IMPLIES EVENTUALLY[0,5] q",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "p SINCE[2,8] (q AND NEXT[0,1] p)",
    "ALWAYS (p IMPLIES EVENTUALLY q)",
    "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))",
]

Stream = tuple["NDArray[np.int64]", "NDArray[np.uint64]"]


def verdicts(records: bytes) -> list[Verdict]:
    return list(VerdictArray(np.frombuffer(records, verdict_type())))


def random_streams(source: random.Random, count: int) -> list[Stream]:
    """Time-stamps and letters of streams of at least one event, most of them short."""
    streams = []
    for _ in range(count):
        size = source.choice([1, 1, 2, 3, 5, 9, 40, 700])
        gaps = [source.choice([0, 0, 1, 1, 2, 5, 9, 30]) for _ in range(size)]
        letters = [source.getrandbits(2) & source.getrandbits(2) for _ in range(size)]
        streams.append((np.cumsum(np.array(gaps, np.int64)), np.array(letters, np.uint64)))
    return streams


def feedings(
    source: random.Random, streams: list[Stream], atoms: int
) -> Iterator[tuple[EventColumns, NDArray[np.uint32]]]:
    """The streams one after the other, cut anywhere."""
    times = np.concatenate([stamps for stamps, _ in streams])
    letters = np.concatenate([bits for _, bits in streams])
    starts = np.cumsum([0, *(len(stamps) for stamps, _ in streams[:-1])])
    first = 0
    while first < len(times):
        last = min(len(times), first + source.choice([0, 1, 5, 255, 256, 257, 900]))
        events = EventColumns(times[first:last], last - first)
        if last > first:
            events.add_letters(atoms, letters[first:last])
        inside = starts[(starts >= first) & (starts < last)]
        yield events, (inside - first).astype(np.uint32)
        first = last


def expected_of(
    formula: str, mode: Mode, resolves: bool, end_time: int | str | None, stream: Stream
) -> list[Verdict]:
    monitor = Monitor(formula, mode)
    found = [
        verdict
        for time_stamp, letter in zip(*stream, strict=True)
        for verdict in monitor.step(time_stamp, letter)
    ]
    found += monitor.finish(end_time)  # type: ignore[arg-type]
    return sorted(resolve(found), key=str) if resolves else found


@pytest.mark.parametrize("end_time", [None, 50, "last", "inf"])
@pytest.mark.parametrize("resolves", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_each_stream_is_a_monitor_of_its_own(
    formula: str, mode: Mode, resolves: bool, end_time: int | str | None
) -> None:
    source = random.Random(f"{formula} {mode} {resolves} {end_time}")
    streams = random_streams(source, 60)
    monitor = SuccessiveMonitor(
        formula,
        mode,
        resolve=resolves,
        end_time=end_time,  # type: ignore[arg-type]
    )
    found: list[list[Verdict]] = [[] for _ in streams]
    present = -1
    for events, starts in feedings(source, streams, len(monitor.atoms)):
        records, owners = monitor.feed(events, starts)
        for owner, verdict in zip(
            np.frombuffer(owners, np.uint32).tolist(), verdicts(records), strict=True
        ):
            found[present + owner].append(verdict)
        present += len(starts)
    found[present] += verdicts(monitor.finish())
    assert monitor.pending_count == 0
    for stream, given in zip(streams, found, strict=True):
        expected = expected_of(formula, mode, resolves, end_time, stream)
        assert (sorted(given, key=str) if resolves else given) == expected


def test_time_stamps_decrease_between_streams_only() -> None:
    monitor = SuccessiveMonitor("EVENTUALLY[0,5] p")
    nothing = np.array([], np.uint32)
    monitor.feed(EventColumns(np.array([5, 9], np.int64), 2), nothing)
    with pytest.raises(TimeStampError, match="8 at index 0 is below 9"):
        monitor.feed(EventColumns(np.array([8], np.int64), 1), nothing)
    with pytest.raises(TimeStampError, match="3 at index 2 is below 4") as caught:
        events = EventColumns(np.array([9, 4, 3], np.int64), 3)
        monitor.feed(events, np.array([1], np.uint32))
    assert caught.value.index == 2
    with pytest.raises(TimeStampError, match="-1 at index 1 is not between"):
        events = EventColumns(np.array([9, -1], np.int64), 2)
        monitor.feed(events, np.array([1], np.uint32))
    # nothing of this has changed anything
    events = EventColumns(np.array([9, 4], np.int64), 2)
    records, owners = monitor.feed(events, np.array([1], np.uint32))
    assert [str(verdict) for verdict in verdicts(records)] == ["9:1 = 9:0"]
    assert np.frombuffer(owners, np.uint32).tolist() == [0]


@pytest.mark.parametrize("starts", [[3], [1, 3], [1, 0]])
def test_starts_do_not_decrease(starts: list[int]) -> None:
    events = EventColumns(np.array([1, 2], np.int64), 2)
    with pytest.raises(ValueError, match="decrease, or are above 2"):
        SuccessiveMonitor("p").feed(events, np.array(starts, np.uint32))


def test_end_times_are_checked_at_once() -> None:
    with pytest.raises(MtlmonError, match="not 'first'"):
        SuccessiveMonitor("p", end_time="first")  # type: ignore[arg-type]
    with pytest.raises(TimeStampError, match="-1 is not between"):
        SuccessiveMonitor("p", end_time=-1)
