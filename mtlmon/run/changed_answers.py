"""Write changes of verdicts and answers: as the lines of a changelog, or as a table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.changes import ChangedAnswers, ChangeLines
from mtlmon.checking.partitions import TraceKeys, partitions_of
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.run.row_lines import row_endings
from mtlmon.run.table_output import answer_output, continue_table, require_no_terminal
from mtlmon.run.time_stamps import iso_times
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking.changes import Bound, Change
    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.relational.output.changed_lines import ChangedAnswerLines
    from mtlmon.run.policy_work import Source
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.answer_table import AnswerTable
    from mtlmon.tables.change_tables import ChangeTable
    from mtlmon.tables.outputs import RowOutput
    from mtlmon.tables.valuations import ValuationTable

__all__ = ["ChangelogOutput", "ChangesOutput"]


def keys_of(check: LateChecks, source: Source, options: RunSpec) -> TraceKeys:
    """Return the keys of policies without variables; lines have columns for those of all."""
    if check.plain is None:
        return TraceKeys(partitions_of([]), ())
    own = check.plain.partitions
    if check.answers is not None and any(check.answers.keys):
        # these have partitions behind the others
        columns = (*own.columns, *dict.fromkeys(check.answers.keys))
        keys = [policy.key for policy in check.plain.policies]
        every = partitions_of(keys, options.log.key_columns, others=check.answers.keys)
        own = own._replace(columns=columns, all_columns=every.all_columns)
    return TraceKeys.of_log(own, source.key_tables)


class ChangelogOutput(ChangeLines):
    """Writes changes as the lines of a changelog.

    Args:
        check: the check.
        source: the log.
        options: the options of the run.
    """

    def __init__(self, check: LateChecks, source: Source, options: RunSpec) -> None:
        self.check = check
        self.source = source
        self.options = options
        self.keys = keys_of(check, source, options)
        plain = check.plain
        super().__init__(
            [] if plain is None else [policy.name for policy in plain.policies],
            self.keys,
            options.judging.verdicts,
            iso_times(options, source.times),
            None if plain is None else plain.origins,
            None if check.answers is None else self.answers,
            has_arrival=options.output.arrival,
        )

    @cached_property
    def lines_of_answers(self) -> ChangedAnswerLines:
        """What writes the lines of policies with variables, once these have a plan."""
        from mtlmon.relational.output.changed_lines import ChangedAnswerLines

        assert self.check.answers is not None
        made, times = self.check.answers.history.plan, iso_times(self.options, self.source.times)
        columns = None if self.check.plain is None else self.keys.partitions.all_columns
        return ChangedAnswerLines(made, times, columns)

    def answers(self, row: ChangedAnswers) -> bytes:
        """Return the lines of changed answers."""
        check = self.check.answers
        assert check is not None
        tails = None
        if (origins := check.origins) is not None:
            origins.find(row.changes)
            numbers = np.arange(len(row.changes), dtype=np.uint64)
            tails = row_endings(origins.of(numbers), origins.files)
        return b"".join(self.lines_of_answers.lines(check.history.renamed(row.changes), tails))

    def resume(self, bounds: Sequence[Bound], size: int) -> None:
        """Do nothing: each line stands for itself."""


class ChangesOutput:
    """Writes changes as a table; the arguments are those of `ChangelogOutput`.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """

    def __init__(self, check: LateChecks, source: Source, options: RunSpec) -> None:
        require_no_terminal(options.output)
        self.writer = ByteWriter()
        self.check = check
        self.source = source
        self.options = options
        # how far the log has come
        self.arrival = 0
        # for a table that an earlier run has begun: how many bytes it has, and its bounds
        self.size = 0
        self.bounds: Sequence[Bound] = ()

    def resume(self, bounds: Sequence[Bound], size: int) -> None:
        """Go on with a table of which so many bytes have been written, and its bounds."""
        self.size, self.bounds = size, bounds

    @cached_property
    def table(self) -> ChangeTable:
        """What makes columns of changes, once the policies with variables have a plan."""
        from mtlmon.tables.change_tables import ChangeTable

        answers = self.check.answers
        made = None if answers is None else answers.history.plan
        has_arrival = self.options.output.arrival
        table = ChangeTable(
            self.columns(), self.options.judging.verdicts, made, has_arrival=has_arrival
        )
        table.know(self.bounds)
        return table

    @cached_property
    def output(self) -> RowOutput[Sequence[Change]]:
        """What writes the rows."""
        output: RowOutput[Sequence[Change]] = answer_output(self.table, self.options.output)
        continue_table(output, self.size, self.options)
        return output

    def columns(self) -> AnswerTable:
        """Return what creates the columns of verdicts and answers."""
        plain = self.check.plain
        if plain is None:
            return self.valuations()
        from mtlmon.tables.verdicts import VerdictTable

        verdicts = VerdictTable(
            [policy.name for policy in plain.policies],
            keys_of(self.check, self.source, self.options),
            self.source.times,
            plain.messages,
            plain.origins,
            facts=PolicyFacts(plain.policies),
            more=self.more,
        )
        if self.check.answers is not None:
            verdicts.add(self.valuations())
        return verdicts

    @property
    def more(self) -> Sequence[str]:
        """The names of the columns that changes have beside these."""
        from mtlmon.tables.change_tables import ARRIVAL, CHANGE_COLUMNS

        has_arrival = self.options.output.arrival
        return (*CHANGE_COLUMNS, ARRIVAL.name) if has_arrival else CHANGE_COLUMNS

    def valuations(self) -> ValuationTable:
        """Return what creates the columns of answers."""
        from mtlmon.tables.valuations import valuation_table

        answers = self.check.answers
        assert answers is not None
        wanted = self.options.judging.given_verdicts or "false"
        made, times = answers.history.plan, self.source.times
        return valuation_table(made, times, wanted, answers.origins, more=self.more)

    def put(self, rows: Sequence[Change]) -> None:
        """Write changes and bounds."""
        answers = self.check.answers
        self.table.arrival = self.arrival
        for row in rows:
            if isinstance(row, ChangedAnswers) and answers is not None:
                if answers.origins is not None:
                    answers.origins.find(row.changes)
                renamed = answers.history.renamed(row.changes)
                self.output.put([row._replace(changes=renamed)])
            else:
                self.output.put([row])
        self.writer.write(self.output.writer.take())

    def close(self) -> None:
        """Write the end of the file."""
        self.output.close()
        self.writer.write(self.output.writer.take())
