"""What a report says of a run, and of policies and their files, beside what was found."""

from __future__ import annotations

import hashlib
import json
import resource
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mtlmon.checking.changes import ChangedAnswers, PolicyChanges
from mtlmon.errors import ReportError
from mtlmon.explanation.trace import Wording
from mtlmon.policy import PolicyFile
from mtlmon.policy.written import WrittenPolicy, written_formula, written_policies
from mtlmon.reporting import PolicyFileName, ReportData, Run, write_report
from mtlmon.run.failure import WriteFailure
from mtlmon.run.files import text_of
from mtlmon.run.report import plural
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.snapshot_parts import damaged
from mtlmon.support.time_zones import read_time_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mtlmon.checking.changes import Change
    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.policy.limits import Tally
    from mtlmon.reporting import PolicyReport
    from mtlmon.run.findings import Found, FoundInOrder, RunOf
    from mtlmon.run.found_values import RevisedValues
    from mtlmon.run.found_verdicts import RevisedVerdicts
    from mtlmon.run.spec import Log, Policies, RunSpec, Times
    from mtlmon.syntax.formula import Formula

__all__ = [
    "LateReport",
    "WrittenPolicies",
    "remarks_of",
    "run_facts",
    "save_report",
    "time_zone_of",
    "wording_of",
]

INTERRUPTED = "The run was interrupted: the log may go on."
STOPPED_EARLY = (
    "The log was read up to the earliest violation, and only that is shown (--verdicts first)."
)
NOT_EXPLAINED = "Nothing is explained, as the log could not be read a second time."
_CORRECTED = "Nothing is explained, as the verdicts were corrected while rows came in."
_EXPLAINED_APART = (
    "The violations that hold at the end of the run are explained apart from this report."
)

_DIGITS = 12


class WrittenPolicies:
    """The policies of a run as their files write them.

    Args:
        file: the formula or the policies.
        options: the options of the run.
    """

    def __init__(self, file: Formula | PolicyFile, options: RunSpec) -> None:
        self.unit = options.times.time_stamp_unit
        self.written: dict[str | None, WrittenPolicy]
        if isinstance(file, PolicyFile):
            names = [policy.name for policy in file.policies]
            written = written_policies(file, options.policies.constants)
            self.written = dict(zip(names, written, strict=True))
            self.has_several = len(file.files) > 1
        else:
            texts = [text_of(content, name) for name, content in options.policies.contents.items()]
            (text,) = texts or [options.policies.formula or ""]
            self.written = {None: WrittenPolicy(written_formula(text), (), "")}
            self.has_several = False

    def added_to(self, report: PolicyReport, tally: Tally, key: Sequence[str] = ()) -> PolicyReport:
        """Add to the report on a policy what its file says, and how often its left side held.

        Args:
            report: the report on the policy.
            tally: what is counted of the policy.
            key: the columns of its key.
        """
        policy, triggered = tally.policy, tally.triggered
        written = self.written[policy.name]
        clauses = {
            "violations": policy.tolerance_text,
            "per": ", ".join(key),
            "on": "" if policy.clock is None else policy.clock.in_words(self.unit),
            "violated": policy.lasting_text(self.unit),
        }
        return replace(
            report,
            formula=written.text,
            clauses=[(name, value) for name, value in clauses.items() if value],
            is_tolerated=bool(report.false) and not tally.has_failed,
            triggered=None if triggered is None else triggered.times,
            triggered_share=None if triggered is None else triggered.share,
            definitions=written.definitions,
            file=written.source if self.has_several else None,
        )


def run_facts(found: Found, seconds: float, **facts: Any) -> Run:
    """Return what a report says of a run as a whole.

    Args:
        found: what has been found of policies of one kind.
        seconds: the duration of the run.
        facts: what this does not say, as `Run` has it.
    """
    options = found.options
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Run(
        inputs=found.inputs,
        skipped=found.source.skipped,
        seconds=found.earlier + seconds,
        started=found.started,
        peak_memory=size if sys.platform == "darwin" else size * 1024,
        command=shlex.join(["mtlmon", *options.reporting.arguments]),
        end_time=options.times.end_time,
        unit=options.times.time_stamp_unit,
        policy_files=policy_files(options.policies),
        settings=settings_of(found.file, options),
        time_zone=time_zone_of(found.file, options.log),
        **facts,
    )


def save_report(
    found: Sequence[Found],
    names: Sequence[str | None],
    remarks: Callable[[], Iterable[str]],
    seconds: float,
) -> None:
    """Write the report on a run that took so many seconds, by the order of the file.

    Args:
        found: what has been found of the policies of each kind.
        names: the names of the policies, in the order of the file.
        remarks: returns sentences about the run; called when the results are known.
        seconds: the duration of the run.

    Raises:
        WriteFailure: it cannot be written.
    """
    reports = [report for one in found for report in one.reports()]
    reports.sort(key=lambda one: names.index(one.name))
    run = replace(found[0].run(seconds), remarks=list(remarks()))
    path = found[0].options.reporting.report
    assert path is not None
    try:
        write_report(ReportData(reports, run), path)
    except ReportError as error:
        raise WriteFailure(str(error)) from None


