"""What a run of policies on a log has found, as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.reporting.plot import PlottedStream

__all__ = ["Findings", "PolicyFindings", "Problem", "StreamFindings", "Verdict"]

Pane = Literal["policy", "log"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there are no verdicts, or not all of them.

    Attributes:
        message: what is wrong.
        pane: the text in which it is wrong, or None if it is in neither.
        line: 1-based number of the line, if that is known.
        column: 1-based number of the character in the line, if that is known.
        hint: how to mend it, or None.
    """

    message: str
    pane: Pane | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None


class Verdict(NamedTuple):
    """The verdict of a policy at a time-point.

    Attributes:
        policy: the number of the policy.
        number: the number of the trace, as `Violation` has it.
        time_stamp: the time-stamp.
        offset: the number of the time-point within its time-stamp.
        value: whether the policy holds; None while that is undecided.
        line: the line of the log that the verdict is about; None for ticks, and if not known.
        key: the key of the trace; empty if there is only one.
        text: the message of a trigger, or the values that violate a policy with variables.
    """

    policy: int
    number: int
    time_stamp: int
    offset: int
    value: bool | None
    line: int | None = None
    key: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        """What identifies the verdict in a request for its explanation."""
        return f"{self.policy},{self.number},{self.time_stamp},{self.offset}"


@dataclass(frozen=True, slots=True)
class PolicyFindings:
    """The verdicts of a policy.

    Attributes:
        name: its name, or None.
        formula: its formula, as written.
        meaning: what it means in words; empty if the policy does not say.
        severity: how serious a violation is, or None.
        verdicts: the verdicts that are kept, in the order of time.
        true: how many time-points satisfy it.
        false: how many violate it.
        undecided: how many are undecided.
        is_violated: whether it is violated more often than it may be.
        has_explanations: whether its verdicts can be explained one by one.
        never_triggered: whether the left side of the implication held nowhere.
        violating_keys: how many violations each key has that has any; empty without keys.
        key_count: how many keys there are; 0 without keys.
    """

    name: str | None
    formula: str
    meaning: str = ""
    severity: str | None = None
    verdicts: Sequence[Verdict] = ()
    true: int = 0
    false: int = 0
    undecided: int = 0
    is_violated: bool = False
    has_explanations: bool = True
    never_triggered: bool = False
    violating_keys: Mapping[str, int] = field(default_factory=dict)
    key_count: int = 0


@dataclass(frozen=True, slots=True)
class StreamFindings:
    """The values of all streams.

    Attributes:
        times: the time-stamps of the rows and ticks, in increasing order.
        keys: the key of each of them; empty texts if there is one trace.
        streams: the values there.
    """

    times: Sequence[int]
    keys: Sequence[str]
    streams: Sequence[PlottedStream]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run has found.

    Attributes:
        policies: the verdicts of each policy.
        streams: the values of streams, or None if there are none.
        unit: the unit of time-stamps, or None.
        has_dates: whether time-stamps are known to count from 1970.
        zone: the time zone in which dates are shown, a name of IANA; None is UTC.
        events: how many events were read.
        problems: why there are no verdicts, or not all.
        remarks: sentences about the run.
        reasons: for policies with variables, the first violations, each as a line and its
            explanation as HTML.
    """

    policies: Sequence[PolicyFindings] = ()
    streams: StreamFindings | None = None
    unit: str | None = None
    has_dates: bool = False
    zone: str | None = None
    events: int = 0
    problems: Sequence[Problem] = ()
    remarks: Sequence[str] = ()
    reasons: Sequence[tuple[str, str]] = ()

    @property
    def violated_lines(self) -> list[int]:
        """The lines of the log that violate a policy, in order."""
        return sorted(
            {
                verdict.line
                for policy in self.policies
                for verdict in policy.verdicts
                if verdict.value is False and verdict.line is not None
            }
        )
