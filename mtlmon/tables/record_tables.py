"""Convert records of relations, and how they are revised, to Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.relations.records import NO_END, Records, table_columns
from mtlmon.relations.standing import Revision
from mtlmon.tables.change_tables import ARRIVAL, CHANGE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["FinalTable", "RevisionTable"]

_OPERATIONS = pa.array(["insert", "update", "delete"])
OLD_END = pa.field("old_end", pa.int64())
"""The column with the end that an updated record had before."""


class FinalTable:
    """Creates record batches of records that are final.

    Args:
        columns: returns the columns of the relation, as far as they are known.
    """

    def __init__(self, columns: Callable[[], pa.Schema]) -> None:
        self._columns = columns

    @property
    def schema(self) -> pa.Schema:
        """The columns, as far as rows have told them."""
        schema = self._columns()
        return table_columns(Records(schema, _no_columns(schema), *_no_times())).schema

    def batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Return the records in their order."""
        if len(records):
            yield table_columns(records)


class RevisionTable(FinalTable):
    """Creates record batches of revisions.

    The columns are those of records, and: `op`, "insert", "update" if the end of a record has
    moved, or "delete"; `revision`, a number that increases from batch to batch; `final`: no later
    row changes records that end below it; and `old_end`, the end that an updated record had.

    Args:
        columns: as for `FinalTable`.
        has_arrival: whether there is a last column `arrival`, as in `ChangeTable`.

    Attributes:
        revision: the number of the last batch.
        final: the time below which records are final; None as long as there is none.
        arrival: how far the log has come.
    """

    def __init__(self, columns: Callable[[], pa.Schema], *, has_arrival: bool = False) -> None:
        super().__init__(columns)
        self._more = [*CHANGE_FIELDS, OLD_END, *([ARRIVAL] if has_arrival else [])]
        self.arrival = self.revision = 0
        self.final: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns, as far as rows have told them."""
        return self._with_changes(super().schema)

    def batches(self, revision: Revision) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Return what has changed."""
        records, operations, old_ends = revision
        count = len(records)
        if not count:
            return
        self.revision += 1
        found = table_columns(records)
        moved = operations == 1
        old = pa.array(old_ends, mask=~moved | (old_ends == NO_END))
        columns = [
            *found.columns,
            _OPERATIONS.take(pa.array(operations)),
            pa.array(np.full(count, self.revision, np.int64)),
            pa.array([self.final] * count, pa.int64()),
            old,
        ]
        if ARRIVAL in self._more:
            columns.append(pa.array([self.arrival] * count, pa.int64()))
        yield pa.RecordBatch.from_arrays(columns, schema=self._with_changes(found.schema))

    def _with_changes(self, schema: pa.Schema) -> pa.Schema:
        """The columns of records with those of their revisions.

        Raises:
            MtlmonError: a column of the relation has the name of one of these.
        """
        for field in self._more:
            if field.name in schema.names:
                raise MtlmonError(
                    f"the result has a column {field.name!r} besides the one of its revisions: "
                    f"give it another name with `select {field.name} as ...`"
                )
        return pa.schema([*schema, *self._more])


def _no_columns(schema: pa.Schema) -> tuple[pa.Array, ...]:
    return tuple(pa.array([], one) for one in schema.types)


def _no_times() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.empty(0, np.int64), np.empty(0, np.int64)
