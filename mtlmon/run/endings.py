"""What a run over a log tells at its end: what was skipped, and what is still undecided."""

from __future__ import annotations

from mtlmon.analysis.antecedent import vacuous_text
from mtlmon.checking.text_logs import TextLog
from mtlmon.errors import VacuousError, VacuousWarning
from mtlmon.policy.limits import never_triggered
from mtlmon.run.report import plural
from mtlmon.support.stack_levels import levels_inside
from mtlmon.syntax.report import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mtlmon.policy.limits import Tally
    from mtlmon.run.host import Host
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents

    Source = TextLog | TableEvents

    class Judging(Protocol):
        """What counts for each policy; counting takes time."""

        @property
        def tallies(self) -> list[Tally]: ...


__all__ = [
    "note_left_out",
    "note_skipped",
    "note_untriggered",
    "note_waiting",
    "report_untriggered",
]


def note_untriggered(judge: Judging, options: RunSpec) -> None:
    """Mention the policies whose left side held nowhere, if they matter."""
    if options.judging.fail_on_vacuous:
        for name in never_triggered(judge.tallies):
            options.host.note(f"{name} was never triggered (--fail-on-vacuous)")


def report_untriggered(judge: Judging, options: RunSpec) -> None:
    """Warn a program of policies that were never triggered, or raise an error, as it has asked.

    Raises:
        VacuousError: there is one.
    """
    if options.judging.vacuous == "ignore":
        return
    for policy, counts, triggered, _ in judge.tallies:
        if triggered is None or triggered.times:
            continue
        name = f"policy {policy.name}" if policy.name else str(policy.formula)
        message = vacuous_text(name, triggered.left, counts.events)
        if options.judging.vacuous == "error":
            raise VacuousError(message, formula=policy.formula)
        import warnings

        warnings.warn(message, VacuousWarning, stacklevel=levels_inside())


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


def note_left_out(count: int, host: Host) -> None:
    """Mention how many rows atoms lack, as an argument has no value."""
    if count:
        rows = plural(count, "row")
        host.note(f"left out {rows} of atoms, because an argument is null or not a number")


def note_waiting(count: int, row_name: str, host: Host) -> None:
    """Mention the rows that wait for later values at the end of the log."""
    if count:
        rows = plural(count, row_name)
        verb = "waits" if count == 1 else "wait"
        host.note(
            f"{rows} still {verb} for later values at the end of the log (see --end-time inf)"
        )
