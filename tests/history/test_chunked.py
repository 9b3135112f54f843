"""Rows in chunks, for a machine that anybody can see through: what it says is computed anew."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from tests.doors import ChunkedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

REACH = 4
"""The machine adds up the numbers of the last rows, so many of them."""


class Rows(NamedTuple):
    """Numbers with their times."""

    time_stamps: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def between(self, first: int, last: int) -> Rows:
        return Rows(self.time_stamps[first:last], self.numbers[first:last])


class Chunk:
    """Rows, the state before them, and the sums that the machine has told."""

    def __init__(self, start: int, state: tuple[int, ...], rows: Rows) -> None:
        self.start, self.state = start, state
        self.time_stamps, self.numbers = rows
        self.sums: list[int] = []

    @property
    def last(self) -> int:
        return int(self.time_stamps[-1]) if len(self.time_stamps) else self.start

    def add(self, rows: Rows) -> None:
        self.time_stamps = np.concatenate([self.time_stamps, rows.time_stamps])
        self.numbers = np.concatenate([self.numbers, rows.numbers])

    def keep(self, places: NDArray[np.intp]) -> None:
        self.time_stamps, self.numbers = self.time_stamps[places], self.numbers[places]


class Sums(ChunkedRows[Chunk]):
    """Sums of the last numbers; the state is these numbers, and a chunk has at most `room` rows."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.live: tuple[int, ...] = ()
        self.machine: tuple[int, ...] = ()
        self.taken = 0

    def push(self, time_stamp: int, number: int) -> None:
        row = Rows(np.array([time_stamp]), np.array([number]))
        if self.chunks and time_stamp < self.chunks[-1].last:
            self.replay(self.insert(row))
            return
        if not self.chunks or len(self.chunks[-1].numbers) >= self.room:
            self.chunks.append(Chunk(time_stamp, self.live, row.between(0, 0)))
        self.machine = self.live
        self.take_in(self.chunks[-1], row)
        self.live = self.machine
        self.chunks[-1].add(row)

    def remove(self, time_stamp: int, number: int) -> None:
        for place, chunk in enumerate(self.chunks):
            own = np.flatnonzero((chunk.time_stamps == time_stamp) & (chunk.numbers == number))
            if len(own):
                chunk.keep(np.delete(np.arange(len(chunk.numbers)), own[0]))
                self.replay({place: time_stamp})
                return

    def take_in(self, chunk: Chunk, rows: Rows) -> None:
        self.taken += len(rows.numbers)
        for number in rows.numbers.tolist():
            self.machine = (*self.machine, number)[-REACH:]
            chunk.sums.append(sum(self.machine))

    def load(self, chunk: Chunk) -> None:
        self.machine = chunk.state

    def step(self, place: int) -> int:
        chunk = self.chunks.pop(place)
        every = Rows(chunk.time_stamps, chunk.numbers)
        for first in range(0, len(chunk.numbers), self.room) or [0]:
            some = every.between(first, first + self.room)
            start = int(some.time_stamps[0]) if first else chunk.start
            part = Chunk(start, self.machine, some)
            self.chunks.insert(place, part)
            self.take_in(part, some)
            place += 1
        return place

    def is_settled(self, place: int, changed: int) -> bool:
        is_same = self.chunks[place].state == self.machine
        self.chunks[place].state = self.machine
        return is_same

    def go_live(self) -> None:
        self.live = self.machine


@pytest.mark.parametrize("room", [1, 2, 5])
def test_late_rows_and_removed_ones(room: int) -> None:
    source = random.Random(room)
    for _ in range(60):
        sums, history = Sums(room), list[tuple[int, int]]()
        for number in range(40):
            if history and source.random() < 0.25:
                row = history.pop(source.randrange(len(history)))
                sums.remove(*row)
            else:
                row = source.randrange(12), number
                history.append(row)
                history.sort(key=lambda one: one[0])
                sums.push(*row)
            numbers = [number for _, number in history]
            wanted = [sum(numbers[max(0, end - REACH) : end]) for end in range(1, len(numbers) + 1)]
            assert [one for chunk in sums.chunks for one in chunk.sums] == wanted
            assert not sums.dirty
        assert room > 1 or sums.early_stops


def test_a_replay_ends_where_the_state_is_what_it_was() -> None:
    sums = Sums(2)
    for time_stamp in range(0, 2000, 2):
        sums.push(time_stamp, 1)
    before = sums.taken
    sums.push(101, 1)
    # the last numbers are as before as soon as they are in the state
    assert sums.taken - before < 12
    assert sums.early_stops == 1
    sums.push(103, 5)
    assert sums.early_stops == 2


def test_chunks_that_have_changed_are_all_taken_in() -> None:
    """The first of them becomes several, and the others are behind where its replay ends."""
    sums = Sums(4)
    for time_stamp in range(4000):
        sums.push(time_stamp, time_stamp)
    before = sums.taken
    times = [*[100] * 30, 130, 3000]
    changed = sums.insert(Rows(np.array(times), -np.arange(len(times))))
    assert list(changed.values()) == [100, 130, 3000]
    sums.replay(changed)
    assert sums.taken - before < 120
    assert sums.early_stops == 3
    rows = [(time, time) for time in range(4000)]
    rows += zip(times, range(0, -len(times), -1), strict=True)
    numbers = [number for _, number in sorted(rows, key=lambda one: one[0])]
    wanted = [sum(numbers[max(0, end - REACH) : end]) for end in range(1, len(numbers) + 1)]
    assert [one for chunk in sums.chunks for one in chunk.sums] == wanted
