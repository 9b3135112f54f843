"""Check policies on a log whose rows may come late, and correct verdicts: a changelog."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking.changes import KINDS_OF
from mtlmon.checking.history_check import HistoryCheck
from mtlmon.checking.late_checks import LateChecks
from mtlmon.checking.late_first import FirstAnswer, FirstChanges, FirstViolation
from mtlmon.checking.text_logs import TextLog
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy import PolicyFile
from mtlmon.run.changed_answers import ChangelogOutput, ChangesOutput
from mtlmon.run.failure import VIOLATION, RunError
from mtlmon.run.files import open_text_log, verdicts_of
from mtlmon.run.in_order import Reasons, notes_outcome
from mtlmon.run.late_rows import LateFile, corrected_order, late_file, moved_ends
from mtlmon.run.late_work import (
    LateLines,
    LateWork,
    bounds_of,
    late_lines,
    run_late_work,
)
from mtlmon.run.option_rules import require_no_columns, require_no_keys
from mtlmon.run.policies import (
    assumption_watch,
    has_messages,
    note_modes,
    open_table_source,
    policies_of,
    statuses,
    text_atoms,
)
from mtlmon.run.steps import has_variables
from mtlmon.support.refusals import refused

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from mtlmon.checking.history_check import Bounds
    from mtlmon.checking.text_logs import LineEvents
    from mtlmon.policy import Policy
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.run.correcting_relations import LateRelations
    from mtlmon.run.policy_work import Source
    from mtlmon.run.reports import LateReport
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables import TableEvents

__all__ = ["correct", "require_correctable"]


# ---- what can be corrected ---------------------------------------------------------------------


def require_correctable(file: Formula | PolicyFile, options: RunSpec) -> None:
    """Raise RunError if verdicts cannot be corrected with these policies and options.

    Args:
        file: the formula or the policies.
        options: the options of the run.
    """
    if options.times.idle is not None and options.times.clock == "key":
        raise RunError(refused("clock, idle"))
    if options.times.advance_every is not None:
        raise RunError(refused("lateness, advance"))
    if isinstance(file, PolicyFile):
        require_correctable_policies(file, options)


def require_correctable_policies(file: PolicyFile, options: RunSpec) -> None:
    """Raise RunError if verdicts of some policies cannot be corrected."""
    from mtlmon.streams.late_support import has_ticks, row_relation, waits
    from mtlmon.syntax.report import visible

    if file.assumptions and options.times.clock == "key":
        raise RunError(refused("clock, assume"))
    if any(policy.is_first_order for policy in file.policies):
        from mtlmon.run.correcting_relations import require_correctable_relations

        require_correctable_relations(options)
    for policy in file.policies:
        if policy.is_first_order:
            continue
        name = visible(policy.name or "")
        if options.times.clock == "key" and waits(policy):
            raise RunError(refused("clock, next", name=f"policy {name}"))
        if options.times.clock == "key" and has_ticks(file, policy):
            raise RunError(refused("clock, ticks", name=f"policy {name}"))
        if options.times.clock == "key" and (relation := row_relation(file, policy)) is not None:
            raise RunError(refused("clock, relations", name=f"{relation} in policy {name}"))


def history_check(
    policies: Sequence[Policy],
    options: RunSpec,
    bounds: Callable[[], Bounds],
    memory: MemoryLimit,
) -> HistoryCheck:
    """Return the check of policies without variables.

    Args:
        policies: the policies.
        options: the options of the run.
        bounds: returns how late events may be, once the first events have been read.
        memory: how much memory may be held.
    """
    counts_triggered = any(policy.tolerance is not None for policy in policies)
    return HistoryCheck(
        policies,
        # all modes have the same Boolean verdicts, this one for every time-point
        "naive" if options.judging.resolve else options.judging.mode,
        bounds,
        memory=memory,
        clock=options.times.clock or "all",
        key=options.log.key_columns,
        bdd=options.judging.bdd,
        counts_triggered=(
            options.judging.reports_vacuous
            or counts_triggered
            or options.reporting.report is not None
        ),
        equality=options.log.op is not None and options.log.id is None,
        tracks_rows=options.output.rows,
        notes_outcome=notes_outcome(options),
        has_corrections=options.log.op is not None or options.log.id is not None,
        # a report counts all verdicts
        shown=KINDS_OF["all" if options.reporting.report else options.judging.verdicts],
    )


# ---- the run -----------------------------------------------------------------------------------


def correct(
    file: Formula | PolicyFile,
    options: RunSpec,
    read: Callable[[MemoryLimit], LateRelations] | None = None,
    check_again: Callable[[RunSpec], Steps] | None = None,
) -> Steps:
    """Check the policies on the logs, correct verdicts, and return the exit status.

    Args:
        file: what `require_correctable` accepts.
        options: likewise.
        read: returns what checks the policies with variables, given how much memory may be held, if
            they are read in a way of their own.
        check_again: checks them in the order of time then, with other options.

    Raises:
        RunError: a file cannot be read or written, a length of time does not fit, or binary output
            would go to a terminal.
        MtlmonError: a line or row cannot be read, or the engine has reached a limit.
    """
    # the run that explains finds the keys by itself
    reasons = Reasons(file, options, check_again)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    relations = None if read is None else read(memory)
    if relations is None and has_variables(file):
        from mtlmon.run.correcting_relations import LateRelations

        relations = LateRelations(file, options, memory)
    if relations is not None:
        file = relations.file
    elif isinstance(file, PolicyFile) and not options.log.is_table:
        require_no_columns(file, options)
    plain = None
    if policies := [policy for policy in policies_of(file) if not policy.is_first_order]:
        plain = history_check(policies, options, lambda: bounds_of(options, source), memory)
        if wants_messages(plain, options):
            plain.make_messages()
        if not options.judging.resolve:
            note_modes(policies, plain.modes, options)
        if not options.log.is_table:
            require_no_keys(plain.partitions, file, options)
    late: LateLines | LateFile | None
    source: Source
    events = None
    if options.log.is_table:
        late = found = late_file(options, keeps=options.checkpoint.path is not None)
        source = open_tables(file, options, plain, relations, found, memory)
    else:
        source, events = open_text(file, options, plain, relations, memory)
        late = late_lines(options, source)
    check = LateChecks(
        plain,
        None if relations is None else relations.check,
        unmatched="error" if options.log.on_error == "stop" else "count",
    )
    if options.output.rows:
        source.track_rows()
    if options.output.arrival:
        source.cut_batches()
    for one in file.assumptions if isinstance(file, PolicyFile) else ():
        if one.subject == "instances":
            options.host.note(
                f"'assume {one}' is not watched: how many instances are alive at once is not known "
                "where late rows change when they begin and end"
            )
    with closing(source):
        logs = statuses(source)
        reasons.check(logs)
        verdicts = verdicts_of(options, logs, keeps=options.checkpoint.path is not None)
        output: ChangelogOutput | ChangesOutput | None = None
        if options.judging.verdicts != "none":
            kind = ChangelogOutput if options.output.format == "text" else ChangesOutput
            output = kind(check, source, options)
        work = LateWork(
            check,
            source,
            output,
            late,
            logs,
            options,
            events=events,
            first=first_violation(check, options),
            revised=open_report(check, source, logs, options, file),
            assumptions=assumption_watch(file, source, options.times),
        )
        status = yield from run_late_work(work, verdicts, reasons)
    return (yield from reasons.emit()) if status == VIOLATION and reasons.are_wanted else status


def open_text(
    file: Formula | PolicyFile,
    options: RunSpec,
    plain: HistoryCheck | None,
    relations: LateRelations | None,
    memory: MemoryLimit,
) -> tuple[TextLog, LineEvents | None]:
    """Open a text log; return also what reads atoms with arguments, if policies have any.

    Args:
        file: the formula or the policies.
        options: the options of the run.
        plain: checks those without variables; None if there are none.
        relations: those with variables; None if there are none.
        memory: how much memory may be held.
    """
    log = open_text_log(options.log)
    atoms: Sequence[str] = ()
    if plain is not None:
        needed, on_error = plain.atoms_of_partitions, options.log.on_error
        (shown,) = shown_in_messages(plain, file)
        atoms, streams = text_atoms(plain.atoms, needed, file, log.name, shown, on_error, memory)
        if streams is not None:
            plain.streams, plain.inputs = streams.atoms, streams.inputs
    events = None if relations is None else relations.read_text(log.name, atoms)
    source = TextLog(
        log,
        atoms if events is None else events.atoms,
        skip_errors=options.log.on_error == "skip",
        memory=memory,
        events=events,
        in_any_order=True,
    )
    if options.log.signature is not None:
        source.row_name = "time-point"
    if relations is not None:
        relations.source = source
        # the time-points that the log is read into are those of the history
        _ = relations.check.history
    return source, events


def open_tables(
    file: Formula | PolicyFile,
    options: RunSpec,
    plain: HistoryCheck | None,
    relations: LateRelations | None,
    late: LateFile | None,
    memory: MemoryLimit,
) -> TableEvents:
    """Open tables; `late` gets the rows that come too late, and the rest is as for `open_text`."""
    columns = [] if plain is None else list(plain.partitions.columns)
    needed = [] if plain is None else plain.atoms_of_partitions
    atoms = [] if plain is None else list(plain.atoms)
    shown: list[dict[When, list[str]]] = [{} for _ in columns]
    computed = [] if plain is None else shown_in_messages(plain, file)
    if relations is not None:
        relations.add_partitions(columns, needed, shown, computed)
        atoms = list(dict.fromkeys([*atoms, *relations.names]))
    source = open_table_source(
        options,
        atoms,
        file if isinstance(file, PolicyFile) else None,
        columns,
        memory,
        atoms_of_partitions=needed,
        shown=None if relations is None else shown,
        computed=computed,
        order=corrected_order(options, late, moved_ends(file, options)),
    )
    if plain is not None:
        plain.streams, plain.inputs = source.streams, lambda batch: batch.inputs
        plain.relations = source.relations
    if relations is not None:
        relations.source = source
        if source.relations is not None:
            # PERF: few files have relations of rows
            from mtlmon.checking.revising import Revising

            relations.revising = Revising(source.relations)
            if plain is None:
                relations.check.relations = source.relations
            else:
                plain.revising = relations.revising
    return source


def wants_messages(check: HistoryCheck, options: RunSpec) -> bool:
    """Whether the output or the report has messages."""
    if options.reporting.report is not None:
        return any(policy.message is not None for policy in check.policies)
    return has_messages(check, options)


def shown_in_messages(
    check: HistoryCheck, file: Formula | PolicyFile
) -> list[dict[When, list[str]]]:
    """Return the names of the values that messages show, for each partition."""
    if check.messages is None or not isinstance(file, PolicyFile):
        return [{} for _ in check.partitions.columns]
    # PERF: importing Arrow takes longer than small logs
    from mtlmon.checking.shown import shown_names

    return shown_names(file, check, has_values=False)


def first_violation(check: LateChecks, options: RunSpec) -> FirstViolation | None:
    """Return what finds the first violation, if only that is wanted."""
    if options.judging.verdicts != "first":
        return None
    kinds: list[FirstChanges | FirstAnswer] = []
    has_keys = False
    if (plain := check.plain) is not None:
        has_keys = any(plain.partitions.columns)
        kinds.append(FirstChanges(plain, has_keys=has_keys))
    if (answers := check.answers) is not None:
        finds = [policy.is_find for policy in answers.policies]
        kinds.append(FirstAnswer(finds, answers, has_others=plain is not None))
    by_stamp = options.log.time_points == "stamp"
    return FirstViolation(kinds, has_common_points=not has_keys and not by_stamp)


def open_report(
    check: LateChecks,
    source: Source,
    logs: Mapping[str, os.stat_result],
    options: RunSpec,
    file: Formula | PolicyFile,
) -> LateReport | None:
    """Return what makes the report, if one is wanted.

    Raises:
        RunError: its file has another use, or cannot be written.
        MtlmonError: a package that reports need is not installed.
    """
    if options.reporting.report is None:
        return None
    from mtlmon.run.findings import RunOf, check_findings
    from mtlmon.run.reports import LateReport

    check_findings(options, logs)
    return LateReport(check, RunOf(file, source, logs, options))
