"""Atoms at ticks, and at rows that wait for later values, where rows come late or are taken back.

Ticks follow the rows that are there: a first row that comes late adds the ticks before, and a trace
whose rows are taken back has none any more. Ticks are computed with the rows of a chunk, up to a
time that is kept with the chunk, so the states of later chunks contain them, as they contain rows.
A row is late if its time is below the ticks that have been computed. When a chunk is computed
again, its ticks before and after are compared. For the histories of policies on ticks, new ticks
are late events, and ticks that are gone are hidden, like rows that are no longer chosen. The clock
of ticks is the clock of the log, which never goes back: retractions and replays take back rows that
ticks see, but no time. So ticks below the bound of admission stay, and need no bounds of their own.
A chunk is forgotten only when no row can come below the times that its ticks have seen.

Changes of relations are such ticks. Those of tables have keys with the numbers of traces in the
log. Where the valid records of a relation of rows have changed, the ticks of chunks are computed
again. Such a tick does not prove that time has passed, because it can disappear.

Rows that wait for later values are in the states of chunks, too. So a late row is computed again
from its own chunk on, even if it lets go rows that are far before it. What lets a row go is known
only at its chunk. Each state therefore has the names of the rows that wait (`Queue`); those of one
trace go in this order. The histories of these policies have all rows under their names at once,
hidden while they wait. Here, atoms below the bound of admission can still change, because rows that
wait there have none yet. So these histories are told a bound of their own, below which no row waits
for one that can still come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.policy.predicates.time_points import Waiting
from mtlmon.streams.named_rows import NO_NAMES, Names
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When

__all__ = [
    "NO_QUEUE",
    "ChangedTicks",
    "Queue",
    "TickChanges",
    "TickRows",
    "TickSets",
    "joined_ticks",
    "queues_as_bytes",
    "queues_of_bytes",
    "tick_bytes",
    "tick_count",
]

_TICK_BYTES = 20
"""What a tick takes beside its atoms."""


class TickRows(NamedTuple):
    """Ticks of some traces, with their atoms.

    Attributes:
        time_stamps: their times.
        traces: the numbers of their traces.
        offsets: their offsets, which are 0 for ticks.
        held: which atoms hold: a column for each.
        released: of rows that have waited, the times of the rows that let them go, or later ones.
    """

    time_stamps: NDArray[np.int64]
    traces: NDArray[np.uint32]
    offsets: NDArray[np.uint64]
    held: NDArray[np.bool_]
    released: NDArray[np.int64]

    def taken(self, places: NDArray[np.intp] | NDArray[np.bool_]) -> TickRows:
        """Return some of the ticks."""
        return TickRows(
            self.time_stamps[places],
            self.traces[places],
            self.offsets[places],
            self.held[places],
            self.released[places],
        )

    def without(self, others: TickRows) -> TickRows:
        """Return those that are not among others, by name."""
        names = set(others.names)
        return self.taken(np.array([name not in names for name in self.names], np.bool_))

    @property
    def names(self) -> Iterator[tuple[int, int, int]]:
        """For each, its time-stamp, the number of its trace, and its offset."""
        columns = (self.time_stamps.tolist(), self.traces.tolist(), self.offsets.tolist())
        return zip(*columns, strict=True)


TickSets = dict["When", TickRows]
"""The ticks of each kind, and the rows that wait no longer."""


class ChangedTicks(NamedTuple):
    """What has become of the ticks of a period, or at the changes of a relation.

    Attributes:
        new: those that have never been there.
        revised: those with other atoms, those that are there again, and those that are gone.
        is_removed: which of the latter are gone.
        was_there: which of them were there before.
        former: which atoms held at these before.
    """

    new: TickRows
    revised: TickRows
    is_removed: NDArray[np.bool_]
    was_there: NDArray[np.bool_]
    former: NDArray[np.bool_]


class _Revised(NamedTuple):
    """Ticks that are there again, or have other atoms, or are gone.

    Attributes:
        ticks: the ticks.
        is_removed: whether they are gone.
        former: which atoms held before; None if they were not there.
    """

    ticks: TickRows
    is_removed: bool
    former: NDArray[np.bool_] | None = None


def joined_ticks(parts: Sequence[TickRows], atoms: int) -> TickRows:
    """Return the ticks of all parts, which have so many atoms."""
    none = TickRows(
        np.empty(0, np.int64),
        np.empty(0, np.uint32),
        np.empty(0, np.uint64),
        np.empty((0, atoms), np.bool_),
        np.empty(0, np.int64),
    )
    columns = zip(*[none, *parts], strict=True)
    return TickRows(*(np.concatenate(column) for column in columns))


class TickChanges:
    """Collects what becomes of the ticks of some traces.

    Args:
        atoms: for each kind of ticks, how many atoms these have.
    """

    def __init__(self, atoms: Mapping[When, int]) -> None:
        self._atoms = dict(atoms)
        # the times and traces of ticks that were there once, and are not now
        self._hidden: dict[When, set[tuple[int, int]]] = {
            period: set() for period in atoms if not isinstance(period, Waiting)
        }
        self._new: dict[When, list[TickRows]] = {}
        self._revised: dict[When, list[_Revised]] = {}

    def add(self, ticks: TickSets) -> None:
        """Add ticks that are there now, and were not before."""
        for period, own in ticks.items():
            self._appear(period, own)

    def _appear(self, period: When, own: TickRows) -> None:
        hidden = self._hidden.get(period)
        if hidden is None:
            # a row is there while it waits
            self._revised.setdefault(period, []).append(_Revised(own, False))
            return
        if hidden and len(own.time_stamps):
            names = list(zip(own.time_stamps.tolist(), own.traces.tolist(), strict=True))
            is_back = np.array([name in hidden for name in names], np.bool_)
            hidden.difference_update(names)
            self._revised.setdefault(period, []).append(_Revised(own.taken(is_back), False))
            own = own.taken(~is_back)
        self._new.setdefault(period, []).append(own)

    def replace(self, before: Sequence[TickSets], after: Sequence[TickSets]) -> None:
        """Let other ticks be there in place of some."""
        for period, atoms in self._atoms.items():
            old = joined_ticks([one[period] for one in before if period in one], atoms)
            new = joined_ticks([one[period] for one in after if period in one], atoms)
            count = len(old.time_stamps)
            traces = np.concatenate([old.traces, new.traces])
            times = np.concatenate([old.time_stamps, new.time_stamps])
            offsets = np.concatenate([old.offsets, new.offsets])
            # of two equal ticks, the old one comes first
            order = _by_name(times, traces, offsets)
            first, second = order[:-1], order[1:]
            is_pair = (traces[first] == traces[second]) & (times[first] == times[second])
            is_pair &= offsets[first] == offsets[second]
            both, others = first[is_pair], second[is_pair] - count
            is_changed = np.any(old.held[both] != new.held[others], axis=1)
            revised = self._revised.setdefault(period, [])
            former = old.held[both[is_changed]]
            revised.append(_Revised(new.taken(others[is_changed]), False, former))
            removed = old.taken(np.delete(np.arange(count), both))
            nothing = np.zeros_like(removed.held)
            revised.append(_Revised(removed._replace(held=nothing), True, removed.held))
            self._appear(period, new.taken(np.delete(np.arange(len(new.traces)), others)))
            if period in self._hidden:
                names = zip(removed.time_stamps.tolist(), removed.traces.tolist(), strict=True)
                self._hidden[period].update(names)

    def taken(self) -> dict[When, ChangedTicks]:
        """Remove what has changed, and return it."""
        found = {}
        for period in {**self._new, **self._revised}:
            atoms = self._atoms[period]
            revised = self._revised.get(period, [])
            counts = [len(own.ticks.time_stamps) for own in revised]
            is_removed = np.array([own.is_removed for own in revised], np.bool_)
            was_there = np.array([own.former is not None for own in revised], np.bool_)
            former = [own.ticks.held if own.former is None else own.former for own in revised]
            found[period] = ChangedTicks(
                joined_ticks(self._new.get(period, []), atoms),
                joined_ticks([own.ticks for own in revised], atoms),
                np.repeat(is_removed, counts),
                np.repeat(was_there, counts),
                np.concatenate([np.empty((0, atoms), np.bool_), *former]),
            )
        self._new, self._revised = {}, {}
        return found

    def forget(self, bound: int, of_traces: Mapping[int, int] | None = None) -> None:
        """Forget what can never be there again: no row below a time comes or goes.

        Args:
            bound: the time.
            of_traces: the times of traces that have their own.
        """
        own = of_traces or {}
        for period, hidden in self._hidden.items():
            if hidden:
                self._hidden[period] = {
                    name for name in hidden if name[0] >= own.get(name[1], bound)
                }

    # ---- snapshots -------------------------------------------------------------------------

    def parts(self) -> list[list[Any]]:
        """Return what `restore` needs, once changes have been taken."""
        return [sorted(names) for names in self._hidden.values()]

    def restore(self, parts: Sequence[Sequence[Any]]) -> None:
        """Go on from what `parts` has returned."""
        for period, names in zip(self._hidden, parts, strict=True):
            self._hidden[period] = {(time, trace) for time, trace in names}


def tick_count(sets: Sequence[TickSets]) -> int:
    """Return how many ticks there are."""
    return sum(len(own.time_stamps) for one in sets for own in one.values())


def tick_bytes(sets: Sequence[TickSets]) -> int:
    """Return how many bytes ticks take, about."""
    return sum(
        len(own.time_stamps) * _TICK_BYTES + own.held.size for one in sets for own in one.values()
    )


class Queue(Names):
    """Names of rows that wait for later values, in the order of time: those of a trace go so."""

    __slots__ = ()

    def joined(self, other: Names) -> Queue:
        """Return these rows, and others behind them."""
        return Queue(
            np.concatenate([self.time_stamps, other.time_stamps]),
            np.concatenate([self.traces, other.traces]),
            np.concatenate([self.offsets, other.offsets]),
        )

    def named(self, removed: TickRows) -> tuple[TickRows, Queue]:
        """Return rows that wait no longer, with their offsets, and the queue without them."""
        order, own = _by_trace(self.traces), _by_trace(removed.traces)
        # the rows of a trace that go are its first ones
        traces, firsts, counts = np.unique(
            removed.traces[own], return_index=True, return_counts=True
        )
        starts = np.searchsorted(self.traces[order], traces) - firsts
        ranks = np.arange(len(own)) + np.repeat(starts, counts)
        places = np.empty(len(own), np.intp)
        places[own] = order[ranks]
        is_left = np.ones(len(self.traces), np.bool_)
        is_left[places] = False
        rest = Queue(*self.taken(np.flatnonzero(is_left)))
        return removed._replace(offsets=self.offsets[places]), rest


NO_QUEUE = Queue(*NO_NAMES)


def _by_trace(traces: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Where the rows of each trace are, in their order.

    PERF: numbers of 16 bits are sorted by their digits, in a quarter of the time.
    """
    if len(traces) and traces.max() < 1 << 16:
        return np.argsort(traces.astype(np.uint16), kind="stable")
    return np.argsort(traces, kind="stable")


