"""The content of a report, independent of its layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mtlmon._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from mtlmon.policy.written import Definition

__all__ = [
    "Explanation",
    "KeyCount",
    "KeyReport",
    "PolicyFileName",
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
        html: a fragment of a page; it is inserted verbatim, so everything in it must be escaped.
        remark: if there is no fragment, the reason for that.
    """

    html: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A time-point at which a policy does not hold.

    Attributes:
        time_stamp: the time-stamp of the time-point.
        offset: the number of the time-point within its time-stamp.
        key: the key of its trace, or None if there is only one trace.
        explanation: the explanation, or None if it was not explained.
        valuation: for a policy with variables, their values as text, or None.
        row: the file and the line that it is about, as in `access.jsonl:1207`, or None.
        message: what the policy's message says of it, or None.
        values: values that the policy reads at the time-point, each as a name and a text.
        rows_of_values: for values of windows, by their names, the rows that they are about.
        time_point: the time-stamp and the offset as text.
    """

    time_stamp: int
    offset: int
    key: str | None = None
    explanation: Explanation | None = None
    valuation: str | None = None
    row: str | None = None
    message: str | None = None
    values: Sequence[tuple[str, str]] = ()
    rows_of_values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def time_point(self) -> str:
        return f"{self.time_stamp}:{self.offset}"


@dataclass(frozen=True, slots=True)
class UndecidedTimePoint:
    """A time-point without a verdict when the log ended.

    Attributes:
        time_stamp: the time-stamp of the time-point.
        offset: the number of the time-point within its time-stamp.
        key: the key of its trace, or None if there is only one trace.
        until: it is decided at the latest when time has passed this time-stamp; None means that
            there is no limit.
        weight: how many time-points have its verdict, including itself.
        time_point: the time-stamp and the offset as text.
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
    """The number of violations in consecutive intervals of time.

    Attributes:
        start: the time-stamp at which the first interval begins, a multiple of the width.
        width: the width of every interval, in time units.
        counts: the number of violations in each interval.
    """

    start: int
    width: int
    counts: tuple[int, ...]

    def interval(self, index: int) -> tuple[int, int]:
        """Return the first and the last time-stamp of an interval."""
        first = self.start + index * self.width
        return first, first + self.width - 1


@dataclass(frozen=True, slots=True)
class KeyCount:
    """The violations of one key.

    Attributes:
        key: the text of the key.
        violations: the number of its violations.
        first: the time-stamp of the earliest violation.
        last: the time-stamp of the latest violation.
    """

    key: str
    violations: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class KeyReport:
    """The keys that violate a policy.

    Attributes:
        violating: the number of keys with a violation.
        top: the keys with most violations, in decreasing order.
        columns: the columns that form the keys, if policies have different keys.
        count: the number of all keys, if policies have different keys.
    """

    violating: int
    top: tuple[KeyCount, ...]
    columns: Sequence[str] = ()
    count: int | None = None


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The results for one policy.

    Attributes:
        name: the name of the policy, or None if a single policy has no name.
        formula: the text of the formula, best as its file writes it.
        true: the number of time-points that are true, with those decided by an equivalence.
        false: the number of time-points that are false, likewise.
        undecided: the number of time-points without a verdict.
        timeline: the violations over time, or None if there are none.
        keys: the keys with violations, or None if there is only one trace.
        violations: the first violations, by time-stamp.
        undecided_time_points: the first undecided time-points, by time-stamp.
        valuations: for a policy with variables, how many valuations violate it, over all
            time-points; else None.
        text: what the policy means, in words; empty if the policy does not say.
        severity: how serious a violation is, in a word, or None.
        triggered: for an implication, at how many time-points its left side held, if that is known;
            with variables, how many valuations have matched it, over all time-points.
        triggered_share: the share of these that violate the policy, from 0 to 1; None if there are
            none, or if operators such as ALWAYS are around the implication.
        clauses: what else its file says of it, each as a name and a text: ("at most", "5").
        is_tolerated: whether it may be violated as often as it is.
        definitions: what the formula uses, directly or by way of others.
        file: the name of its file, if the report is about several.
        time_points: the number of all time-points.
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
    valuations: int | None = None
    text: str = ""
    severity: str | None = None
    triggered: int | None = None
    triggered_share: float | None = None
    clauses: Sequence[tuple[str, str]] = ()
    is_tolerated: bool = False
    definitions: Sequence[Definition] = ()
    file: str | None = None

    @property
    def time_points(self) -> int:
        return self.true + self.false + self.undecided


@dataclass(frozen=True, slots=True)
class PolicyFileName:
    """A policy file of a run.

    Attributes:
        name: its name.
        revision: the first digits of the SHA-256 of its bytes.
    """

    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class Run:
    """Facts about a run. Those that are None are not shown.

    Attributes:
        inputs: the names of the logs.
        rows: the number of events that were read.
        skipped: the number of rows or lines that could not be used.
        seconds: the duration of the run.
        peak_memory: the peak memory in bytes.
        mode: the mode of the monitor.
        command: the command line.
        started: when the run began.
        end_time: what the caller said about the time after the log: a time-stamp, "last" or "inf".
        unit: the unit of the time-stamps, a key of `mtlmon.syntax.bounds.UNITS`.
        first: the time-stamp of the earliest event.
        last: the time-stamp of the latest event.
        keys: the number of keys, if all policies have the same.
        key_columns: the columns that form the keys, if all policies have the same.
        remarks: sentences about the run.
        policy_files: the policy files.
        settings: other facts that verdicts depend on, each as a name and a text.
        version: the version of mtlmon.
        time_zone: the time zone in which dates are shown, a name of IANA; None is UTC.
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
    policy_files: Sequence[PolicyFileName] = ()
    settings: Sequence[tuple[str, str]] = ()
    version: str = __version__
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class ReportData:
    """The content of a report.

    Attributes:
        policies: the results for each policy, in the order in which they are shown.
        run: facts about the run.
        title: the heading of the page.
        epoch: whether time-stamps count from the beginning of 1970 in UTC; if so, and if their unit
            is known, they are shown as dates. None means yes if all of them would lie between 2000
            and 2100.
    """

    policies: Sequence[PolicyReport]
    run: Run = Run()
    title: str = "Policy report"
    epoch: bool | None = None
