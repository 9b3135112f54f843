"""Check policies with variables and others on a log whose rows may come late: one changelog."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking import TextLog, TraceKeys
from mtlmon.checking.changes import Bound, ChangedRows, ChangeLines, PolicyChanges
from mtlmon.checking.late_first_of_both import FirstOfHistories
from mtlmon.checking.late_mixed import MixedHistories
from mtlmon.engine.native import MemoryLimit
from mtlmon.relational.atoms import require_rows_of_tables, used_atoms
from mtlmon.relational.keyed import keys_of_others
from mtlmon.run.changed_answers import AnswerOutput
from mtlmon.run.correcting import fails_without_variables, history_check, restore_keys
from mtlmon.run.correcting_relations import (
    conditions_of_tables,
    history_for,
    name_points,
    require_correctable_atoms,
    text_source,
    valuation_check,
)
from mtlmon.run.endings import note_waiting, tell_untriggered, untriggered
from mtlmon.run.failure import RunError
from mtlmon.run.files import open_text_log
from mtlmon.run.late_rows import corrected_order, late_file
from mtlmon.run.late_work import LateLines, bounds_of, late_lines, run_late_work
from mtlmon.run.option_rules import require_no_keys
from mtlmon.run.policies import note_modes, open_table_source, text_atoms
from mtlmon.run.relation_corrections import RelationWork
from mtlmon.run.relations import require_no_conditions
from mtlmon.run.report import mixed_corrections_summary
from mtlmon.run.table_output import answer_output, continue_table
from mtlmon.tables.changed_verdicts import JoinedChanges
from mtlmon.tables.relation_traces import RelationTraces
from mtlmon.tables.relations import shown_arguments
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.checking.history_check import Bounds, HistoryCheck
    from mtlmon.checking.late_mixed import MixedChange
    from mtlmon.checking.late_valuations import ValuationCheck
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.correcting.points import PointHistory
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.relational.plan import Plan
    from mtlmon.run.in_order import Reasons
    from mtlmon.run.late_rows import LateFile
    from mtlmon.run.policy_work import Source
    from mtlmon.run.revised_mixed_report import RevisedMixedReport
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.outputs import RowOutput
    from mtlmon.tables.relations import RelationRows

    PlanFor = Callable[[pa.Schema, Mapping[str, Relation]], Plan]

__all__ = ["correct_mixed"]


class MixedLines:
    """Writes what has changed as the lines of a changelog.

    Args:
        check: the check.
        source: the log.
        options: the options of the run.
    """

    def __init__(self, check: MixedHistories, source: Source, options: RunSpec) -> None:
        from mtlmon.run.time_stamps import iso_times

        self.writer = ByteWriter()
        plain = check.plain
        keys = TraceKeys.of_log(plain.partitions, source.key_tables)
        times = iso_times(options, source.times)
        names = [policy.name for policy in plain.policies]
        self.plain = ChangeLines(names, keys, options.judging.verdicts, times, plain.origins)
        self.others = AnswerOutput(check.others, source, options, keys.partitions.all_columns)

    def put(self, rows: Sequence[MixedChange]) -> None:
        """Write what has changed."""
        for row in rows:
            if isinstance(row, PolicyChanges | Bound):
                some = ChangedRows()
                some.add(row)
                self.plain.put(some)
                self.writer.write(self.plain.writer.take())
            else:
                self.others.put([row])
                self.writer.write(self.others.writer.take())

    def close(self) -> None:
        """Do nothing: lines need no end."""


class MixedTable:
    """Writes what has changed as one table.

    The arguments are those of `MixedLines`.
    """

    def __init__(self, check: MixedHistories, source: Source, options: RunSpec) -> None:
        self.writer = ByteWriter()
        self.check = check
        self.options = options
        plain = check.plain
        keys = TraceKeys.of_log(plain.partitions, source.key_tables)
        self.table: JoinedChanges = JoinedChanges(
            plain.policies, keys, source.times, options.judging.verdicts, plain.origins
        )
        self.output: RowOutput[list[MixedChange]] = answer_output(self.table, options.output)

    def know_plan(self) -> None:
        """Let the table know its columns."""
        verdicts = self.options.judging.given_verdicts or "false"
        others = self.check.others
        made = others.history.plan
        self.table.know_plan(made, verdicts, others.origins, others.key_points)

    def go_on(self, bound: int | None, size: int) -> None:
        """Go on with a table of which so many bytes have been written, and its last bound."""
        self.table.know_bound(bound)
        continue_table(self.output, size, self.options)

    def put(self, rows: Sequence[MixedChange]) -> None:
        """Write what has changed."""
        self.know_plan()
        self.output.put(list(rows))
        self.writer.write(self.output.writer.take())

    def close(self) -> None:
        """Write the end of the file."""
        self.know_plan()
        self.output.close()
        self.writer.write(self.output.writer.take())


class CorrectedMixed(RelationWork["MixedChange"]):
    """Checks policies of both kinds; the arguments are those of `RelationWork`."""

    check: MixedHistories
    output: MixedLines | MixedTable | None
    revised: RevisedMixedReport | None

    def fails(self) -> bool:
        return super().fails() or fails_without_variables(self.check.plain, self.options.judging)

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        super().report_end()
        if self.is_complete:
            note_waiting(self.check.plain.waiting_rows, self.source.row_name, self.options.host)
            tell_untriggered(untriggered(self.check.plain), self.options)

    def own_parts(self) -> Sequence[bytes]:
        keys = (b"" if one is None else one.snapshot() for one in self.source.key_tables)
        return [*super().own_parts(), *keys]

    def restore_own(self, parts: Sequence[bytes]) -> None:
        super().restore_own(parts[:1])
        counts = self.check.plain.key_counts
        # tables have a partition for policies with variables behind the others
        counts += [0] * (len(self.source.key_tables) - len(counts))
        restore_keys(self.source, parts[1:], counts)

    def restore_output(self, size: int) -> None:
        if isinstance(self.output, MixedTable):
            self.output.go_on(self.check.bound, size)

    def settings(self) -> list[tuple[str, object]]:
        columns = list(map(list, self.check.plain.partitions.columns))
        return [*super().settings(), ("with other keys", columns)]


def correct_mixed(
    file: PolicyFile, options: RunSpec, plan_for: PlanFor, made: Plan, reasons: Reasons
) -> Steps:
    """Check the policies on the logs, correct what they say, and return the exit status.

    Args:
        file: the policies, which `require_correctable` accepts.
        options: the options of the run.
        plan_for: makes the plan of those with variables, once the types of columns are known.
        made: the plan without these.
        reasons: explains the violations that hold at the end, if that is wanted.
    """
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    policies = [policy for policy in file.policies if not policy.is_first_order]
    plain = history_check(policies, options, lambda: bounds_of(options, source), memory)
    if not options.judging.resolve:
        note_modes(policies, plain.modes, options)
    late: LateLines | LateFile | None = None
    source: Source
    if not options.log.is_table:
        require_no_conditions(file, options)
        require_no_keys(plain.partitions, file, options)
        source, events, others = open_text(file, options, plain, made)
        late = late_lines(options, source)
    else:
        late = late_file(options, keeps=options.checkpoint.path is not None)
        source, others = table_source(file, options, plain, late, plan_for)
        events = None
    first = None
    if options.judging.verdicts == "first":
        first = FirstOfHistories(
            [policy.is_find for policy in others.policies],
            has_keys=any(plain.partitions.columns),
            by_stamp=options.log.time_points == "stamp",
        )
    both = MixedHistories(plain, others, first, keeps_all=options.reporting.report is not None)

    def make(logs: Mapping[str, os.stat_result]) -> CorrectedMixed:
        output: MixedLines | MixedTable | None = None
        if options.output.format == "text" and options.judging.verdicts != "none":
            output = MixedLines(both, source, options)
        elif options.judging.verdicts != "none":
            output = MixedTable(both, source, options)
        work = CorrectedMixed(both, others, source, events, output, late, logs, options)
        if options.reporting.report is not None:
            from mtlmon.run.findings import check_findings
            from mtlmon.run.relation_findings import can_reread
            from mtlmon.run.revised_mixed_report import RevisedMixedReport

            is_rereadable = can_reread(logs, options.log)
            check_findings(options, logs)
            work.revised = RevisedMixedReport(
                both, source, list(logs), options, file, can_reread=is_rereadable
            )
        return work

    def summary(seconds: float, events_before: int) -> str:
        return mixed_corrections_summary(both, source, seconds, events_before)

    if options.output.rows:
        source.track_rows()
    with closing(source):
        return (yield from run_late_work(source, options, reasons, make, summary))


def open_text(
    file: PolicyFile, options: RunSpec, plain: HistoryCheck, made: Plan
) -> tuple[TextLog, RowEvents, ValuationCheck]:
    """Open a text log; return what reads its rows, and what checks policies with variables."""
    log = open_text_log(options.log)
    atoms, streams = text_atoms(
        plain.atoms,
        plain.atoms_of_partitions,
        file,
        log.name,
        {},
        options.log.on_error,
        plain.memory,
    )
    if streams is not None:
        plain.streams, plain.inputs = streams.atoms, streams.inputs
    return text_source(file, options, made, log, plain.memory, atoms)


def table_source(
    file: PolicyFile,
    options: RunSpec,
    plain: HistoryCheck,
    late: LateFile | None,
    plan_for: PlanFor,
) -> tuple[Source, ValuationCheck]:
    """Open tables; return what checks policies with variables on them, too."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    shown = shown_arguments(file, names)
    require_correctable_atoms(file, names, shown)
    own, others_keys = plain.partitions, dict.fromkeys(keys_of_others(file))
    for name in (name for key in others_keys for name in key):
        if name not in own.all_columns:
            raise RunError(
                f"a policy with variables has the key {name}, which no policy without variables "
                "has: --lateness needs both in files of their own"
            )
    # policies with variables have partitions of their own: what their atoms remember of other rows
    # is computed again by itself
    columns = [*own.columns, *others_keys]
    traces = RelationTraces(file, shown, [*(None for _ in own.columns), *others_keys])
    needed = [*plain.atoms_of_partitions, *({} for _ in others_keys)]
    shown_there: list[dict[When, list[str]]] = [{} for _ in columns]
    traces.add_atoms(needed, names)
    traces.add_shown(shown_there)
    source = open_table_source(
        options,
        list(dict.fromkeys([*plain.atoms, *names])),
        file,
        columns,
        plain.memory,
        atoms_of_partitions=needed,
        shown=shown_there,
        order=corrected_order(options, late),
    )
    plain.streams, plain.inputs = source.streams, lambda batch: batch.inputs
    plain.relations = source.relations

    def make(bounds: Bounds) -> PointHistory:
        made = plan_for(source.schema, source.looked_up)
        conditions = conditions_of_tables(source, traces.whole)
        name_points(traces, made, source, others, conditions, options.log)
        return history_for(made, bounds, options, others, conditions)

    def rows_of(history: PointHistory) -> RelationRows:
        made = history.plan
        conditions = conditions_of_tables(source, traces.whole)
        conditional = () if conditions is None else conditions.names
        return traces.late_rows(made, history.arrivals, conditional)

    others = valuation_check(
        file, options, lambda: bounds_of(options, source), make, rows_of, plain.memory
    )
    return source, others
