"""What a run finds of the policies of one kind, for explanations, rows around them and the report.

Policies without variables are one kind (`found_verdicts`), those with variables another one
(`found_values`). Rows in order have answers that are final. Where rows come late, answers wait here
until they are final, and are then collected in the same way.
"""

from __future__ import annotations

import os
import stat
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.run.explaining import check_file
from mtlmon.run.failure import RunError
from mtlmon.run.time_stamps import time_texts
from mtlmon.support.extras import load_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.text_logs import TextLog
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.reporting import PolicyReport, Run
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.reports import WrittenPolicies
    from mtlmon.run.spec import Log, RunSpec
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables import TableEvents

    Source = TextLog | TableEvents

__all__ = ["Found", "FoundInOrder", "RunOf", "check_all_findings", "check_findings"]

LISTED = 100
"""The violations of a policy that a report lists, unless more are to be explained."""


def check_all_findings(
    options: RunSpec, logs: Mapping[str, os.stat_result], source: Source | None = None
) -> None:
    """Fail early if explanations, a report or rows around violations are wanted and not possible.

    Args:
        options: the options of the run.
        logs: the status of the log's files by name.
        source: the log; None for a text log.

    Raises:
        RunError, MtlmonError: as `check_findings`, or a log is not a file whose rows are text.
    """
    check_findings(options, logs)
    if options.reporting.has_context:
        from mtlmon.run.context import check_context

        check_context(source, options.log)


def check_findings(options: RunSpec, logs: Mapping[str, os.stat_result]) -> None:
    """Fail early if explanations or a report are not possible.

    Raises:
        RunError: the log cannot be read again, or a file to write has another use.
        MtlmonError: a package that reports need is not installed.
    """
    require_rereadable(logs, options)
    others = [*options.log.paths, *options.policies.files, options.output.path]
    if options.reporting.explain_output is not None:
        check_file(options.reporting.explain_output, "the explanations", others, logs.values())
    if options.reporting.report is not None:
        load_extra("jinja2", "report")
        others.append(options.reporting.explain_output)
        check_file(options.reporting.report, "the report", others, logs.values())
        check_place(options.reporting.report)


def check_place(path: str) -> None:
    """Check that a file could exist at a path.

    Raises:
        RunError: there is no such directory, or the path is a directory.
    """
    directory = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(directory):
        raise RunError(f"cannot write {path}: there is no directory {directory}")
    if os.path.isdir(path):
        raise RunError(f"cannot write {path}: it is a directory")


def can_reread(logs: Mapping[str, os.stat_result], log: Log) -> bool:
    """Whether logs can be read a second time: files on disk, and tables that are no streams."""
    is_on_disk = all(stat.S_ISREG(status.st_mode) for status in logs.values())
    return is_on_disk and not log.streams


def require_rereadable(logs: Mapping[str, os.stat_result], options: RunSpec) -> None:
    """Raise RunError if a log cannot be read a second time, which reasons and contexts need."""
    if not (options.reporting.explain or options.reporting.has_context) or can_reread(
        logs, options.log
    ):
        return
    what = "explain" if options.reporting.explain else "show what is around violations"
    if options.log.streams:
        kind = type(options.log.streams[0]).__name__
        raise RunError(
            f"cannot {what}: a {kind} is read only once; give a table of its rows, such as that of "
            "its read_all()"
        )
    name = next(iter(logs)) if len(logs) == 1 else "the log"
    raise RunError(
        f"cannot {what}: {name} cannot be read a second time; save the log to a file first"
    )


class RunOf(NamedTuple):
    """What a run is about.

    Attributes:
        file: the formula or the policies.
        source: the log.
        logs: the status of the log's files by name.
        options: the options of the run.
    """

    file: Formula | PolicyFile
    source: Source
    logs: Mapping[str, os.stat_result]
    options: RunSpec


class Found(ABC):
    """What has been found of the policies of one kind.

    Args:
        run_of: what the run is about.

    Attributes:
        can_reread: whether the log can be read again.
        times: writes times in explanations; None for time-stamps.
        started: when the run, or the first of those that it goes on from, has begun.
        earlier: how many seconds the earlier runs took.
    """

    def __init__(self, run_of: RunOf) -> None:
        self.file, self.source, logs, self.options = run_of
        self.inputs = list(logs)
        self.can_reread = can_reread(logs, self.options.log)
        self.times: TimeTexts | None = time_texts(self.options, self.source.times)
        self.started = datetime.now(UTC)
        self.earlier = 0.0
        self._begin = time.monotonic()

    @cached_property
    def written(self) -> WrittenPolicies:
        """The policies as their files write them."""
        from mtlmon.run.reports import WrittenPolicies

        return WrittenPolicies(self.file, self.options)

    @abstractmethod
    def run(self, seconds: float) -> Run:
        """Return what a report says of the run, which took so many seconds."""

    @abstractmethod
    def reports(self) -> list[PolicyReport]:
        """Return the results of the policies for a report."""

    def remarks(self) -> Iterator[str]:
        """Yield what a report remarks about the policies."""
        return iter(())

    @property
    @abstractmethod
    def total(self) -> int:
        """How many violations there are."""

    def snapshot(self) -> list[Any]:
        """Return what has been found as a value for JSON, for `restore`."""
        return [self.started.timestamp(), self.earlier + time.monotonic() - self._begin]

    def restore(self, snapshot: list[Any]) -> None:
        """Go on from a snapshot; nothing must have been found."""
        started, self.earlier = snapshot
        self.started = datetime.fromtimestamp(started, UTC)

    def details(self, policy: Policy, time_stamp: int, row: RowPlace | None) -> list[str]:
        """Return the lines that precede an explanation: what is violated, where and when."""
        details = [policy.text] if policy.text else []
        if policy.lasting is not None:
            unit = self.options.times.time_stamp_unit
            details.append(f"violated {policy.lasting_text(unit)}")
        if row is not None:
            details.append(f"at {row}")
        if self.times is not None and not self.times.is_plain:
            details.append(f"time {self.times.texts([time_stamp])[0]}")
        return details


class FoundInOrder(Found):
    """What has been found in rows that came in order."""

    @property
    @abstractmethod
    def chosen(self) -> Sequence[Any]:
        """The first violations of all policies, in order."""

    @abstractmethod
    def explained(self, chosen: Sequence[Any]) -> Iterator[Callable[[Explanations], None]]:
        """Read the log again; yield what adds the explanation of each of some violations."""

    @abstractmethod
    def places_of(self, chosen: Sequence[Any]) -> list[RowPlace | None]:
        """Return the rows of violations; None for one that is about no row."""
