"""Check policies with variables on a log whose rows may come late: a changelog of valuations."""

from __future__ import annotations

from array import array
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.checking import TextLog
from mtlmon.checking.conditional_rows import ConditionalRows
from mtlmon.checking.late_partitions import LatePartition
from mtlmon.checking.late_valuations import ValuationCheck
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy.needs import needs_of, remembers
from mtlmon.relational.analysis import valid_analysis, valid_keyed_file
from mtlmon.relational.atoms import (
    refuse_points,
    refuse_traces,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.correcting.points import PointHistory
from mtlmon.relational.keyed import has_keys
from mtlmon.relational.native import PointBlock
from mtlmon.relational.planning import plan
from mtlmon.run.changed_answers import AnswerOutput, TableOfAnswers
from mtlmon.run.failure import VIOLATION, RunError
from mtlmon.run.files import open_text_log
from mtlmon.run.in_order import Reasons
from mtlmon.run.late_rows import LateFile, corrected_order, late_file
from mtlmon.run.late_work import LateLines, bounds_of, late_lines, refusal, run_late_work
from mtlmon.run.policies import open_table_source
from mtlmon.run.relation_corrections import CorrectedRelations
from mtlmon.run.relation_readers import computed_atoms, log_events
from mtlmon.run.relation_vacuity import counts_left_sides, require_counted
from mtlmon.run.relations import require_no_conditions, require_no_key
from mtlmon.run.report import corrected_answers_summary
from mtlmon.run.table_output import require_no_terminal
from mtlmon.syntax.report import visible
from mtlmon.tables.relation_traces import RelationTraces
from mtlmon.tables.relations import shown_arguments

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.checking.history_check import Bounds
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.relational.native import RelationalEngine
    from mtlmon.relational.plan import Plan
    from mtlmon.run.files import LogFile
    from mtlmon.run.policy_work import Source
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Log, RunSpec
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.tables import TableEvents
    from mtlmon.tables.relations import RelationRows

__all__ = ["correct_relations", "require_correctable_relations"]


def require_correctable_relations(options: RunSpec) -> None:
    """Raise RunError if the answers of policies with variables cannot be corrected."""
    if options.judging.slices is not None:
        raise refusal("--slices")
    if options.times.clock == "key":
        what = "--clock key for policies with variables, for which the log has one time"
        raise refusal(what, of_clock=True)
    if (
        options.output.rows
        and options.log.time_points == "stamp"
        and (options.log.op or options.log.id)
    ):
        given = "--op" if options.log.op else "--id"
        raise RunError(
            f"--rows does not work with --time-points stamp and {given}: a verdict names the first "
            "row of its time-point, and would have to name another one if that row is taken back; "
            "leave out --time-points, and each row is a time-point"
        )


def require_correctable_atoms(
    file: PolicyFile, names: Sequence[str], shown: Mapping[str, Sequence[str]]
) -> None:
    """Raise RunError if what rows are depends on other rows in ways that cannot be corrected.

    Args:
        file: the policies.
        names: the atoms that they use.
        shown: for each atom, the names of its arguments in `PolicyFile.shown`.
    """
    from mtlmon.streams.late_support import row_relation_of

    for name in names:
        for argument in shown.get(name, ()):
            # where later rows are read, it is an error with or without late rows
            waits = needs_of(file, (), [argument]).later_values
            if remembers(file, file.shown[argument]) and not waits:
                raise refusal(f"arguments that depend on other rows, as one of {visible(name)}")
        if name not in file.atoms:
            continue
        if (relation := row_relation_of(file, [name])) is not None:
            raise refusal(
                f"atoms of policies with variables that look values up in {visible(relation)}, "
                f"which is made of rows, as {visible(name)}"
            )


class Conditions(NamedTuple):
    """Atoms that depend on other rows.

    Attributes:
        streams: computes them.
        partition: the partition of the log in which it does.
        inputs: returns the columns that it reads of a batch.
        marked: whether they have rows only if these are added, as in text logs.
    """

    streams: StreamAtoms
    partition: int
    inputs: Callable[[Any], pa.RecordBatch | None]
    marked: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the atoms."""
        return self.streams.names_of(self.partition)


def conditions_of_tables(source: TableEvents, partition: int = 0) -> Conditions | None:
    """Return what computes atoms of tables that depend on other rows; None if none do.

    Args:
        source: the tables.
        partition: the partition of the policies with variables, which is the log as a whole.
    """
    if source.streams is None or not source.streams.names_of(partition):
        return None
    return Conditions(source.streams, partition, lambda batch: batch.inputs, marked=False)


def prepared(options: RunSpec, engine: RelationalEngine) -> None:
    """Let an engine keep the limits that the options set."""
    engine.skips_overflows = options.log.on_error == "skip"
    if options.limits.max_rows is not None:
        engine.most_rows = options.limits.max_rows
        engine.limit_name = "--max-rows"


def correct_relations(file: PolicyFile, options: RunSpec) -> Steps:
    """Check policies with variables on the logs, correct answers, and return the exit status.

    Args:
        file: what `require_correctable_relations` accepts.
        options: likewise.

    Raises:
        RunError: a file cannot be read or written, or a length of time does not fit.
        MtlmonError: a line or row cannot be read, or the engine has reached a limit.
    """
    refuse_traces(file)
    # the run that explains finds the keys by itself
    reasons = Reasons(file, options)
    file = keyed_for_corrections(file, options)
    counts = counts_left_sides(file, options)

    def plan_for(
        schema: pa.Schema | None = None, looked_up: Mapping[str, Relation] | None = None
    ) -> Plan:
        analysis = valid_analysis(file, schema, looked_up)
        made = plan(file, analysis, counts_triggered=counts)
        require_counted(analysis, made, options)
        return made

    # what is wrong whatever the log is, is said before it is opened
    first = plan_for()
    if options.log.time_points == "stamp":
        refuse_points(file)
    if not all(policy.is_first_order for policy in file.policies):
        from mtlmon.run.correcting_mixed import correct_mixed

        own = options.having(verdicts=options.judging.given_verdicts or "all")
        status = yield from correct_mixed(file, own, plan_for, first, reasons)
    elif options.log.is_table:
        status = yield from correct_tables(file, options, plan_for, reasons)
    else:
        require_no_conditions(file, options)
        status = yield from correct_text(file, options, first, reasons)
    return (yield from reasons.tell()) if status == VIOLATION and reasons.are_told else status


def keyed_for_corrections(file: PolicyFile, options: RunSpec) -> PolicyFile:
    """Return the policies of a run, some of which may have a key.

    Raises:
        RunError: an option does not work with these.
        FormulaError: a policy cannot be evaluated.
    """
    if not options.log.is_table:
        require_no_key(file, options.log)
    if has_keys(file, options.log.key_columns):
        wants_all = options.judging.given_verdicts in ("all", "boolean")
        if wants_all and options.log.time_points == "stamp":
            raise RunError(
                "--verdicts all, --time-points stamp and --lateness do not work with policies with "
                "variables and a key: leave one of them out, or write 'key none'"
            )
    return valid_keyed_file(file, options.log.key_columns)


def history_for(
    made: Plan,
    bounds: Bounds,
    options: RunSpec,
    check: ValuationCheck,
    conditions: Conditions | None = None,
) -> PointHistory:
    """Return the history of a log.

    Args:
        made: the plan of the policies.
        bounds: how late events may be.
        options: the options of the run.
        check: gets the history.
        conditions: the atoms that depend on other rows; None if none do.
    """
    has_operations = options.log.op is not None or options.log.id is not None
    equality = options.log.op is not None and options.log.id is None
    conditional: list[int] = []
    if conditions is not None:
        numbers = {atom.name: number for number, atom in enumerate(made.named_atoms)}
        conditional = [numbers[name] for name in conditions.names]
        late = LatePartition(
            conditions.streams,
            conditions.partition,
            (),
            has_keys=False,
            lateness=bounds.lateness,
            wait=bounds.wait,
            clock="all",
            equality=equality,
        )
        marked = conditional if conditions.marked else ()
        check.conditional = ConditionalRows(late, conditions.inputs, marked)
    return PointHistory(
        made,
        lateness=bounds.lateness,
        wait=bounds.wait,
        equality=equality,
        corrects=has_operations,
        by_stamp=options.log.time_points == "stamp",
        wants_holding=options.judging.given_verdicts in ("all", "boolean"),
        keeps_found=options.judging.given_verdicts == "first",
        prepare=lambda engine: prepared(options, engine),
        listener=check.key_points or check.origins,
        admission=check.conditional,
        conditional=conditional,
    )


def valuation_check(
    file: PolicyFile,
    options: RunSpec,
    bounds: Callable[[], Bounds],
    make: Callable[[Bounds], PointHistory],
    rows_of: Callable[[PointHistory], RelationRows] | None,
    memory: MemoryLimit,
) -> ValuationCheck:
    """Return the check of the policies with variables; the arguments are those of its class."""
    is_alone = all(policy.is_first_order for policy in file.policies)
    return ValuationCheck(
        file,
        bounds,
        make,
        rows_of,
        memory=memory,
        unmatched="error" if options.log.on_error == "stop" else "count",
        # beside others, both kinds together tell what comes first, and what there is to report
        wants_first=is_alone and options.judging.verdicts == "first",
        tracks_rows=options.output.rows,
        keeps_all=is_alone and options.reporting.report is not None,
    )


def correct_tables(
    file: PolicyFile,
    options: RunSpec,
    plan_for: Callable[[pa.Schema, Mapping[str, Relation]], Plan],
    reasons: Reasons,
) -> Steps:
    """Do the same for tables."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    shown = shown_arguments(file, names)
    require_correctable_atoms(file, names, shown)
    traces = RelationTraces(file, shown)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    late = late_file(options, keeps=options.checkpoint.path is not None)
    source = open_table_source(
        options,
        names,
        file,
        traces.columns,
        memory,
        shown=traces.shown,
        order=corrected_order(options, late),
    )

    def make(bounds: Bounds) -> PointHistory:
        made = plan_for(source.schema, source.looked_up)
        conditions = conditions_of_tables(source)
        name_points(traces, made, source, check, conditions, options.log)
        return history_for(made, bounds, options, check, conditions)

    def rows_of(history: PointHistory) -> RelationRows:
        made = history.plan
        conditions = conditions_of_tables(source)
        names = () if conditions is None else conditions.names
        return traces.late_rows(made, history.arrivals, names)

    check = valuation_check(
        file, options, lambda: bounds_of(options, source), make, rows_of, memory
    )
    with closing(source):
        return (yield from run_corrections(file, check, source, None, late, options, reasons))


def name_points(
    traces: RelationTraces,
    made: Plan,
    source: TableEvents,
    check: ValuationCheck,
    conditions: Conditions | None,
    log: Log,
) -> None:
    """Let a check give time-points the names that they have among those of keys.

    Raises:
        RunError: atoms depend on other rows.
    """
    if not traces.has_keys:
        return
    if conditions is not None:
        raise RunError(
            "--lateness does not work with a key for atoms with variables that depend on other "
            "rows: write 'key none'"
        )
    if log.time_points == "row":
        check.key_points = traces.late_names(made, source.key_tables, check.origins)


def correct_text(file: PolicyFile, options: RunSpec, made: Plan, reasons: Reasons) -> Steps:
    """Do the same for a text log."""
    log = open_text_log(options.log)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    source, events, check = text_source(file, options, made, log, memory)
    late = late_lines(options, source)
    with closing(source):
        return (yield from run_corrections(file, check, source, events, late, options, reasons))


def text_source(
    file: PolicyFile,
    options: RunSpec,
    made: Plan,
    log: LogFile,
    memory: MemoryLimit,
    marks: Sequence[str] = (),
) -> tuple[TextLog, RowEvents, ValuationCheck]:
    """Return a text log, what reads its rows, and what checks policies with variables on them.

    Args:
        file: the policies.
        options: the options of the run.
        made: the plan of those with variables.
        log: the open log.
        memory: how much memory may be held.
        marks: the atoms of the log that events have for other policies.
    """
    check = valuation_check(
        file,
        options,
        lambda: bounds_of(options, source),
        lambda bounds: history_for(made, bounds, options, check, conditions),
        None,
        memory,
    )
    block = PointBlock(array("I", made.atoms))
    events, conditions = read_text(file, made, block, log.name, options, memory, marks)
    source = TextLog(
        log,
        events.atoms,
        skip_errors=options.log.on_error == "skip",
        memory=memory,
        events=events,
        in_any_order=True,
    )
    check.history.arrivals = block
    return source, events, check


def read_text(
    file: PolicyFile,
    made: Plan,
    points: PointBlock,
    name: str,
    options: RunSpec,
    memory: MemoryLimit,
    marks: Sequence[str],
) -> tuple[RowEvents, Conditions | None]:
    """Return what reads a text log into time-points, and what computes atoms, if that is needed.

    Args:
        file: the policies.
        made: the plan of those with variables.
        points: gets the time-points.
        name: the name of the log in messages.
        options: the options of the run.
        memory: how much memory may be held.
        marks: the atoms of the log that events have for other policies.
    """
    if computed := computed_atoms(file, made):
        require_correctable_atoms(file, list(computed), {})
    events, streams = log_events(file, made, points, name, options.log, memory, marks)
    if streams is None:
        return events, None
    return events, Conditions(streams.atoms, 0, streams.inputs, marked=True)


def run_corrections(
    file: PolicyFile,
    check: ValuationCheck,
    source: Source,
    events: RowEvents | None,
    late: LateLines | LateFile | None,
    options: RunSpec,
    reasons: Reasons,
) -> Steps:
    """Check an open log, correct answers, and return the exit status."""

    def make(logs: Mapping[str, os.stat_result]) -> CorrectedRelations:
        output: AnswerOutput | TableOfAnswers | None = None
        if options.judging.verdicts != "none":
            if options.output.format == "text":
                output = AnswerOutput(check, source, options)
            else:
                require_no_terminal(options.output)
                output = TableOfAnswers(check, source, options)
        work = CorrectedRelations(check, check, source, events, output, late, logs, options)
        if options.reporting.report is not None:
            from mtlmon.run.findings import check_findings
            from mtlmon.run.revised_relation_report import RevisedRelationReport

            check_findings(options, logs)
            work.revised = RevisedRelationReport(check, source, list(logs), options, file)
        return work

    if options.output.rows:
        source.track_rows()

    def summary(seconds: float, events_before: int) -> str:
        return corrected_answers_summary(check, source, seconds, events_before)

    return run_late_work(source, options, reasons, make, summary)
