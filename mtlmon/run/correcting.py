"""Check policies on a log whose rows may come late, and correct verdicts: a changelog."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking import TextLog, TraceKeys
from mtlmon.checking.changes import ChangeLines
from mtlmon.checking.history_check import HistoryCheck
from mtlmon.checking.late_first import FirstChanges
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy import PolicyFile
from mtlmon.run.endings import never_triggered, note_waiting, tell_untriggered, untriggered
from mtlmon.run.failure import VIOLATION, RunError
from mtlmon.run.files import open_text_log
from mtlmon.run.in_order import Reasons, require_explainable
from mtlmon.run.late_rows import LateFile, corrected_order, late_file
from mtlmon.run.late_work import (
    LateLines,
    LateWork,
    bounds_of,
    late_lines,
    refusal,
    run_late_work,
)
from mtlmon.run.option_rules import require_no_columns, require_no_keys
from mtlmon.run.policies import (
    note_modes,
    open_table_source,
    policies_of,
    text_atoms,
)
from mtlmon.run.report import correcting_summary, is_violated
from mtlmon.run.snapshot_parts import damaged
from mtlmon.run.table_output import answer_output, continue_table

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mtlmon.checking.changes import ChangeOutput
    from mtlmon.checking.history_check import Bounds
    from mtlmon.policy import Policy
    from mtlmon.run.policy_work import Source
    from mtlmon.run.pump import EndTime
    from mtlmon.run.revised_report import RevisedReport
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Judging, RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = [
    "CorrectingWork",
    "correct_logs",
    "fails_without_variables",
    "history_check",
    "require_correctable",
    "restore_keys",
]


# ---- what can be corrected ---------------------------------------------------------------------


def require_correctable(file: Formula | PolicyFile, options: RunSpec) -> None:
    """Raise RunError if verdicts cannot be corrected with these policies and options.

    Args:
        file: the formula or the policies.
        options: the options of the run.
    """
    if options.times.idle is not None and options.times.clock == "key":
        raise refusal("--idle and --clock key", of_clock=True)
    if options.times.advance_every is not None:
        raise refusal("--advance-every")
    require_explainable(options)
    if isinstance(file, PolicyFile):
        require_correctable_policies(file, options)


def require_correctable_policies(file: PolicyFile, options: RunSpec) -> None:
    """Raise RunError if verdicts of some policies cannot be corrected."""
    from mtlmon.streams.late_support import has_ticks, row_relation, waits
    from mtlmon.syntax.report import visible

    if file.assumptions:
        raise refusal("assumptions about the log")
    if any(policy.is_first_order for policy in file.policies):
        from mtlmon.run.correcting_relations import require_correctable_relations

        require_correctable_relations(options)
    for policy in file.policies:
        if policy.is_first_order:
            continue
        name = visible(policy.name or "")
        if policy.message is not None and options.output.format != "text":
            raise refusal(f"messages of triggers, as {name}, in tables")
        if options.times.clock == "key" and waits(policy):
            what = f"--clock key where rows wait for later values, as in {name}"
            raise refusal(what, of_clock=True)
        if options.times.clock == "key" and has_ticks(file, policy):
            raise RunError(
                f"--clock key does not work with ticks, as in policy {name}: a tick comes when the "
                "time of the whole log has passed it; leave it out, and all keys share that time"
            )
        if options.times.clock == "key" and (relation := row_relation(file, policy)) is not None:
            raise RunError(
                f"--clock key does not work with relations made of rows of the log, as {relation} "
                f"in policy {name}: rows of any time may still come with other keys, and change "
                "them; leave it out, and all keys share the time of the log"
            )


def fails_without_variables(check: HistoryCheck, judging: Judging) -> bool:
    """Whether policies without variables are violated, as verdicts are now."""
    if judging.fail_on_vacuous and never_triggered(check):
        return True
    return any(
        is_violated(policy, counts, triggered)
        for policy, counts, triggered in zip(
            check.policies, check.counts, check.triggered, strict=True
        )
        if policy.is_at_least(judging.fail_on)
    )


def restore_keys(source: Source, parts: Sequence[bytes], counts: Sequence[int]) -> None:
    """Let the keys of a log have their numbers again.

    Args:
        source: the log.
        parts: a snapshot of the keys of each partition.
        counts: how many traces of each have had events.

    Raises:
        SnapshotError: the parts are damaged.
    """
    if len(parts) != len(source.key_tables):
        raise damaged()
    for keys, table, count in zip(source.key_tables, parts, counts, strict=True):
        if keys is not None:
            keys.restore(table)
            if len(keys) < count:
                raise damaged()


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
            options.judging.tells_vacuous
            or counts_triggered
            or options.reporting.report is not None
        ),
        equality=options.log.op is not None and options.log.id is None,
        unmatched="error" if options.log.on_error == "stop" else "count",
        tracks_rows=options.output.rows,
    )


class CorrectingWork(LateWork):
    """Checks policies without variables.

    The other arguments are those of `LateWork`.

    Args:
        check: the histories of the policies.
        output: converts changes to bytes; None if no verdicts are wanted.
        revised: takes the changes for a report, or None.

    Attributes:
        first: finds the first violation, if only that is wanted; else None.
    """

    check: HistoryCheck
    output: ChangeOutput | None
    revised: RevisedReport | None

    def __init__(
        self,
        check: HistoryCheck,
        source: Source,
        output: ChangeOutput | None,
        late: LateLines | LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
        revised: RevisedReport | None,
    ) -> None:
        super().__init__(check, source, output, late, logs, options)
        self.revised = revised
        self.first: FirstChanges | None = None
        if options.judging.verdicts == "first":
            self.first = FirstChanges(has_keys=any(one is not None for one in source.key_tables))

    @property
    def is_stopped(self) -> bool:
        return self.first is not None and self.first.is_known

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        yield from super().end_check(end_time)
        if self.first is not None and not self.first.is_known:
            for row in self.first.end(self.check.earliest_pending):
                self.check.verdicts.add(row)
            self.put()

    def take(self) -> None:
        """Take the changes out of the check."""
        if self.revised is not None or self.first is not None:
            rows = self.check.verdicts.taken()
            if self.revised is not None:
                self.revised.take(rows)
            if self.first is not None:
                rows = self.first.take(rows)
            for row in rows:
                self.check.verdicts.add(row)
        self.put()

    def put(self) -> None:
        """Convert the changes that are in the check."""
        if self.output is None:
            self.check.verdicts.taken()
        elif len(self.check.verdicts):
            self.output.put(self.check.verdicts)

    def fails(self) -> bool:
        return fails_without_variables(self.check, self.options.judging)

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        super().report_end()
        if self.is_complete:
            note_waiting(self.check.waiting_rows, self.source.row_name, self.options.host)
            tell_untriggered(untriggered(self.check), self.options)

    def open_first(self) -> tuple[str, str] | None:
        if self.first is None or self.first.open_before is None:
            return None
        (time_stamp, offset), earlier = self.first.open_before
        return f"{time_stamp}:{offset} is false", f"a time-point of time-stamp {earlier}"

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not within a batch, nor at the end."""
        return not self.has_ended and not self.check.is_within_row

    def own_parts(self) -> Sequence[bytes]:
        first = [] if self.first is None else [self.first.snapshot()]
        tables = self.source.key_tables
        return [*first, *(b"" if keys is None else keys.snapshot() for keys in tables)]

    def restore_own(self, parts: Sequence[bytes]) -> None:
        if self.first is not None and parts:
            self.first.restore(parts[0])
            parts = parts[1:]
        restore_keys(self.source, parts, self.check.key_counts)

    def restore_output(self, size: int) -> None:
        if self.output is None or self.options.output.format == "text":
            return
        from mtlmon.tables.change_tables import ChangeTable
        from mtlmon.tables.json_rows import JsonRowsOutput
        from mtlmon.tables.outputs import BatchOutput, CsvOutput

        assert isinstance(self.output, BatchOutput | CsvOutput | JsonRowsOutput)
        assert isinstance(self.output.table, ChangeTable)
        self.output.table.know(self.check.bounds)
        continue_table(self.output, size, self.options)

    def settings(self) -> list[tuple[str, object]]:
        columns = list(map(list, self.check.partitions.columns))
        rows = self.options.output.rows
        return [
            *super().settings(),
            ("with other keys", columns),
            self.first_setting,
            (f"with{'out' if rows else ''} --rows", rows),
        ]


