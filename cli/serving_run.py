"""Run policies on a log for the playground, with the machinery of the command."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, cast

from mtlmon.checking.explaining import explain_violations
from mtlmon.checking.log_check import LogCheck
from mtlmon.checking.partitions import TraceKeys
from mtlmon.checking.shown import Details
from mtlmon.checking.text_logs import TextLog
from mtlmon.cli.terminal import note
from mtlmon.drive.native import VerdictRows
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError
from mtlmon.explanation.html import body
from mtlmon.explanation.words import verdict_text
from mtlmon.policy.written import written_policies
from mtlmon.run.explaining import Explanations
from mtlmon.run.host import WIDTH, Host
from mtlmon.run.judges import Taker
from mtlmon.run.option_rules import require_no_columns, require_no_keys
from mtlmon.run.policies import knows_rows, open_source
from mtlmon.run.reports import time_zone_of, wording_of
from mtlmon.run.running import finished
from mtlmon.run.steps import has_variables, require_runnable, steps_of
from mtlmon.run.time_stamps import unit_and_dates
from mtlmon.serving.findings import Findings, PolicyFindings, StreamFindings, Verdict
from mtlmon.serving.fragments import reasons_of
from mtlmon.support.option_names import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtlmon.checking.explaining import Violation
    from mtlmon.errors import UndecidedError
    from mtlmon.explanation.proof import Proof
    from mtlmon.policy import PolicyFile
    from mtlmon.run.host import Counting, Judging
    from mtlmon.run.judges import Told
    from mtlmon.run.judging import PolicyWork
    from mtlmon.run.spec import RunSpec

__all__ = ["KEPT", "explained_by", "found_by", "unnamed_file"]

KEPT = 10_000
"""The violations of a policy that are drawn, and as many of its other verdicts."""

EXPLAINED = 30
"""The violations that are explained if policies have variables, the first ones."""

# More events than a log can have.
_ALL_EVENTS = 1 << 62


def found_by(file: PolicyFile, options: RunSpec) -> tuple[Findings, Exception | None]:
    """Run policies on the log, which is standard input.

    Args:
        file: the policies and streams.
        options: the options of the command, which have adopted the settings of the file.

    Returns:
        What was found, and the error that has ended the run, if any.
    """
    host = PageHost(file)
    reasons = Reasons(host)
    policies: list[PolicyFindings] = []
    streams, events, known = None, 0, (options.times.time_stamp_unit, False)
    error: Exception | None = None
    try:
        if file.policies:
            run = options.replace(host=host).having(
                explain=has_variables(file),
                explain_limit=EXPLAINED,
                explanations=reasons,
                rows=knows_rows(file.policies, options.log),
                # left sides are counted for it
                summary=True,
                taker=Taker(host.take, wants_messages=True),
            )
            require_runnable(file, run)
            finished(steps_of(file, run))
        if file.streams:
            options.log.input.seek(0)
            streams, events, known = stream_findings(file, options)
    except MtlmonError as failure:
        error = failure
    if (work := host.work) is not None:
        policies, events = host.findings(options), max(events, work.pace.event_count)
        known = unit_and_dates(options, work.times)
    zone = time_zone_of(file, options.log)
    return Findings(policies, streams, *known, zone, events, reasons=reasons.found), error


class PageHost(Host):
    """Keeps what a run finds for the page; what interrupts a process of the page ends it.

    Args:
        file: the policies.

    Attributes:
        work: moves the log through the policies; None until the log is open.
    """

    shows_undecided = True

    def __init__(self, file: PolicyFile) -> None:
        super().__init__()
        self.work: PolicyWork | None = None
        self._file = file
        self._numbers = {policy.name: number for number, policy in enumerate(file.policies)}
        # of each policy, its violations, others, and how many violations or matches each key has
        self._false: list[list[Verdict]] = [[] for _ in file.policies]
        self._others: list[list[Verdict]] = [[] for _ in file.policies]
        self._found: list[Counter[str]] = [Counter() for _ in file.policies]

    def note(self, message: str) -> None:
        note(message)

    def take_judging(self, judging: Counting | Judging) -> None:
        self.work = cast("PolicyWork", judging)

    def take(self, found: Any) -> None:
        """Take what a run has found."""
        assert self.work is not None
        # policies without variables come first
        judge = self.work.judges[0 if isinstance(found, VerdictRows) else -1]
        for one in judge.told(found):
            self._keep(one, KEPT)

    def _keep(self, one: Told, most: int) -> None:
        """Keep an answer, unless there are as many of its kind."""
        place = self._numbers[one.policy]
        if one.value == self._file.policies[place].is_find:
            self._found[place][one.key] += 1
        kept = (self._false if one.value is False else self._others)[place]
        if len(kept) < most:
            # in texts, rows are lines
            kept.append(Verdict(place, *one[1:]))

    def findings(self, options: RunSpec) -> list[PolicyFindings]:
        """Return what was found of each policy, once the run has ended."""
        assert self.work is not None
        written = written_policies(self._file, options.policies.constants)
        found: dict[int, PolicyFindings] = {}
        for judge in self.work.judges:
            for number, tally in enumerate(judge.tallies):
                policy, counts = tally.policy, tally.counts
                place, keys = self._numbers[policy.name], judge.key_count(number)
                for one in judge.undecided(number, KEPT) if self.work.is_complete else ():
                    self._keep(one, 2 * KEPT)
                verdicts = [*self._false[place], *self._others[place]]
                true, false, by_key = counts.true, counts.false, self._found[place]
                if policy.is_first_order:
                    # several values may match, or violate it, at a time-point
                    true, false = (by_key.total(), 0) if policy.is_find else (true, by_key.total())
                found[place] = PolicyFindings(
                    policy.name,
                    written[place].text,
                    policy.text,
                    policy.severity,
                    sorted(verdicts, key=lambda one: (one.time_stamp, one.number, one.offset)),
                    true,
                    false,
                    counts.undecided,
                    tally.has_failed,
                    has_explanations=not has_variables(self._file),
                    never_triggered=tally.is_untriggered,
                    violating_keys=by_key if keys and false else {},
                    key_count=keys,
                )
        return [found[place] for place in sorted(found)]


class Reasons(Explanations):
    """Collects explanations for the page, each as a line and as HTML."""

    def __init__(self, host: Host) -> None:
        super().__init__(None, host)
        self.found: list[tuple[str, str]] = []

    def add(
        self,
        text: Callable[..., str],
        title: str | None = None,
        details: Sequence[str] = (),
        proof: Proof | None = None,
    ) -> None:
        if proof is not None:
            words = f"{title}: {verdict_text(proof)}" if title else verdict_text(proof)
            lines = reasons_of("\n".join(details), ()) if details else ""
            self.found.append((words, lines + body(proof, f"reason-{len(self.found)}")))
            return
        heading, _, reasons = text(width=WIDTH).partition("\n\n")
        parts = [*([title] if title else []), *map(str.strip, heading.split("\n"))]
        self.found.append((" · ".join(parts), reasons_of(reasons.strip("\n"), details)))

    def finish(self, total: int, limit: int) -> None:
        if total > limit:
            note(f"the first {limit} violations are explained")


def stream_findings(
    file: PolicyFile, options: RunSpec
) -> tuple[StreamFindings, int, tuple[str | None, bool]]:
    """Return the values of streams, the number of events, and what is known of their times.

    Raises:
        RunError, MtlmonError: the log cannot be read.
    """
    from mtlmon.cli.plotting import StreamCollector
    from mtlmon.cli.streams import StreamWork, open_streams, require_one_key
    from mtlmon.tables.stream_values import StreamTable

    require_one_key(file, options)
    memory = MemoryLimit(options.limits.max_memory, COMMAND)
    names = tuple(file.streams)
    if not options.log.is_table:
        require_no_columns(file, options, of_streams=True)
    with closing(open_streams(names, file, memory, options)) as source:
        if isinstance(source, TextLog):
            table = StreamTable(names)
        else:
            table = StreamTable(
                names,
                source.partitions[0],
                source.keys,
                source.times,
                lambda: source.guessed_streams,
            )
        collector = StreamCollector(table, names, file)
        work = StreamWork(source, collector, memory, None)
        for _ in work.read():
            pass
        for _ in work.end(options.times.end_time):
            pass
        times, keys, streams = collector.collected()
        found = StreamFindings(times.tolist(), keys, streams)
        return found, source.rows, unit_and_dates(options, source.times)


def checked(file: PolicyFile, options: RunSpec) -> LogCheck:
    """Return a check of the policies that keeps the numbers of keys.

    Raises:
        RunError: the policies need a table, but the log is text.
    """
    if not options.log.is_table:
        require_no_columns(file, options)
    check = LogCheck(
        file.policies,
        options.judging.mode,
        key=options.log.key_columns,
        verdicts="all",
        resolve=True,
        keep_keys=True,
        max_memory=MemoryLimit(options.limits.max_memory, COMMAND),
        rows=knows_rows(file.policies, options.log),
    )
    if not options.log.is_table:
        require_no_keys(check.partitions, file, options)
    return check


def explained_by(
    file: PolicyFile, wanted: Sequence[Violation], options: RunSpec
) -> Iterator[tuple[Violation, Proof | UndecidedError, str, list[str]]]:
    """Yield verdicts with their proofs, or with the error that says why there is none.

    Args:
        file: the policies, without variables.
        wanted: the verdicts, which need not be violations.
        options: the options of the command.

    Yields:
        The verdict, the proof, the policy and key in words, and the values there.

    Raises:
        RunError, MtlmonError: the log cannot be read.
    """
    check = checked(file, options)
    details = Details(file, check, wanted)
    with closing(open_source(check, file, options, is_for_explanations=True)) as source:
        source.track_rows()
        keys = TraceKeys(check.partitions, tuple(source.key_tables))
        found = explain_violations(
            check,
            wanted,
            source,
            _ALL_EVENTS,
            options.times.end_time,
            details,
            wording=wording_of(file, options.times),
            options=COMMAND,
        )
        for violation, proof in found:
            policy = check.policies[violation.policy]
            parts = [] if policy.name is None else [f"policy {policy.name}"]
            if keys.has_keys(violation.policy):
                parts.append(f"key {keys.text(violation.policy, violation.number)}")
            text = [policy.text] if policy.text else []
            yield violation, proof, ", ".join(parts), [*text, *details.of(violation)]
    check.close()


def unnamed_file() -> BinaryIO:
    """Return a new file in memory; on disk, without a name, where the system has no such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("mtlmon"), "w+b")
    return tempfile.TemporaryFile()
