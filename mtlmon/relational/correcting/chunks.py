"""The time-points of a log in chunks (`mtlmon.history.chunked`), which an engine takes in.

Answers are kept with the chunk at which the engine gave them; those from before and after are
compared, so nothing needs to know what was pending where. The counts of engines are kept with
chunks as well.

Whether an engine holds the same is found in three ways, of which one is enough. No window reaches
from what has changed to the chunk; or the sums of what both hold are equal (`engine/content`); or
the states are equal as bytes, where there is no sum. Behind the chunk, the numbers of time-points
and the counts are other ones, but mean the same relative to each other: answers have time-stamps
and offsets, and what a chunk counts is a difference. A replay that removes an event does not stop
before time-points that are undecided then and may have other names, even if the state is unchanged.

To forget texts, an engine begins again from the first state with everything that is kept. When time
passes without events, only a copy of the engine is told, so no state has to be taken back when a
late event comes.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.errors import MtlmonError, RowError
from mtlmon.history.chunked import ChunkedRows
from mtlmon.relational.native import choose_points, join_points
from mtlmon.relational.running import HOLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.slicing.engine import Engine

__all__ = ["ChunkedPoints", "ComputedRows", "Name", "RevisedPoints", "Row", "Timed"]

# A chunk has at least so many time-points, so that what is not of a time-point counts for little.
_LEAST_SPACING = 256
# About how many bytes a time-point takes at least.
_POINT_BYTES = 64
# So many bytes of its state for each time-point of a chunk: a state takes a quarter of the memory
# of its time-points. PERF: to save states, and to add up what they hold, took half of the time
# without late events where states took as much as time-points.
_STATE_BYTES = 16
# What a chunk takes beside its time-points and its state.
_CHUNK_BYTES = 1024
_ROW_BYTES = 200

Name = tuple[int, int]
"""The time-stamp and the offset of an event."""

Row = tuple[int, int, int, int, tuple[int, ...]]
"""An answer: the policy, time-stamp and offset of the time-point, the kind, and the cells."""


class Timed(NamedTuple):
    """Time-points, with their names, in the order of time.

    Attributes:
        points: has the rows of their atoms.
        places: where it has them.
        time_stamps: their time-stamps.
        offsets: their offsets.
        held: at which of them atoms hold that are conditional: a column for each.
    """

    points: PointBlock
    places: NDArray[np.uint32]
    time_stamps: NDArray[np.int64]
    offsets: NDArray[np.uint64]
    held: NDArray[np.bool_]

    def between(self, first: int, last: int) -> Timed:
        """Return the time-points from number `first` to below `last`."""
        own = slice(first, last)
        names = self.time_stamps[own], self.offsets[own]
        return Timed(self.points, self.places[own], *names, self.held[own])


class RevisedPoints(NamedTuple):
    """Time-points at which conditional atoms hold that did not, or the other way round.

    Attributes:
        names: their names.
        held: as `Timed` has it, but only some columns.
        first: the number of the first of these.
    """

    names: Sequence[Name]
    held: NDArray[np.bool_]
    first: int = 0


class ComputedRows(NamedTuple):
    """Rows of atoms that are computed, at some time-points; they replace those from before.

    Attributes:
        places: where `points` has those of each time-point, by its name.
        points: time-points with rows of these atoms alone.
        atoms: the numbers of the atoms.
    """

    places: Mapping[Name, int]
    points: PointBlock
    atoms: Sequence[int]


class Counts(NamedTuple):
    """What engines count: how much of it, in all or between two moments.

    Attributes:
        found: for each policy, how many time-points violate it or match.
        answered: for each policy, how many are answered.
        counted: for each policy whose left side is counted, how many valuations have matched it,
            and how many have violated the policy.
    """

    found: NDArray[np.int64]
    answered: NDArray[np.int64]
    counted: NDArray[np.int64]

    def plus(self, other: Counts, times: int = 1) -> Counts:
        """Return the sum of both, or the difference with -1 `times`."""
        pairs = zip(self, other, strict=True)
        return Counts(*(one + times * more for one, more in pairs))


def counts_of(engine: Engine) -> Counts:
    """Return what an engine has counted."""
    counted = list(engine.counted_valuations.values())
    return Counts(
        np.array(engine.found_points, np.int64),
        np.array(engine.answered_points, np.int64),
        np.array(counted, np.int64).reshape(len(counted), 2),
    )


class _State(NamedTuple):
    """What is kept of an engine at the start of a chunk, as `_Chunk` has it."""

    state: bytes
    content: bytes | None
    open_from: int | None


def _state_of(engine: Engine) -> _State:
    # this lets states stand at the last time-point, so it comes before they are written
    content = engine.content()
    return _State(engine.snapshot(has_texts=False), content, _open_from(engine))


class _Chunk:
    """Time-points, and the state before them.

    Attributes:
        start: as `ChunkedRows` asks for it.
        state: the state of the engine.
        content: the sum of what it holds, or None.
        open_from: no time-point below this time-stamp is undecided then; None if none is.
        points: has the rows of their atoms.
        time_stamps: the time-stamps.
        offsets: the offsets.
        held: which conditional atoms hold.
        emitted: what the engine has answered while it took them in.
        counts: what it has counted meanwhile; None if it has taken in nothing.
    """

    def __init__(
        self, start: int, state: _State, new_block: Callable[[], PointBlock], atoms: int
    ) -> None:
        self.start = start
        self.begin_with(state)
        self._new_block = new_block
        self.points = new_block()
        self.time_stamps = np.empty(0, np.int64)
        self.offsets = np.empty(0, np.uint64)
        self.held = np.empty((0, atoms), np.bool_)
        self.emitted: list[Row] = []
        self.counts: Counts | None = None

    def begin_with(self, state: _State) -> None:
        """Note the state at the start."""
        self.state, self.content, self.open_from = state

    @property
    def count(self) -> int:
        return len(self.time_stamps)

    @property
    def end(self) -> int:
        """The time-stamp of the last time-point."""
        return int(self.time_stamps[-1]) if self.count else self.start

    @property
    def all(self) -> Timed:
        """All time-points."""
        places = np.arange(self.count, dtype=np.uint32)
        return Timed(self.points, places, self.time_stamps, self.offsets, self.held)

    def add(self, more: Timed) -> None:
        """Add time-points behind the others."""
        choose_points(self.points, more.points, more.places)
        self.time_stamps = np.concatenate([self.time_stamps, more.time_stamps])
        self.offsets = np.concatenate([self.offsets, more.offsets])
        self.held = np.concatenate([self.held, more.held])

    def keep(self, places: NDArray[np.intp]) -> None:
        """Keep some of the time-points, in another order, in a new block."""
        block = self._new_block()
        choose_points(block, self.points, places.astype(np.uint32))
        self.points = block
        self.time_stamps = self.time_stamps[places]
        self.offsets = self.offsets[places]
        self.held = self.held[places]

    @property
    def byte_count(self) -> int:
        own = _CHUNK_BYTES + len(self.state) + _POINT_BYTES * self.count
        return own + _ROW_BYTES * len(self.emitted)


class ChunkedPoints(ChunkedRows[_Chunk]):
    """The time-points of a log, as far as they or what follows them can change.

    Args:
        new_engine: makes an engine that has seen nothing; all of them share their texts.
        new_block: makes a block of time-points for it.
        by_stamp: whether all events of one time-stamp are one time-point.
        conditional: the numbers of atoms whose rows count only where `Timed.held` says so.
        spacing: how many time-points a chunk has; 0 means as many as the state's size suggests.
        reach: for how long after a time-point anything depends on it, and how many times anything
            looks at the time-point before or behind; None if there is no limit.

    Attributes:
        engine: has taken in all time-points.
        forgotten: what is counted of chunks that are forgotten.
        net: the answers that have changed: 1 if there is one now that was not there before, -1 if
            there was one.
        passed: how far time has passed without events.
        due: the least time at which time alone may bring an answer; None if it cannot.
        behind: the last time-stamp of time-points that are forgotten; -1 if none are.
        emitted_from: a time below which no answer is given again, nor told.
        replayed: how many time-points were taken in again.
    """

    def __init__(
        self,
        new_engine: Callable[[], Engine],
        new_block: Callable[[], PointBlock],
        *,
        by_stamp: bool = False,
        conditional: Sequence[int] = (),
        spacing: int = 0,
        reach: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self._reach = reach
        self._new_engine = new_engine
        self._new_block = new_block
        self._by_stamp = by_stamp
        self._conditional = tuple(conditional)
        self._spacing = spacing
        self.engine = new_engine()
        # what `latest` answers as time has passed
        self._emitted_ahead: list[Row] = []
        self._ahead: Counts | None = None
        # what is counted of chunks that are forgotten
        self.forgotten = counts_of(self.engine)
        # takes in chunks again
        self._again = self.engine
        self.net: dict[Row, int] = {}
        self.passed = 0
        self.due: int | None = None
        self.behind = -1
        self.emitted_from = 0
        self.replayed = 0
        # a time-point of which no answer is told, and the policies that have found something there
        self._untold: int | None = None
        self._found_untold: set[int] = set()
        # the last time-stamp of events that the present update removes
        self._last_removed = -1
        # by time-stamp, the offsets of events that were taken back, in order
        self.missing: dict[int, list[int]] = {}

    # ---- time-points -----------------------------------------------------------------------

    def update(
        self,
        new: Timed,
        removed: Iterable[Name],
        revised: Iterable[RevisedPoints] = (),
        rows: Iterable[ComputedRows] = (),
    ) -> None:
        """Take in new time-points, and remove others.

        Args:
            new: the new ones, in the order of time; each comes behind those of its time-stamp.
            removed: the names of events that were taken back. Some may never have been there.
            revised: others at which conditional atoms have changed. What is final may be forgotten.
            rows: the rows of computed atoms, at new time-points and at others.

        Raises:
            MtlmonError: integers overflow, or an operator would remember too much.
        """
        touched: dict[int, int] = {}
        for names, columns, first in revised:
            for name, held in zip(names, columns, strict=True):
                if (found := self._find(name)) is not None:
                    self.chunks[found[0]].held[found[1], first : first + len(held)] = held
                    touched[found[0]] = max(touched.get(found[0], 0), name[0])
        for computed in rows:
            places = dict(computed.places)
            new = self._with_rows(new, computed.points, places)
            touched |= self._compute_again(computed, places, touched)
        self._last_removed = -1
        for name in removed:
            self._last_removed = max(self._last_removed, name[0])
            if (place := self._remove(name)) is not None:
                touched[place] = max(touched.get(place, 0), name[0])
        late = 0
        if self.chunks:
            # engines take in what is not below their time
            side = "right" if self._by_stamp else "left"
            last = self.chunks[-1].end
            late = int(np.searchsorted(new.time_stamps, last, side))  # type: ignore[call-overload]
        if late:
            for place, time_stamp in self.insert(new.between(0, late)).items():
                touched[place] = max(touched.get(place, 0), time_stamp)
        self.replay(touched)
        self._again = self.engine
        done = late
        while done < len(new.time_stamps):
            done = self._append(new, done)
        self._let_time_pass()

    def _with_rows(self, new: Timed, rows: PointBlock, places: dict[Name, int]) -> Timed:
        """New time-points with the rows of computed atoms, whose places are removed."""
        plain, joined = self._new_block(), self._new_block()
        choose_points(plain, new.points, new.places)
        names = zip(new.time_stamps.tolist(), new.offsets.tolist(), strict=True)
        own = np.array([places.pop(name, len(rows)) for name in names], np.uint32)
        join_points(joined, plain, rows, own)
        return new._replace(points=joined, places=np.arange(len(own), dtype=np.uint32))

    def _compute_again(
        self, more_rows: ComputedRows, places: Mapping[Name, int], touched: Mapping[int, int]
    ) -> dict[int, int]:
        """Give time-points that are there the rows that were computed for them.

        Returns:
            The places of the chunks in which some have changed, with the last time-stamp there.
        """
        _, rows, atoms = more_rows
        found: dict[int, dict[int, int]] = {}
        for name, place in places.items():
            if (own := self._find(name)) is not None:
                found.setdefault(own[0], {})[own[1]] = place
        changed: dict[int, int] = {}
        for number, computed in found.items():
            chunk = self.chunks[number]
            before = self._rows_of(chunk.points, list(computed), atoms)
            now = self._rows_of(rows, list(computed.values()), atoms)
            pairs = zip(computed, before, now, strict=True)
            others = [place for place, one, other in pairs if one != other]
            if not others:
                continue
            more = np.full(chunk.count, len(rows), np.uint32)
            more[others] = [computed[place] for place in others]
            plain, joined = self._new_block(), self._new_block()
            choose_points(plain, chunk.points, np.arange(chunk.count, dtype=np.uint32))
            for atom in atoms:
                plain.unmark(atom, (more == len(rows)).astype(np.uint8).tobytes())
            join_points(joined, plain, rows, more)
            chunk.points = joined
            last = int(chunk.time_stamps[max(others)])
            changed[number] = max(touched.get(number, 0), last)
        return changed

    def _rows_of(
        self, points: PointBlock, places: Sequence[int], atoms: Sequence[int]
    ) -> list[list[Any]]:
        """The rows of some atoms at some time-points."""
        block = self._new_block()
        choose_points(block, points, np.array(places, np.uint32))
        return [[one for one in rows if one[0] in atoms] for _, rows in block.take()]

    def pass_time(self, time_stamp: int) -> None:
        """Note that time has passed without an event; `update` lets engines know."""
        self.passed = max(self.passed, time_stamp)

    def finish(self, end: Callable[[Engine], None], *, with_point: bool = False) -> None:
        """End the log.

        Args:
            end: ends the log for the engine.
            with_point: whether it adds a time-point, whose own answers are left out.
        """
        for row in self._emitted_ahead:
            self._count(row, -1)
        self._emitted_ahead = []
        before = counts_of(self.engine)
        self._untold = self.engine.point_count if with_point else None
        self._do(self.engine, lambda: end(self.engine), self._emitted_ahead)
        counts = counts_of(self.engine)
        if self._untold is not None:
            counts.found[list(self._found_untold)] -= 1
            counts = counts._replace(answered=np.minimum(counts.answered, self._untold))
        self._ahead = counts.plus(before, -1)

    def _append(self, new: Timed, first: int) -> int:
        """Take in time-points at the end, from number `first` on; return the number behind them."""
        if not self.chunks or self.chunks[-1].count >= self._room(self.chunks[-1]):
            self.chunks.append(self._chunk(int(new.time_stamps[first]), self.engine))
        chunk = self.chunks[-1]
        last = min(len(new.time_stamps), first + max(1, self._room(chunk) - chunk.count))
        if self._by_stamp:
            # a time-stamp is not divided
            stamp = new.time_stamps[last - 1]
            last = int(np.searchsorted(new.time_stamps, stamp, "right"))
        some = new.between(first, last)
        chunk.add(some)
        self._take_in(self.engine, some, chunk)
        return last

    def _chunk(self, start: int, engine: Engine) -> _Chunk:
        """A chunk that begins with the state of an engine."""
        return self._new_chunk(start, _state_of(engine))

    def _new_chunk(self, start: int, state: _State) -> _Chunk:
        return _Chunk(start, state, self._new_block, len(self._conditional))

    def _room(self, chunk: _Chunk) -> int:
        """How many time-points a chunk should have, so that its state takes little beside them."""
        return self._spacing or max(_LEAST_SPACING, len(chunk.state) // _STATE_BYTES)

    # ---- what an engine does ---------------------------------------------------------------

    def _take_in(self, engine: Engine, some: Timed, chunk: _Chunk) -> None:
        """Let an engine take in time-points of a chunk, and take its answers."""
        points, places = some.points, some.places
        if self._conditional:
            points = self._new_block()
            choose_points(points, some.points, some.places)
            for column, atom in enumerate(self._conditional):
                points.unmark(atom, some.held[:, column].tobytes())
            places = np.arange(len(points), dtype=np.uint32)
        choose_points(engine.points, points, places, self._by_stamp)
        before = counts_of(engine)
        self._do(engine, engine.advance, chunk.emitted)
        more = counts_of(engine).plus(before, -1)
        chunk.counts = more if chunk.counts is None else chunk.counts.plus(more)

    def _do(
        self,
        engine: Engine,
        work: Callable[[], None],
        emitted: list[Row],
    ) -> None:
        """Let an engine work, and take its answers."""
        try:
            work()
        except RowError as error:
            place = str(engine.clock)
            if not engine.timeline.is_of_stamps:
                place += f", time-point {engine.point_count - 1} of the log"
            raise MtlmonError(f"at time-stamp {place}: {error.reason}") from None
        finally:
            for policy, kind, time_stamp, offset, point, cells in engine.answers.take():
                if point == self._untold:
                    self._found_untold |= {policy} if kind != HOLDS else set()
                    continue
                row = policy, time_stamp, self._named(time_stamp, offset), kind, cells
                emitted.append(row)
                self._count(row, 1)

    def _named(self, time_stamp: int, offset: int) -> int:
        """The offset in the name of a time-point, given the one among those that are there."""
        if not self._by_stamp:
            for removed in self.missing.get(time_stamp, ()):
                if removed > offset:
                    break
                offset += 1
        return offset

    def _count(self, row: Row, by: int) -> None:
        now = self.net.get(row, 0) + by
        if now:
            self.net[row] = now
        else:
            del self.net[row]

    def _let_time_pass(self) -> None:
        """Let another engine know that time has passed: rows below that may still come.

        So no state has to be taken back as time has passed too far.
        """
        for row in self._emitted_ahead:
            self._count(row, -1)
        self._emitted_ahead = []
        self._ahead = None
        self.due = self.engine.next_due()
        if self.due is not None and self.due <= self.passed:
            ahead = self._new_engine()
            ahead.restore(self.engine.snapshot(has_texts=False))
            before = counts_of(ahead)
            self._do(ahead, lambda: ahead.end(self.passed, False), self._emitted_ahead)
            self._ahead = counts_of(ahead).plus(before, -1)
            self.due = ahead.next_due()

    # ---- late time-points ------------------------------------------------------------------

    def _remove(self, name: Name) -> int | None:
        """Take an event out of its chunk; return the place of the chunk, if there is one."""
        time_stamp, offset = name
        insort(self.missing.setdefault(time_stamp, []), offset)
        found = self._find(name)
        if found is None:
            return None
        place, row = found
        chunk = self.chunks[place]
        chunk.keep(np.delete(np.arange(chunk.count), row))
        return place

    def _find(self, name: Name) -> tuple[int, int] | None:
        """The place of the chunk that has an event, and its place there; None if none has it."""
        if not self.chunks:
            return None
        time_stamp, offset = name
        place = self.place_of(time_stamp)
        while place >= 0:
            chunk = self.chunks[place]
            first, last = np.searchsorted(chunk.time_stamps, [time_stamp, time_stamp + 1])
            found = np.flatnonzero(chunk.offsets[first:last] == offset)
            if len(found):
                return place, int(first + found[0])
            if chunk.start < time_stamp:
                break
            # those of one time-stamp may stand in several chunks
            place -= 1
        return None

    def load(self, chunk: _Chunk) -> None:
        self._again = self._new_engine()
        self._again.restore(chunk.state)

    def is_settled(self, place: int, changed: int) -> bool:
        chunk = self.chunks[place]
        if self._is_out_of_reach(place, changed):
            return True
        state = _state_of(self._again)
        if _are_same(state, chunk) and not self._has_renamed(chunk):
            return True
        chunk.begin_with(state)
        return False

    def go_live(self) -> None:
        self.engine = self._again

    def _has_renamed(self, chunk: _Chunk) -> bool:
        """Whether what is undecided before a chunk may have other names, as events are gone."""
        return chunk.open_from is not None and chunk.open_from <= self._last_removed

    def _is_out_of_reach(self, place: int, time_stamp: int) -> bool:
        """Whether nothing depends on events up to a time from the start of a chunk on.

        The state there is then what it was, but for the numbers of time-points, which have meaning
        among each other only.
        """
        if self._reach is None:
            return False
        time, count = self._reach
        limit = time_stamp + time
        for _ in range(count):
            # what looks at the time-point before depends on it however long ago it was
            following = self._first_above(limit, place)
            if following is None:
                return False
            limit = following + time
        # what is undecided there reaches back from the last time-point before it
        return self._first_above(limit, place) is not None

    def _first_above(self, time_stamp: int, place: int) -> int | None:
        """The first time-stamp above another one in the chunks before a place; None if none is."""
        found = None
        for chunk in reversed(self.chunks[:place]):
            if chunk.count and chunk.end <= time_stamp:
                break
            after = int(np.searchsorted(chunk.time_stamps, time_stamp, "right"))
            if after < chunk.count:
                found = int(chunk.time_stamps[after])
        return found

    def step(self, place: int) -> int:
        chunk, engine = self.chunks[place], self._again
        for row in chunk.emitted:
            self._count(row, -1)
        self.replayed += chunk.count
        chunk.emitted = []
        chunk.counts = None
        most = self._room(chunk)
        if chunk.count < 2 * most:
            self._take_in(engine, chunk.all, chunk)
            return place + 1
        parts = list(_parts(chunk.time_stamps, most, by_stamp=self._by_stamp))
        every = chunk.all
        del self.chunks[place]
        for first, last in parts:
            some = every.between(first, last)
            if first:
                own = self._chunk(int(some.time_stamps[0]), engine)
            else:
                own = self._new_chunk(
                    chunk.start, _State(chunk.state, chunk.content, chunk.open_from)
                )
            own.add(some)
            self.chunks.insert(place, own)
            place += 1
            self._take_in(engine, some, own)
        return place

    # ---- what is known for good ------------------------------------------------------------

    def settled_below(self, bound: int) -> int:
        """The time-stamp below which all answers are known, if no event below a bound changes.

        It is found by chunks, so it can be less than it might be.
        """
        below = 0
        for chunk, following in zip(self.chunks, self.chunks[1:], strict=False):
            if chunk.end >= bound:
                break
            opened = following.start if following.open_from is None else following.open_from
            below = min(opened, following.start, bound)
        return below

    def last_below(self, bound: int) -> int:
        """The last time-stamp below a bound; 0 if there is none."""
        for chunk in reversed(self.chunks):
            place = int(np.searchsorted(chunk.time_stamps, bound))
            if place:
                return int(chunk.time_stamps[place - 1])
        return 0

    def forget(self, bound: int) -> list[Row]:
        """Forget what nothing can change any more: no event below a time comes or goes.

        Returns:
            The answers that are forgotten, which hold for good.
        """
        count = 0
        while count + 1 < len(self.chunks) and self.chunks[count].end < bound:
            count += 1
        if not count:
            return []
        emitted = [row for chunk in self.chunks[:count] for row in chunk.emitted]
        self.behind = self.chunks[count - 1].end
        for chunk in self.chunks[:count]:
            if chunk.counts is not None:
                self.forgotten = self.forgotten.plus(chunk.counts)
        del self.chunks[:count]
        first = self.chunks[0]
        # late events may still come before them
        least = min(bound, first.start)
        if first.open_from is not None:
            least = min(least, first.open_from)
        # no answer about what is before them is given again
        self.emitted_from = least
        self.missing = {time: removed for time, removed in self.missing.items() if time >= least}
        return emitted

    @property
    def counts(self) -> Counts:
        """What is counted now."""
        counts = self.forgotten
        for chunk in self.chunks:
            if chunk.counts is not None:
                counts = counts.plus(chunk.counts)
        return counts if self._ahead is None else counts.plus(self._ahead)

    @property
    def emitted(self) -> list[Row]:
        """All answers that are known now, but those that are forgotten."""
        return [row for chunk in self.chunks for row in chunk.emitted] + self._emitted_ahead

    # ---- states ----------------------------------------------------------------------------

    @property
    def state(self) -> bytes:
        """The state before the first time-point that is held."""
        return self.chunks[0].state if self.chunks else self.engine.snapshot(has_texts=False)

    @property
    def held(self) -> Timed:
        """All time-points that are held, in a new block."""
        block = self._new_block()
        for chunk in self.chunks:
            some = chunk.all
            choose_points(block, some.points, some.places)
        stamps = [chunk.time_stamps for chunk in self.chunks]
        offsets = [chunk.offsets for chunk in self.chunks]
        held = [chunk.held for chunk in self.chunks]
        count = sum(map(len, stamps))
        return Timed(
            block,
            np.arange(count, dtype=np.uint32),
            np.concatenate([np.empty(0, np.int64), *stamps]),
            np.concatenate([np.empty(0, np.uint64), *offsets]),
            np.concatenate([np.empty((0, len(self._conditional)), np.bool_), *held]),
        )

    def begin_again(self, state: bytes, held: Timed) -> None:
        """Begin with a state and the time-points behind it; `net` has nothing of their answers."""
        net = dict(self.net)
        self.chunks = []
        self._emitted_ahead = []
        self._ahead = None
        self.engine = self._new_engine()
        self.engine.restore(state)
        done = 0
        while done < len(held.time_stamps):
            done = self._append(held, done)
        self._let_time_pass()
        self.net = net

    @property
    def byte_count(self) -> int:
        """The number of bytes that all chunks take, about."""
        return sum(chunk.byte_count for chunk in self.chunks) + self.engine.held_bytes


def _are_same(state: _State, chunk: _Chunk) -> bool:
    """Whether an engine answers what it would with the state at the start of a chunk."""
    if state.content is None or chunk.content is None:
        return state.state == chunk.state
    return state.content == chunk.content


def _parts(
    time_stamps: NDArray[np.int64], most: int, *, by_stamp: bool
) -> Iterable[tuple[int, int]]:
    """Divide time-points into parts of about so many."""
    count = len(time_stamps)
    first = 0
    while first < count:
        last = count if count - first < 2 * most else first + most
        if by_stamp:
            last = int(np.searchsorted(time_stamps, time_stamps[last - 1], "right"))
        yield first, last
        first = last


def _open_from(engine: Engine) -> int | None:
    """The time-stamp of the first time-point that is undecided, or None.

    None as well where each time-stamp is a time-point: those without rows are not listed.
    """
    if engine.timeline.is_of_stamps:
        return None
    policies = range(len(engine.plan.named_policies))
    points = (point for policy in policies for point in engine.waiting_points(policy, 1))
    return min((time_stamp for time_stamp, _ in points), default=None)