def correct_logs(file: Formula | PolicyFile, options: RunSpec) -> Steps:
    """Check the policies on the logs, correct verdicts, and return the exit status.

    Args:
        file: what `require_correctable` accepts.
        options: likewise.

    Raises:
        RunError: a file cannot be read or written, or a length of time does not fit.
        MtlmonError: a line or row cannot be read, or the engine has reached a limit.
    """
    if isinstance(file, PolicyFile) and not options.log.is_table:
        require_no_columns(file, options)
    policies = policies_of(file)
    reasons = Reasons(file, options)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    check = history_check(policies, options, lambda: bounds_of(options, source), memory)
    if not options.judging.resolve:
        note_modes(policies, check.modes, options)
    if not options.log.is_table:
        require_no_keys(check.partitions, file, options)
    late: LateLines | LateFile | None = None
    source: Source
    if options.log.is_table:
        late = found = late_file(options, keeps=options.checkpoint.path is not None)
        source = open_table_source(
            options,
            check.atoms,
            file if isinstance(file, PolicyFile) else None,
            check.partitions.columns,
            check.memory,
            atoms_of_partitions=check.atoms_of_partitions,
            order=corrected_order(options, found),
        )
        check.streams, check.inputs = source.streams, lambda batch: batch.inputs
        check.relations = source.relations
    else:
        log = open_text_log(options.log)
        atoms, streams = text_atoms(
            check.atoms,
            check.atoms_of_partitions,
            file,
            log.name,
            {},
            options.log.on_error,
            check.memory,
        )
        if streams is not None:
            check.streams, check.inputs = streams.atoms, streams.inputs
        source = TextLog(
            log,
            atoms,
            skip_errors=options.log.on_error == "skip",
            memory=check.memory,
            in_any_order=True,
        )
        late = late_lines(options, source)

    def make(logs: Mapping[str, os.stat_result]) -> CorrectingWork:
        revised = open_report(check, source, logs, options, file)
        output = make_output(check, source, options)
        return CorrectingWork(check, source, output, late, logs, options, revised)

    def summary(seconds: float, events_before: int) -> str:
        return correcting_summary(check, source, seconds, events_before)

    if options.output.rows:
        source.track_rows()
    with closing(source):
        status = yield from run_late_work(source, options, reasons, make, summary)
    return (yield from reasons.tell()) if status == VIOLATION and reasons.are_told else status


