"""What a report says, apart from how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mtlmon._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = [
    "Explanation",
    "KeyCount",
    "KeyReport",
    "PolicyReport",
    "ReportData",
    "Run",
    "Timeline",
    "UndecidedTimePoint",
    "Violation",
]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a time-point violates a policy.

    Attributes:
        html: a fragment of a page, which is taken as it is: everything in it must be escaped.
        remark: in place of a fragment, why there is none.
    """

    html: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A time-point at which a policy does not hold.

    Attributes:
        time_stamp: that of the time-point.
        offset: the number of the time-point within its time-stamp.
        key: of its trace; None where there is one trace only.
        explanation: None if it was not explained.
    """

    time_stamp: int
    offset: int
    key: str | None = None
    explanation: Explanation | None = None

    @property
    def time_point(self) -> str:
        return f"{self.time_stamp}:{self.offset}"


@dataclass(frozen=True, slots=True)
class UndecidedTimePoint:
    """A time-point without a verdict when the log ended.

    Attributes:
        time_stamp: that of the time-point.
        offset: the number of the time-point within its time-stamp.
        key: of its trace; None where there is one trace only.
        until: it has its verdict once time has passed this time-stamp; None if it may wait without
            limit.
        weight: how many time-points will have its answer, itself included.
    """

    time_stamp: int
    offset: int
    key: str | None = None
    until: int | None = None
    weight: int = 1

    @property
    def time_point(self) -> str:
        return f"{self.time_stamp}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """Violations counted in intervals of time, one beginning where the other ends.

    Attributes:
        start: the time-stamp at which the first interval begins, a multiple of the width.
        width: of every interval, in time units.
        counts: how many violations lie in each.
    """

    start: int
    width: int
    counts: tuple[int, ...]

    def interval(self, index: int) -> tuple[int, int]:
        """The first and the last time-stamp of an interval."""
        first = self.start + index * self.width
        return first, first + self.width - 1


@dataclass(frozen=True, slots=True)
class KeyCount:
    """The violations of one key.

    Attributes:
        key: as it is to be shown.
        violations: how many.
        first: the time-stamp of the earliest one.
        last: the time-stamp of the latest one.
    """

    key: str
    violations: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class KeyReport:
    """Which keys violate a policy.

    Attributes:
        violating: how many keys have a violation.
        top: those with most violations, the first of them first.
    """

    violating: int
    top: tuple[KeyCount, ...]


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What was found about one policy.

    Attributes:
        name: None where a single policy has none.
        formula: its text.
        true: number of time-points that are true, those answered by an equivalence included.
        false: number of time-points that are false, likewise.
        undecided: number of time-points without a verdict.
        timeline: None if there is no violation.
        keys: None where there is one trace only.
        violations: the first ones, by time-stamp.
        undecided_time_points: the first ones, by time-stamp.
    """

    name: str | None
    formula: str
    true: int
    false: int
    undecided: int
    timeline: Timeline | None = None
    keys: KeyReport | None = None
    violations: tuple[Violation, ...] = ()
    undecided_time_points: tuple[UndecidedTimePoint, ...] = ()

    @property
    def time_points(self) -> int:
        return self.true + self.false + self.undecided


@dataclass(frozen=True, slots=True)
class Run:
    """The facts of a run. What is None is not known, and not shown.

    Attributes:
        inputs: names of the logs.
        rows: events that were read.
        skipped: rows or lines that could not be used.
        seconds: how long it took.
        peak_memory: in bytes.
        mode: of the monitor.
        command: the command line.
        started: when it began.
        end_time: what was said about the time after the log: a time-stamp, "last" or "inf".
        unit: of the time-stamps, a key of `mtlmon.syntax.bounds.UNITS`.
        first: the time-stamp of the earliest one.
        last: the time-stamp of the latest one.
        keys: how many there are.
        key_columns: what keys are made of.
        remarks: sentences about the run.
        version: of mtlmon.
    """

    inputs: Sequence[str] = ()
    rows: int | None = None
    skipped: int = 0
    seconds: float | None = None
    peak_memory: int | None = None
    mode: str | None = None
    command: str | None = None
    started: datetime | None = None
    end_time: int | Literal["last", "inf"] | None = None
    unit: str | None = None
    first: int | None = None
    last: int | None = None
    keys: int | None = None
    key_columns: Sequence[str] = ()
    remarks: Sequence[str] = ()
    version: str = __version__


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a report says.

    Attributes:
        policies: in the order in which they are shown.
        run: its facts.
        title: the heading of the page.
        epoch: whether time-stamps count from the beginning of 1970 in UTC, and so are shown as
            dates, if their unit is known; None: if all of them then lie between 2000 and 2100.
    """

    policies: Sequence[PolicyReport]
    run: Run = Run()
    title: str = "Policy report"
    epoch: bool | None = None