def remarks_of(
    found: Sequence[FoundInOrder], *, is_interrupted: bool, is_stopped: bool
) -> Iterator[str]:
    """Yield the remarks about a run over rows in order.

    Args:
        found: what has been found of the policies of each kind.
        is_interrupted: whether the run was interrupted.
        is_stopped: whether it has stopped at the first violation.
    """
    if is_interrupted:
        yield INTERRUPTED
    if is_stopped:
        yield STOPPED_EARLY
    source = found[0].source
    if source.skipped:
        yield f"Skipped {plural(source.skipped, source.row_name)} that could not be read."
    if source.points_left_out:
        ticks = plural(source.points_left_out, "time-point")
        yield f"Left out {ticks} at which integers overflow."
    for one in found:
        yield from one.remarks()
    if any(one.total and not one.can_reread for one in found):
        yield NOT_EXPLAINED


class LateReport:
    """Takes changes where rows come late, and writes a report on what remains.

    Args:
        check: the check that corrects verdicts and answers.
        run_of: what the run is about.
    """

    def __init__(self, check: LateChecks, run_of: RunOf) -> None:
        self.check = check
        self.file, self.source, _, self.options = run_of
        self.verdicts: RevisedVerdicts | None = None
        self.answers: RevisedValues | None = None
        if check.plain is not None:
            from mtlmon.run.found_verdicts import RevisedVerdicts

            self.verdicts = RevisedVerdicts(check.plain, run_of)
        if check.answers is not None:
            from mtlmon.run.found_values import RevisedValues

            self.answers = RevisedValues(check.answers, run_of)
        self.found = [one for one in (self.verdicts, self.answers) if one is not None]

    def take(self, rows: Sequence[Change]) -> None:
        """Take changes, and bounds below which all of them are final."""
        for row in rows:
            if isinstance(row, PolicyChanges) and self.verdicts is not None:
                self.verdicts.take(row)
            elif isinstance(row, ChangedAnswers) and self.answers is not None:
                self.answers.take(row)
            elif not isinstance(row, PolicyChanges | ChangedAnswers):
                for one in self.found:
                    one.settle(row)

    def snapshot(self) -> bytes:
        """Return what has been taken as bytes for `restore`."""
        return json.dumps([one.snapshot() for one in self.found]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have been taken.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            for one, own in zip(self.found, json.loads(snapshot), strict=True):
                one.restore(own)
        except (ValueError, TypeError, LookupError):
            raise damaged() from None

    def write(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds.

        Raises:
            RunError: the report cannot be written.
        """
        for one in self.found:
            one.settle(None)
        file = self.file
        names = [one.name for one in file.policies] if isinstance(file, PolicyFile) else [None]
        save_report(self.found, names, lambda: self.remarks(is_interrupted=is_interrupted), seconds)

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        """Yield the remarks about the run as a whole."""
        if is_interrupted:
            yield INTERRUPTED
        name = self.source.row_name
        late, refused = self.check.late_count, self.check.refused_count
        yield f"{name.capitalize()}s that came late: {late:,} taken in, {refused:,} refused."
        if self.verdicts is not None:
            yield from self.verdicts.remarks()
        if self.source.skipped:
            yield f"Skipped {plural(self.source.skipped, name)} that could not be read."
        if self.answers is not None:
            yield from self.answers.remarks()
        if any(one.total for one in self.found):
            yield _EXPLAINED_APART if self.options.reporting.explain else _CORRECTED


def policy_files(policies: Policies) -> list[PolicyFileName]:
    """Return the names and revisions of the policy files of a run."""
    return [
        PolicyFileName(
            "standard input" if name == STANDARD_STREAM else name,
            hashlib.sha256(content).hexdigest()[:_DIGITS],
        )
        for name, content in policies.contents.items()
    ]


def wording_of(file: Formula | PolicyFile, times: Times) -> Wording:
    """Return how explanations write formulas of a file."""
    names = file.named_formulas if isinstance(file, PolicyFile) else {}
    return Wording(times.time_stamp_unit, names)


def time_zone_of(file: Formula | PolicyFile, log: Log) -> str | None:
    """Return the time zone of people: that of the log's times, else the one of the policies' hours.

    None is UTC, also if policies have several.
    """
    zones = {log.time_zone} - {None}
    if isinstance(file, PolicyFile):
        zones = zones or {file.time_zone} - {None}
        zones = zones or {one.zone for one in file.files}
    (zone,) = zones if len(zones) == 1 else (None,)
    return None if zone is None else read_time_zone(zone).name


def settings_of(file: Formula | PolicyFile, options: RunSpec) -> list[tuple[str, str]]:
    """Return what the verdicts depend on beside policies and log, each as a name and a text."""
    unit = options.times.time_stamp_unit
    zones = []
    if isinstance(file, PolicyFile):
        zones = list(dict.fromkeys(one.zone for one in file.files if one.zone is not None))
    constants = [f"{name}={value}" for name, value in options.policies.constants.items()]
    settings = {
        "Unit": unit or "",
        "Time zone": ", ".join(zones),
        "Constants": ", ".join(constants),
        "Time-points": "time-stamps" if options.log.time_points == "stamp" else "",
    }
    return [(name, value) for name, value in settings.items() if value]