def open_report(
    check: HistoryCheck,
    source: Source,
    logs: Mapping[str, os.stat_result],
    options: RunSpec,
    file: Formula | PolicyFile,
) -> RevisedReport | None:
    """Return what makes the report, if one is wanted.

    Raises:
        RunError: its file has another use, or cannot be written.
        MtlmonError: a package that reports need is not installed.
    """
    if options.reporting.report is None:
        return None
    from mtlmon.run.findings import check_findings
    from mtlmon.run.relation_findings import can_reread
    from mtlmon.run.revised_report import RevisedReport

    is_rereadable = can_reread(logs, options.log)
    check_findings(options, logs)
    return RevisedReport(check, source, list(logs), options, file, can_reread=is_rereadable)


def make_output(check: HistoryCheck, source: Source, options: RunSpec) -> ChangeOutput | None:
    """Return the converter of changes to bytes, or None if no verdicts are wanted.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    if options.judging.verdicts == "none":
        return None
    names = [policy.name for policy in check.policies]
    keys = TraceKeys(check.partitions, tuple(source.key_tables))
    if options.output.format == "text":
        from mtlmon.run.time_stamps import iso_times

        return ChangeLines(
            names, keys, options.judging.verdicts, iso_times(options, source.times), check.origins
        )
    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.tables.change_tables import CHANGE_COLUMNS, ChangeTable
    from mtlmon.tables.verdicts import VerdictTable

    facts = PolicyFacts(check.policies)
    verdicts = VerdictTable(
        names, keys, source.times, row_tracker=check.origins, facts=facts, more=CHANGE_COLUMNS
    )
    return answer_output(ChangeTable(verdicts, options.judging.verdicts), options.output)