def _by_name(
    time_stamps: NDArray[np.int64], traces: NDArray[np.uint32], offsets: NDArray[np.uint64]
) -> NDArray[np.intp]:
    """Where ticks are by name, equal ones in their order.

    PERF: where a name and a place fit into 64 bits, these are sorted as numbers, in two fifths of
    the time.
    """
    count = len(time_stamps)
    if not count:
        return np.empty(0, np.intp)
    first = int(time_stamps.min())
    spans = int(time_stamps.max()) - first + 1, int(traces.max()) + 1, int(offsets.max()) + 1
    bits = count.bit_length()
    if spans[0] * spans[1] * spans[2] >= 1 << 63 - bits:
        return np.lexsort((offsets, time_stamps, traces))
    names = (traces.astype(np.int64) * spans[0] + (time_stamps - first)) * spans[2]
    names = names + offsets.astype(np.int64) << bits | np.arange(count)
    return np.sort(names) & (1 << bits) - 1


def queues_as_bytes(queues: Mapping[When, Queue]) -> bytes:
    """Return queues as bytes, for `queues_of_bytes`."""
    return joined_parts(column.tobytes() for queue in queues.values() for column in queue)


def queues_of_bytes(data: bytes, kinds: Sequence[When]) -> dict[When, Queue]:
    """Return the queues of some kinds.

    Raises:
        SnapshotError: the bytes are damaged.
        ValueError: likewise.
    """
    parts = split_parts(data) if kinds else []
    if len(parts) != 3 * len(kinds):
        raise damaged()
    found = {}
    for kind, times, traces, offsets in zip(
        kinds, parts[::3], parts[1::3], parts[2::3], strict=True
    ):
        found[kind] = Queue(
            np.frombuffer(times, np.int64),
            np.frombuffer(traces, np.uint32),
            np.frombuffer(offsets, np.uint64),
        )
    return found
