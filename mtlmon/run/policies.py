"""Check any number of policies on tables and text logs, with explanations and reports."""

from __future__ import annotations

import os
from functools import partial

from mtlmon.checking.clocks import clock_of
from mtlmon.checking.outputs import JsonLinesOutput, TextOutput
from mtlmon.checking.partitions import TraceKeys
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.checking.text_logs import TextLog
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy import Policy, PolicyFile
from mtlmon.run.failure import SIGNALLED, VIOLATION, RunError
from mtlmon.run.files import open_text_log, position_of_input, rewind, verdicts_of
from mtlmon.run.host import REPORT_SECONDS
from mtlmon.run.late_rows import NO_ORDER, TableOrder, TextOrder, table_order, text_order
from mtlmon.run.option_rules import require_no_columns, require_no_keys
from mtlmon.run.policy_work import unreadable
from mtlmon.run.pump import Pump
from mtlmon.run.report import name_list, note_mode, note_slow
from mtlmon.run.running import run_to_end
from mtlmon.run.steps import has_variables
from mtlmon.run.table_output import answer_output
from mtlmon.run.time_stamps import iso_times, time_texts
from mtlmon.support.inputs import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Literal

    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.outputs import Output
    from mtlmon.checking.text_streams import TextStreams
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.analysis import Analysis
    from mtlmon.run.files import VerdictFile
    from mtlmon.run.host import Signals
    from mtlmon.run.judges import Judge
    from mtlmon.run.judging import PolicyWork
    from mtlmon.run.late_work import LateWork
    from mtlmon.run.relation_judge import RelationJudge
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Log, RunSpec, Times
    from mtlmon.run.standing_queries import QueryWork
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables import TableEvents

    Source = TextLog | TableEvents

__all__ = ["check_logs", "has_values"]


def check_logs(file: Formula | PolicyFile, options: RunSpec) -> Steps:
    """Check the policies on the logs; return the exit status.

    Args:
        file: the formula or the policies to check.
        options: the options of the run.

    Raises:
        RunError: a file cannot be read or written, or the options contradict each other.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        MtlmonError: a line or row cannot be read, or the engine has reached a limit.
    """
    others: tuple[tuple[str, ...], ...] = ()
    analysis: Analysis | None = None
    if has_variables(file):
        from mtlmon.relational.keyed import keys_of_others
        from mtlmon.run.relations import evaluable, require_no_conditions

        file, analysis = evaluable(file, options)
        if not options.log.is_table:
            require_no_conditions(file, options)
        others = tuple(keys_of_others(file))
    elif isinstance(file, PolicyFile) and not options.log.is_table:
        require_no_columns(file, options)
    policies = policies_of(file)
    formulas = [policy for policy in policies if not policy.is_first_order]
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    check = None
    if formulas:
        wanted = "false" if options.output.for_people else options.judging.given_verdicts or "all"
        options = options.having(verdicts=wanted)
        check = check_in_order(formulas, policies, options, memory, others)
        if not options.log.is_table:
            require_no_keys(check.partitions, file, options)
        note_modes(formulas, check.modes, options)
    return check_source(check, file, options, memory, analysis=analysis)


