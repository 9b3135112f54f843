"""The corpus of named cases: on the references, and on every way into the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

import mtlmon
from mtlmon import parse
from tests.comparison import compare_literally
from tests.corpus import Case, check_lines, load_cases
from tests.corpus import check_output as check_case
from tests.engines import (
    ENTRY_POINTS,
    STEPS,
    EntryPoint,
    Job,
    fits_network,
    flattened,
    run_by_definition,
    run_resolved,
)
from tests.formulas import is_bounded
from tests.properties import (
    Output,
    Timeline,
    check_modes_agree,
    check_output,
    check_prefix,
    check_resolved,
    has_advance,
    view_of,
)
from tests.reference.folding import modes_are_alike
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
    check_modes_agree(case.expected, view.bounded, alike=modes_are_alike(formula))
    compare_literally(formula, timeline, case.expected)


@pytest.mark.parametrize("mode", ["naive", "local"])
@_by_case
def test_definition(case: Case, mode: Mode) -> None:
    """What the definition of a mode does not ask for is marked as `may`, and nothing else is."""
    formula = parse(case.formula)
    if not is_bounded(formula) or not (fits_network(formula) or modes_are_alike(formula)):
        return
    output = run_by_definition(Job(formula, case.trace, mode, case.end_time))
    if mode == "local":
        check_case(case, mode, output)
        written = {parse_verdict(line) for line in flattened(output)}
        assert not {verdict.point for verdict in written if verdict.reference} & case.may
    else:
        check_case(case, mode, output)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=[e.name for e in ENTRY_POINTS])
@_by_case
def test_output(case: Case, mode: Mode, entry_point: EntryPoint) -> None:
    if has_advance(case.trace) and not entry_point.takes_advance:
        # Such an entry point reads events; the case is tested through the others.
        return
    output = entry_point.run(Job(parse(case.formula), case.trace, mode, case.end_time))
    if entry_point.by_step:
        check_case(case, mode, output)
    else:
        check_lines(case, mode, flattened(output))


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
    check_case(case, mode, STEPS.run(job))


@pytest.mark.parametrize("mode", MODES)
@_by_case
def test_output_of_a_prefix_is_a_prefix(case: Case, mode: Mode) -> None:
    whole = STEPS.run(Job(parse(case.formula), case.trace, mode))
    for length in range(len(case.trace)):
        output = STEPS.run(Job(parse(case.formula), case.trace[:length], mode))
        check_prefix(output, whole, length)


@pytest.mark.parametrize("mode", MODES)
@_by_case
def test_pending_is_what_has_no_verdict(case: Case, mode: Mode) -> None:
    monitor = mtlmon.Monitor(case.formula, mode=mode)
    answered = set()
    for k, step in enumerate(case.trace):
        if isinstance(step, Advance):
            verdicts = monitor.advance(step.time_stamp)
        else:
            verdicts = monitor.step(step.time_stamp, step.atoms)
        answered |= {parse_verdict(str(verdict)).point for verdict in verdicts}
        points = time_points(case.trace[: k + 1])
        assert list(monitor.pending) == [point for point in points if point not in answered]


# What `may` allows, and what it does not: the comparison of the corpus itself.


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def rows(*texts: str) -> Output:
    return tuple(tuple(filter(None, text.split(", "))) for text in texts)


LATER = case_of("an UNTIL over an ALWAYS that begins later")


@pytest.mark.parametrize("case", [case for case in CASES if case.may], ids=lambda case: case.name)
def test_an_engine_that_misses_what_it_may_miss_passes(case: Case) -> None:
    """Each such time-point gets its value instead, when that is known."""
    output = run_by_definition(Job(parse(case.formula), case.trace, "local", case.end_time))
    assert output != case.expected["local"]
    for found in (output, case.expected["local"]):
        check_case(case, "local", found)
        check_lines(case, "local", flattened(found))
        check_lines(case, "local", sorted(flattened(found)), ordered=False)
    with pytest.raises(AssertionError):
        check_case(case, "global", output)
    with pytest.raises(AssertionError):
        check_lines(case, "global", flattened(output))


def test_what_may_be_merged_may_be_merged_earlier_or_later() -> None:
    for k in range(1, 4):
        lines = ["", "", "", "", "0:0 true, 1:0 true, 3:0 true", ""]
        lines[k] = "0:1 = 0:0"
        check_case(LATER, "local", rows(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        ["", "", "", "", "0:0 true, 0:1 false, 1:0 true, 3:0 true", ""],
        ["", "", "", "", "0:0 true, 1:0 true, 0:1 true, 3:0 true", ""],
        ["", "", "", "", "0:0 true, 1:0 true, 3:0 true", ""],
        ["", "", "", "", "0:0 true, 1:0 true, 3:0 true", "0:1 true"],
        ["", "", "0:1 true", "", "0:0 true, 1:0 true, 3:0 true", ""],
        ["", "", "", "0:1 = 1:0", "0:0 true, 1:0 true, 3:0 true", ""],
        ["", "", "0:1 = 0:0", "", "0:0 true, 0:1 true, 1:0 true, 3:0 true", ""],
        ["", "", "", "0:1 = 0:0", "0:0 true, 1:0 true", "3:0 true"],
        ["", "", "", "0:1 = 0:0, 1:0 = 0:0", "0:0 true, 3:0 true", ""],
    ],
)
def test_nothing_else_may_differ(lines: list[str]) -> None:
    with pytest.raises(AssertionError):
        check_case(LATER, "local", rows(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        ["0:0 true", "1:0 true", "3:0 true"],
        ["0:0 true", "0:1 false", "1:0 true", "3:0 true"],
        ["0:1 = 1:0", "0:0 true", "1:0 true", "3:0 true"],
        ["0:1 = 0:0", "0:0 true", "1:0 true", "3:0 true", "9:0 true"],
        ["0:1 = 0:0", "0:0 true", "1:0 = 0:0", "3:0 true"],
    ],
)
def test_nothing_else_may_differ_in_lines(lines: list[str]) -> None:
    for ordered in (True, False):
        with pytest.raises(AssertionError):
            check_lines(LATER, "local", lines, ordered=ordered)


def test_order_counts_where_it_is_known() -> None:
    lines = ["0:1 = 0:0", "1:0 true", "0:0 true", "3:0 true"]
    check_lines(LATER, "local", lines, ordered=False)
    with pytest.raises(AssertionError):
        check_lines(LATER, "local", lines)


@pytest.mark.parametrize(
    ("may", "complaint"),
    [(["0:1 = 0:0"], "does not have"), (["0:0 true"], "no equivalence")],
)
def test_may_names_equivalences_of_the_case(tmp_path: Path, may: list[str], complaint: str) -> None:
    path = tmp_path / "case.toml"
    path.write_text(
        f"""[[case]]
name = "p"
rationale = "p"
formula = "p"
trace = ["@0 p"]
verdicts = ["0:0 true"]
may = {may!r}
""",
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match=complaint):
        load_cases(tmp_path)
