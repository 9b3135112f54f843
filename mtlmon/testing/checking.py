"""Checks recorded traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import EventTypeError, TimeStampError
from mtlmon.testing import report
from mtlmon.testing.events import events_of, events_with_conditions
from mtlmon.testing.recording import DEFAULT_KEEP, Recording, read_conditions, record
from mtlmon.testing.vacuity import left_side
from mtlmon.verdicts.native import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon._core import Verdict
    from mtlmon.errors import ViolationError
    from mtlmon.relational import Answer
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.events import Trace
    from mtlmon.testing.recording import AtEnd, EndTime, Events, Mode, Pair
    from mtlmon.testing.relations import RelationalRecording
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.vacuity import LeftSide, Vacuous

__all__ = ["Result", "assert_holds", "check"]


class Result:
    """The result of monitoring a whole trace.

    `str(result)` is one line of counts, followed by the report of the failure if there is one.

    Attributes:
        formula: the formula that was checked.
        event_count: the number of time-points in the trace.
        true_count: the number of time-points that satisfy the formula.
        false_count: the number of time-points that violate the formula.
        undecided_count: the number of time-points that are undecided at the end of the trace.
        violations: the names (time_stamp, offset) of the violating time-points, in stream order.
        answers: for a policy with variables, its violations, each with a `valuation`.
        undecided: the names of the undecided time-points, in stream order, without those that are
            known to be equivalent to an earlier one.
        failure: the report of the violation that became known first; or of time-points that are
            undecided although they must not be; or None.
    """

    __slots__ = (
        "answers",
        "event_count",
        "failure",
        "false_count",
        "formula",
        "true_count",
        "undecided",
        "undecided_count",
        "violations",
    )

    def __init__(
        self,
        recording: Events,
        violations: Sequence[tuple[int, int]],
        failure: ViolationError | None,
        answers: Sequence[Answer] = (),
    ) -> None:
        self.formula = recording.formula
        self.event_count = recording.event_count
        self.true_count, self.false_count, self.undecided_count = recording.counts
        self.violations = sorted(violations)
        self.answers = list(answers)
        self.undecided = recording.undecided
        self.failure = failure

    @property
    def holds(self) -> bool:
        """Whether `assert_holds` would pass."""
        return self.failure is None

    def __bool__(self) -> bool:
        return self.holds

    def raise_failure(self) -> None:
        """Raise the failure if there is one.

        Raises:
            ViolationError: the failure.
        """
        __tracebackhide__ = True
        if self.failure is not None:
            raise self.failure

    def __repr__(self) -> str:
        return (
            f"<Result: {self.true_count} true, {self.false_count} false, "
            f"{self.undecided_count} undecided>"
        )

    def __str__(self) -> str:
        counts = (
            f"{self.event_count:,} time-points: {self.true_count:,} true, "
            f"{self.false_count:,} false, {self.undecided_count:,} undecided"
        )
        return counts if self.failure is None else f"{counts}\n\n{self.failure}"


def check(
    formula: Formula | str,
    trace: Trace,
    *,
    at_end: AtEnd = "decided",
    end_time: EndTime = None,
    unit: str | None = None,
    mode: Mode = "local",
    time: str | None = None,
    atoms: Sequence[str] | None = None,
    keep: int | None = DEFAULT_KEEP,
    unknown: Unknown = None,
) -> Result:
    """Monitor a whole trace.

    Args:
        formula: a `Formula`, a text that `parse` accepts, a text with conditions on the values of
            events, such as `latency < 0.5` or `count[0,60](failed) < 8`, a policy with variables,
            such as `publish(u, f) IMPLIES ONCE approve(f)`, or the text of a policy file with one
            policy.
        trace: one of

            - an iterable of pairs (time_stamp, atoms), where the atoms are a collection of names or
              a dictionary that says for each name whether it holds, or gives the values that
              conditions are about;
            - a pair (time_stamps, letters) of arrays: integers or datetime64, of shape (n,), and a
              Boolean matrix of shape (n, atoms), bit masks of shape (n,), or a dictionary of
              Boolean columns of shape (n,);
            - a table: a data frame (pandas, polars, Arrow), a structured array or a dictionary of
              columns. It has a column of time-stamps, a Boolean column for each atom of the
              formula, and the columns of its conditions;
            - the path of a log in the format of the command.
        at_end: "decided": time-points that are undecided at the end are failures;
            "undecided-ok": they are not; "closed": no event follows the trace, so all are decided.
        end_time: the time-stamp up to and including which the trace is complete, or "last" for its
            last time-stamp; None if nothing is known.
        unit: the unit of the time-stamps, one of ns, us, ms, s, m, h and d. It is needed for bounds
            with units in the text of a formula, and for columns of dates and times, which are
            rounded down to it.
        mode: the mode of the `Monitor`.
        time: the name of a table's column of time-stamps; by default "time_stamp", or the index of
            a pandas data frame without such a column.
        atoms: the names of a matrix's columns, or of the bits of masks from the lowest; by default
            `Monitor(formula).atoms`. For other traces, the atoms that events can have.
        keep: how many of the last events to remember for the report; None means all.
        unknown: what to do about atoms of the formula that no event has, and that may be misspelt:
            "warn" (`UnknownAtomWarning`), "error" or "ignore". By default they are an error if the
            trace says which atoms it knows: by its columns, by mappings with false values or by
            `atoms`. For sets of names and logs they are a warning.

    Raises:
        FormulaError: the text of the formula is invalid.
        TraceError: the trace has none of these forms, or a value in it is invalid; for a time-stamp
            this is a `TimeStampError`, and for a line of a log a `LogError`. Or the trace does not
            have an atom of the formula.
        EventTypeError: an event's time-stamp or atoms have another type.

    >>> result = check("request IMPLIES EVENTUALLY[0,5] response", [
    ...     (0, {"request"}), (3, {"response"}), (4, {"request"}), (9, set()), (20, {"request"}),
    ... ])
    >>> result
    <Result: 3 true, 1 false, 1 undecided>
    >>> result.violations, result.undecided
    ([(4, 0)], [(20, 0)])
    """
    __tracebackhide__ = True
    read = read_conditions(formula, unit)
    recording = record(read, unit=unit, mode=mode, at_end=at_end, keep=keep, unknown=unknown)
    if not isinstance(recording, Recording):
        return _relational_result(recording, trace, time, unit, atoms, end_time)
    resolution = Resolution()
    violations: list[tuple[int, int]] = []
    failure = None
    # PERF: skip verdicts that are true while no equivalence is open, as most are.
    for verdict in _verdicts(recording, _events(recording, trace, time, unit, atoms), end_time):
        value = verdict.value
        if value is True and not resolution.open_count:
            continue
        violations += [
            (known.time_stamp, known.offset)
            for known in resolution.push((verdict,))
            if known.value is False
        ]
        if failure is None and value is False:
            failure = report.violation(recording, (verdict.time_stamp, verdict.offset))
    if failure is None and recording.undecided and at_end == "decided":
        failure = report.undecided(recording)
    recording.seen.finish(recording.event_count, has_failed=failure is not None)
    return Result(recording, violations, failure)


def assert_holds(
    formula: Formula | str,
    trace: Trace,
    *,
    at_end: AtEnd = "decided",
    end_time: EndTime = None,
    unit: str | None = None,
    mode: Mode = "local",
    time: str | None = None,
    atoms: Sequence[str] | None = None,
    keep: int | None = DEFAULT_KEEP,
    unknown: Unknown = None,
    vacuous: Vacuous = "ignore",
) -> None:
    """Assert that every time-point of a trace satisfies a formula.

    The other arguments are those of `check`. Reading stops at the first violation that becomes
    known.

    Args:
        vacuous: what to do if the formula is an implication whose left side holds nowhere, so that
            the trace says nothing about it: "warn" (`VacuousWarning`), "error" or "ignore". ALWAYS
            and HISTORICALLY can be around the implication.

    Raises:
        VacuousError: the left side of the implication holds nowhere, and `vacuous="error"`.
        ViolationError: a time-point violates the formula, or is undecided at the end of the trace
            while `at_end="decided"`. It is an AssertionError whose message is the full report.
        FormulaError, TraceError, TimeStampError, LogError, EventTypeError: as `check` does.

    >>> assert_holds("response IMPLIES ONCE[0,5] request", [(1, {"request"}), (3, {"response"})])
    """
    __tracebackhide__ = True
    read = read_conditions(formula, unit)
    recording = record(read, unit=unit, mode=mode, at_end=at_end, keep=keep, unknown=unknown)
    left = left_side(recording, vacuous)
    verdicts: Iterable[Verdict | Answer]
    if isinstance(recording, Recording):
        events = _events(recording, trace, time, unit, atoms)
        verdicts = _verdicts(recording, events, end_time, left)
    else:
        verdicts = _answers(recording, trace, time, unit, atoms, end_time)
    for verdict in verdicts:
        if verdict.value is False:
            raise report.violation(recording, (verdict.time_stamp, verdict.offset))
    is_open = bool(recording.undecided) and at_end == "decided"
    if left is not None:
        left.finish(end_time)
    has_failed = is_open or (left is not None and left.is_failure)
    recording.seen.finish(recording.event_count, has_failed=has_failed)
    if is_open:
        raise report.undecided(recording)
    if left is not None:
        left.tell()


def _relational_result(
    recording: RelationalRecording,
    trace: Trace,
    time: str | None,
    unit: str | None,
    atoms: Sequence[str] | None,
    end_time: EndTime,
) -> Result:
    """Check a policy with variables, as `check` does."""
    __tracebackhide__ = True
    answers: list[Answer] = []
    failure = None
    for answer in _answers(recording, trace, time, unit, atoms, end_time):
        answers.append(answer)
        if failure is None:
            failure = report.violation(recording, (answer.time_stamp, answer.offset))
    if failure is None and recording.undecided and recording.at_end == "decided":
        failure = report.undecided(recording)
    recording.seen.finish(recording.event_count, has_failed=failure is not None)
    violations = dict.fromkeys((one.time_stamp, one.offset) for one in answers)
    return Result(recording, list(violations), failure, answers)


def _answers(
    recording: RelationalRecording,
    trace: Trace,
    time: str | None,
    unit: str | None,
    atoms: Sequence[str] | None,
    end_time: EndTime,
) -> Iterator[Answer]:
    """Yield the violations of a policy with variables, all of a step being known by then."""
    __tracebackhide__ = True
    if atoms is not None:
        recording.seen.require(atoms, "atoms= does not name", "It names")
    from mtlmon.testing.relations import read_events

    for number, event in enumerate(read_events(recording, trace, time=time, unit=unit)):
        try:
            yield from recording.step(*event)
        except (TimeStampError, EventTypeError) as error:
            raise type(error)(f"event {number}: {error}", index=number) from None
    yield from recording.finish(end_time)


def _events(
    recording: Recording,
    trace: Trace,
    time: str | None,
    unit: str | None,
    atoms: Sequence[str] | None,
) -> Iterator[Pair]:
    __tracebackhide__ = True
    conditions = recording.conditions
    names = recording.monitor.atoms if conditions is None else conditions.atoms
    if atoms is not None:
        names = tuple(atoms)
        recording.seen.require(names, "atoms= does not name", "It names")
    if conditions is None:
        return events_of(trace, names, time=time, unit=unit, seen=recording.seen)
    return events_with_conditions(
        trace, names, conditions, time=time, unit=recording.unit, seen=recording.seen
    )


def _verdicts(
    recording: Recording,
    events: Iterator[Pair],
    end_time: EndTime,
    left: LeftSide | None = None,
) -> Iterator[Verdict]:
    __tracebackhide__ = True
    step, keep = recording.monitor.step, recording.pairs.append
    seen, missing = recording.seen, recording.seen.missing
    for event in events:
        try:
            verdicts = step(*event)
        except (TimeStampError, EventTypeError) as error:
            number = recording.event_count
            raise type(error)(f"event {number}: {error}", index=number) from None
        keep(event)
        if left is not None:
            left.step(*event)
        if missing:
            seen.note(event[1])
        if verdicts:
            yield from verdicts
    yield from recording.finish(end_time)