def check_source(
    check: LogCheck | None,
    file: Formula | PolicyFile,
    options: RunSpec,
    memory: MemoryLimit,
    relations: RelationJudge | None = None,
    analysis: Analysis | None = None,
) -> Steps:
    """Open the log, and check the policies on it; return the exit status.

    Args:
        check: the check of the policies without variables; None if there are none.
        file: the formula or the policies.
        options: the options of the run.
        memory: the limit on memory.
        relations: the policies with variables, if they are read in a way of their own.
        analysis: what is known of them before a log is read, if there are some otherwise.
    """
    start = position_of_input(options.log)
    shown = None
    if relations is None and has_variables(file):
        from mtlmon.run.relation_judge import RelationJudge

        if check is not None:
            # before atoms with arguments are declared as atoms of rows
            shown = shown_in(check, file, options, is_for_explanations=False)
        partitions = None if check is None else check.partitions
        relations = RelationJudge(file, options, memory, start, partitions, analysis)

    def again() -> Source:
        rewind(options.log, start)
        source = open_source(check, file, options, relations=relations, is_for_explanations=True)
        if options.tracks_rows:
            source.track_rows()
        return source

    source = open_source(check, file, options, relations=relations, shown=shown)
    try:
        if check is not None and check.repeats_ticks:
            source.only_due_ticks()
        if tracks_rows(check, relations, options):
            source.track_rows()
        logs = statuses(source)
        if options.reporting.needs_violations:
            from mtlmon.run.findings import check_all_findings

            check_all_findings(options, logs, source)
        judges: list[Judge] = []
        if check is not None:
            from mtlmon.run.formula_judge import FormulaJudge

            found = None
            if options.reporting.needs_violations:
                from mtlmon.run.findings import RunOf
                from mtlmon.run.found_verdicts import FoundVerdicts

                found = FoundVerdicts(check, RunOf(file, source, logs, options), again)
            prepare_messages(check, options)
            output = make_output(check, source, options, relations)
            judges.append(FormulaJudge(check, source, output, found, options))
        watch = assumption_watch(file, source, options.times)
        names = [policy.name for policy in policies_of(file)]
        if relations is not None:
            relations.open(source, logs)
            judges.append(relations)
        from mtlmon.run.judging import PolicyWork

        work = PolicyWork(judges, source, logs, options, names, watch)
        if relations is not None and isinstance(source, TextLog):
            from mtlmon.checking.computed_rows import ComputedEvents

            work.events = relations.events
            if source.has_streams or isinstance(work.events, ComputedEvents):
                work.events_again = partial(relations.read_text_again, source.name)
        return (yield from run_work(work, options))
    finally:
        source.close()


def tracks_rows(check: LogCheck | None, relations: RelationJudge | None, options: RunSpec) -> bool:
    """Whether a log that is read for the first time tells its rows."""
    if check is not None and check.row_tracker is not None:
        return True
    return relations is not None and (options.tracks_rows or options.output.for_people)


def check_in_order(
    policies: Sequence[Policy],
    among: Sequence[Policy],
    options: RunSpec,
    memory: MemoryLimit,
    other_keys: Iterable[tuple[str, ...]] = (),
) -> LogCheck:
    """Return the check of policies without variables on rows in order.

    Args:
        policies: these policies.
        among: all policies of the file, by which it is chosen what is told of any of them.
        options: the options of the run.
        memory: the limit on memory.
        other_keys: the columns of the keys of the other policies.

    Raises:
        MtlmonError: a policy cannot be monitored with these options.
    """
    # imported on use, as policies with variables do without it
    from mtlmon.checking.log_check import LogCheck

    for_people = options.output.for_people
    return LogCheck(
        policies,
        options.judging.mode,
        key=options.log.key_columns,
        bdd=options.judging.bdd,
        verdicts=options.judging.verdicts,
        resolve=options.judging.resolve or for_people,
        collect=options.reporting.needs_violations,
        advance_every=options.times.advance_every,
        # what is taken as it is has the numbers of keys
        keep_keys=options.output.taker is not None,
        max_memory=memory,
        threads=options.limits.threads,
        other_keys=other_keys,
        passes_time=options.passes_time,
        counts_triggered=wants_triggered(among, options),
        rows=options.output.rows or (for_people and knows_rows(among, options.log)),
    )


def prepare_messages(check: LogCheck, options: RunSpec) -> None:
    """Let the check make the messages of triggers, if the output has them."""
    if has_messages(check, options):
        from mtlmon.checking.shown import Messages

        check.messages = Messages(
            check,
            keeps_first=options.judging.verdicts == "first",
            repeats_ticks=check.repeats_ticks,
        )


