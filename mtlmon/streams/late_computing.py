"""Computes the atoms of rows and ticks of one partition, from any state on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import EventError, RowError, TickError
from mtlmon.policy.predicates.time_points import ROWS, Waiting
from mtlmon.streams.late_ticks import TickRows, TickSets, joined_ticks
from mtlmon.streams.named_rows import fitted
from mtlmon.streams.ticking import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.streams.named_rows import Names, Rows
    from mtlmon.streams.program import StreamProgram


__all__ = ["Computed", "Computer"]

# About how many ticks are computed at once.
_MOST_TICKS = 1 << 17


class Computed(NamedTuple):
    """What was computed at rows or ticks.

    Attributes:
        when: which ones they are.
        names: have their names.
        atoms: the names of the columns of `held`.
        held: which atoms hold.
        shown: the values to show, by their names in `PolicyFile.shown`.
    """

    when: When
    names: Names | TickRows
    atoms: Sequence[str]
    held: NDArray[np.bool_]
    shown: Mapping[str, pa.Array]


class Computer:
    """Computes the atoms of rows of one partition, from any state on.

    Args:
        streams: computes them.
        partition: the number of the partition.
        plain: the atoms that are known without it; they come first in `Rows.held`.
        taker: takes what was computed at rows or ticks, perhaps again; None if nothing is shown.

    There must be programs, which have computed nothing yet.

    Attributes:
        tick_atoms: for each kind of ticks that policies are on, how many atoms they have there;
            the same for rows that wait for later values.
        waiting: the kinds of rows that wait.
        first_state: the state before the first row.
        row_count: how many rows were computed, each as often as that.
    """

    def __init__(
        self,
        streams: StreamAtoms,
        partition: int,
        plain: Sequence[str],
        taker: Callable[[Computed], None] | None = None,
    ) -> None:
        self._streams = streams
        self._partition = partition
        self._plain = len(plain)
        self._taker = taker
        self._atoms = (*plain, *streams.names_of(partition))
        # the values to show at the ticks that were computed last, in parts
        self._shown: list[dict[When, dict[str, pa.Array]]] = []
        self.tick_atoms = {
            kind: len(names) for kind, names in streams.tick_names_of(partition).items()
        }
        self.waiting = [kind for kind in self.tick_atoms if isinstance(kind, Waiting)]
        self.first_state = self.program.snapshot()
        self.row_count = 0

    @property
    def program(self) -> StreamProgram:
        """The streams, for the columns that were seen last."""
        program = self._streams.programs_now[self._partition]
        assert program is not None
        return program

    def renew(self) -> None:
        """Let there be a program that has computed nothing yet."""
        self._streams.renew(self._partition)

    def has_ticks_between(self, first: int, last: int) -> bool:
        """Whether there may be ticks from one time on and below another."""
        return self.program.has_ticks_between(first, last)

    def compute(
        self,
        rows: Rows | None,
        numbers: NDArray[np.uint32],
        until: int | None = None,
        *,
        is_end: bool = False,
        numbers_of: Callable[[NDArray[np.uint32]], NDArray[np.uint32]] | None = None,
    ) -> tuple[NDArray[np.bool_], TickSets]:
        """Compute the atoms of the next rows and ticks; return `held` with them, and the ticks.

        The ticks have the numbers of traces in the state.

        Args:
            rows: the rows; None for none.
            numbers: the numbers of their traces in the state.
            until: compute all ticks below this time, which is not below the rows; None for those
                below the last row.
            is_end: whether no more rows come, so that none waits any longer; there are no rows.
            numbers_of: returns the numbers that traces have in the state, more than there are for
                those that it does not have; None if they are the same.

        Raises:
            EventError: integers overflow in a row, or at a tick.
        """
        assert self._streams.schema is not None
        if rows is None:
            held = np.empty((0, 0), np.bool_)
            stamps = np.empty(0, np.int64)
            inputs = _no_rows(self._streams.schema)
        else:
            # columns may have had no value, and so no type, when the rows came
            inputs = fitted(rows.inputs, self._streams.schema)
            held, stamps = rows.held.copy(), np.ascontiguousarray(rows.time_stamps)
        self.row_count += len(stamps)
        parts: list[TickSets] = []
        self._shown = []
        first = 0
        while True:
            last, limit = self._next(inputs, stamps, numbers, first, until)
            ticks, shown = self._evaluate(
                inputs, held, stamps, numbers, first, last, limit, is_end, numbers_of
            )
            parts.append(ticks)
            if self._taker is not None:
                self._shown.append(shown)
                if rows is not None and first < last:
                    own = rows.between(first, last).names
                    values = shown.get(ROWS, {})
                    self._taker(Computed(ROWS, own, self._atoms, held[first:last], values))
            first = last
            if first == len(stamps) and not self._has_more(until):
                break
        return held, {
            period: joined_ticks([part[period] for part in parts], atoms)
            for period, atoms in self.tick_atoms.items()
        }

    def emit_tick_values(self, ticks: TickSets) -> None:
        """Hand over the values at the ticks that were computed last, which have their names now."""
        if self._taker is None:
            return
        for when, own in ticks.items():
            parts = [shown.get(when, {}) for shown in self._shown]
            values = {name: pa.concat_arrays([one[name] for one in parts]) for name in parts[0]}
            names = self._streams.tick_names_of(self._partition)[when]
            self._taker(Computed(when, own, names, own.held, values))

    def _next(
        self,
        inputs: pa.RecordBatch,
        stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32],
        first: int,
        until: int | None,
    ) -> tuple[int, int | None]:
        """Up to which row, and to what time, to compute next, so that ticks stay few."""
        program = self.program
        count = len(stamps)
        if not program.has_many_points:
            return count, None
        limit = until
        if first < count:
            counts = program.tick_count(stamps[first:], numbers[first:], inputs.slice(first))
            some = int(np.searchsorted(counts, _MOST_TICKS, "right"))
            if some:
                return first + some, None
            limit = int(stamps[first])
        behind = program.time_behind(_MOST_TICKS)
        return first, limit if behind is None or limit is None else min(limit, behind)

    def _has_more(self, until: int | None) -> bool:
        """Whether ticks below a time are left."""
        program = self.program
        if until is None or program.time_behind(1) is None:
            return False
        return program.ticks_done < until

    def _evaluate(
        self,
        inputs: pa.RecordBatch,
        held: NDArray[np.bool_],
        stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32],
        first: int,
        last: int,
        until: int | None,
        is_end: bool,
        numbers_of: Callable[[NDArray[np.uint32]], NDArray[np.uint32]] | None,
    ) -> tuple[TickSets, dict[When, dict[str, pa.Array]]]:
        """Compute rows from number `first` to below `last`; return the ticks, and what to show."""
        try:
            found, at_ticks, shown = self._streams.held_at_rows(
                self._partition,
                inputs.slice(first, last - first),
                stamps[first:last],
                numbers[first:last],
                until,
                is_end=is_end,
                numbers_of=numbers_of,
            )
        except TickError as error:
            raise EventError(
                f"at {error.where}: {error.reason}; such ticks cannot be left out where verdicts "
                "are corrected"
            ) from error.__cause__
        except RowError as error:
            raise EventError(
                f"at time-stamp {stamps[first + error.rows[0]]}: {error.reason}; such rows "
                "cannot be left out where verdicts are corrected"
            ) from error.__cause__
        if first < last:
            for place, array in enumerate(found, self._plain):
                held[first:last, place] = array
        ticks: TickSets = {}
        for period, (own, arrays) in at_ticks.items():
            rows = np.empty((len(own), len(arrays)), np.bool_)
            for place, array in enumerate(arrays):
                rows[:, place] = array
            offsets = np.zeros(len(own), np.uint64)
            released = own.time_stamps
            if isinstance(period, Waiting):
                behind = LATEST if is_end else max(self.program.ticks_done, until or 0)
                released = np.append(stamps[first:last], behind)[own.places]
            ticks[period] = TickRows(own.time_stamps, own.numbers, offsets, rows, released)
        return ticks, shown


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    batches = schema.empty_table().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)
