"""What a run over a log tells at its end: what was skipped, and what is still undecided."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from mtlmon.analysis.antecedent import antecedent_of, vacuous_text
from mtlmon.checking import TextLog
from mtlmon.errors import VacuousError, VacuousWarning
from mtlmon.run.report import plural, policy_name
from mtlmon.support.stack_levels import levels_inside
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtlmon.checking import LogCheck
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.policy import Policy
    from mtlmon.run.host import Host
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables import TableEvents

    Source = TextLog | TableEvents

    # a policy, what it was never triggered by, and the number of its time-points
    Untriggered = tuple[Policy, Formula | str, int]

__all__ = [
    "never_triggered",
    "note_skipped",
    "note_waiting",
    "report_untriggered",
    "untriggered",
]


def never_triggered(check: LogCheck | HistoryCheck) -> list[str]:
    """Return the names of the policies whose left side held nowhere, as they are written."""
    return [
        policy_name(policy)
        for policy, triggered in zip(check.policies, check.triggered, strict=True)
        if triggered is not None and not triggered.times
    ]


def untriggered(check: LogCheck | HistoryCheck) -> Iterator[Untriggered]:
    """Yield the policies whose left side held nowhere."""
    for policy, triggered, counts in zip(
        check.policies, check.triggered, check.counts, strict=True
    ):
        antecedent = antecedent_of(policy.formula)
        if triggered is not None and not triggered.times and antecedent is not None:
            yield policy, antecedent.formula, counts.events


def report_untriggered(found: Iterable[Untriggered], options: RunSpec) -> None:
    """Warn a program of policies that were never triggered, or raise an error, as it has asked.

    Raises:
        VacuousError: there is one.
    """
    if options.judging.vacuous == "ignore":
        return
    for policy, left, events in found:
        name = f"policy {policy.name}" if policy.name else str(policy.formula)
        message = vacuous_text(name, left, events)
        if options.judging.vacuous == "error":
            raise VacuousError(message, formula=policy.formula)
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


def note_waiting(count: int, row_name: str, host: Host) -> None:
    """Mention the rows that wait for later values at the end of the log."""
    if count:
        rows = plural(count, row_name)
        verb = "waits" if count == 1 else "wait"
        host.note(
            f"{rows} still {verb} for later values at the end of the log (see --end-time inf)"
        )