def run_work(work: PolicyWork, options: RunSpec) -> Steps:
    """Run the work on a log; return the exit status."""
    keeps = options.checkpoint.path is not None
    options.host.take_judging(work)
    verdicts = verdicts_of(options, work.logs_by_name, keeps=keeps)
    if options.output.for_people:
        # It escapes what does not print by itself.
        verdicts.lines = None
    signals = options.host.signals(verdicts, is_held=keeps)
    pump = make_pump(work, verdicts, signals, options)

    def report(status: int, seconds: float) -> None:
        if options.output.for_people and work.is_complete:
            from mtlmon.run.people import show_outcome

            show_outcome(work.outcome(), work.pace.event_count, options)
        work.report_end()
        if options.reporting.explain and status == VIOLATION and work.has_violation():
            work.explain()
        if options.reporting.has_context and status == VIOLATION and work.has_violation():
            work.show_context()
        if options.reporting.report is not None:
            write_report_in_time(
                lambda is_interrupted: work.write_report(seconds, is_interrupted=is_interrupted),
                status,
                signals,
                options,
            )

    return run_to_end(
        pump,
        host=options.host,
        has_violation=work.fails,
        report=report,
        summary=work.summary,
        wants_summary=options.reporting.summary,
        end_time=options.times.end_time,
    )


def assumption_watch(
    file: Formula | PolicyFile, source: Source, times: Times
) -> AssumptionWatch | None:
    """Return what tells which assumptions of the file a log breaks; None if it assumes nothing."""
    if not isinstance(file, PolicyFile) or not file.assumptions:
        return None
    from mtlmon.checking.assumptions import AssumptionWatch

    if isinstance(source, TextLog):
        return AssumptionWatch(file.assumptions, times.unit, [()])
    unit = source.times.resolution or source.times.unit
    return AssumptionWatch(file.assumptions, unit, source.partitions)


def make_pump(
    work: PolicyWork | LateWork | QueryWork,
    verdicts: VerdictFile,
    signals: Signals,
    options: RunSpec,
) -> Pump:
    """Return a pump with or without checkpoints and idle times, as the options require.

    Raises:
        RunError: the files are not suitable for checkpoints.
    """
    progress = options.host.progress(work.source.size or 0, verdicts, options)
    if options.times.idle is not None and options.checkpoint.path is None:
        from mtlmon.run.idle import IdlePump

        return IdlePump(work, verdicts, signals, progress, options.times.idle, options.times.unit)
    if options.checkpoint.path is None:
        return Pump(work, verdicts, signals, progress)
    from mtlmon.run.checkpointing import CheckpointingPump

    work.begin_part()
    if options.times.idle is not None:
        from mtlmon.run.idle import IdleCheckpointingPump

        return IdleCheckpointingPump(work, verdicts, signals, progress, options)
    return CheckpointingPump(work, verdicts, signals, progress, options)


def write_report_in_time(
    write: Callable[[bool], None], status: int, signals: Signals, options: RunSpec
) -> None:
    """Write the report; after a signal, give up if that takes too long.

    Args:
        write: writes the report, and is told whether the run was interrupted.
        status: the exit status of the run.
        signals: the signals that can interrupt the run.
        options: the options of the run.
    """
    if status < SIGNALLED:
        write(False)
    elif not signals.at_last(lambda: write(True), REPORT_SECONDS):
        options.host.note(f"{options.reporting.report} was not written: there was no time for it")


def wants_triggered(policies: Sequence[Policy], options: RunSpec) -> bool:
    """Whether anything depends on how often the left sides of implications hold."""
    return asks_for_triggered(options) or any(policy.tolerance is not None for policy in policies)


