"""Convert changes of verdicts to Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.changes import Bound, selected, verdict_rows
from mtlmon.history.changes import UPDATED
from mtlmon.verdicts.arrays import EQUIVALENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol

    from numpy.typing import NDArray

    from mtlmon.checking.changes import ChangedRows, PolicyChanges
    from mtlmon.drive.native import VerdictRows

    class Verdicts(Protocol):
        """Creates the columns of verdicts, as `VerdictTable` does."""

        @property
        def schema(self) -> pa.Schema:
            """The schema of the batches, once rows have been read."""

        def batches(self, rows: VerdictRows, /) -> Iterator[pa.RecordBatch]:
            """The verdicts, which are removed from the rows."""


__all__ = ["CHANGE_COLUMNS", "CHANGE_FIELDS", "ChangeTable"]

CHANGE_COLUMNS = ("op", "revision", "final")
"""The columns that changes have beside those of verdicts."""

CHANGE_FIELDS = [
    pa.field("op", pa.string(), nullable=False),
    pa.field("revision", pa.int64(), nullable=False),
    pa.field("final", pa.int64()),
]
# the last one is that of a time-point whose event was retracted
_OPERATIONS = pa.array(["insert", "update", "delete", "delete"])


class ChangeTable:
    """Creates record batches of changes.

    The columns are those of verdicts, and: `op`, "insert" for the first verdict of a time-point,
    "update" for another one, and "delete" if it has none any more; `revision`, a
    number that increases from batch to batch; and `final`: no later row is about a time below it,
    null as long as there is no such time. With clocks of keys, that is about the row's policy and
    key.

    Args:
        verdicts: creates the columns of verdicts; its key columns differ from `CHANGE_COLUMNS`.
        selection: the verdicts to write, one of `mtlmon.checking.changes.KINDS_OF`.
    """

    def __init__(self, verdicts: Verdicts, selection: str) -> None:
        self._verdicts = verdicts
        self._selection = selection
        # by policy and key; None and None for all
        self._final: dict[tuple[int | None, int | None], int] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        return pa.schema([*self._verdicts.schema, *CHANGE_FIELDS])

    def know(self, bounds: Iterable[Bound]) -> None:
        """Know the bounds that an earlier run has told."""
        for bound in bounds:
            self._final[bound.policy, bound.trace] = bound.time_stamp

    def batches(self, rows: ChangedRows) -> Iterator[pa.RecordBatch]:
        """The changes, which are removed from the rows."""
        for row in rows.taken():
            if isinstance(row, Bound):
                self.know([row])
                continue
            changes = row._replace(records=selected(row.records, self._selection))
            if len(changes.records):
                yield from self._batches(changes)

    def _batches(self, changes: PolicyChanges) -> Iterator[pa.RecordBatch]:
        first = 0
        # an equivalence is neither true nor false
        for batch in self._verdicts.batches(verdict_rows(changes, none=EQUIVALENT)):
            some = changes.records[first : first + batch.num_rows]
            first += batch.num_rows
            operations = some["operation"]
            columns = batch.columns
            if (operations > UPDATED).any():
                place = batch.schema.get_field_index("reference")
                is_kept = pa.array(operations <= UPDATED)
                columns[place] = pc.if_else(is_kept, batch.column(place), None)
            columns += [
                _OPERATIONS.take(pa.array(operations)),
                pa.array(np.full(len(some), changes.revision, np.int64)),
                self._finals(changes.policy, some["trace"]),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _finals(self, policy: int, traces: NDArray[np.uint32]) -> pa.Array:
        everything = self._final.get((None, None))
        if everything is not None or not self._final:
            return pa.array([everything] * len(traces), pa.int64())
        return pa.array([self._final.get((policy, one)) for one in traces.tolist()], pa.int64())
