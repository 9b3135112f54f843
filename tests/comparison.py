"""One formula on one trace: all modes, all properties, both references."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from mtlmon import Formula, Monitor, Monitors, Program
from mtlmon import Verdict as EngineVerdict
from tests.doors import SavedState
from tests.engines import (
    Job,
    MakeMonitor,
    fits_network,
    make_shared,
    make_with_expressions,
    make_with_network,
    run_by_definition,
    run_literally,
    run_steps,
)
from tests.formulas import is_bounded
from tests.properties import (
    Answers,
    Output,
    Timeline,
    check_merges,
    check_modes_agree,
    check_not_behind,
    check_on_other_streams,
    check_output,
    check_prefix,
    check_same_values,
    has_advance,
    view_of,
)
from tests.reference.evaluator import evaluate
from tests.reference.folding import modes_are_alike
from tests.reference.local import LocalEvaluator, TooManyUnknownsError
from tests.reference.paper import dense_size
from tests.traces import (
    MAXIMUM_TIME_STAMP,
    MODES,
    Advance,
    Mode,
    Step,
    TimePoint,
    Trace,
    format_step,
    prefix_of,
    time_points,
)
from tests.verdicts import Verdict, parse_verdict

DENSE_LIMIT = 60
"""Beyond this size of its array the literal algorithm is left out: it is too slow."""


def compare(
    formula: Formula,
    timeline: Timeline,
    *,
    make: MakeMonitor = make_shared,
) -> dict[Mode, Output]:
    """Runs monitors in all modes and checks all that is promised; returns the outputs.

    Raises:
        AssertionError: a promise is broken; the message names the case.
    """
    outputs: dict[Mode, Output] = {}
    try:
        view = view_of(formula, timeline)
        for mode in MODES:
            job = Job(formula, timeline.steps, mode, timeline.end_time)
            outputs[mode] = run_steps(job, make)
            check_output(view, timeline, mode, outputs[mode])
            check_on_other_streams(formula, timeline, outputs[mode], Random(0))
        check_modes_agree(outputs, view.bounded, alike=modes_are_alike(formula))
    except AssertionError as error:
        raise AssertionError(f"{error}\n  {formula}\n  {timeline}\n  {outputs}") from error
    return outputs


def compare_at_the_end(formula: Formula, steps: Trace, *, make: MakeMonitor = make_shared) -> None:
    """Checks every time-point's value once nothing follows: for traces too long for more.

    Raises:
        AssertionError: a value is wrong or missing, or the modes differ at some moment.
    """
    outputs = {mode: run_steps(Job(formula, steps, mode, "inf"), make) for mode in MODES}
    check_modes_agree(outputs, is_bounded(formula), alike=modes_are_alike(formula))
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


def compare_by_definition(
    formula: Formula, timeline: Timeline, outputs: dict[Mode, Output]
) -> None:
    """Checks `naive` and `local` mode of bounded formulas against their definition.

    - `naive`: the output is the same, line by line.
    - `local`: at every moment the same Boolean values are known, equivalences followed; and any two
      time-points of one time-stamp that have the same Boolean function of what lies beyond it are
      in one class. Further equivalences may be found.

    Expressions may know the values of formulas earlier that are neither unate nor flat, so those
    are compared only if the network can monitor them.

    Raises:
        AssertionError: something differs.
    """
    if not is_bounded(formula) or not (fits_network(formula) or modes_are_alike(formula)):
        return
    job = Job(formula, timeline.steps, "local", timeline.end_time)
    try:
        expected = run_by_definition(job)
    except TooManyUnknownsError:
        return
    try:
        check_merges(outputs["local"], expected)
        naive = run_by_definition(job._replace(mode="naive"))
        assert outputs["naive"] == naive, f"naive: {naive} expected"
    except AssertionError as error:
        case = f"{formula}\n  {timeline}\n  {outputs}\n  local, by definition {expected}"
        raise AssertionError(f"{error}\n  {case}") from error


def compare_engines(formula: Formula, timeline: Timeline) -> None:
    """Checks the queue network and the engine of expressions against each other.

    For a formula that the network can monitor: `naive` mode gives the same lines at the same
    moments, and in `local` mode the same Boolean values are known at every moment, equivalences
    followed. Each engine also gives what the definition asks for. Where a formula is neither unate
    nor flat, expressions may know values earlier.

    Raises:
        AssertionError: something differs.
    """
    if not fits_network(formula):
        return
    outputs = {}
    for make in (make_with_network, make_with_expressions):
        job = Job(formula, timeline.steps, "naive", timeline.end_time)
        found: dict[Mode, Output] = {
            "naive": run_steps(job, make),
            "local": run_steps(job._replace(mode="local"), make),
        }
        if make is make_with_network or modes_are_alike(formula):
            compare_by_definition(formula, timeline, found)
        outputs[make] = found
    network, expressions = outputs.values()
    try:
        if modes_are_alike(formula):
            assert network["naive"] == expressions["naive"], "the lines of naive mode differ"
            check_same_values(network["local"], expressions["local"])
        else:
            merged: dict[Mode, Output] = {**network, "global": expressions["local"]}
            check_modes_agree(merged, bounded=True, alike=False)
            check_modes_agree({**merged, "global": expressions["naive"]}, True, alike=False)
    except AssertionError as error:
        case = f"{formula}\n  {timeline}\n  network {network}\n  expressions {expressions}"
        raise AssertionError(f"{error}\n  {case}") from error


def compare_at_moments(
    formula: Formula, steps: Trace, moments: Sequence[int], makes: Sequence[MakeMonitor]
) -> None:
    """Checks `local` mode against its definition after some of the steps: for long traces.

    Raises:
        AssertionError: something differs.
    """
    evaluator = LocalEvaluator(formula, "local")
    least = tuple(
        tuple(map(str, evaluator.verdicts(prefix_of(steps[: moment + 1])))) for moment in moments
    )
    for make in makes:
        output = run_steps(Job(formula, steps, "local"), make)
        starts = [0, *(moment + 1 for moment in moments)]
        found = tuple(
            tuple(line for lines in output[start:end] for line in lines)
            for start, end in pairwise(starts)
        )
        try:
            check_merges(found, least)
        except AssertionError as error:
            case = f"{formula}\n  {'; '.join(map(format_step, steps))}"
            raise AssertionError(f"{error}\n  {case}") from error


def compare_restored(program: Program, steps: Trace, mode: Mode, *, every: int = 1) -> None:
    """Checks that a state of the queue network has one form, whatever it has been through.

    A monitor runs undisturbed; another one is replaced by one that is restored from its snapshot
    after each step, or after some of the steps; and a stream takes turns with another one in the
    same `Monitors`. Their verdicts are the same, and so are the snapshots.

    Raises:
        AssertionError: something differs.
    """
    undisturbed, restored = Monitor(program, mode), Monitor(program, mode)
    monitors: Monitors[str] = Monitors(program, mode)
    number = 0
    try:
        for number, step in enumerate(steps):
            time = step.time_stamp
            if isinstance(step, Advance):
                expected = undisturbed.advance(time)
                found = restored.advance(time)
                in_turns = monitors.advance("a", time) if "a" in monitors else []
            else:
                expected = undisturbed.step(time, step.atoms)
                found = restored.step(time, step.atoms)
                in_turns = monitors.step("a", time, step.atoms)
                monitors.step("b", min(2 * time, MAXIMUM_TIME_STAMP), step.atoms)
            assert found == expected, f"restored: {found}, not {expected}"
            assert in_turns == expected, f"in turns: {in_turns}, not {expected}"
            if number % every == 0:
                snapshot = restored.snapshot()
                assert snapshot == undisturbed.snapshot(), "the snapshots differ"
                assert restored.next_change == undisturbed.next_change
                assert restored.settled_from == undisturbed.settled_from
                restored = Monitor(program, mode)
                restored.restore(snapshot)
                assert restored.snapshot() == snapshot, "a restored monitor has another snapshot"
                assert restored.pending == undisturbed.pending
        assert restored.finish("inf") == undisturbed.finish("inf"), "the ends differ"
    except AssertionError as error:
        trace = "; ".join(map(format_step, steps[: number + 1]))
        raise AssertionError(f"{error}\n  {mode}, {program.rows}\n  {trace}") from error


def compare_saved(program: Program, steps: Trace, mode: Mode) -> None:
    """Checks that states which are saved and loaded equal those that are left alone.

    After each step, one monitor is replaced by a new one that loads its saved state; another takes
    events of its own and then loads its saved state again; a third is replaced by one that is
    restored from its snapshot. Their verdicts and states are those of a monitor that is only
    looked at, and its verdicts are those of one that is not even looked at.

    Raises:
        AssertionError: something differs.
    """
    alone, seen = Monitor(program, mode), Monitor(program, mode)
    copied, returned, restored = (Monitor(program, mode) for _ in range(3))
    state = SavedState(seen)
    taken: list[Step] = []

    def resume(monitor: Monitor, step: Step) -> list[EngineVerdict]:
        if isinstance(step, Advance):
            return monitor.advance(step.time_stamp)
        return monitor.step(step.time_stamp, step.atoms)

    try:
        for step in steps:
            taken.append(step)
            expected = resume(alone, step)
            assert resume(seen, step) == expected, "a saved monitor answers otherwise"
            state.save(seen)
            others = {"copied": copied, "returned": returned, "restored": restored}
            for name, monitor in others.items():
                assert resume(monitor, step) == expected, f"{name} answers otherwise"
                assert state.is_state_of(monitor), f"{name} has another state"
                assert SavedState(monitor).is_state_of(seen), f"{name} has another saved state"
                assert monitor.pending == alone.pending
                assert monitor.settled_from == alone.settled_from
            saved = SavedState(copied)
            copied = Monitor(program, mode)
            saved.load(copied)
            saved.save(returned)
            for other in steps[:5]:
                time = min(step.time_stamp + other.time_stamp, MAXIMUM_TIME_STAMP)
                resume(returned, other._replace(time_stamp=time))
            saved.load(returned)
            snapshot = restored.snapshot()
            restored = Monitor(program, mode)
            restored.restore(snapshot)
        counters = [alone.counters[name] for name in ("events", "true", "false", "peak_pending")]
        expected = alone.finish("inf")
        for monitor in (seen, copied, returned, restored):
            names = ("events", "true", "false", "peak_pending")
            assert [monitor.counters[name] for name in names] == counters
            assert monitor.finish("inf") == expected, "the ends differ"
    except AssertionError as error:
        trace = "; ".join(map(format_step, taken))
        raise AssertionError(f"{error}\n  {mode}, {program.rows}\n  {trace}") from error


def compare_back_ends(
    formula: Formula,
    timeline: Timeline,
    outputs: dict[Mode, Output],
    *,
    make: MakeMonitor = make_shared,
) -> None:
    """Checks that the slower BDD library gives the same lines.

    Raises:
        AssertionError: it does not.
    """
    for mode in MODES:
        job = Job(formula, timeline.steps, mode, timeline.end_time, "autoref")
        again = run_steps(job, make)
        assert again == outputs[mode], f"{mode}, {formula}, {timeline}: {again} {outputs[mode]}"


def compare_prefixes(
    formula: Formula,
    timeline: Timeline,
    outputs: dict[Mode, Output],
    *,
    make: MakeMonitor = make_shared,
) -> None:
    """Checks that each prefix of the trace yields a prefix of the output.

    Raises:
        AssertionError: one does not.
    """
    for mode in MODES:
        for length in range(len(timeline.steps)):
            job = Job(formula, timeline.steps[:length], mode)
            check_prefix(run_steps(job, make), outputs[mode], length)


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
