"""Convert changes of the answers of policies with variables to Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.output.changed_lines import answer_block
from mtlmon.tables.change_tables import CHANGE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from mtlmon.checking.late_valuations import ChangedAnswers
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.output.changed_lines import KeyNames
    from mtlmon.relational.plan import Plan

    class AnswerTable(Protocol):
        """Creates the columns of answers, as `ValuationTable` does."""

        @property
        def schema(self) -> pa.Schema:
            """The schema of the batches, once rows have been read."""

        def batches(self, answers: AnswerBlock, /) -> Iterator[pa.RecordBatch]:
            """The answers, which are removed from the block."""


__all__ = ["ChangedValuations"]


class ChangedValuations:
    """Creates record batches of changes.

    The columns are those of `ValuationTable`, and those of `ChangeTable`. A row stands for an
    answer: `op` is "insert" where it is there now, and "delete" where it is not any more.

    Args:
        made: the plan of the policies.
        answers: creates the columns of answers.
        final: the bound that an earlier run has told last; None if there is none.
        key_names: as for `answer_block`.
    """

    def __init__(
        self,
        made: Plan,
        answers: AnswerTable,
        final: int | None = None,
        key_names: KeyNames | None = None,
    ) -> None:
        self._key_names = key_names
        self._plan = made
        self._answers = answers
        self._final = final

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        return pa.schema([*self._answers.schema, *CHANGE_FIELDS])

    def know_bound(self, bound: int) -> None:
        """Know the time below which answers are final."""
        self._final = bound

    def batches(self, rows: ChangedAnswers) -> Iterator[pa.RecordBatch]:
        """What a batch has changed."""
        first = 0
        for batch in self._answers.batches(answer_block(self._plan, rows.changes, self._key_names)):
            some = rows.changes[first : first + batch.num_rows]
            first += batch.num_rows
            columns = [
                *batch.columns,
                pa.array(["delete" if one.change == GONE else "insert" for one in some]),
                pa.array(np.full(len(some), rows.revision, np.int64)),
                pa.array([self._final] * len(some), pa.int64()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if rows.final_below is not None:
            self._final = rows.final_below