def asks_for_triggered(options: RunSpec) -> bool:
    """Whether the options alone ask how often the left sides of implications hold.

    A run with checkpoints counts for a summary only if it does so anyway: otherwise it would depend
    on the terminal whether a later run can continue from the checkpoint.
    """
    if options.judging.reports_vacuous or options.reporting.report is not None:
        return True
    return options.checkpoint.path is None and options.host.wants_summary(options.reporting.summary)


def knows_rows(policies: Sequence[Policy], log: Log) -> bool:
    """Whether no row that waits for later values can be left out, after which rows are unknown."""
    clocks = map(clock_of, policies)
    return log.on_error != "skip" or not any(one is not None and one.waits for one in clocks)


def policies_of(file: Formula | PolicyFile) -> tuple[Policy, ...]:
    """Return the policies of a file; a formula counts as a single policy."""
    return file.policies if isinstance(file, PolicyFile) else (Policy(None, file, file),)


def note_modes(policies: Sequence[Policy], modes: Sequence[str], options: RunSpec) -> None:
    """Mention once which policies cannot run in the requested mode; `modes` are those in use."""
    unbounded = [
        (policy.name, mode)
        for policy, mode in zip(policies, modes, strict=True)
        if mode != options.judging.mode
    ]
    if unbounded:
        names = tuple(name for name, _ in unbounded if name is not None)
        what = f"the future of {name_list(names)}" if names else "the formula's future"
        formulas = [
            policy.formula
            for policy, mode in zip(policies, modes, strict=True)
            if mode != options.judging.mode
        ]
        note_mode(what, formulas, options, unbounded[0][1])
    note_slow([(policy.name, policy.formula) for policy in policies], options)


def shown_in(
    check: LogCheck, file: Formula | PolicyFile, options: RunSpec, *, is_for_explanations: bool
) -> list[dict[When, list[str]]]:
    """Return the names of the values that messages and explanations show, for each partition."""
    columns = check.partitions.columns
    is_wanted = is_for_explanations or has_messages(check, options)
    if not (is_wanted and isinstance(file, PolicyFile) and has_values(file)):
        return [{} for _ in columns]
    from mtlmon.checking.shown import shown_names

    shown = shown_names(
        file,
        check,
        has_values=is_for_explanations,
        has_columns=options.reporting.report is not None,
    )
    # the whole log may be a partition without policies
    return [*shown, *({} for _ in columns[len(shown) :])]


def has_values(file: PolicyFile) -> bool:
    """Whether anything but atoms of the log can be shown with violations; that needs pyarrow."""
    return bool(file.atoms) or any(
        policy.message is not None or policy.clock is not None for policy in file.policies
    )


def has_messages(check: LogCheck | HistoryCheck, options: RunSpec) -> bool:
    """Whether the output has messages of triggers, or the report on a log that is read once."""
    taker = options.output.taker
    if taker is not None and not taker.wants_messages:
        return False
    has_room = options.output.format != "text" or options.output.for_people
    has_room = has_room and options.judging.verdicts != "none"
    is_read_once = bool(options.log.streams) or options.log.has_pipe
    has_room = has_room or (options.reporting.report is not None and is_read_once)
    return has_room and any(policy.message is not None for policy in check.policies)


