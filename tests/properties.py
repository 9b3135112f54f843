"""What every stream of verdicts must satisfy, checked against the direct evaluator.

A run is checked moment by moment: after each step, and after the end of the log if it has one. At
each moment the evaluator says what the prefix decides (open: anything may follow) and what would
hold if nothing followed (closed). Whatever an engine claims must agree with the closed evaluation
of every later moment, since each of them is one way for the stream to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from random import Random
from typing import NamedTuple

from mtlmon import Formula
from tests.formulas import atoms_of, is_bounded, latest_decision
from tests.reference.evaluator import Evaluator, Truth
from tests.traces import (
    MAXIMUM_TIME_STAMP,
    Advance,
    EndTime,
    Event,
    Mode,
    Prefix,
    Step,
    TimePoint,
    Trace,
    ended,
    format_step,
    prefix_of,
    time_points,
)
from tests.verdicts import Verdict, format_point, parse_verdict

Output = tuple[tuple[str, ...], ...]
"""The lines that a run wrote: one tuple for each step, one more for the end of the log."""


class Timeline:
    """A trace, moment by moment, with what the evaluator says at each; shared by all formulas."""

    def __init__(self, steps: Sequence[Step], end_time: EndTime = None) -> None:
        self.steps: Trace = tuple(steps)
        self.end_time = end_time
        self.points = time_points(self.steps)
        self.number = {point: i for i, point in enumerate(self.points)}
        moments = [prefix_of(self.steps[: k + 1]) for k in range(len(self.steps))]
        moments.append(ended(prefix_of(self.steps), end_time))
        self.open = [Evaluator(moment) for moment in moments]
        self.closed = [Evaluator(moment._replace(closed=True)) for moment in moments]

    def __str__(self) -> str:
        end = "" if self.end_time is None else f", end time {self.end_time}"
        return "; ".join(map(format_step, self.steps)) + end


class View(NamedTuple):
    """What the evaluator says of one formula on one timeline; equal views are checked alike."""

    decided: tuple[tuple[Truth, ...], ...]
    if_closed: tuple[tuple[Truth, ...], ...]
    reach: int | None
    bounded: bool


def view_of(formula: Formula, timeline: Timeline) -> View:
    return View(
        tuple(evaluator.values(formula) for evaluator in timeline.open),
        tuple(evaluator.values(formula) for evaluator in timeline.closed),
        latest_decision(formula),
        is_bounded(formula),
    )


class Ledger:
    """The verdicts written so far, and the Boolean values they amount to."""

    def __init__(self) -> None:
        self.verdicts: dict[TimePoint, Verdict] = {}

    def value(self, point: TimePoint) -> Truth:
        """The time-point's Boolean value as far as it was written, equivalences followed."""
        verdict = self.verdicts.get(point)
        while verdict is not None and verdict.reference is not None:
            verdict = self.verdicts.get(verdict.reference)
        return None if verdict is None else verdict.value

    def values(self) -> dict[TimePoint, bool]:
        """All Boolean values written so far, equivalences followed."""
        values = {point: self.value(point) for point in self.verdicts}
        return {point: value for point, value in values.items() if value is not None}

    def root(self, point: TimePoint) -> TimePoint:
        """The time-point that this one is known to equal, equivalences followed to their end."""
        verdict = self.verdicts.get(point)
        while verdict is not None and verdict.reference is not None:
            point = verdict.reference
            verdict = self.verdicts.get(point)
        return point

    def write(self, lines: Iterable[str]) -> list[Verdict]:
        batch = [parse_verdict(line) for line in lines]
        for verdict in batch:
            assert verdict.point not in self.verdicts, f"{verdict}: a second verdict"
            self.verdicts[verdict.point] = verdict
        return batch


def check_output(view: View, timeline: Timeline, mode: Mode, output: Output) -> None:
    """Checks one run of one mode.

    Raises:
        AssertionError: a property is violated; the message says which and where.
    """
    assert len(output) == len(view.decided), "one batch of verdicts for each moment"
    ledger = Ledger()
    for k, lines in enumerate(output):
        before = set(ledger.verdicts)
        batch = ledger.write(lines)
        known = len(view.decided[k])
        _check_order(batch, timeline, known, view, before)
        for verdict in batch:
            if verdict.reference is not None:
                _check_reference(verdict, timeline, mode, view, ledger, before)
        _check_sound(ledger, view.if_closed[k], timeline, f"at moment {k}")
        _check_complete(ledger, batch, view, timeline, k)
    _check_earliest_violation(ledger, timeline)


