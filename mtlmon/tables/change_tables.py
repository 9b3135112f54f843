"""Convert changes of verdicts, and of answers with values, to Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.changes import Bound, ChangedAnswers, selected, verdict_rows
from mtlmon.history.changes import UPDATED
from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.output.changed_lines import answer_block
from mtlmon.verdicts.arrays import EQUIVALENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.changes import Change, PolicyChanges
    from mtlmon.relational.plan import Plan
    from mtlmon.tables.answer_table import AnswerTable

__all__ = ["ARRIVAL", "CHANGE_COLUMNS", "CHANGE_FIELDS", "ChangeTable"]

CHANGE_COLUMNS = ("op", "revision", "final")
"""The columns that changes have beside those of verdicts."""

CHANGE_FIELDS = [
    pa.field("op", pa.string(), nullable=False),
    pa.field("revision", pa.int64(), nullable=False),
    pa.field("final", pa.int64()),
]
ARRIVAL = pa.field("arrival", pa.int64(), nullable=False)
"""The column with how far the log had come when a change was told."""
# the last one is that of a time-point whose event was retracted
_OPERATIONS = pa.array(["insert", "update", "delete", "delete"])


class ChangeTable:
    """Creates record batches of changes.

    The columns are those of verdicts and answers, and: `op`, "insert" for the first verdict of a
    time-point, "update" for another one, and "delete" if it has none any more, where an answer with
    values is there or not; `revision`, a number that increases from batch to batch; and `final`: no
    later row is about a time below it, null as long as there is no such time. With clocks of keys,
    that is about the row's policy and key. Where that is wanted, `arrival` comes last: the largest
    time-stamp of the log when the change was told.

    Args:
        answers: creates the other columns; its key columns differ from `CHANGE_COLUMNS`, and from
            `ARRIVAL` if there is that column.
        selection: the verdicts to write, one of `mtlmon.checking.changes.KINDS_OF`.
        made: the plan of the policies with variables; None if there are none.
        has_arrival: whether there is the column `arrival`.

    Attributes:
        arrival: how far the log has come.
    """

    def __init__(
        self,
        answers: AnswerTable,
        selection: str,
        made: Plan | None = None,
        *,
        has_arrival: bool = False,
    ) -> None:
        self.arrival = 0
        self._more = [*CHANGE_FIELDS, *([ARRIVAL] if has_arrival else [])]
        self._answers = answers
        self._selection = selection
        self._plan = made
        # by policy and key; None and None for all
        self._final: dict[tuple[int | None, int | None], int] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        return pa.schema([*self._answers.schema, *self._more])

    def know(self, bounds: Iterable[Bound]) -> None:
        """Know the bounds that an earlier run has told."""
        for bound in bounds:
            self._final[bound.policy, bound.trace] = bound.time_stamp

    def batches(self, rows: Sequence[Change]) -> Iterator[pa.RecordBatch]:
        """The changes."""
        for row in rows:
            if isinstance(row, Bound):
                self.know([row])
            elif isinstance(row, ChangedAnswers):
                yield from self._of_answers(row)
            else:
                changes = row._replace(records=selected(row.records, self._selection))
                if len(changes.records):
                    yield from self._of_verdicts(changes)

    def _of_answers(self, rows: ChangedAnswers) -> Iterator[pa.RecordBatch]:
        assert self._plan is not None
        first = 0
        for batch in self._answers.batches(answer_block(self._plan, rows.changes)):
            some = rows.changes[first : first + batch.num_rows]
            first += batch.num_rows
            operations = pa.array(["delete" if one.change == GONE else "insert" for one in some])
            finals = pa.array([self._final.get((None, None))] * len(some), pa.int64())
            yield self._with(batch.columns, operations, rows.revision, finals)

    def _of_verdicts(self, changes: PolicyChanges) -> Iterator[pa.RecordBatch]:
        first = 0
        # an equivalence is neither true nor false
        for batch in self._answers.batches(verdict_rows(changes, none=EQUIVALENT)):
            some = changes.records[first : first + batch.num_rows]
            first += batch.num_rows
            operations = some["operation"]
            columns = batch.columns
            if (operations > UPDATED).any():
                place = batch.schema.get_field_index("reference")
                is_kept = pa.array(operations <= UPDATED)
                columns[place] = pc.if_else(is_kept, batch.column(place), None)
            finals = self._finals(changes.policy, some["trace"])
            yield self._with(
                columns, _OPERATIONS.take(pa.array(operations)), changes.revision, finals
            )

    def _with(
        self, columns: list[pa.Array], operations: pa.Array, revision: int, finals: pa.Array
    ) -> pa.RecordBatch:
        revisions = pa.array(np.full(len(finals), revision, np.int64))
        found = [*columns, operations, revisions, finals]
        if ARRIVAL in self._more:
            found.append(pa.array(np.full(len(finals), self.arrival, np.int64)))
        return pa.RecordBatch.from_arrays(found, schema=self.schema)

    def _finals(self, policy: int, traces: NDArray[np.uint32]) -> pa.Array:
        everything = self._final.get((None, None))
        if everything is not None or not self._final:
            return pa.array([everything] * len(traces), pa.int64())
        return pa.array([self._final.get((policy, one)) for one in traces.tolist()], pa.int64())
