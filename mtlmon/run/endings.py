"""What a run over a log tells at its end: what was skipped, and what is still undecided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking import TextLog
from mtlmon.run.late_rows import note_refused
from mtlmon.run.report import absent_atoms, note_unit, plural, policy_name
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from mtlmon.checking import LogCheck
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.run.host import Host
    from mtlmon.run.policy_work import PolicyWork
    from mtlmon.tables import TableEvents

    Source = TextLog | TableEvents

__all__ = ["never_triggered", "note_skipped", "note_waiting", "report_end"]


def never_triggered(check: LogCheck | HistoryCheck) -> list[str]:
    """Return the names of the policies whose left side held nowhere, as they are written."""
    return [
        policy_name(policy)
        for policy, triggered in zip(check.policies, check.triggered, strict=True)
        if triggered is not None and not triggered.times
    ]


def note_skipped(source: Source, host: Host) -> None:
    """Mention the rows that were skipped, and lines that are no rows."""
    if not isinstance(source, TextLog) and source.unmatched:
        host.note(f"{plural(source.unmatched, 'line')} did not match the pattern")
    if source.points_left_out:
        host.note(
            f"left out {plural(source.points_left_out, 'time-point')} at which integers overflow"
        )
    if source.skipped:
        host.note(f"skipped {plural(source.skipped, source.row_name)} that could not be read")
    if not isinstance(source, TextLog):
        for remark in source.remarks:
            host.note(visible(remark))
        for error in source.errors[:3]:
            host.note(f"  {error}")


def note_waiting(count: int, row_name: str, host: Host) -> None:
    """Mention the rows that wait for later values at the end of the log."""
    if count:
        rows = plural(count, row_name)
        verb = "waits" if count == 1 else "wait"
        host.note(
            f"{rows} still {verb} for later values at the end of the log (see --end-time inf)"
        )


def report_end(work: PolicyWork) -> None:
    """Mention what the verdicts do not show, such as skipped rows and undecided time-points."""
    check, source, options = work.check, work.source, work.options
    note_skipped(source, options.host)
    if isinstance(source, TextLog):
        note_unit(source.clock, options.times.unit, options.host)
    note_refused(source.refused, source.row_name, options)
    if work.is_complete and (source.unseen_atoms or not check.event_count):
        options.host.note(
            absent_atoms(source.unseen_atoms, check.event_count, lambda: source.seen_names)
        )
    if work.is_complete:
        note_waiting(source.waiting_rows, source.row_name, options.host)
    if options.judging.fail_on_vacuous:
        for name in never_triggered(check):
            options.host.note(f"{name} was never triggered (--fail-on-vacuous)")
    undecided = sum(counts.undecided for counts in check.counts)
    if work.is_complete and options.judging.resolve and undecided:
        options.host.note(
            f"{plural(undecided, 'time-point')} undecided at the end of the log (see --end-time)"
        )
    open_first = work.open_first() if work.is_complete else None
    if open_first is not None:
        first, earlier = open_first
        options.host.note(
            f"{first}, but {earlier} is undecided at the end of the log (see --end-time)"
        )
