"""Convert the verdicts of policies without variables and the answers of others to one table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.relational.native import AnswerBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.drive.native import VerdictRows
    from mtlmon.tables.valuations import ValuationTable
    from mtlmon.tables.verdicts import VerdictTable

__all__ = ["JoinedTable"]


class JoinedTable:
    """Creates record batches of verdicts and of answers, with the columns of a `ValuationTable`.

    Verdicts have null in the columns of variables.

    Args:
        verdicts: creates the batches of verdicts, without keys and messages.

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
        return pa.schema([field.with_nullable(True) for field in self.valuations.schema])

    def batches(self, rows: VerdictRows | AnswerBlock) -> Iterator[pa.RecordBatch]:
        """The verdicts or answers, which are removed from the rows."""
        if isinstance(rows, AnswerBlock):
            assert self.valuations is not None
            for batch in self.valuations.batches(rows):
                yield batch.cast(self.schema)
            return
        for batch in self._verdicts.batches(rows):
            known = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns = [
                known[field.name] if field.name in known else pa.nulls(len(batch), field.type)
                for field in self.schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