def open_source(
    check: LogCheck | None,
    file: Formula | PolicyFile,
    options: RunSpec,
    *,
    is_for_explanations: bool = False,
    relations: RelationJudge | None = None,
    shown: list[dict[When, list[str]]] | None = None,
) -> Source:
    """Open the log.

    Args:
        check: the check that the log is opened for; None if all policies have variables.
        file: the formula or the policies.
        options: the options of the run.
        is_for_explanations: whether it is read again for explanations of the check, with values to
            show.
        relations: the policies with variables, if there are some.
        shown: the names of the values to show in each partition, if they are known.

    Raises:
        RunError: the log cannot be read.
        MtlmonError: the options for tables are contradictory or unknown.
    """
    if shown is None and check is not None:
        shown = shown_in(check, file, options, is_for_explanations=is_for_explanations)
    if not options.log.is_table:
        order = text_order(options, is_again=is_for_explanations)
        return open_text_source(check, file, options, (shown or [{}])[0], order, relations)
    atoms: Sequence[str] = ()
    columns: Sequence[tuple[str, ...]]
    if check is not None:
        atoms, columns, memory = check.atoms, check.partitions.columns, check.memory
        needed = check.atoms_of_partitions
    else:
        assert relations is not None
        columns, memory = relations.partitions, relations.memory
        needed = [{} for _ in columns]
    shown = [{} for _ in columns] if shown is None else shown
    if relations is not None and not is_for_explanations:
        relations.add_to(needed, shown)
        atoms = list(dict.fromkeys([*atoms, *relations.names]))
    return open_table_source(
        options,
        atoms,
        file if isinstance(file, PolicyFile) else None,
        columns,
        memory,
        atoms_of_partitions=needed,
        shown=shown,
        order=table_order(options, file, is_again=is_for_explanations),
    )


def open_text_source(
    check: LogCheck | None,
    file: Formula | PolicyFile,
    options: RunSpec,
    shown: Mapping[When, Sequence[str]] | None = None,
    order: TextOrder | None = None,
    relations: RelationJudge | None = None,
) -> TextLog:
    """Open a text log for a check.

    Args:
        check: the check that the log is opened for; None if all policies have variables.
        file: the formula or the policies.
        options: the options of the run.
        shown: the names of values to show.
        order: puts the lines into the order of time.
        relations: the policies with variables, which read the lines, too.

    Raises:
        RunError: the log cannot be read.
    """
    checked = relations if check is None else check
    assert checked is not None
    if order is not None:
        order.memory = checked.memory
    log = open_text_log(options.log)
    atoms: Sequence[str] = ()
    streams = None
    if check is not None:
        atoms, streams = text_atoms(
            check.atoms,
            check.atoms_of_partitions,
            file,
            log.name,
            shown or {},
            options.log.on_error if relations is None else None,
            check.memory,
        )
    events = None if relations is None else relations.read_text(log.name, atoms)
    return TextLog(
        log,
        atoms if events is None else events.atoms,
        skip_errors=options.log.on_error == "skip",
        memory=checked.memory,
        streams=streams,
        events=events,
        order=order,
    )


def open_table_source(
    options: RunSpec,
    atoms: Sequence[str],
    policies: PolicyFile | None,
    partitions: Sequence[Sequence[str]],
    memory: MemoryLimit,
    *,
    atoms_of_partitions: Sequence[Mapping[When, Sequence[str]]] | None = None,
    streams: Sequence[str] = (),
    shown: Sequence[Mapping[When, Sequence[str]]] | None = None,
    computed: Sequence[Mapping[When, Sequence[str]]] | None = None,
    order: TableOrder = NO_ORDER,
) -> TableEvents:
    """Open the tables that the options name; the other arguments are those of `open_tables`.

    Raises:
        RunError: a table cannot be read.
        MtlmonError: the options are contradictory or unknown.
    """
    from mtlmon.tables import open_tables

    if options.host.takes_signals:
        take_signals_from_arrow()
    if options.log.input.is_closed and STANDARD_STREAM in options.log.paths:
        raise RunError("cannot read standard input: it is closed")
    try:
        return open_tables(
            options.log.sources,
            atoms,
            policies=policies,
            atoms_of_partitions=atoms_of_partitions,
            streams=streams,
            shown=shown,
            computed=computed,
            format=options.log.format,
            pattern=options.log.pattern,
            time=options.log.time,
            time_unit=options.log.time_unit,
            time_format=options.log.time_format,
            time_zone=options.log.time_zone,
            null_values=options.log.null_values,
            delimiter=options.log.delimiter,
            quote=options.log.quote,
            decimal=options.log.decimal,
            resolution=options.times.time_stamp_unit,
            event=options.log.event,
            event_separator="|"
            if options.log.event_separator is None
            else options.log.event_separator,
            partitions=partitions,
            on_error=options.log.on_error,
            sort=options.times.sort,
            sort_memory=options.limits.sort_memory,
            wait=order.wait,
            late=order.late,
            in_any_order=order.in_any_order,
            operation=order.operation,
            id=order.id,
            complete=order.complete,
            new_end=order.new_end,
            clock=order.clock,
            counting=order.counting,
            option_names=options.option_names,
            memory=memory,
        )
    except OSError as error:
        raise unreadable(error) from None


