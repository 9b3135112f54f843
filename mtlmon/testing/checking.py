"""Checks recorded traces."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from mtlmon._core import Verdict
from mtlmon.errors import (
    EventTypeError,
    MtlmonError,
    TimeStampError,
    VacuousError,
    ViolationError,
)
from mtlmon.testing import report
from mtlmon.testing.events import events_of, is_log, numbered_events
from mtlmon.testing.limits import Limit
from mtlmon.testing.ordering import EventOrder, wait_units
from mtlmon.testing.recording import DEFAULT_KEEP, Recording
from mtlmon.testing.recordings import Recordings
from mtlmon.testing.subject import read_subject
from mtlmon.testing.times import TimeReader
from mtlmon.testing.vacuity import left_side
from mtlmon.verdicts.native import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.relational import Answer
    from mtlmon.run.keywords import LogOptions
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.events import Trace
    from mtlmon.testing.log_runs import LogRun
    from mtlmon.testing.ordering import Wait
    from mtlmon.testing.recording import AtEnd, EndTime, Mode, NumberedPair, Pair
    from mtlmon.testing.recordings import AnyRecording
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Asserted, Subject

    _Found = tuple[AnyRecording, Verdict | Answer]

__all__ = ["Asked", "Result", "assert_holds", "check"]


class Asked(NamedTuple):
    """What is asked of a check of any trace; see `check`."""

    key: str | Sequence[str] | None
    at_end: AtEnd
    end_time: EndTime
    mode: Mode
    time: str | None
    atoms: Sequence[str] | None
    keep: int | None
    unknown: Unknown
    vacuous: Vacuous
    wait: Wait | None


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
            With a key, offsets count the events of a key.
        answers: for a policy with variables, its violations, each with a `valuation`, and the
            texts of its `key` if there is one.
        undecided: the names of the undecided time-points, in stream order, without those that are
            known to be equivalent to an earlier one.
        keys: with a key, the result of each: for a single name under its value, for several under
            the tuple of their values.
        messages: what was remarked of a file or table, a sentence each, such as how many rows
            could not be read.
        failure: the report of the violation that became known first, unless the policy allows that
            many violations (`at most 1%`); or of time-points that are undecided although they must
            not be; or None.
        vacuity: the error for an implication that was never triggered, with `vacuous="error"`, if
            there is no other failure; or None.
    """

    __slots__ = (
        "answers",
        "event_count",
        "failure",
        "false_count",
        "formula",
        "keys",
        "messages",
        "true_count",
        "undecided",
        "undecided_count",
        "vacuity",
        "violations",
    )

    def __init__(
        self,
        recordings: Sequence[AnyRecording | _Counted],
        formula: Formula,
        violations: Sequence[tuple[int, int]],
        failure: ViolationError | VacuousError | None,
        answers: Sequence[Answer] = (),
        keys: Mapping[object, Result] | None = None,
        messages: Sequence[str] = (),
    ) -> None:
        self.vacuity = failure if isinstance(failure, VacuousError) else None
        self.formula = formula
        self.event_count = sum(one.event_count for one in recordings)
        counts = [one.counts for one in recordings]
        self.true_count, self.false_count, self.undecided_count = (
            sum(one[number] for one in counts) for number in range(3)
        )
        self.violations = sorted(violations)
        self.answers = list(answers)
        self.undecided = sorted(point for one in recordings for point in one.undecided)
        self.failure = None if isinstance(failure, VacuousError) else failure
        self.keys = dict(keys or {})
        self.messages = list(messages)

    @property
    def holds(self) -> bool:
        """Whether `assert_holds` would pass."""
        return self.failure is None and self.vacuity is None

    def __bool__(self) -> bool:
        return self.holds

    def raise_failure(self) -> None:
        """Raise the failure if there is one.

        Raises:
            ViolationError, VacuousError: the failure.
        """
        __tracebackhide__ = True
        failure = self.failure or self.vacuity
        if failure is not None:
            raise failure

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
        failure = self.failure or self.vacuity
        return counts if failure is None else f"{counts}\n\n{failure}"


