"""Write changes of the answers of policies with variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.relational.output.changed_lines import ChangedAnswerLines
from mtlmon.run.row_lines import row_endings
from mtlmon.run.table_output import answer_output, continue_table
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking.late_valuations import ChangedAnswers, ValuationCheck
    from mtlmon.run.policy_work import Source
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.outputs import RowOutput

__all__ = ["AnswerOutput", "TableOfAnswers"]


class ChangedOutput:
    """Writes changes, once the policies have a plan.

    Args:
        check: the check.
        source: the log.
        options: the options of the run.
    """

    def __init__(self, check: ValuationCheck, source: Source, options: RunSpec) -> None:
        self.writer = ByteWriter()
        self.check = check
        self.source = source
        self.options = options


class AnswerOutput(ChangedOutput):
    """Writes changes as the lines of a changelog.

    The other arguments are those of `ChangedOutput`.

    Args:
        key_columns: as for `ChangedAnswerLines`.
    """

    def __init__(
        self,
        check: ValuationCheck,
        source: Source,
        options: RunSpec,
        key_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(check, source, options)
        self.key_columns = key_columns
        self.lines: ChangedAnswerLines | None = None

    def put(self, batches: Sequence[ChangedAnswers]) -> None:
        """Write what batches have changed."""
        if self.lines is None:
            from mtlmon.run.time_stamps import iso_times

            times = iso_times(self.options, self.source.times)
            self.lines = ChangedAnswerLines(
                self.check.history.plan, times, self.key_columns, self.check.key_points
            )
        origins = self.check.origins
        for batch in batches:
            tails = None
            if origins is not None:
                origins.find(batch.changes)
                numbers = np.arange(len(batch.changes), dtype=np.uint64)
                tails = row_endings(origins.of(numbers), origins.files)
            self.writer.write(b"".join(self.lines.lines(batch.changes, tails)))
            if batch.final_below is not None and self.options.judging.verdicts != "first":
                self.writer.write(self.lines.bound(batch.final_below))

    def close(self) -> None:
        """Do nothing: lines need no end."""


class TableOfAnswers(ChangedOutput):
    """Writes changes as tables."""

    def __init__(self, check: ValuationCheck, source: Source, options: RunSpec) -> None:
        super().__init__(check, source, options)
        # for tables that an earlier run has begun: how many bytes are written, and its bound
        self.size = 0
        self.final: int | None = None
        self.made: RowOutput[ChangedAnswers] | None = None

    @property
    def output(self) -> RowOutput[ChangedAnswers]:
        """What writes the rows."""
        if self.made is None:
            from mtlmon.tables.change_tables import CHANGE_COLUMNS
            from mtlmon.tables.changed_valuations import ChangedValuations
            from mtlmon.tables.relation_check import valuation_table

            made = self.check.history.plan
            origins = self.check.origins
            rows = valuation_table(
                made, self.source.times, self.options.judging.verdicts, origins, more=CHANGE_COLUMNS
            )
            table = ChangedValuations(made, rows, self.final, self.check.key_points)
            self.made = answer_output(table, self.options.output)
            continue_table(self.made, self.size, self.options)
        return self.made

    def put(self, batches: Sequence[ChangedAnswers]) -> None:
        """Write what batches have changed."""
        for batch in batches:
            if self.check.origins is not None:
                self.check.origins.find(batch.changes)
            self.output.put(batch)
        self.writer.write(self.output.writer.take())

    def close(self) -> None:
        """Write the end of the file."""
        self.output.close()
        self.writer.write(self.output.writer.take())