def text_atoms(
    wanted: Sequence[str],
    atoms_of_partitions: Sequence[Mapping[When, Sequence[str]]],
    file: Formula | PolicyFile,
    path: str,
    shown: Mapping[When, Sequence[str]],
    on_error: Literal["stop", "skip"] | None,
    memory: MemoryLimit,
) -> tuple[tuple[str, ...], TextStreams | None]:
    """Return the atoms that lines of a text log name, and what computes the others, if any."""
    at_ticks = {
        period: names
        for needed in atoms_of_partitions
        for period, names in needed.items()
        if period
    }
    every_shown = [name for names in shown.values() for name in names]
    if not isinstance(file, PolicyFile) or not (file.atoms or at_ticks or every_shown):
        return tuple(wanted), None
    from mtlmon.policy.needs import needs_of

    defined = [name for name in wanted if name in file.atoms]
    if not (defined or at_ticks or every_shown):
        return tuple(wanted), None
    from mtlmon.tables.text_atoms import text_streams

    others = [name for names in at_ticks.values() for name in names]
    needs = needs_of(file, [*wanted, *others], every_shown)
    named = tuple(name for name in needs.log_atoms if name not in file.atoms)
    streams = text_streams(
        file, defined, file.unit, path, at_ticks, shown, on_error=on_error, memory=memory
    )
    return named, streams


def take_signals_from_arrow() -> None:
    """Keep Arrow from handling signals while it reads: it would raise an error of its own."""
    from pyarrow import enable_signal_handlers

    enable_signal_handlers(False)


def statuses(source: Source) -> dict[str, os.stat_result]:
    """Return the status of the log's files by name."""
    if isinstance(source, TextLog):
        return {source.name: os.fstat(source.descriptor)}
    return {
        file.name: os.stat(file.path) if file.input is None else os.fstat(file.input.descriptor)
        for file in source.files
    }


def make_output(
    check: LogCheck, source: Source, options: RunSpec, relations: RelationJudge | None = None
) -> Output | None:
    """Return the converter of verdicts to bytes, or None if no verdicts are wanted.

    Args:
        check: the check of the policies without variables.
        source: the log.
        options: the options of the run.
        relations: the others; a table of verdicts is one of their answers as well.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    if options.output.taker is not None:
        return options.output.taker
    names = [policy.name for policy in check.policies]
    keys = TraceKeys(check.partitions, tuple(source.key_tables))
    if options.judging.verdicts == "none" and options.output.make_batches is None:
        return None
    if options.output.for_people:
        from mtlmon.run.people import PeopleVerdicts

        return PeopleVerdicts(check, keys, time_texts(options, source.times), options)
    rows = check.row_tracker
    if options.output.format == "text":
        return TextOutput(names, keys, rows, iso_times(options, source.times))
    facts = PolicyFacts(check.policies)
    messages = check.messages
    has_more = messages is not None or rows is not None or relations is not None
    if options.output.format == "jsonl" and not has_more:
        if isinstance(source, TextLog):
            return JsonLinesOutput(names, facts=facts)
        return JsonLinesOutput(names, keys, source.times, facts)
    from mtlmon.tables.verdicts import VerdictTable

    table = VerdictTable(names, keys, source.times, messages, rows, facts)
    if relations is not None:
        return relations.share(table)
    return answer_output(table, options.output)
