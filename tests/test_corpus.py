"""The corpus of named cases: on the references, and on every way into the engine."""

from __future__ import annotations

import pytest

import mtlmon
from mtlmon.syntax.parser import parse
from tests.comparison import compare_literally
from tests.corpus import Case, load_cases
from tests.engines import ENTRY_POINTS, STEPS, EntryPoint, Job, flattened, run_resolved
from tests.properties import (
    Timeline,
    check_modes_agree,
    check_output,
    check_prefix,
    check_resolved,
    has_advance,
    view_of,
)
from tests.traces import MODES, Advance, Mode, time_points
from tests.verdicts import parse_verdict

CASES = load_cases()
_by_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(CASES) >= 100


@_by_case
def test_expectations_satisfy_the_properties(case: Case) -> None:
    """The data files themselves are checked against both references."""
    formula, timeline = parse(case.formula), Timeline(case.trace, case.end_time)
    view = view_of(formula, timeline)
    for mode in MODES:
        check_output(view, timeline, mode, case.expected[mode])
    check_modes_agree(case.expected, view.bounded)
    compare_literally(formula, timeline, case.expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=[e.name for e in ENTRY_POINTS])
@_by_case
def test_output(case: Case, mode: Mode, entry_point: EntryPoint) -> None:
    if has_advance(case.trace) and not entry_point.takes_advance:
        # Such an entry point reads events; the case is tested through the others.
        return
    output = entry_point.run(Job(parse(case.formula), case.trace, mode, case.end_time))
    if entry_point.by_step:
        assert output == case.expected[mode]
    else:
        assert flattened(output) == flattened(case.expected[mode])


@pytest.mark.parametrize("mode", MODES)
@_by_case
def test_resolved_output(case: Case, mode: Mode) -> None:
    if not has_advance(case.trace):
        job = Job(parse(case.formula), case.trace, mode, case.end_time)
        check_resolved(run_resolved(job), case.expected[mode])


@pytest.mark.parametrize("mode", MODES)
@_by_case
def test_back_ends_agree(case: Case, mode: Mode) -> None:
    job = Job(parse(case.formula), case.trace, mode, case.end_time, "autoref")
    assert STEPS.run(job) == case.expected[mode]


@pytest.mark.parametrize("mode", MODES)
@_by_case
def test_output_of_a_prefix_is_a_prefix(case: Case, mode: Mode) -> None:
    for length in range(len(case.trace)):
        output = STEPS.run(Job(parse(case.formula), case.trace[:length], mode))
        check_prefix(output, case.expected[mode], length)


@pytest.mark.parametrize("mode", MODES)
@_by_case
def test_pending_is_what_has_no_verdict(case: Case, mode: Mode) -> None:
    monitor = mtlmon.Monitor(case.formula, mode=mode)
    answered = set()
    for k, step in enumerate(case.trace):
        if isinstance(step, Advance):
            monitor.advance(step.time_stamp)
        else:
            monitor.step(step.time_stamp, step.atoms)
        answered |= {parse_verdict(line).point for line in case.expected[mode][k]}
        points = time_points(case.trace[: k + 1])
        assert list(monitor.pending) == [point for point in points if point not in answered]
