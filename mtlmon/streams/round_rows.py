"""Atoms that depend on other rows, with a state for each trace, where rows come late.

The rows of all traces are here once, each at a place. `native.RoundHistory` knows the places, has
the states between rows, and says which rows to compute next: those that are new, and those that see
a row that has come late or has gone, of all traces at once.

Programs with ticks, rows that wait, instances, ages and look-ups in relations of rows have no
states by trace. `late_rows` has chunks of groups of traces for these, with states of the whole
program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.streams import native
from mtlmon.streams.named_rows import Rows, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.streams.late_computing import Computer
    from mtlmon.streams.named_rows import Names

__all__ = ["RoundRows"]

# A chunk has at least so many rows, if its state does not suggest more.
_SPACING = 16
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

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self._parts)


class RoundRows:
    """The rows of all traces of a partition, as far as they or what follows them can change.

    Args:
        computer: computes atoms; its program must have computed nothing yet.
        spacing: how many rows a chunk has at least; 0 for as many as are best.
    """

    def __init__(self, computer: Computer, spacing: int = 0) -> None:
        self._computer = computer
        self._spacing = spacing or _SPACING
        self._rows = _PlacedRows()
        self._program = computer.program
        self._program.be_by_trace()
        self._history = self._new_history()
        # the place of the first new row, and the places of others whose atoms have changed
        self._first_new = 0
        self._changed: list[NDArray[np.int64]] = []

    def _new_history(self) -> native.RoundHistory:
        return native.RoundHistory(self._program.natives, self._compute, self._spacing)

    def update(self, new: Rows, gone: Names) -> tuple[NDArray[np.bool_], list[Rows]]:
        """Take new rows in, and remove others.

        Args:
            new: the new rows, in the order of time; each comes behind all rows of its time-stamp
                and trace.
            gone: the names of the rows to remove, which are there.

        Returns:
            `held` of the new rows with all atoms, and the other rows at which atoms have changed.

        Raises:
            EventError: integers overflow in a row. These rows must not be used after that.
        """
        if self._computer.program is not self._program:
            self._go_on_with_new_program()
        count, leaving = len(new.time_stamps), len(gone.time_stamps)
        if not count + leaving:
            return new.held.copy(), []
        self._first_new = self._rows.add(new) if count else self._rows.count
        self._changed = []
        self._history.push(
            np.concatenate([new.traces, gone.traces]),
            np.concatenate([new.time_stamps, gone.time_stamps]),
            np.concatenate([new.offsets, gone.offsets]),
            np.arange(self._first_new, self._first_new + count + leaving),
            np.repeat(np.array([1, -1], np.int8), [count, leaving]),
        )
        held = self._rows.held_from(self._first_new).copy() if count else new.held.copy()
        places = np.concatenate(self._changed) if self._changed else np.empty(0, np.int64)
        return held, [self._rows.at(places)] if len(places) else []

    def _compute(
        self, slots: bytes, where: bytes, moments: bytes | None, saved: bytearray | None
    ) -> None:
        """Compute rows for the history; see `native.RoundHistory`."""
        places = np.frombuffer(where, np.int64)
        rows = self._rows.at(places)
        if moments is not None and saved:
            self._program.save_before(
                np.frombuffer(moments, np.int64), np.frombuffer(saved, np.uint64)
            )
        held, _ = self._computer.compute(rows, np.frombuffer(slots, np.uint32))
        is_changed = np.any(held != rows.held, axis=1) & (places < self._first_new)
        if is_changed.any():
            self._changed.append(places[is_changed])
        self._rows.set_held(places, held)

    def _go_on_with_new_program(self) -> None:
        """Let the present program have the states, as columns have other types than before."""
        snapshot, rows = self.parts()
        self._program = self._computer.program
        self.restore(snapshot, rows)

    # ---- what is forgotten -----------------------------------------------------------------

    def forget(self, bound: int, count: int) -> None:
        """Forget rows that nothing can change any more: none below a time comes or goes.

        Args:
            bound: the time.
            count: how many traces to look at, about: those with new rows are looked at.
        """
        self._history.forget(bound, count)
        self._tidy()

    def forget_some(self, traces: Sequence[int], bounds: Sequence[int]) -> None:
        """Forget rows of some traces, each of which has a time of its own."""
        self._history.forget_some(traces, bounds)
        self._tidy()

    def _tidy(self) -> None:
        """Let go of rows that the history has forgotten, once they are many."""
        if self._rows.count > 2 * self._history.row_count + _SPARE_ROWS:
            self._keep_places()

    def _keep_places(self) -> None:
        self._rows.keep(np.frombuffer(self._history.take_places(), np.int64))

    # ---- snapshots -------------------------------------------------------------------------

    def parts(self) -> tuple[bytes, Rows | None]:
        """Return what `restore` needs: the states before all rows, and these; None for no rows."""
        snapshot = self._history.at_starts(self._program.snapshot)
        self._keep_places()
        rows = self._rows.at(np.arange(self._rows.count)) if self._rows.count else None
        return snapshot, rows

    def restore(self, snapshot: bytes, rows: Rows | None) -> None:
        """Go on from what `parts` has returned, by computing the rows again.

        Raises:
            SnapshotError: the snapshot is damaged.
        """
        self._program.be_by_trace()
        self._program.restore(snapshot)
        self._history = self._new_history()
        self._rows = _PlacedRows()
        if rows is not None:
            count = len(rows.time_stamps)
            names: Any = rows.names
            self._first_new = self._rows.add(rows)
            self._history.push(
                np.ascontiguousarray(names.traces),
                np.ascontiguousarray(names.time_stamps),
                np.ascontiguousarray(names.offsets),
                np.arange(count),
                np.ones(count, np.int8),
            )

    @property
    def byte_count(self) -> int:
        """The number of bytes that all rows and states take, about."""
        return self._history.held_bytes + self._rows.byte_count + self._program.held_bytes

    @property
    def row_count(self) -> int:
        """How many rows there are that can change."""
        return self._history.row_count