def check(
    formula: Asserted,
    trace: Trace,
    *,
    key: str | Sequence[str] | None = None,
    at_end: AtEnd = "decided",
    end_time: EndTime = None,
    unit: str | None = None,
    mode: Mode = "local",
    time: str | None = None,
    atoms: Sequence[str] | None = None,
    keep: int | None = DEFAULT_KEEP,
    unknown: Unknown = None,
    vacuous: Vacuous = "ignore",
    wait: Wait | None = None,
    set: Mapping[str, object] | None = None,
    **options: Unpack[LogOptions],
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
            - the path of a text log; or of a table (CSV, TSV, JSON lines, Parquet, Arrow, XES),
              which is read as the command does, with the declarations of the policy.

            A time-stamp is an integer; or, if there is a unit, a datetime, counted from 1970, a
            timedelta, or a float, which counts seconds.
        key: the name of a value of events, or several, which divide the events into traces that are
            monitored separately: events are dictionaries that have it, or a table has it as a
            column. All keys share one clock. By default, that of the policy, if it has one.
        at_end: "decided": time-points that are undecided at the end are failures;
            "undecided-ok": they are not; "closed": no event follows the trace, so all are decided.
        end_time: the time-stamp up to and including which the trace is complete, or "last" for its
            last time-stamp; None if nothing is known.
        unit: the unit of the time-stamps, one of ns, us, ms, s, m, h and d. It is needed for bounds
            with units in the text of a formula, and for times that are no integers, which are
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
        wait: how late an event may be, if events are not in the order of time: a number of time
            units, a length of time such as "5s", or a timedelta. Events are put in the order of
            time; an event that is more than that below the largest time-stamp so far is an error,
            a `TimeStampError`, or in a file a `LogError` or `TableError`.
        vacuous: what to do if the formula is an implication whose left side holds nowhere, so that
            the trace says nothing about it: "warn" (`VacuousWarning`), "error" (a failure) or
            "ignore". ALWAYS and HISTORICALLY can be around the implication.
        set: other values for constants of a policy file that is a text, by name.
        options: for files and tables, the options of `mtlmon.check` about rows and how they are
            checked: `event`, `format`, `on_error`, `sort`, `lateness`, `slices` and so on.

    Raises:
        FormulaError: the text of the formula is invalid.
        TraceError: the trace has none of these forms, or a value in it is invalid; for a time-stamp
            this is a `TimeStampError`, and for a line of a log a `LogError`. Or the trace does not
            have an atom of the formula.
        EventTypeError: an event's time-stamp or atoms have another type.
        TypeError: there is no such option, or the trace is no file or table.
        RunError, TableError: a file or table cannot be read, or options contradict each other.

    >>> result = check("request IMPLIES EVENTUALLY[0,5] response", [
    ...     (0, {"request"}), (3, {"response"}), (4, {"request"}), (9, set()), (20, {"request"}),
    ... ])
    >>> result
    <Result: 3 true, 1 false, 1 undecided>
    >>> result.violations, result.undecided
    ([(4, 0)], [(20, 0)])
    """
    __tracebackhide__ = True
    asked = Asked(key, at_end, end_time, mode, time, atoms, keep, unknown, vacuous, wait)
    subject = read_subject(formula, unit, constants=set, has_log=is_log(trace))
    if is_log(trace):
        return _result_of_log(_log_run(subject, trace, "check", asked, options))
    require_none("check", options)
    run = _Run(subject, asked)
    resolutions: dict[AnyRecording, Resolution] = {}
    violations: dict[AnyRecording, list[tuple[int, int]]] = {}
    answers: list[Answer] = []
    first: ViolationError | None = None
    for recording, verdict in run.verdicts(trace):
        value = verdict.value
        if isinstance(verdict, Verdict):
            resolution = resolutions.get(recording)
            if resolution is None:
                resolution = resolutions[recording] = Resolution()
            # PERF: skip verdicts that are true while no equivalence is open, as most are.
            if value is True and not resolution.open_count:
                continue
            violations.setdefault(recording, []).extend(
                (known.time_stamp, known.offset)
                for known in resolution.push((verdict,))
                if known.value is False
            )
        else:
            answers.append(verdict)
            point = verdict.time_stamp, verdict.offset
            known = violations.setdefault(recording, [])
            if point not in known[-1:]:
                known.append(point)
        if first is None and value is False:
            first = report.violation(recording, (verdict.time_stamp, verdict.offset))
    failure = run.end(first)
    every = list(run.recordings)
    # the limit of a policy is one for all keys
    is_violated = isinstance(failure, ViolationError) and not failure.is_undecided
    keys: dict[object, Result] = {}
    for recording in every:
        if recording.key:
            values = tuple(recording.key.values())
            own = violations.get(recording, [])
            failed = report.violation(recording, min(own)) if own and is_violated else None
            if failed is None and recording in run.recordings.open:
                failed = report.undecided(recording)
            keys[values[0] if len(values) == 1 else values] = Result(
                [recording], subject.formula, own, failed
            )
    found = [point for some in violations.values() for point in some]
    return Result(every, subject.formula, found, failure, answers, keys)


def assert_holds(
    formula: Asserted,
    trace: Trace,
    *,
    key: str | Sequence[str] | None = None,
    at_end: AtEnd = "decided",
    end_time: EndTime = None,
    unit: str | None = None,
    mode: Mode = "local",
    time: str | None = None,
    atoms: Sequence[str] | None = None,
    keep: int | None = DEFAULT_KEEP,
    unknown: Unknown = None,
    vacuous: Vacuous = "ignore",
    wait: Wait | None = None,
    set: Mapping[str, object] | None = None,
    **options: Unpack[LogOptions],
) -> None:
    """Assert that every time-point of a trace satisfies a formula.

    The arguments are those of `check`. Reading stops at the first violation that becomes known,
    unless the policy allows more violations: with `at most 5` it stops at the sixth. Several rows
    of a file or table are read at once. A share such as `at most 1%` refers to the whole trace, so
    the whole trace is read.

    Raises:
        VacuousError: the left side of the implication holds nowhere, and `vacuous="error"`.
        ViolationError: a time-point violates the formula, or is undecided at the end of the trace
            while `at_end="decided"`. It is an AssertionError whose message is the full report.
        FormulaError, TraceError, TimeStampError, LogError, EventTypeError: as `check` does.

    >>> assert_holds("response IMPLIES ONCE[0,5] request", [(1, {"request"}), (3, {"response"})])
    """
    __tracebackhide__ = True
    asked = Asked(key, at_end, end_time, mode, time, atoms, keep, unknown, vacuous, wait)
    subject = read_subject(formula, unit, constants=set, has_log=is_log(trace))
    if is_log(trace):
        _assert_log(_log_run(subject, trace, "assert_holds", asked, options))
        return
    require_none("assert_holds", options)
    run = _Run(subject, asked)
    first: ViolationError | None = None
    for recording, verdict in run.verdicts(trace):
        if verdict.value is False:
            if first is None:
                first = report.violation(recording, (verdict.time_stamp, verdict.offset))
            if run.limit.is_exceeded_for_good:
                exceeded = run.limit.judge(first)
                if exceeded is not None:
                    raise exceeded
    failure = run.end(first)
    if failure is not None:
        raise failure


def require_none(function: str, options: LogOptions) -> None:
    """Raise TypeError if there are options of logs, but the trace is none."""
    __tracebackhide__ = True
    if not options:
        return
    from mtlmon.run.host import Host
    from mtlmon.run.keywords import LogOptions, spec_of

    for word in options:
        if word not in LogOptions.__annotations__:
            # says what may be meant
            spec_of(function, options, Host(), LogOptions)
        raise TypeError(
            f"{function}({word}=...) is about files and tables, and this trace is none: leave it "
            "out, or give a path or a table"
        )


def _log_run(
    subject: Subject, trace: Any, function: str, asked: Asked, options: LogOptions
) -> LogRun:
    """Return the run over a log."""
    __tracebackhide__ = True
    from mtlmon.testing.log_runs import LogRun

    try:
        return LogRun(
            subject, trace, function, asked, options, counts_keys=function != "assert_holds"
        )
    except (MtlmonError, OSError) as error:
        # A test that shows the error does not need the frames of the run.
        raise error.with_traceback(None) from None


def _assert_log(run: LogRun) -> None:
    """Assert that every time-point of a log satisfies the policy."""
    __tracebackhide__ = True
    run.read(stops=True)
    if run.error is not None and not run.has_failed:
        raise run.error
    failure = run.failure(run.recordings(each_key=False))
    if failure is not None:
        raise failure


def _result_of_log(run: LogRun) -> Result:
    """Return the result of a policy on a whole log."""
    __tracebackhide__ = True
    run.read(stops=False)
    if run.error is not None:
        raise run.error
    judged, formula = run.judged, run.subject.formula
    wanted, events = run.wanted(each_key=True), run.recordings(each_key=True)
    own: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, name in judged.violations:
        own[number].append(name)
    keys: dict[object, Result] = {}
    for number in sorted(judged.events) if run.key else ():
        failed: ViolationError | None = None
        if number in wanted:
            failed = run.report(events[number], wanted[number])
        values = tuple(judged.key(number).values())
        counted = _Counted(
            judged.events[number],
            judged.counts_of(number, len(own[number])),
            judged.undecided.get(number, ()),
        )
        keys[values[0] if len(values) == 1 else values] = Result(
            [counted], formula, own[number], failed
        )
    counts = judged.counts
    undecided = [name for names in judged.undecided.values() for name in names]
    every = _Counted(counts.events, (counts.true, counts.false, counts.undecided), undecided)
    violations = [name for _, name in judged.violations]
    return Result(
        [every], formula, violations, run.failure(events), judged.answers, keys, run.messages
    )


class _Counted(NamedTuple):
    """The counts of a trace of a log."""

    event_count: int
    counts: tuple[int, int, int]
    undecided: Sequence[tuple[int, int]]


class _Run:
    """Monitors a recorded trace of events.

    Args:
        subject: what is asserted.
        asked: what is asked.
    """

    # PERF: events have monitors of their own, where files and tables go through a run. With
    # `request IMPLIES EVENTUALLY[0,5] response`, ten pairs take 0.4 ms here, and a table of ten
    # rows 3.8 ms, which tests with many small traces would notice; 100,000 pairs take 150 ms, and a
    # table of 200,000 rows 45 ms. An event of `LiveMonitor` takes 25 µs (with a condition 550 µs),
    # and a row of `mtlmon.live` 770 µs.

    def __init__(self, subject: Subject, asked: Asked) -> None:
        __tracebackhide__ = True
        self.asked = asked
        self.recordings = Recordings(
            subject,
            key=asked.key,
            mode=asked.mode,
            at_end=asked.at_end,
            keep=asked.keep,
            unknown=asked.unknown,
            vacuous=asked.vacuous,
        )
        self.left = left_side(self.recordings, asked.vacuous)
        self.limit = Limit(self.recordings, self.left)
        self.unit = subject.unit
        self.times = TimeReader(subject.unit, subject.zone)
        self.end_time = asked.end_time
        self.order: EventOrder[Any] | None = None
        if asked.wait is not None:
            self.order = EventOrder(wait_units(asked.wait, subject.unit))

    def verdicts(self, trace: Trace) -> Iterator[tuple[AnyRecording, Verdict | Answer]]:
        """Yield the verdicts on a trace, each with the recording that it is about."""
        __tracebackhide__ = True
        recordings = self.recordings
        first, conditions, atoms = recordings.first, recordings.conditions, self.asked.atoms
        if atoms is not None:
            first.seen.require(atoms, "atoms= does not name", "It names")
        times, order = self.times, self.order
        if not isinstance(first, Recording):
            from mtlmon.testing.relations import read_events

            yield from self._one_by_one(
                read_events(first, trace, times=times, keys=recordings.keys, order=order)
            )
            return
        names = first.monitor.atoms if conditions is None else conditions.atoms
        if atoms is not None:
            names = tuple(atoms)
        if conditions is None and recordings.keys is None:
            events = events_of(
                trace, names, unit=self.unit, seen=first.seen, times=times, order=order
            )
            yield from self._of_one(first, events)
            return
        numbered = numbered_events(
            trace,
            names,
            conditions,
            recordings.keys,
            unit=self.unit,
            seen=first.seen,
            times=times,
            order=order,
        )
        yield from self._one_by_one(numbered)

    def end(self, violation: ViolationError | None) -> ViolationError | VacuousError | None:
        """Return the failure of the whole trace, if any, and warn of what its end shows.

        Args:
            violation: the report of the first violation, or None.

        Raises:
            TraceError: an atom never occurred, and that is an error.
        """
        __tracebackhide__ = True
        still_open = self.recordings.open
        left = self.left
        if left is not None:
            left.finish(self.end_time)
        failure = self.limit.judge(violation)
        has_failed = failure is not None or bool(still_open)
        has_failed = has_failed or (left is not None and left.is_failure)
        count = self.recordings.event_count
        self.recordings.first.seen.finish(count, has_failed=has_failed)
        if failure is None and still_open:
            return report.undecided(still_open[0], len(still_open) - 1)
        if failure is None and left is not None:
            return left.failure()
        return failure

    def _of_one(self, recording: Recording, events: Iterator[Pair]) -> Iterator[_Found]:
        """Yield the verdicts on the events of a single trace."""
        __tracebackhide__ = True
        # PERF: most calls of assert_holds come here, so this does without the layers in between.
        step, keep = recording.monitor.step, recording.pairs.append
        seen, missing = recording.seen, recording.seen.missing
        left = self.left
        for event in events:
            try:
                verdicts = step(*event)
            except (TimeStampError, EventTypeError) as error:
                number = self._position(recording.event_count)
                raise type(error)(f"event {number}: {error}", index=number) from None
            keep(event)
            if left is not None:
                left.step(*event)
            if missing:
                seen.note(event[1])
            for verdict in verdicts:
                yield recording, verdict
        yield from self.recordings.finish(self.end_time)

    def _position(self, count: int) -> int:
        """The place in the trace of an event, before which so many have been monitored."""
        return count if self.order is None else self.order.position

    def _one_by_one(self, events: Iterator[NumberedPair]) -> Iterator[_Found]:
        """Yield the verdicts on events with the numbers of their keys."""
        __tracebackhide__ = True
        left = self.left
        for number, (key, event) in enumerate(events):
            try:
                found = self.recordings.step(*event, key)
            except (TimeStampError, EventTypeError) as error:
                place = self._position(number)
                raise type(error)(f"event {place}: {error}", index=place) from None
            if left is not None:
                left.step(*event, key)
            yield from found
        yield from self.recordings.finish(self.end_time)
