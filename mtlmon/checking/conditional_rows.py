"""Atoms of policies with variables that depend on other rows, where these come late.

Late partitions compute them, as for policies without variables: one for each key, and one for the
whole log. One history admits the events for all of them, so time-points have the names that they
have in the log. All events have their rows, and a column for each such atom marks where the rows
count. A changed mark is a changed time-point. If atoms look values up in relations of the log's
rows, events are time-points once these are known at their time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.checking.late_partitions import texts_of
from mtlmon.history.following import Placements, placed_type, taken_back
from mtlmon.relational.correcting.admission import Admitted, EventAdmission
from mtlmon.relational.correcting.chunks import RevisedPoints
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal, Protocol

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.late_partitions import LatePartition
    from mtlmon.checking.revising import Revising
    from mtlmon.checking.sources import EventBatch
    from mtlmon.history.following import Found, LeadingHistory
    from mtlmon.history.operations import Corrections
    from mtlmon.relational.correcting.chunks import ComputedRows
    from mtlmon.relational.native import PointBlock

    class Arguments(Protocol):
        """Makes the rows of atoms with arguments that are computed."""

        @property
        def left_out(self) -> Mapping[tuple[int, int, str], object]: ...
        def left_out_below(self, bound: int, /) -> set[tuple[int, int, str]]: ...
        def taken(self) -> ComputedRows: ...
        def snapshot(self) -> bytes: ...
        def restore(self, snapshot: bytes, /) -> None: ...


__all__ = ["ConditionalRows", "Part"]


class Part(NamedTuple):
    """The atoms of policies with one key.

    Attributes:
        late: computes them; it has no others.
        computed: makes the rows of atoms with arguments that are computed; None if there are none.
    """

    late: LatePartition
    computed: Arguments | None


class ConditionalRows(EventAdmission):
    """Finds which events there are, and at which of them atoms hold, for a `PointHistory`.

    All events have rows of these atoms, which count where they hold.

    Args:
        leader: the history that admits events; it is that of all partitions.
        parts: compute the atoms, in the order of the conditional atoms.
        inputs: returns the columns that streams read of a batch.
        marked: the numbers of atoms without arguments whose rows are added here.
        revising: keeps relations of the log's rows up to date; None if there are none.
    """

    def __init__(
        self,
        leader: LeadingHistory,
        parts: Sequence[Part],
        inputs: Callable[[Any], pa.RecordBatch | None],
        marked: Sequence[int] = (),
        revising: Revising | None = None,
    ) -> None:
        super().__init__(leader)
        self._lates = [part.late for part in parts]
        # how many rows computed atoms lack for good
        self._left_out_before = 0
        self._computed = [part.computed for part in parts if part.computed is not None]
        self._inputs = inputs
        self._marked = tuple(marked)
        self._revising = revising
        if revising is not None:
            # policies without variables take each batch before those with variables
            revising.add(self._lates, ask_first=False)
        self._batch: EventBatch | None = None
        # there is no state before the first batch
        self._has_begun = False
        # the placements of events at whose time relations are not known yet
        self._waiting: NDArray[np.void] | None = None

    def note(self, batch: EventBatch, arrivals: PointBlock) -> None:
        """Take the batch of the events that are admitted next, and their time-points."""
        self._batch = batch
        self._has_begun = True
        for atom in self._marked:
            arrivals.mark(atom, bytes([1]) * len(arrivals))

    def admit(
        self,
        time_stamps: NDArray[np.int64],
        texts: Iterable[str] | None,
        corrections: Corrections,
    ) -> tuple[NDArray[np.int64], Admitted]:
        assert self._batch is not None
        inputs = self._inputs(self._batch)
        rows = [late.pool(self._batch, inputs) for late in self._lates]
        self._batch = None
        if corrections.takes_back:
            every = [*map(texts_of, rows), *([] if texts is None else [texts])]
            texts = map(" ".join, zip(*every, strict=True))
        refused, found = self.leader.admit(time_stamps, texts, None, corrections)
        return refused, self._admitted(found)

    def let_time_pass(self, time_stamp: int) -> Admitted:
        return self._admitted(self.leader.passed_by(time_stamp))

    def count_events(self, start: int, end: int, count: int) -> tuple[bool, Admitted]:
        is_taken, found = self.leader.let_count(start, end, count)
        return is_taken, self._admitted(found)

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> Admitted:
        for late in self._lates:
            late.know_end(end_time)
        return self._admitted(self.leader.ended(end_time), is_end=True)

    def _admitted(self, found: Found, *, is_end: bool = False) -> Admitted:
        for late in self._lates:
            late.arrange(found)
        for late in self._lates:
            late.compute(self._revising, is_end=is_end)
        held, changed = [], list[RevisedPoints]()
        first = 0
        for late in self._lates:
            own, (names, revised, flags, _) = late.emitted
            held.append(own)
            # those that were taken back are in `found` as well
            stays = flags == 0
            columns = (names.time_stamps[stays].tolist(), names.offsets[stays].tolist())
            changed.append(RevisedPoints(list(zip(*columns, strict=True)), revised[stays], first))
            first += own.shape[1]
        bound = self.leader.admits_from() or 0
        below = (computed.left_out_below(bound) for computed in self._computed)
        self._left_out_before += len(set[tuple[int, int, str]]().union(*below))
        rows = [computed.taken() for computed in self._computed]
        return Admitted(self._judged(found), np.hstack(held), changed, rows)

    def _judged(self, found: Found) -> Found:
        """What has become of the events that partitions have computed."""
        if not self._lates[0].relations:
            return found
        placed = [one.placed for one, _ in found]
        every = np.concatenate(placed if self._waiting is None else [self._waiting, *placed])
        withdrawn = np.concatenate([one.withdrawn for one, _ in found])
        if len(withdrawn):
            flags = every["flags"].astype(np.uint8)
            withdrawn = taken_back(every, withdrawn, flags)
            every["flags"] = flags
        waits = self._lates[0].waits(every["time_stamp"])
        self._waiting = every[waits]
        nothing = Placements(every[:0], withdrawn[:0])
        passed = ((nothing, passed) for _, passed in found if passed is not None)
        return [(Placements(every[~waits], withdrawn), None), *passed]

    def waiting(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        numbers, stamps = super().waiting()
        if self._waiting is not None:
            numbers = np.concatenate([numbers, self._waiting["number"]])
            stamps = np.concatenate([stamps, self._waiting["time_stamp"]])
        return numbers, stamps

    @property
    def waiting_count(self) -> int:
        return super().waiting_count + (0 if self._waiting is None else len(self._waiting))

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows and states take, about."""
        held = sum(late.byte_count for late in self._lates)
        return held + (0 if self._waiting is None else self._waiting.nbytes)

    def snapshot(self) -> bytes:
        parts = [self.leader.snapshot(), b"%d" % self._left_out_before]
        if self._has_begun:
            parts += [late.snapshot() for late in self._lates]
            parts.append(b"" if self._waiting is None else self._waiting.tobytes())
        return joined_parts([*parts, *(computed.snapshot() for computed in self._computed)])

    def restore(self, snapshot: bytes) -> None:
        leader, left_out, *parts = split_parts(snapshot)
        self.leader.restore(leader)
        self._left_out_before = int(left_out)
        count = len(parts) - len(self._computed)
        parts, computed = parts[:count], parts[count:]
        self._has_begun = bool(parts)
        if parts:
            *states, waiting = parts
            for late, state in zip(self._lates, states, strict=True):
                late.restore(state)
            if waiting:
                self._waiting = np.frombuffer(waiting, placed_type())
        for one, own in zip(self._computed, computed, strict=True):
            one.restore(own)

    @property
    def left_out(self) -> int:
        """How many rows of computed atoms are left out, as an argument has no value.

        A row of an atom counts once, though policies with several keys may lack it.
        """
        now = set[tuple[int, int, str]]().union(*(one.left_out for one in self._computed))
        return self._left_out_before + len(now)