def _check_order(
    batch: list[Verdict],
    timeline: Timeline,
    known: int,
    view: View,
    before: set[TimePoint],
) -> None:
    """Real time-points, in their order, and never ahead of one whose reach has ended."""
    written = set(before)
    last = -1
    for verdict in batch:
        i = timeline.number.get(verdict.point, known)
        assert i < known, f"{verdict}: no such time-point yet"
        assert i > last, f"{verdict}: not in time-point order"
        last = i
        if view.reach is not None:
            for earlier in timeline.points[:i]:
                over = verdict.point[0] - earlier[0] > view.reach
                waits = over and earlier not in written
                assert not waits, f"{verdict} written before that of {format_point(earlier)}"
        written.add(verdict.point)


def _check_reference(
    verdict: Verdict,
    timeline: Timeline,
    mode: Mode,
    view: View,
    ledger: Ledger,
    before: set[TimePoint],
) -> None:
    """An equivalence names an earlier time-point without a verdict, of those the mode allows."""
    reference = verdict.reference
    assert reference is not None
    assert mode != "naive", f"{verdict}: an equivalence in mode naive"
    assert timeline.number.get(reference, len(timeline.points)) < timeline.number[verdict.point], (
        f"{verdict}: refers to no earlier time-point"
    )
    answered = reference in before or ledger.value(reference) is not None
    assert not answered, f"{verdict}: refers to a time-point that has a verdict"
    if mode == "local" and view.bounded:
        assert reference[0] == verdict.point[0], f"{verdict}: local, but across time-stamps"


def _check_complete(
    ledger: Ledger, batch: list[Verdict], view: View, timeline: Timeline, k: int
) -> None:
    """What this moment decides has its value by now, and a Boolean if it was answered now."""
    for point, truth in zip(timeline.points, view.decided[k], strict=False):
        if truth is not None:
            assert point in ledger.verdicts, f"{format_point(point)} is {truth}, not answered"
            value = ledger.value(point)
            assert value is truth, f"{format_point(point)} is {truth}, but the output says {value}"
    for verdict in batch:
        decided = view.decided[k][timeline.number[verdict.point]]
        assert decided is None or verdict.value is decided, f"{verdict}: it is decided: {decided}"
    if view.reach is not None:
        clock = timeline.open[k].prefix.clock
        for point in timeline.points[: len(view.decided[k])]:
            over = clock - point[0] > view.reach
            assert not over or point in ledger.verdicts, f"{format_point(point)}: reach has ended"


def _check_sound(ledger: Ledger, actual: Sequence[Truth], timeline: Timeline, where: str) -> None:
    """Everything said so far holds if the stream ends where these are the actual values."""
    for point, verdict in ledger.verdicts.items():
        truth = actual[timeline.number[point]]
        if verdict.reference is not None:
            other = actual[timeline.number[verdict.reference]]
            assert truth is other, f"{verdict}: wrong if the stream ends {where}"
        else:
            assert truth is verdict.value, f"{verdict}: wrong if the stream ends {where}"


def check_on_other_streams(
    formula: Formula, timeline: Timeline, output: Output, chance: Random
) -> None:
    """What was said at each moment holds also if the stream goes on quite differently.

    Raises:
        AssertionError: a verdict was given too early.
    """
    names = sorted(atoms_of(formula))
    ledger = Ledger()
    for k in range(len(timeline.steps)):
        ledger.write(output[k])
        events, clock, _ = timeline.open[k].prefix
        other = list(events)
        for _ in range(chance.randrange(5)):
            clock = min(clock + chance.choice((0, 0, 1, 1, 2, 3, 9)), MAXIMUM_TIME_STAMP)
            other.append(Event(clock, frozenset(n for n in names if chance.random() < 0.5)))
        actual = Evaluator(Prefix(tuple(other), clock, closed=True)).values(formula)
        continuation = "; ".join(map(format_step, other[len(events) :]))
        _check_sound(ledger, actual, timeline, f"after moment {k} with {continuation}")


def _check_earliest_violation(ledger: Ledger, timeline: Timeline) -> None:
    for point in timeline.points:
        if ledger.value(point) is False:
            verdict = ledger.verdicts[point]
            assert verdict.value is False, f"{verdict}: the earliest violation, no Boolean verdict"
            return


