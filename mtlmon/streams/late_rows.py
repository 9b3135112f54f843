"""Atoms that depend on other rows, where rows come late or are taken back.

The rows of some traces are in chunks, in the order of time, each with the state of the streams at
its start. A late row goes into its chunk; atoms are computed again from the start of that chunk on,
up to a chunk whose rows see none of what has changed. So no stream needs an algorithm of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mtlmon.streams.late_ticks import (
    NO_QUEUE,
    Queue,
    TickChanges,
    TickSets,
    queues_as_bytes,
    queues_of_bytes,
    tick_bytes,
    tick_count,
    ticks_as_bytes,
    ticks_of_bytes,
)
from mtlmon.streams.named_rows import RowParts, joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.late_computing import Computer
    from mtlmon.streams.named_rows import Names, Rows

    Queues = dict["When", Queue]

    _Item = TypeVar("_Item", int, list[int])

__all__ = ["ChunkedRows", "Touching"]

# A chunk has at least so many rows, so that what is not of a row counts for little.
_LEAST_SPACING = 256
# The same where rows wait for later values.
_WAITING_SPACING = 16
# About how many bytes a row takes at least: a state takes no more than its rows.
_ROW_BYTES = 32
# More than any number of a trace.
_NO_TRACE = np.uint32(2**32 - 1)
# What a chunk takes beside its rows and its state.
_CHUNK_BYTES = 1024


class Touching(Protocol):
    """What has changed beside rows, and which rows it concerns."""

    @property
    def first(self) -> int:
        """No row below this time is concerned."""

    @property
    def last(self) -> int:
        """No row above this time is concerned."""

    def last_tick(self, start: int, limit: int) -> int | None:
        """Return the last time from one on below another at which ticks may be concerned."""

    def of(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which of some rows are concerned."""


class _Chunk(RowParts):
    """Rows, and the state before them.

    Args:
        start: no row below this time-stamp belongs here, but for the first chunk.
        state: the state.

    Attributes:
        queues: the rows that wait before the first row.
        seen: all ticks below this time have been computed before.
        ticks: the ticks that were computed with these rows, and the rows that they have let go.
        done: all ticks below this time have been computed then.
    """

    def __init__(self, start: int, state: bytes, queues: Queues, seen: int) -> None:
        super().__init__()
        self.start = start
        self.state = state
        self.queues = queues
        self.seen = seen
        self.ticks: list[TickSets] = []
        self.done = 0

    @property
    def size(self) -> int:
        """How many rows and ticks there are."""
        return self.count + tick_count(self.ticks)

    @property
    def end(self) -> int:
        """The time-stamp of the last row."""
        return int(self._parts[-1].time_stamps[-1]) if self.count else self.start

    @property
    def byte_count(self) -> int:
        return _CHUNK_BYTES + len(self.state) + super().byte_count + tick_bytes(self.ticks)


