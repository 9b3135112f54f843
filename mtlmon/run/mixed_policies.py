"""Check policies with variables and others on one log, in one pass.

The lines come event by event, as if all policies were of one kind: those of policies without
variables, then those of the others.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking import TextLog
from mtlmon.engine.native import MemoryLimit
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.atoms import (
    refuse_points,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.input.native import RowEvents
from mtlmon.relational.keyed import keys_of_others
from mtlmon.relational.planning import plan
from mtlmon.run.files import open_text_log, position_of_input
from mtlmon.run.late_rows import table_order, text_order
from mtlmon.run.mixed_part import Part, mixed_output
from mtlmon.run.mixed_work import MixedTableWork, MixedTextWork
from mtlmon.run.option_rules import require_no_keys
from mtlmon.run.policies import (
    check_in_order,
    note_modes,
    open_findings,
    open_source,
    open_table_source,
    prepare_messages,
    run_work,
    shown_in,
    statuses,
    text_atoms,
)
from mtlmon.run.relation_readers import (
    dropped_events,
    rewind,
    table_reader,
    text_events,
    text_reader,
)
from mtlmon.run.relations import engine_for, require_no_conditions
from mtlmon.tables.relation_traces import RelationTraces
from mtlmon.tables.relations import shown_arguments
from mtlmon.tables.relations_ahead import atoms_of_all

if TYPE_CHECKING:
    from mtlmon.checking import LogCheck
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.run.policy_work import Source
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec

__all__ = ["check_mixed"]


def check_mixed(file: PolicyFile, options: RunSpec) -> Steps:
    """Check the policies on the log; return the exit status.

    Args:
        file: the policies, some of which have variables.
        options: the options of the run, which `check_relations` has accepted.

    Raises:
        RunError: a file cannot be read or written, or an option does not work for such files.
        MtlmonError: a line or row cannot be read, or an engine has reached a limit.
    """
    own = "false" if options.output.for_people else options.judging.given_verdicts or "all"
    options = options.having(verdicts=own)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    policies = [policy for policy in file.policies if not policy.is_first_order]
    check = check_in_order(policies, file.policies, options, memory, keys_of_others(file))
    if not options.log.is_table:
        require_no_keys(check.partitions, file, options)
    note_modes(check.policies, [one.mode for one in check.monitors], options)
    if options.log.is_table:
        return check_mixed_tables(file, check, options, memory)
    return check_mixed_text(file, check, options, memory)


def check_mixed_text(
    file: PolicyFile, check: LogCheck, options: RunSpec, memory: MemoryLimit
) -> Steps:
    """Check the policies on a text log; return the exit status."""
    require_no_conditions(file, options)
    start = position_of_input(options.log)
    order = text_order(options)
    if order is not None:
        order.memory = memory
    log = open_text_log(options.log)
    shown = shown_in(check, file, options, is_for_explanations=False)
    atoms, streams = text_atoms(
        check.atoms, check.atoms_of_partitions, file, log.name, shown[0], None, memory
    )
    prepare_messages(check, options)
    outputs = lines, table = mixed_output(check, None, options)
    analysis = valid_analysis(file, None)
    part = Part(engine_for(file, analysis, options), analysis, options, memory, (), table, lines)
    points = part.check.engine.points
    events = text_events(file, part.check.plan, points, log.name, options, memory, atoms)
    atoms = events.atoms
    source = TextLog(
        log,
        atoms,
        memory=memory,
        streams=streams,
        events=events,
        order=order,
    )

    def events_again() -> RowEvents:
        return dropped_events(file, plan(file, analysis), log.name, options.log, atoms)

    def again() -> Source:
        rewind(start)
        log = open_text_log(options.log)
        shown = shown_in(check, file, options, is_for_explanations=True)
        _, streams = text_atoms(
            check.atoms, check.atoms_of_partitions, file, log.name, shown[0], None, memory
        )
        source = TextLog(
            log,
            atoms,
            memory=memory,
            streams=streams,
            events=events_again(),
            order=text_order(options, is_again=True),
        )
        if options.tracks_rows:
            source.track_rows()
        return source

    def reader_for(most: int) -> Reader:
        return text_reader(options, file, memory, most, start)

    if check.repeats_ticks:
        source.only_due_ticks()
    if options.tracks_rows or options.output.for_people:
        source.track_rows()
    logs = statuses(source)
    findings = open_findings(check, source, logs, options, file)
    work = MixedTextWork(
        check,
        source,
        part,
        outputs,
        findings,
        logs,
        options,
        file,
        reader_for,
        events,
        None if streams is None and isinstance(events, RowEvents) else events_again,
    )
    with closing(source):
        return (yield from run_work(work, again, options))


def check_mixed_tables(
    file: PolicyFile, check: LogCheck, options: RunSpec, memory: MemoryLimit
) -> Steps:
    """Check the policies on tables; return the exit status."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    if options.log.time_points == "stamp":
        refuse_points(file)
    start = position_of_input(options.log)
    # before atoms with arguments are declared as atoms of rows
    shown_of_partitions = shown_in(check, file, options, is_for_explanations=False)
    shown = shown_arguments(file, names)
    traces = RelationTraces(file, shown, check.partitions.columns)
    needed = atoms_of_all(check, names, traces, shown_of_partitions)

    def again() -> Source:
        rewind(start)
        source = open_source(check, file, options, is_for_explanations=True)
        if options.tracks_rows:
            source.track_rows()
        return source

    def reader_for(most: int) -> Reader:
        return table_reader(options, file, names, shown, memory, most, start)

    with closing(
        open_table_source(
            options,
            list(dict.fromkeys([*check.atoms, *names])),
            file,
            check.partitions.columns,
            memory,
            atoms_of_partitions=needed,
            shown=shown_of_partitions,
            order=table_order(options),
        )
    ) as source:
        if check.repeats_ticks:
            source.only_due_ticks()
        if options.tracks_rows or options.output.for_people:
            source.track_rows()
        logs = statuses(source)
        findings = open_findings(check, source, logs, options, file)
        prepare_messages(check, options)
        outputs = mixed_output(check, source, options)
        work = MixedTableWork(
            check, source, outputs, findings, logs, options, file, reader_for, traces
        )
        return (yield from run_work(work, again, options))
