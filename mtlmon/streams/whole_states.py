"""States of a whole program, for rows that come late.

A program with ticks, rows that wait or instances has no states by trace. It has one for all traces
together, or for each one where traces have times of their own. `native.RoundHistory` sees these as
the states of slots: that at the end of the rows, and one where rows are computed again. The program
has one of them at a time; the others are here, as bytes.

What rows bring at other times is kept by chunk: ticks, and rows that wait no longer. When a chunk
is computed again, these are compared with what they were.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

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
)
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Protocol

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.late_computing import Computer
    from mtlmon.streams.named_rows import Rows

    Queues = dict["When", Queue]

    class Computed(Protocol):
        """Takes the atoms of rows at some places."""

        def __call__(self, places: NDArray[np.int64], rows: Rows, held: NDArray[np.bool_]) -> None:
            """Let the rows have these atoms."""


__all__ = ["WholeStates"]

# More than any number of a trace.
_NO_TRACE = np.uint32(2**32 - 1)


class _Emitted:
    """What the rows of a chunk have brought at other times.

    Args:
        seen: all ticks below this time have been computed before.

    Attributes:
        ticks: the ticks that were computed with these rows, and the rows that they have let go.
    """

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.ticks: list[TickSets] = []


class WholeStates:
    """States of a whole program, by slots: see `native.WholeState`.

    The slot at the end of a group of rows is twice the number of the group; odd ones are for rows
    that are computed again.

    Args:
        computer: computes atoms.
        rows_at: returns the rows at some places.
        computed: gets the atoms of rows.
        are_alone: whether each trace is a group, of its number; else all traces are group 0.

    Attributes:
        tick_changes: what has become of ticks since it was taken.
    """

    def __init__(
        self,
        computer: Computer,
        rows_at: Callable[[NDArray[np.int64]], Rows],
        computed: Computed,
        *,
        are_alone: bool,
    ) -> None:
        self._computer = computer
        self._rows_at = rows_at
        self._computed = computed
        self._are_alone = are_alone
        self.tick_changes = TickChanges(computer.tick_atoms)
        # the slot whose state the program has, the rows that wait there, and its bytes, if known
        self._loaded: int | None = None
        self._queues: Queues = {}
        self._known: bytes | None = None
        self._parked: dict[int, tuple[bytes, Queues]] = {}
        # what was told with chunks, by their numbers
        self._emitted: dict[int, _Emitted] = {}
        # ticks of chunks that are computed again, as they were and as they are; those of new rows
        self._before: list[TickSets] = []
        self._after: list[TickSets] = []
        self._added: list[TickSets] = []
        self._is_end = False

    # ---- states ----------------------------------------------------------------------------

    def saved(self, slot: int) -> bytes:
        """Return the state of a slot."""
        if slot != self._loaded:
            state = self._parked.get(slot)
            return self._of_new_program() if state is None else state[0]
        if self._known is None:
            queues = queues_as_bytes(self._queues)
            self._known = joined_parts([self._computer.program.snapshot(), queues])
        return self._known

    def _of_new_program(self) -> bytes:
        queues: Queues = dict.fromkeys(self._computer.waiting, NO_QUEUE)
        return joined_parts([self._computer.first_state, queues_as_bytes(queues)])

    def load(self, slot: int, state: bytes | None) -> None:
        """Let a slot have a state; None for that before the first row."""
        if slot == self._loaded:
            self._loaded = None
        if state is None:
            self._parked.pop(slot, None)
        else:
            self._parked[slot] = state, self._queues_in(state)

    def _queues_in(self, state: bytes) -> Queues:
        if not self._computer.waiting:
            return {}
        _, queues = split_parts(state)
        return queues_of_bytes(queues, self._computer.waiting)

    def move(self, slot: int, target: int) -> None:
        """Let a slot have the state of another one, which has none then."""
        if slot == self._loaded:
            self._parked.pop(target, None)
            self._loaded = target
        else:
            self.load(target, self.saved(slot))
            self.load(slot, None)

    def _use(self, slot: int) -> None:
        """Let the program have the state of a slot."""
        if slot == self._loaded:
            return
        if self._loaded is not None:
            self._parked[self._loaded] = self.saved(self._loaded), self._queues
            self._loaded = None
        if slot not in self._parked:
            self.load(slot, self._of_new_program())
        state, queues = self._parked.pop(slot)
        program, _ = split_parts(state)
        self._computer.program.restore(program)
        self._loaded, self._known, self._queues = slot, state, dict(queues)

    # ---- computing -------------------------------------------------------------------------

    def compute(
        self, slot: int, group: int, chunk: int, start: int, where: bytes, until: int
    ) -> tuple[int, int]:
        """Compute rows of a chunk, and the ticks that time brings which passes without a row.

        Args:
            slot: the slot whose state is before the rows.
            group: their group.
            chunk: the number of the chunk.
            start: where it starts.
            where: the places of the rows.
            until: no further row is below this time; 0 if that is not known.

        Returns:
            A time below which all ticks have been computed, and how many ticks there were.
        """
        self._use(slot)
        places = np.frombuffer(where, np.int64)
        is_again = slot % 2 == 1
        if is_again:
            before = self._emitted.pop(chunk, None)
            self._before += [] if before is None else before.ticks
        program = self._computer.program
        emitted = self._emitted.get(chunk)
        if emitted is None:
            # the ticks of a trace begin with its first row
            emitted = _Emitted(program.ticks_done if program.ticks_end < inf else start)
            self._emitted[chunk] = emitted
        if not len(places) and not until and not self._is_end:
            return program.ticks_done, 0
        rows = self._rows_at(places) if len(places) else None
        held, ticks = self._evaluate(group, rows, until)
        if rows is not None:
            self._computed(places, rows, held)
        count = tick_count([ticks])
        if count:
            emitted.ticks.append(ticks)
            (self._after if is_again else self._added).append(ticks)
        return program.ticks_done, count

    def cut(self, slot: int, group: int, chunk: int, where: bytes, until: int) -> None:
        """Compute the rows and ticks below a time that a chunk will not have any more.

        The arguments are those of `compute`.
        """
        self._use(slot)
        places = np.frombuffer(where, np.int64)
        rows = self._rows_at(places) if len(places) else None
        _, removed = self._evaluate(group, rows, until)
        emitted = self._emitted.get(chunk)
        if emitted is not None:
            emitted.seen = until
            emitted.ticks = [
                {
                    kind: own.without(removed[kind])
                    if kind in self._computer.waiting
                    else own.taken(own.time_stamps >= until)
                    for kind, own in ticks.items()
                }
                for ticks in emitted.ticks
            ]

    def _evaluate(
        self, group: int, rows: Rows | None, until: int
    ) -> tuple[NDArray[np.bool_], TickSets]:
        """Compute rows; return their atoms, and ticks with the rows that wait no longer."""
        numbers = np.empty(0, np.uint32)
        limit = until or None
        if rows is not None:
            count = len(rows.time_stamps)
            numbers = np.zeros(count, np.uint32) if self._are_alone else rows.traces
            limit = max(until, int(rows.time_stamps[-1])) if until else None
        trace = np.uint32(group if self._are_alone else 0)

        def numbers_of(traces: NDArray[np.uint32]) -> NDArray[np.uint32]:
            return np.where(traces == trace, np.uint32(0), _NO_TRACE)

        held, ticks = self._computer.compute(
            rows,
            np.ascontiguousarray(numbers),
            limit,
            is_end=self._is_end,
            numbers_of=numbers_of if self._are_alone else None,
        )
        self._known = None
        ticks = {kind: own._replace(traces=own.traces + trace) for kind, own in ticks.items()}
        for kind, queue in self._queues.items():
            waiting = queue if rows is None else queue.joined(rows.names)
            ticks[kind], self._queues[kind] = waiting.named(ticks[kind])
        self._computer.emit_tick_values(ticks)
        return held, ticks

    def compare(self) -> None:
        """Find what has become of ticks, and of rows that have waited, since the last time."""
        if self._before or self._after:
            self.tick_changes.replace(self._before, self._after)
        for ticks in self._added:
            self.tick_changes.add(ticks)
        self.pass_over()

    def pass_over(self) -> None:
        """Let nothing have become of ticks since the last time."""
        self._before, self._after, self._added = [], [], []

    @contextmanager
    def at_end(self) -> Iterator[None]:
        """Let no row wait any longer that is computed within: no more rows come."""
        self._is_end = True
        try:
            yield
        finally:
            self._is_end = False

    # ---- what is known ---------------------------------------------------------------------

    def queues_of(self, group: int) -> Iterable[Queue]:
        """Return the rows of a group that wait at its end."""
        slot = 2 * group
        if slot == self._loaded:
            return self._queues.values()
        _, queues = self._parked.get(slot, (b"", {}))
        return queues.values()

    def released_from(self, bound: int) -> int | None:
        """Return the time of the first row that has waited for one at a time or later, or None."""
        known: int | None = None
        for emitted in self._emitted.values():
            for ticks in emitted.ticks:
                for kind in self._computer.waiting:
                    which = ticks[kind].released >= bound
                    if which.any():
                        first = int(ticks[kind].time_stamps[which].min())
                        known = first if known is None else min(known, first)
        return known

    def seen(self, chunk: int) -> int:
        """Return the time below which ticks had been computed before a chunk."""
        return self._emitted[chunk].seen

    def keep(self, chunks: Collection[int]) -> None:
        """Forget what was told with other chunks than these."""
        self._emitted = {chunk: self._emitted[chunk] for chunk in chunks if chunk in self._emitted}

    @property
    def chunk_count(self) -> int:
        """The number of chunks with which something was told."""
        return len(self._emitted)

    @property
    def byte_count(self) -> int:
        """The number of bytes that this takes, about."""
        ticks = sum(tick_bytes(emitted.ticks) for emitted in self._emitted.values())
        return ticks + sum(len(state) for state, _ in self._parked.values())
