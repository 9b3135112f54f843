"""Convert the verdicts of policies without variables and the answers of others to one table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.checking.outputs import unique_columns
from mtlmon.relational.native import AnswerBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.drive.native import VerdictRows
    from mtlmon.tables.valuations import ValuationTable
    from mtlmon.tables.verdicts import VerdictTable

__all__ = ["JoinedTable"]


class JoinedTable:
    """Creates record batches of verdicts and of answers, with the columns of a `ValuationTable`.

    Verdicts have null in the columns of variables, and answers in those of keys.

    Args:
        verdicts: creates the batches of verdicts, without messages.

    Attributes:
        valuations: creates those of answers; set it before anything is written.
    """

    def __init__(self, verdicts: VerdictTable) -> None:
        self._verdicts = verdicts
        self.valuations: ValuationTable | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        assert self.valuations is not None
        policy, *others = self.valuations.schema
        keys = [pa.field(name, pa.string()) for name in self._key_columns.values()]
        return pa.schema([field.with_nullable(True) for field in (policy, *keys, *others)])

    @cached_property
    def _key_columns(self) -> dict[str, str]:
        """The columns of keys among those of verdicts; one called like a variable gets a prefix."""
        assert self.valuations is not None
        known = self._verdicts.key_columns
        names = unique_columns(known, self.valuations.schema.names, "key_")
        return dict(zip(known, names, strict=True))

    def batches(self, rows: VerdictRows | AnswerBlock) -> Iterator[pa.RecordBatch]:
        """The verdicts or answers, which are removed from the rows."""
        if isinstance(rows, AnswerBlock):
            assert self.valuations is not None
            for batch in self.valuations.batches(rows):
                yield self._completed(batch, batch.schema.names)
            return
        for batch in self._verdicts.batches(rows):
            names = [self._key_columns.get(name, name) for name in batch.schema.names]
            yield self._completed(batch, names)

    def _completed(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Add the columns that are missing, as nulls."""
        known = dict(zip(names, batch.columns, strict=True))
        columns = [
            known[field.name] if field.name in known else pa.nulls(len(batch), field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