class Answers:
    """At each moment of a run, which time-points have a verdict and which a value by then."""

    def __init__(self, output: Output) -> None:
        self.output = output

    @cached_property
    def moments(self) -> list[tuple[set[TimePoint], dict[TimePoint, bool]]]:
        ledger = Ledger()
        result: list[tuple[set[TimePoint], dict[TimePoint, bool]]] = []
        for lines in self.output:
            ledger.write(lines)
            result.append((set(ledger.verdicts), ledger.values()))
        return result


def check_modes_agree(outputs: dict[Mode, Output], bounded: bool, *, alike: bool = True) -> None:
    """Resolved, the modes say the same at every moment; unbounded, local is global.

    Args:
        outputs: of each mode.
        bounded: whether the formula is.
        alike: whether mode global knows no value earlier than the others.

    Raises:
        AssertionError: they do not.
    """
    naive = Answers(outputs["naive"]).moments
    merging: tuple[Mode, ...] = ("local", "global")
    for mode in merging:
        moments = Answers(outputs[mode]).moments
        assert len(moments) == len(naive), f"{mode} has {len(moments)} moments, not {len(naive)}"
        for k, (_, values) in enumerate(moments):
            if mode == "global" and not alike:
                assert values.items() >= naive[k][1].items(), f"naive before global at moment {k}"
            else:
                assert values == naive[k][1], f"{mode} and naive differ at moment {k}"
    if not bounded:
        assert outputs["local"] == outputs["global"], "unbounded: local must run as global"


def check_not_behind(output: Output, literal: Output) -> None:
    """At every moment each time-point that the literal algorithm answered is answered.

    Raises:
        AssertionError: one is not, or the Boolean values differ.
    """
    pairs = zip(Answers(output).moments, Answers(literal).moments, strict=True)
    for k, ((answered, values), (literally, literal_values)) in enumerate(pairs):
        missing = sorted(literally - answered)
        assert not missing, f"moment {k}: the literal algorithm has answered {missing}"
        for point, value in literal_values.items():
            assert values.get(point) is value, f"moment {k}: {point} is literally {value}"


def check_same_values(output: Output, expected: Output) -> None:
    """At every moment the same Boolean values are known, equivalences followed.

    Raises:
        AssertionError: a value is another one, or it is known earlier or later.
    """
    pairs = zip(Answers(output).moments, Answers(expected).moments, strict=True)
    for k, ((_, values), (_, others)) in enumerate(pairs):
        wrong = sorted(set(values.items()) ^ set(others.items()))
        assert not wrong, f"moment {k}: known in one output only: {wrong}"


def check_merges(output: Output, least: Output) -> None:
    """At every moment the same values are known, and what is merged in `least` is merged.

    More may be merged. Where `least` has two time-points in one class, `output` must have them in
    one class too at that moment, whatever equivalences say so.

    Raises:
        AssertionError: values differ, or a merge is missing.
    """
    check_same_values(output, least)
    ledger, least_ledger = Ledger(), Ledger()
    for k, (lines, least_lines) in enumerate(zip(output, least, strict=True)):
        ledger.write(lines)
        least_ledger.write(least_lines)
        for point in least_ledger.verdicts:
            other = least_ledger.root(point)
            merged = least_ledger.value(point) is not None
            merged = merged or ledger.root(point) == ledger.root(other)
            assert merged, f"moment {k}: {format_point(point)} = {format_point(other)} is missing"


def check_resolved(resolved: Output, output: Output) -> None:
    """Resolving writes at each moment what the verdicts so far amount to, each value once.

    Raises:
        AssertionError: it does not.
    """
    pairs = zip(Answers(resolved).moments, Answers(output).moments, strict=True)
    for k, ((answered, values), (_, expected)) in enumerate(pairs):
        assert values == expected, f"moment {k}: resolved to {values}, not {expected}"
        assert answered == set(values), f"moment {k}: an equivalence is left"


def check_prefix(shorter: Output, whole: Output, steps: int) -> None:
    """The output for the first steps of a trace is a prefix of the output for the whole.

    Raises:
        AssertionError: it is not.
    """
    assert shorter[:steps] == whole[:steps], f"the output for {steps} steps is no prefix"


def has_advance(steps: Sequence[Step]) -> bool:
    return any(isinstance(step, Advance) for step in steps)
