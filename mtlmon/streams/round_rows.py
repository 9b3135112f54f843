"""Atoms that depend on other rows, with a state for each trace, where rows come late.

The rows of all traces are here once, each at a place. `native.RoundHistory` knows the places, has
the states between rows, and says which rows to compute next: those that are new, and those that see
a row that has come late or has gone, of all traces at once.

Programs with ticks, rows that wait and instances have no states by trace. `WholeStates` has states
of the whole program for these.

As long as no row comes late, there is nothing to compute again. So where rows do not see far back,
they are computed in the order of time first, without states between them, and kept with those that
they see. The first late row lets them be computed once more, by trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mtlmon.errors import LimitError
from mtlmon.streams import native
from mtlmon.streams.named_rows import Names, Rows, joined
from mtlmon.streams.whole_states import WholeStates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.late_computing import Computer
    from mtlmon.streams.late_ticks import ChangedTicks, Queue

__all__ = ["WHOLE_SPACING", "RoundRows", "Touching"]

# A chunk has at least so many rows, if its state does not suggest more.
_SPACING = 16
# The same where a chunk has a state of the whole program.
WHOLE_SPACING = 4096
# So many places of rows that have gone are kept before all places change.
_SPARE_ROWS = 4096
# With more parts, rows are joined to fewer.
_MOST_PARTS = 64


class _PlacedRows:
    """Rows at places, which are numbers from 0 on in the order in which they come."""

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self._firsts: list[int] = []
        self.count = 0

    @property
    def first_place(self) -> int:
        """The place of the first row; that of the next one if there is none."""
        return self._firsts[0] if self._firsts else self.count

    @property
    def held_count(self) -> int:
        """The number of rows that are here."""
        return self.count - self.first_place

    def add(self, rows: Rows) -> int:
        """Add rows, at least one; return the place of the first."""
        if len(self._parts) >= _MOST_PARTS:
            self._join(0)
        first = self.count
        self._parts.append(rows._replace(held=rows.held.copy()))
        self._firsts.append(first)
        self.count += len(rows.time_stamps)
        return first

    def _join(self, spared: int) -> None:
        """Join parts, but not the last ones, until each has more than twice the rows of the next.

        So a row is moved only as often as the number of rows has digits.
        """
        count = len(self._parts) - spared
        sizes = [len(part.time_stamps) for part in self._parts[:count]]
        while len(sizes) > 1 and sizes[-2] <= 2 * sizes[-1]:
            sizes[-2:] = [sizes[-2] + sizes[-1]]
        kept = len(sizes) - 1
        if 0 <= kept < count - 1:
            self._parts[kept:count] = [joined(self._parts[kept:count])]
            del self._firsts[kept + 1 : count]

    def at(self, places: NDArray[np.int64]) -> Rows:
        """Return the rows at some places."""
        first = self._firsts[-1]
        if not len(places) or places.min() >= first:
            last = self._parts[-1]
            if np.array_equal(places, np.arange(first, self.count)):
                return last
            return last.taken(places - first)
        self._join(1)
        parts, order, bounds = self._divided(places)
        rows = joined(
            [
                self._parts[part].taken(places[order[low:high]] - self._firsts[part])
                for part, low, high in zip(parts, bounds, bounds[1:], strict=False)
            ]
        )
        return rows if len(parts) == 1 else rows.taken(np.argsort(order))

    def _divided(self, places: NDArray[np.int64]) -> tuple[list[int], NDArray[np.intp], list[int]]:
        """The parts that have some places, these by parts, and where those of each part begin."""
        numbers = np.searchsorted(self._firsts, places, "right") - 1
        order = np.argsort(numbers, kind="stable")
        parts, starts = np.unique(numbers[order], return_index=True)
        return parts.tolist(), order, [*starts.tolist(), len(places)]

    def set_held(self, places: NDArray[np.int64], held: NDArray[np.bool_]) -> None:
        """Let the rows at some places have other atoms."""
        if not len(places):
            return
        first = self._firsts[-1]
        if places.min() >= first:
            # PERF: mostly all are new
            self._parts[-1].held[places - first] = held
            return
        parts, order, bounds = self._divided(places)
        for part, low, high in zip(parts, bounds, bounds[1:], strict=False):
            own = order[low:high]
            self._parts[part].held[places[own] - self._firsts[part]] = held[own]

    def held_from(self, first: int) -> NDArray[np.bool_]:
        """Return the atoms of the rows that were added last, of which the first has a place."""
        assert self._firsts[-1] == first
        return self._parts[-1].held

    def keep(self, places: NDArray[np.int64]) -> None:
        """Keep the rows at some places only, in this order; their places are new."""
        rows = self.at(places) if len(places) else None
        self._parts, self._firsts, self.count = [], [], 0
        if rows is not None:
            self.add(rows)

    def place_from(self, time_stamp: int) -> int:
        """Return the place of the first row from a time on, where all are in the order of time."""
        for first, part in zip(self._firsts, self._parts, strict=True):
            if len(part.time_stamps) and part.time_stamps[-1] >= time_stamp:
                return first + int(np.searchsorted(part.time_stamps, time_stamp))
        return self.count

    @property
    def first_time(self) -> int | None:
        """The time of the first row, where all are in the order of time; None if there is none."""
        times = (part.time_stamps for part in self._parts)
        return next((int(one[0]) for one in times if len(one)), None)

    def forget_below(self, place: int) -> None:
        """Forget the rows below a place, but for some that share a part with more others."""
        behind = int(np.searchsorted(self._firsts, place, "right")) - 1
        # one part is kept, as it tells what columns there are
        behind = min(max(behind, 0), len(self._parts) - 1)
        del self._parts[:behind], self._firsts[:behind]
        rows, count = self._parts[0], place - self._firsts[0]
        if count > len(rows.time_stamps) // 2:
            count = min(count, len(rows.time_stamps))
            self._parts[0] = rows.taken(np.arange(count, len(rows.time_stamps)))
            self._firsts[0] += count

    def between(self, first: int, last: int) -> Iterator[Rows]:
        """Return the rows from one time up to another one, in parts."""
        for part in self._parts:
            is_within = (part.time_stamps >= first) & (part.time_stamps <= last)
            if is_within.any():
                yield part.taken(np.flatnonzero(is_within))

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self._parts)


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


class RoundRows:
    """The rows of all traces of a partition, as far as they or what follows them can change.

    Args:
        computer: computes atoms; its program must have computed nothing yet.
        spacing: how many rows a chunk has at least; 0 for as many as are best.
        span: how far behind the start of a chunk its rows may be, as for `native.RoundHistory`;
            -1 for any time.
        lateness: how late rows may be; -1 if atoms change for other reasons, too.
        has_own_times: whether each trace has a time of its own.
    """

    def __init__(
        self,
        computer: Computer,
        spacing: int = 0,
        *,
        span: int = -1,
        lateness: int = -1,
        has_own_times: bool = False,
    ) -> None:
        self._computer = computer
        self._rows = _PlacedRows()
        self._program = computer.program
        # states of the whole program, unless each trace has one
        self._whole: WholeStates | None = None
        self._are_alone = has_own_times
        self._span = span
        # the traces of the history
        self._groups: dict[int, None] = {}
        # how far back rows see, while no row has come late, and the last time; else None
        self._calm_reach: int | None = None
        self._last = 0
        self._history: native.RoundHistory
        if not self._program.can_be_by_trace:
            self._spacing = spacing or WHOLE_SPACING
            self._whole = WholeStates(
                computer, self._at, self._keep_atoms, are_alone=self._are_alone
            )
            self._history = self._new_history()
        else:
            self._spacing = spacing or _SPACING
            reach = self._program.reach
            # else far more rows would be kept than can change
            if reach is not None and reach <= lateness and not has_own_times:
                self._calm_reach = reach
            else:
                self._be_by_trace()
        # the place of the first new row, and the places of others whose atoms have changed
        self._first_new = 0
        self._changed: list[NDArray[np.int64]] = []
        self._before: list[NDArray[np.bool_]] = []
        self.former: list[NDArray[np.bool_]] = []

    def _be_by_trace(self) -> None:
        """Let each trace have states; the program has computed nothing yet."""
        self._calm_reach = None
        self._program = self._computer.program
        self._program.be_by_trace()
        self._history = self._new_history()

    def _new_history(self) -> native.RoundHistory:
        if self._whole is not None:
            kernels = [native.WholeState(self._whole)]
            return native.RoundHistory(kernels, None, self._spacing, self._span)
        return native.RoundHistory(self._program.natives, self._compute, self._spacing, self._span)

    # ---- batches ---------------------------------------------------------------------------

    def update(
        self, new: Rows, removed: Names, touching: Touching | None = None
    ) -> tuple[NDArray[np.bool_], list[Rows]]:
        """Take new rows in, and remove others.

        Args:
            new: the new rows, in the order of time; each comes behind all rows of its time-stamp
                and trace.
            removed: the names of the rows to remove, which are there.
            touching: what else has changed, of the rows that are there; None if nothing has.

        Returns:
            `held` of the new rows with all atoms, and the other rows at which atoms have changed.

        Raises:
            EventError: integers overflow in a row. These rows must not be used after that.
        """
        count = len(new.time_stamps)
        if self._calm_reach is not None:
            is_late = count > 0 and int(new.time_stamps[0]) < self._last
            if is_late or len(removed.time_stamps):
                self._end_calm()
        elif self._whole is None and self._computer.program is not self._program:
            self._resume_with_new_program()
        again = [] if touching is None else self._touched(touching)
        self._first_new = self._rows.add(new) if count else self._rows.count
        self._changed, self._before = [], []
        if self._calm_reach is None:
            self._push(new.names, [(removed, -1), *((names, 0) for names in again)])
        elif count:
            self._last = int(new.time_stamps[-1])
            held, _ = self._computer.compute(new, np.ascontiguousarray(new.traces))
            self._rows.set_held(np.arange(self._first_new, self._rows.count), held)
        if self._whole is not None:
            self._whole.compare()
        held = self._rows.held_from(self._first_new).copy() if count else new.held.copy()
        self.former = []
        if not any(map(len, self._changed)):
            return held, []
        # a row may have changed more than once
        places, firsts = np.unique(np.concatenate(self._changed), return_index=True)
        self.former = [np.concatenate(self._before)[firsts]]
        return held, [self._rows.at(places)]

    def with_traces(self, names: Names) -> Names:
        """Return the names of rows that are there, which are those of one trace, with their own."""
        if not len(names.time_stamps):
            return names
        bounds = int(names.time_stamps.min()), int(names.time_stamps.max())
        parts = [rows.names for rows in self._rows.between(*bounds)]
        own = Names(*map(np.concatenate, zip(*parts, strict=True)))
        wanted = zip(names.time_stamps.tolist(), names.offsets.tolist(), strict=True)
        known = zip(own.time_stamps.tolist(), own.offsets.tolist(), strict=True)
        traces = dict(zip(known, own.traces.tolist(), strict=True))
        return names._replace(traces=np.array([traces[one] for one in wanted], np.uint32))

    def _push(self, new: Names, others: Sequence[tuple[Names, int]]) -> None:
        """Tell the history of new rows, whose places begin with the first new one, and of others.

        Args:
            new: the names of the new rows.
            others: names of rows that are there, with the signs of `native.RoundHistory.push`.
        """
        count = len(new.time_stamps)
        order = None
        if self._whole is not None and self._are_alone:
            order = np.argsort(new.traces, kind="stable")
            new = Names(new.time_stamps[order], new.traces[order], new.offsets[order])
        parts = [new, *(names for names, _ in others)]
        times, traces, offsets = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        places = np.arange(self._first_new, self._first_new + len(times))
        if order is not None:
            places[:count] = self._first_new + order
        signs = [1, *(sign for _, sign in others)]
        if self._whole is not None and not self._are_alone:
            if len(offsets) and int(offsets.max()) >= 1 << 32:
                raise LimitError("more than 2^32 rows of a key have the same time-stamp")
            offsets = offsets << np.uint64(32) | traces
            traces = np.zeros(len(traces), np.uint32)
        if self._whole is not None:
            self._groups.update(dict.fromkeys(np.unique(traces).tolist()))
        self._history.push(
            traces,
            times,
            offsets,
            places,
            np.repeat(np.array(signs, np.int8), [len(part.time_stamps) for part in parts]),
        )

    def _touched(self, touching: Touching) -> list[Names]:
        """Find the rows that something concerns, and let their ticks be computed again."""
        if self._whole is not None:
            self._touch_ticks(touching, self._whole)
        return [
            rows.taken(np.flatnonzero(touching.of(rows))).names
            for rows in self._rows.between(touching.first, touching.last)
        ]

    def _touch_ticks(self, touching: Touching, whole: WholeStates) -> None:
        """Let chunks be computed again if something concerns their ticks."""
        for group in self._groups:
            for place, (chunk, _, passed, _) in enumerate(self._history.chunks_of(group)):
                seen = whole.seen(chunk)
                if passed > seen and touching.last_tick(seen, passed) is not None:
                    self._history.touch(group, place)

    def _compute(
        self, slots: bytes, where: bytes, moments: bytes | None, saved: bytearray | None
    ) -> None:
        """Compute rows for the history; see `native.RoundHistory`."""
        places = np.frombuffer(where, np.int64)
        rows = self._at(places)
        if moments is not None and saved:
            self._program.save_before(
                np.frombuffer(moments, np.int64), np.frombuffer(saved, np.uint64)
            )
        held, _ = self._computer.compute(rows, np.frombuffer(slots, np.uint32))
        self._keep_atoms(places, rows, held)

    def _at(self, places: NDArray[np.int64]) -> Rows:
        return self._rows.at(places)

    def _keep_atoms(self, places: NDArray[np.int64], rows: Rows, held: NDArray[np.bool_]) -> None:
        """Let the rows at some places have other atoms."""
        if len(places) and places.min() < self._first_new:
            is_changed = np.any(held != rows.held, axis=1) & (places < self._first_new)
            self._changed.append(places[is_changed])
            self._before.append(rows.held[is_changed])
        self._rows.set_held(places, held)

    def _end_calm(self) -> None:
        """Let each trace have states from now on, by computing the rows that are here again.

        At the first ones, atoms may be others than before, as rows that they have seen are gone;
        they are below what can change.
        """
        self._computer.renew()
        self._be_by_trace()
        self._first_new = 0
        self._rows.keep(np.arange(self._rows.first_place, self._rows.count))
        if self._rows.count:
            self._push(self._rows.at(np.arange(self._rows.count)).names, [])

    def _resume_with_new_program(self) -> None:
        """Let the present program have the states, as columns have other types than before."""
        parts = self.parts()
        self._program = self._computer.program
        self.restore(*parts)

    # ---- ticks, and rows that wait ---------------------------------------------------------

    def pass_time(self, limit: int) -> None:
        """Compute the ticks below a time, by which all rows below it have come but late ones."""
        if self._whole is not None:
            for group in self._groups:
                if self._computer.has_ticks_between(self._history.last_of(group), limit):
                    self._history.pass_time(group, limit)
            self._whole.compare()

    def release(self) -> None:
        """Let all rows go that wait for later values: no more rows come."""
        if self._whole is not None:
            with self._whole.at_end():
                for group in self._groups:
                    if any(len(one.traces) for one in self._whole.queues_of(group)):
                        self._history.pass_time(group, 0)
            self._whole.compare()

    def taken_ticks(self) -> dict[When, ChangedTicks]:
        """Remove what has become of ticks and of rows that have waited, and return it."""
        return {} if self._whole is None else self._whole.tick_changes.taken()

    @property
    def waiting_count(self) -> int:
        """How many rows wait for later values."""
        return sum(max((len(one.traces) for one in queues), default=0) for queues in self._queues())

    @property
    def earliest_waiting(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the earliest row that waits; None if none does."""
        names = (
            name
            for queues in self._queues()
            for queue in queues
            for name in zip(queue.time_stamps.tolist(), queue.offsets.tolist(), strict=True)
        )
        return min(names, default=None)

    def known_below(self, bound: int) -> int:
        """The time below which no row waits for one that can still come: from a time on."""
        if self._whole is None:
            return bound
        times = [
            int(queue.time_stamps.min())
            for queues in self._queues()
            for queue in queues
            if len(queue.time_stamps)
        ]
        released = self._whole.released_from(bound)
        return min([bound, *times, *([] if released is None else [released])])

    def _queues(self) -> Iterator[Iterable[Queue]]:
        """The rows that wait at the end of each group."""
        return (() if self._whole is None else self._whole.queues_of(one) for one in self._groups)

    # ---- what is forgotten -----------------------------------------------------------------

    def forget(self, bound: int, count: int, reach_back: int | None = None) -> None:
        """Forget rows that nothing can change any more: none below a time comes or goes.

        Args:
            bound: the time.
            count: how many traces to look at, about: those with new rows are looked at.
            reach_back: how far below it rows may still be computed; None if that does not matter.
        """
        if self._calm_reach is not None:
            if self._rows.held_count:
                self._rows.forget_below(self._rows.place_from(bound - self._calm_reach))
            return
        self._history.forget(bound, count)
        if self._whole is not None:
            self._whole.tick_changes.forget(bound)
        self._cut_off(dict.fromkeys(self._groups, bound), reach_back)
        self._tidy()

    def forget_some(
        self, traces: Sequence[int], bounds: Sequence[int], reach_back: int | None = None
    ) -> None:
        """Forget rows of some traces, each of which has a time of its own."""
        self._history.forget_some(traces, bounds)
        own = dict(zip(traces, bounds, strict=True))
        if self._whole is not None:
            self._whole.tick_changes.forget(0, own)
        self._cut_off(own, reach_back)
        self._tidy()

    def _cut_off(self, bounds: Mapping[int, int], reach_back: int | None) -> None:
        """Leave out the rows and ticks below the bounds of groups that reach too far back."""
        if reach_back is None or self._whole is None:
            return
        for group, bound in bounds.items():
            first = self._first_start(group)
            if first is not None and first < bound - reach_back:
                self._history.cut(group, bound)

    def _first_start(self, group: int) -> int | None:
        """The time below which no row or tick of a group is computed again; None if none is."""
        assert self._whole is not None
        for chunk, start, passed, _ in self._history.chunks_of(group)[:1]:
            seen = self._whole.seen(chunk)
            return min(start, seen) if passed > seen else start
        return None

    @property
    def first_start(self) -> int | None:
        """The time below which no row or tick is computed again; None if none is at all."""
        if self._calm_reach is not None:
            return self._rows.first_time
        if self._whole is None:
            return self._history.first_start
        starts = (self._first_start(group) for group in self._groups)
        return min((start for start in starts if start is not None), default=None)

    def _tidy(self) -> None:
        """Let go of rows that the history has forgotten, once they are many, and of their ticks."""
        most = 2 * self._history.row_count + _SPARE_ROWS
        if self._rows.held_count > most:
            self._rows.forget_below(self._history.first_place(self._rows.count))
        if self._rows.held_count > most:
            self._keep_places()
        if self._whole is not None and self._whole.chunk_count > 2 * self._history.chunk_count:
            self._whole.keep(
                [one[0] for group in self._groups for one in self._history.chunks_of(group)]
            )

    def _keep_places(self) -> None:
        self._rows.keep(np.frombuffer(self._history.take_places(), np.int64))

    # ---- snapshots -------------------------------------------------------------------------

    def parts(self) -> tuple[dict[str, Any], list[bytes], Rows | None]:
        """Return what `restore` needs: facts, the states before all rows, and these, if any."""
        facts: dict[str, Any] = {}
        if self._calm_reach is not None:
            self._end_calm()
        if self._whole is None:
            states = [self._history.at_starts(self._program.snapshot)]
        else:
            starts = self._history.starts()
            facts["groups"] = [group for *group, _ in starts]
            facts["hidden"] = self._whole.tick_changes.parts()
            states = [state for *_, state in starts]
        self._keep_places()
        rows = self._rows.at(np.arange(self._rows.count)) if self._rows.count else None
        return facts, states, rows

    def restore(self, facts: Mapping[str, Any], states: Sequence[bytes], rows: Rows | None) -> None:
        """Go on from what `parts` has returned, by computing the rows again.

        Raises:
            SnapshotError: the snapshot is damaged.
        """
        if self._whole is None:
            (snapshot,) = states
            self._be_by_trace()
            self._program.restore(snapshot)
        else:
            self._whole.tick_changes.restore(facts["hidden"])
            for (number, start, _), state in zip(facts["groups"], states, strict=True):
                self._whole.load(2 * number, state)
                self._groups[number] = None
                self._history.let_last_be(number, max(0, start))
        self._rows = _PlacedRows()
        if rows is not None:
            self._first_new = self._rows.add(rows)
            self._push(rows.names, [])
        if self._whole is not None:
            for number, start, last in facts["groups"]:
                is_behind = self._history.last_of(number) < last
                if start >= 0 and is_behind and self._computer.program.has_ticks:
                    self._history.pass_time(number, last)
                self._history.let_last_be(number, last)
            self._whole.pass_over()

    @property
    def byte_count(self) -> int:
        """The number of bytes that all rows and states take, about."""
        of_states = 0 if self._whole is None else self._whole.byte_count
        of_states += self._computer.program.held_bytes
        of_states += 0 if self._calm_reach is not None else self._history.held_bytes
        return of_states + self._rows.byte_count

    @property
    def row_count(self) -> int:
        """How many rows there are that can change."""
        return self._history.row_count