class ChunkedRows:
    """The rows of some traces, as far as they or what follows them can change.

    Args:
        computer: computes atoms.
        divisor: the number of a trace divided by it is its number in the state; None if there is
            only one trace.
        spacing: how many rows a chunk has; 0 means as many as the size of the state suggests.
        first_trace: the trace whose number in the state is 0.

    Attributes:
        tick_changes: what has become of ticks since it was taken.
    """

    def __init__(
        self, computer: Computer, divisor: int | None, spacing: int = 0, first_trace: int = 0
    ) -> None:
        self._computer = computer
        self._divisor = divisor
        self._spacing = spacing
        self._first_trace = first_trace
        self.tick_changes = TickChanges(computer.tick_atoms)
        # the rows that wait: in the state that the computer has here, and at the end
        self._queues: Queues = dict.fromkeys(computer.waiting, NO_QUEUE)
        self._last_queues = self._queues
        self._chunks: list[_Chunk] = []
        # the state at the end, unless the computer has it
        self._live = computer.first_state
        # without chunks: all ticks below this time have been computed
        self._done = 0

    def update(
        self, new: Rows, gone: Names, touching: Touching | None = None
    ) -> tuple[NDArray[np.bool_], list[Rows]]:
        """Take new rows in, and remove others.

        Args:
            new: the new rows, in the order of time; each comes behind all rows of its time-stamp.
            gone: the names of the rows to remove, which are there.
            touching: what else has changed, of the rows that are there; None if nothing has.

        Returns:
            `held` of the new rows with all atoms, and the other rows at which atoms have changed.
        """
        count = len(new.time_stamps)
        held = new.held.copy()
        late = 0
        if self._chunks:
            # ticks have seen that no row came before them
            last = self._chunks[-1]
            late = int(np.searchsorted(new.time_stamps, max(last.end, last.done)))
        changed: list[Rows] = []
        touched = {} if touching is None else self._touched_by(touching)
        if late or len(gone.time_stamps) or touched:
            held[:late], changed = self._replay(new.between(0, late), gone, touched)
        done = late
        while done < count:
            done = self._append(new, done, held)
        return held, changed

    def _append(self, new: Rows, first: int, held: NDArray[np.bool_]) -> int:
        """Compute rows at the end, from number `first` on; return the number behind them."""
        self._load_end()
        if not self._chunks or self._chunks[-1].size >= self._room(self._chunks[-1]):
            start = int(new.time_stamps[first])
            self._chunks.append(self._new_chunk(start))
        chunk = self._chunks[-1]
        last = min(len(new.time_stamps), first + self._room(chunk) - chunk.size)
        rows = new.between(first, last)
        held[first:last], ticks = self._compute(rows)
        chunk.add(rows._replace(held=held[first:last]))
        self._add_ticks(chunk, ticks)
        return last

    def _new_chunk(self, start: int) -> _Chunk:
        """A chunk that begins with the state that the computer has."""
        program = self._computer.program
        # the ticks of a trace begin with its first row
        seen = program.ticks_done if program.ticks_end < inf else start
        return _Chunk(start, program.snapshot(), self._queues, seen)

    def _add_ticks(self, chunk: _Chunk, ticks: TickSets) -> None:
        self._last_queues = self._queues
        if tick_count([ticks]):
            chunk.ticks.append(ticks)
        chunk.done = self._computer.program.ticks_done
        self.tick_changes.add(ticks)

    def pass_time(self, limit: int) -> None:
        """Compute the ticks below a time, by which all rows below it have come but late ones."""
        chunk = self._chunks[-1] if self._chunks else None
        known = self._done if chunk is None else max(chunk.done, chunk.end)
        if not self._computer.has_ticks_between(known, limit):
            return
        self._load_end()
        if chunk is None or chunk.size >= self._room(chunk):
            chunk = self._new_chunk(known)
            self._chunks.append(chunk)
        self._add_ticks(chunk, self._compute(None, limit)[1])

    def _room(self, chunk: _Chunk) -> int:
        """How many rows a chunk should have: a state takes no more memory than they do."""
        # what is final is found by chunks where rows wait
        least = _WAITING_SPACING if self._computer.waiting else _LEAST_SPACING
        return self._spacing or max(least, len(chunk.state) // _ROW_BYTES)

    def let_go(self) -> None:
        """Let all rows go that wait for later values: no more rows come."""
        if not self.waiting_count:
            return
        self._load_end()
        if not self._chunks:
            self._chunks.append(self._new_chunk(self._done))
        self._add_ticks(self._chunks[-1], self._compute(None, is_end=True)[1])

    @property
    def waiting_count(self) -> int:
        """How many rows wait for later values."""
        return max((len(one.traces) for one in self._last_queues.values()), default=0)

    @property
    def earliest_waiting(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the earliest row that waits; None if none does."""
        names = (
            name
            for queue in self._last_queues.values()
            for name in zip(queue.time_stamps.tolist(), queue.offsets.tolist(), strict=True)
        )
        return min(names, default=None)

    def known_below(self, bound: int) -> int:
        """The time below which no row waits for one that can still come: from a time on.

        It is found by chunks, so it can be less than it might be.
        """
        known, queues = bound, self._last_queues
        if self._chunks:
            # the last one that such a row can come into or before
            place = bisect_right([chunk.start for chunk in self._chunks], bound)
            chunk = self._chunks[max(0, place - 1)]
            known, queues = min(known, chunk.start), chunk.queues
        for queue in queues.values():
            if len(queue.time_stamps):
                known = min(known, int(queue.time_stamps.min()))
        return known

    def _compute(
        self, rows: Rows | None, until: int | None = None, *, is_end: bool = False
    ) -> tuple[NDArray[np.bool_], TickSets]:
        traces = np.empty(0, np.uint32) if rows is None else rows.traces
        if self._divisor is None:
            numbers = np.zeros(len(traces), np.uint32)
        else:
            numbers = traces // np.uint32(self._divisor)
        held, ticks = self._computer.compute(
            rows, numbers, until, is_end=is_end, numbers_of=self._numbers_of
        )
        factor, first = np.uint32(self._divisor or 0), np.uint32(self._first_trace)
        ticks = {
            period: own._replace(traces=own.traces * factor + first)
            for period, own in ticks.items()
        }
        queues = {}
        for kind, before in self._queues.items():
            queue = before if rows is None else before.joined(Queue(*rows.names))
            ticks[kind], queues[kind] = queue.named(ticks[kind])
        self._queues = queues
        return held, ticks

    def _numbers_of(self, traces: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The numbers of traces in the state; that of none for those of others."""
        first = np.uint32(self._first_trace)
        if self._divisor is None:
            return np.where(traces == first, np.uint32(0), _NO_TRACE)
        divisor = np.uint32(self._divisor)
        return np.where(traces % divisor == first, traces // divisor, _NO_TRACE)

    # ---- states ----------------------------------------------------------------------------

    def _load_end(self) -> None:
        """Let the computer have the state at the end."""
        self._queues = self._last_queues
        if self._computer.loaded is self:
            return
        self._computer.park()
        self._computer.program.restore(self._live)
        self._computer.loaded = self

    def take_back(self) -> None:
        """Keep the state at the end, which the computer has."""
        self._live = self._computer.program.snapshot()

    # ---- late rows -------------------------------------------------------------------------

    def _replay(
        self, late: Rows, gone: Names, touched: dict[int, int]
    ) -> tuple[NDArray[np.bool_], list[Rows]]:
        """Put rows in their places, remove others, and compute what may change."""
        before: list[TickSets] = []
        after: list[TickSets] = []
        found = self._replay_chunks(late, gone, touched, before, after)
        self.tick_changes.replace(before, after)
        return found

    def _replay_chunks(
        self,
        late: Rows,
        gone: Names,
        touched: dict[int, int],
        before: list[TickSets],
        after: list[TickSets],
    ) -> tuple[NDArray[np.bool_], list[Rows]]:
        """Do so without looking at ticks.

        Args:
            late: the rows to put in.
            gone: the names of those to remove.
            touched: by the places of chunks, the time of the last row that something else concerns.
            before: gets the ticks of these chunks as they were.
            after: gets those that are there now.
        """
        arrivals, departures = self._touched(late, gone)
        held = late.held.copy()
        changed: list[Rows] = []
        self._computer.park()
        # up to where anything has changed in this replay
        highest = -1
        place = -1
        while True:
            if highest < 0:
                # another replay begins
                waiting = [*arrivals, *departures, *touched]
                if not waiting:
                    return held, changed
                place = min(waiting)
                self._computer.program.restore(self._chunks[place].state)
                self._queues = self._chunks[place].queues
            new = np.array(arrivals.pop(place, []), np.intp)
            removed = departures.pop(place, [])
            times = [late.time_stamps[new], gone.time_stamps[removed]]
            highest = max([highest, *(int(own.max()) for own in times if len(own))])
            highest = max(highest, touched.pop(place, -1))
            is_new = self._merge(place, late, new, gone, removed)
            before += self._chunks[place].ticks
            behind = self._compute_again(place, is_new, held, new, changed)
            after += [ticks for chunk in self._chunks[place:behind] for ticks in chunk.ticks]
            arrivals = _moved(arrivals, behind - place - 1)
            departures = _moved(departures, behind - place - 1)
            touched = _moved(touched, behind - place - 1)
            place = behind
            if place == len(self._chunks):
                # the replay has come to the end
                self._computer.loaded = self
                self._last_queues = self._queues
                return held, changed
            following = self._chunks[place]
            state = self._computer.program.snapshot()
            is_same = state == following.state and all(
                queue.is_same(following.queues[kind]) for kind, queue in self._queues.items()
            )
            if is_same or self._is_out_of_reach(following, highest):
                highest = -1
            following.state, following.queues = state, self._queues
            following.seen = self._computer.program.ticks_done

    def _is_out_of_reach(self, chunk: _Chunk, time_stamp: int) -> bool:
        """Whether no row of a chunk depends on rows of a time-stamp or below."""
        reach = self._computer.program.reach
        return reach is not None and chunk.start > time_stamp + reach

    def _touched_by(self, touching: Touching) -> dict[int, int]:
        """By the places of chunks, the time of the last row that something concerns."""
        touched: dict[int, int] = {}
        for place, chunk in enumerate(self._chunks):
            if chunk.start <= touching.last and chunk.end >= touching.first and chunk.count:
                rows = chunk.rows
                concerned = np.flatnonzero(touching.of(rows))
                if len(concerned):
                    touched[place] = int(rows.time_stamps[concerned[-1]])
            if chunk.done > chunk.seen:
                last = touching.last_tick(chunk.seen, chunk.done)
                if last is not None:
                    touched[place] = max(last, touched.get(place, -1))
        return touched

    def _touched(
        self, late: Rows, gone: Names
    ) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """By the places of chunks, the numbers of rows that come there, and of those that go."""
        starts = [chunk.start for chunk in self._chunks]
        arrivals: dict[int, list[int]] = {}
        for number, time_stamp in enumerate(late.time_stamps.tolist()):
            place = max(0, bisect_right(starts, time_stamp) - 1)
            arrivals.setdefault(place, []).append(number)
        departures: dict[int, list[int]] = {}
        for number, time_stamp in enumerate(gone.time_stamps.tolist()):
            place = max(0, bisect_right(starts, time_stamp) - 1)
            # rows of one time-stamp may stand in several chunks
            while place and not len(self._found(place, gone, number)):
                place -= 1
            departures.setdefault(place, []).append(number)
        return arrivals, departures

    def _found(self, place: int, gone: Names, number: int) -> NDArray[np.intp]:
        """Where a row stands in a chunk, if it does."""
        if not self._chunks[place].count:
            return np.empty(0, np.intp)
        rows = self._chunks[place].rows
        first, last = np.searchsorted(
            rows.time_stamps, [gone.time_stamps[number], gone.time_stamps[number] + 1]
        )
        is_it = (rows.offsets[first:last] == gone.offsets[number]) & (
            rows.traces[first:last] == gone.traces[number]
        )
        places: NDArray[np.intp] = np.arange(first, last)[is_it]
        return places

    def _merge(
        self, place: int, late: Rows, new: NDArray[np.intp], gone: Names, removed: list[int]
    ) -> NDArray[np.bool_]:
        """Put rows into a chunk, each behind those of its time-stamp, and remove others.

        Returns:
            Which of the rows of the chunk are new.
        """
        chunk = self._chunks[place]
        if removed:
            places = np.concatenate([self._found(place, gone, number) for number in removed])
            kept = np.delete(np.arange(chunk.count), places)
            chunk.rows = chunk.rows.taken(kept)
        if not len(new):
            return np.zeros(chunk.count, np.bool_)
        before = chunk.count
        chunk.start = min(chunk.start, int(late.time_stamps[new[0]]))
        chunk.seen = min(chunk.seen, chunk.start)
        both = joined([*([chunk.rows] if before else []), late.taken(new)])
        order = np.argsort(both.time_stamps, kind="stable")
        chunk.rows = both.taken(order)
        return order >= before

    def _compute_again(
        self,
        place: int,
        is_new: NDArray[np.bool_],
        held: NDArray[np.bool_],
        new: NDArray[np.intp],
        changed: list[Rows],
    ) -> int:
        """Compute the rows of a chunk, which may become several; return the place behind them.

        Args:
            place: the place of the chunk.
            is_new: which of its rows are new.
            held: gets the atoms of the new rows.
            new: the places of these in `held`.
            changed: gets the other rows at which atoms have changed.
        """
        chunk = self._chunks[place]
        done = chunk.done
        if not chunk.count:
            chunk.ticks = []
            if done:
                chunk.ticks = [self._compute(None, done)[1]]
                chunk.done = max(done, self._computer.program.ticks_done)
            return place + 1
        rows = chunk.rows
        most = self._room(chunk)
        count = len(rows.time_stamps)
        firsts = [0]
        if count >= 2 * most:
            firsts = list(range(0, count - most + 1, most))
        parts = []
        for first, last in zip(firsts, [*firsts[1:], count], strict=True):
            part = rows.between(first, last)
            if first:
                other = self._new_chunk(int(part.time_stamps[0]))
                place += 1
                self._chunks.insert(place, other)
                chunk = other
            until = max(done, int(part.time_stamps[-1])) if done and last == count else None
            found, ticks = self._compute(part, until)
            chunk.rows = part._replace(held=found)
            chunk.ticks = [ticks]
            chunk.done = self._computer.program.ticks_done
            parts.append(found)
        after = np.concatenate(parts)
        held[new] = after[is_new]
        is_other = np.any(after != rows.held, axis=1) & ~is_new
        if is_other.any():
            changed.append(rows._replace(held=after).taken(np.flatnonzero(is_other)))
        return place + 1

    # ---- what is forgotten -----------------------------------------------------------------

    def forget(self, bound: int, reach_back: int | None = None) -> None:
        """Forget rows that nothing can change any more: none below a time comes or goes.

        Args:
            bound: the time.
            reach_back: how far below it rows may still be computed; None if that does not matter.
        """
        count = 0
        chunks = self._chunks
        while count + 1 < len(chunks) and chunks[count].end < bound and chunks[count].done <= bound:
            count += 1
        self.tick_changes.forget(bound)
        # what comes between these and the rest is computed from the state before the rest
        del self._chunks[:count]
        first = self.first_start
        if reach_back is not None and first is not None and first < bound - reach_back:
            self._cut_off(bound)

    def _cut_off(self, bound: int) -> None:
        """Leave out the rows and ticks below a time that the first chunk begins with."""
        chunk = self._chunks[0]
        if chunk.end < bound and chunk.done <= bound:
            # the state at the end goes on without rows
            self._chunks, self._done = [], max(chunk.done, chunk.end)
            return
        rows = chunk.rows if chunk.count else None
        count = 0 if rows is None else int(np.searchsorted(rows.time_stamps, bound))
        self._computer.park()
        program = self._computer.program
        program.restore(chunk.state)
        self._queues = chunk.queues
        has_ticks = program.has_ticks
        first = None if rows is None or not count else rows.between(0, count)
        _, told = self._compute(first, bound if has_ticks else None)
        chunk.state, chunk.queues = program.snapshot(), self._queues
        chunk.start = chunk.seen = bound
        if rows is not None:
            chunk.rows = rows.between(count, chunk.count)
        chunk.ticks = [
            {
                kind: own.without(told[kind])
                if kind in self._computer.waiting
                else own.taken(own.time_stamps >= bound)
                for kind, own in ticks.items()
            }
            for ticks in chunk.ticks
        ]

    @property
    def first_start(self) -> int | None:
        """The time below which no row or tick is computed again; None if none is at all."""
        if not self._chunks:
            return None
        chunk = self._chunks[0]
        return min(chunk.start, chunk.seen) if chunk.done > chunk.seen else chunk.start

    # ---- snapshots -------------------------------------------------------------------------

    def parts(self) -> tuple[dict[str, Any], list[bytes], list[Rows]]:
        """Return what `restore` needs; the computer must be parked.

        Returns:
            Facts about the chunks, of which `chunks` are their starts, numbers of rows, and how far
            their ticks have been computed; all ticks, the state at the end, and that at the
            start of each chunk; and the rows of those that have some.
        """
        chunks = self._chunks
        ticks = ticks_as_bytes([chunk.ticks for chunk in chunks], self._computer.tick_atoms)
        queues = queues_as_bytes([self._last_queues, *(chunk.queues for chunk in chunks)])
        return (
            {
                "chunks": [(one.start, one.count, one.seen, one.done) for one in chunks],
                "done": self._done,
                "hidden": self.tick_changes.parts(),
            },
            [ticks, queues, self._live, *(chunk.state for chunk in chunks)],
            [chunk.rows for chunk in chunks if chunk.count],
        )

    def restore(self, facts: Mapping[str, Any], states: Sequence[bytes], rows: Rows) -> None:
        """Go on from what `parts` has returned, with the rows of all chunks."""
        ticks, queues, self._live, *states = states
        self.tick_changes.restore(facts["hidden"])
        self._done = facts["done"]
        chunks = facts["chunks"]
        ticks_of = ticks_of_bytes(ticks, len(chunks), self._computer.tick_atoms)
        self._last_queues, *queues_of = queues_of_bytes(
            queues, 1 + len(chunks), self._computer.waiting
        )
        first = 0
        for place, (start, count, seen, done) in enumerate(chunks):
            own = ticks_of[place]
            chunk = _Chunk(start, states[place], queues_of[place], seen)
            chunk.ticks, chunk.done = [own], done
            if count:
                chunk.rows = rows.between(first, first + count)
            first += count
            self._chunks.append(chunk)

    @property
    def byte_count(self) -> int:
        """The number of bytes that all chunks take, about."""
        return len(self._live) + sum(chunk.byte_count for chunk in self._chunks)


def _moved(of_chunks: dict[int, _Item], by: int) -> dict[int, _Item]:
    """The same of each chunk, as those that are yet to be computed have moved."""
    return {place + by: item for place, item in of_chunks.items()} if by else of_chunks
