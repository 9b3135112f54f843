"""One formula on one trace: all modes, all properties, both references."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mtlmon.syntax.formula import Formula
from tests.engines import Job, run_literally, run_steps
from tests.formulas import is_bounded
from tests.properties import (
    Answers,
    Output,
    Timeline,
    check_modes_agree,
    check_not_behind,
    check_on_other_streams,
    check_output,
    check_prefix,
    has_advance,
    view_of,
)
from tests.reference.evaluator import evaluate
from tests.reference.paper import dense_size
from tests.traces import MODES, Mode, TimePoint, Trace, format_step, prefix_of, time_points
from tests.verdicts import Verdict, parse_verdict

DENSE_LIMIT = 60
"""Beyond this size of its array the literal algorithm is left out: it is too slow."""


def compare(
    formula: Formula,
    timeline: Timeline,
    *,
    run: Callable[[Job], Output] = run_steps,
) -> dict[Mode, Output]:
    """Runs the engine in all modes and checks all that is promised; returns the outputs.

    Raises:
        AssertionError: a promise is broken; the message names the case.
    """
    outputs: dict[Mode, Output] = {}
    try:
        view = view_of(formula, timeline)
        for mode in MODES:
            job = Job(formula, timeline.steps, mode, timeline.end_time)
            outputs[mode] = run(job)
            check_output(view, timeline, mode, outputs[mode])
            check_on_other_streams(formula, timeline, outputs[mode], Random(0))
        check_modes_agree(outputs, view.bounded)
    except AssertionError as error:
        raise AssertionError(f"{error}\n  {formula}\n  {timeline}\n  {outputs}") from error
    return outputs


def compare_at_the_end(formula: Formula, steps: Trace) -> None:
    """Checks every time-point's value once nothing follows: for traces too long for more.

    Raises:
        AssertionError: a value is wrong or missing, or the modes differ at some moment.
    """
    outputs = {mode: run_steps(Job(formula, steps, mode, "inf")) for mode in MODES}
    check_modes_agree(outputs, is_bounded(formula))
    actual = evaluate(formula, prefix_of(steps, closed=True))
    expected = dict(zip(time_points(steps), actual, strict=True))
    values = Answers(outputs["local"]).moments[-1][1]
    wrong = {point: value for point, value in expected.items() if values.get(point) is not value}
    assert not wrong, f"{formula}: {wrong} expected on {'; '.join(map(format_step, steps))}"


def compare_literally(formula: Formula, timeline: Timeline, outputs: dict[Mode, Output]) -> None:
    """Checks that no mode's output is behind the published algorithm's, where that can be run.

    Raises:
        AssertionError: it is.
    """
    if has_advance(timeline.steps) or dense_size(formula) > DENSE_LIMIT:
        return
    for mode in MODES:
        literal_mode: Mode = "global" if mode == "local" and not is_bounded(formula) else mode
        literal = run_literally(Job(formula, timeline.steps, literal_mode))
        try:
            check_not_behind(outputs[mode], literal)
        except AssertionError as error:
            case = f"{mode}\n  {formula}\n  {timeline}\n  {outputs[mode]}\n  literally {literal}"
            raise AssertionError(f"{error}\n  {case}") from error


def compare_back_ends(formula: Formula, timeline: Timeline, outputs: dict[Mode, Output]) -> None:
    """Checks that the slower BDD library gives the same lines.

    Raises:
        AssertionError: it does not.
    """
    for mode in MODES:
        job = Job(formula, timeline.steps, mode, timeline.end_time, "autoref")
        again = run_steps(job)
        assert again == outputs[mode], f"{mode}, {formula}, {timeline}: {again} {outputs[mode]}"


def compare_prefixes(formula: Formula, timeline: Timeline, outputs: dict[Mode, Output]) -> None:
    """Checks that each prefix of the trace yields a prefix of the output.

    Raises:
        AssertionError: one does not.
    """
    for mode in MODES:
        for length in range(len(timeline.steps)):
            job = Job(formula, timeline.steps[:length], mode)
            check_prefix(run_steps(job), outputs[mode], length)


def shift(timeline: Timeline, by: int) -> Timeline:
    """The same trace at later times."""
    steps = [step._replace(time_stamp=step.time_stamp + by) for step in timeline.steps]
    return Timeline(steps, timeline.end_time)


def shifted_output(output: Output, by: int) -> Output:
    """The output that the shifted trace must have."""

    def moved(point: TimePoint) -> TimePoint:
        return point[0] + by, point[1]

    def move(line: str) -> str:
        verdict = parse_verdict(line)
        reference = None if verdict.reference is None else moved(verdict.reference)
        return str(Verdict(moved(verdict.point), verdict.value, reference))

    return tuple(tuple(map(move, lines)) for lines in output)
