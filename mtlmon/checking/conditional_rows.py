"""Atoms of policies with variables that depend on other rows, where these come late.

A late partition computes them, as for policies without variables, and also admits the events. All
events have their rows, and a column for each such atom marks where the rows count. A changed mark
is a changed time-point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.relational.correcting.admission import Admitted, EventAdmission
from mtlmon.relational.correcting.chunks import RevisedPoints
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Literal, Protocol

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.late_partitions import LatePartition
    from mtlmon.checking.sources import EventBatch
    from mtlmon.history.operations import Corrections
    from mtlmon.relational.correcting.chunks import ComputedRows
    from mtlmon.relational.native import PointBlock

    class Arguments(Protocol):
        """Makes the rows of atoms with arguments that are computed."""

        @property
        def left_out_count(self) -> int: ...
        def taken(self, bound: int, /) -> ComputedRows: ...
        def snapshot(self) -> bytes: ...
        def restore(self, snapshot: bytes, /) -> None: ...


__all__ = ["ConditionalRows"]


class ConditionalRows(EventAdmission):
    """Finds which events there are, and at which of them atoms hold, for a `PointHistory`.

    All events have rows of these atoms, which count where they hold.

    Args:
        late: computes the atoms; it has no others, and its log is one trace.
        inputs: returns the columns that streams read of a batch.
        marked: the numbers of atoms without arguments whose rows are added here.
        computed: makes the rows of atoms with arguments that are computed; None if there are none.
    """

    def __init__(
        self,
        late: LatePartition,
        inputs: Callable[[Any], pa.RecordBatch | None],
        marked: Sequence[int] = (),
        computed: Arguments | None = None,
    ) -> None:
        super().__init__(late.leader)
        self._computed = computed
        self._late = late
        self._inputs = inputs
        self._marked = tuple(marked)
        self._batch: EventBatch | None = None
        # there is no state before the first batch
        self._has_begun = False

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
        refused = self._late.push(self._batch, self._inputs(self._batch), texts)
        self._batch = None
        return refused, self._admitted()

    def let_time_pass(self, time_stamp: int) -> Admitted:
        self._late.pass_time(time_stamp)
        return self._admitted()

    def count_events(self, start: int, end: int, count: int) -> tuple[bool, Admitted]:
        is_taken = self._late.count_events(start, end, count)
        return is_taken, self._admitted()

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> Admitted:
        self._late.finish(end_time)
        return self._admitted()

    def _admitted(self) -> Admitted:
        self._late.compute()
        held, (names, revised, flags) = self._late.emitted
        # those that were taken back are in `found` as well
        stays = flags == 0
        columns = (names.time_stamps[stays].tolist(), names.offsets[stays].tolist())
        changed = RevisedPoints(list(zip(*columns, strict=True)), revised[stays])
        rows = None
        if self._computed is not None:
            rows = self._computed.taken(self.leader.admits_from() or 0)
        return Admitted(self._late.found, held, changed, rows)

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows and states take, about."""
        return self._late.byte_count

    def snapshot(self) -> bytes:
        late = self._late.snapshot() if self._has_begun else b""
        return late if self._computed is None else joined_parts([late, self._computed.snapshot()])

    def restore(self, snapshot: bytes) -> None:
        computed = b""
        if self._computed is not None:
            snapshot, computed = split_parts(snapshot)
        self._has_begun = bool(snapshot)
        if snapshot:
            self._late.restore(snapshot)
        if self._computed is not None:
            self._computed.restore(computed)

    @property
    def left_out(self) -> int:
        """How many rows of computed atoms are left out, as an argument has no value."""
        return 0 if self._computed is None else self._computed.left_out_count
