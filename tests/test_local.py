"""`naive` and `local` mode against their definition, and the definition's own tests."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon import FALSE, TRUE, Formula, compile_formula, parse
from tests import strategies
from tests.comparison import compare, compare_by_definition
from tests.doors import MOST_VARIABLES, choose_engine
from tests.engines import (
    Job,
    make_own,
    make_shared,
    make_with_expressions,
    run_by_definition,
    run_steps,
)
from tests.formulas import is_bounded
from tests.properties import (
    Output,
    Timeline,
    check_merges,
    check_modes_agree,
    check_output,
    check_prefix,
    check_same_values,
    view_of,
)
from tests.reference.evaluator import Truth, evaluate
from tests.reference.folding import (
    folded,
    is_flat,
    is_unate,
    looks_ahead,
    modes_are_alike,
    subformulas,
)
from tests.reference.local import LocalEvaluator, TooManyUnknownsError
from tests.soak import GAPS, RATES, Generator, check_by_definition
from tests.traces import EndTime, Mode, TimePoint, Trace, parse_step, prefix_of, time_points

DEFINED_MODES: tuple[Mode, ...] = ("naive", "local")
MERGING = "p UNTIL[0,5] q"
ABSORBED = "q UNTIL[0,3] ALWAYS[2,3] p"


def steps_of(text: str) -> Trace:
    return tuple(parse_step(line) for line in text.split("; "))


def output_of(rows: list[str]) -> Output:
    return tuple(tuple(filter(None, row.split(", "))) for row in rows)


def by_definition(
    formula: str, trace: str, end_time: EndTime = None, mode: Mode = "local"
) -> Output:
    return run_by_definition(Job(parse(formula), steps_of(trace), mode, end_time))


# The definition, by hand.


@pytest.mark.parametrize(
    ("formula", "trace", "expected"),
    [
        ("p", "@0 p; @0", ["0:0 true", "0:1 false", ""]),
        # Two unknowns are possible here, the value of the UNTIL after 0 and false, but one is.
        (
            MERGING,
            "@0 p; @0 p; @0; @1 q",
            ["", "0:1 = 0:0", "0:0 false, 0:2 false", "1:0 true", ""],
        ),
        # The value of EVENTUALLY after 0 is one unknown, that of the other UNTIL is another one.
        (
            "(EVENTUALLY[0,5] p) AND (q OR EVENTUALLY[0,3] r)",
            "@0; @0 q; @0; @0 q; @4",
            ["", "", "0:2 = 0:0", "0:3 = 0:1", "0:0 false", ""],
        ),
        # Decided unknowns become constants: once no r came up to 3, r decides nothing any more.
        (
            "(EVENTUALLY[0,5] p) AND NOT (q AND EVENTUALLY[0,3] r)",
            "@0; @0 q; @4; @5 p",
            ["", "", "0:1 = 0:0", "0:0 true, 4:0 true, 5:0 true", ""],
        ),
        # What lies before a time-stamp can be undecided too.
        (
            "(q OR r) AND ONCE[1,2] EVENTUALLY[2,4] p",
            "@0; @1 q; @1 r; @1; @4 p",
            ["0:0 false", "", "1:1 = 1:0", "1:2 false", "1:0 true, 4:0 false", ""],
        ),
        ("PREVIOUS[0,1] NEXT[1,2] p", "@0; @1; @1 p", ["0:0 false", "1:0 false", "1:1 false", ""]),
        # These follow from what the unknowns depend on, so they need not be found.
        (
            ABSORBED,
            "@0; @0 p q; @1; @3 p; @9",
            ["", "", "", "", "0:0 true, 0:1 true, 1:0 true, 3:0 true", ""],
        ),
        (
            "ONCE[0,1] NEXT[0,2] ((NEXT[0,3] p) AND ALWAYS[0,1] q)",
            "@0; @0 q; @1 p q; @4; @9",
            ["", "", "", "0:0 true, 0:1 true, 1:0 true", "4:0 false", ""],
        ),
        (
            "EVENTUALLY[0,1] PREVIOUS[0,1] EVENTUALLY[0,1] PREVIOUS[0,1] PREVIOUS[1,2] (q AND p)",
            "@0 q; @1; @1; @5",
            ["", "", "", "0:0 false, 1:0 false, 1:1 false", ""],
        ),
        # Of two open windows, the one that ends first implies the other.
        (
            "(EVENTUALLY[0,1] p) AND NOT (EVENTUALLY[0,3] p)",
            "@0; @0; @1",
            ["0:0 false", "0:1 false", "1:0 false", ""],
        ),
        (
            "(EVENTUALLY[2,5] p) AND NOT (EVENTUALLY[1,6] p)",
            "@0; @1; @2",
            ["", "", "0:0 false", ""],
        ),
    ],
)
def test_definition_by_hand(formula: str, trace: str, expected: list[str]) -> None:
    assert by_definition(formula, trace) == output_of(expected)


@pytest.mark.parametrize(
    ("formula", "trace", "end_time", "expected"),
    [
        ("NEXT[0,3] p", "@0; advance 3; advance 4", None, ["", "", "0:0 false", ""]),
        (
            "EVENTUALLY[0,5] NEXT p",
            "@0; @5; advance 9",
            "inf",
            ["", "", "", "0:0 false, 5:0 false"],
        ),
        ("ALWAYS[0,5] p", "@0 p; @3 p", 7, ["", "", "0:0 true"]),
        ("ALWAYS[0,5] p", "@0 p; @3 p", "last", ["", "", ""]),
        ("EVENTUALLY[0,0] p", "@0; @3", "last", ["", "0:0 false", "3:0 false"]),
        # Time alone decides the second window of 0, so the two are the same from then on.
        (
            "(EVENTUALLY[0,5] p) AND NOT (q AND EVENTUALLY[0,3] r)",
            "@0; @0 q; advance 4; @6",
            None,
            ["", "", "0:1 = 0:0", "0:0 false", ""],
        ),
        (
            "(EVENTUALLY[0,5] p) AND NOT (q AND EVENTUALLY[0,3] r)",
            "@0; @0 q",
            3,
            ["", "", "0:1 = 0:0"],
        ),
    ],
)
def test_time_and_end_by_hand(
    formula: str, trace: str, end_time: EndTime, expected: list[str]
) -> None:
    assert by_definition(formula, trace, end_time) == output_of(expected)
    assert run_steps(Job(parse(formula), steps_of(trace), "local", end_time)) == output_of(expected)


def test_truth_tables_have_a_limit() -> None:
    formula = parse(" AND ".join(f"(EVENTUALLY[0,{k}] p{k})" for k in range(1, 18)))
    with pytest.raises(TooManyUnknownsError):
        run_by_definition(Job(formula, steps_of("@0"), "local"))


# The definition against the direct evaluator.


@settings(max_examples=200)
@given(strategies.bounded_formulas(), strategies.traces(advances=True), st.booleans())
def test_values_are_not_later_than_three_valued_ones(
    formula: Formula, steps: Trace, closed: bool
) -> None:
    """Nor earlier, if the formula is unate."""
    evaluator = LocalEvaluator(formula, "naive")
    known: dict[TimePoint, Truth] = {}
    for length in range(1, len(steps) + 1):
        prefix = prefix_of(steps[:length], closed=closed and length == len(steps))
        known |= {verdict.point: verdict.value for verdict in evaluator.verdicts(prefix)}
        values = evaluate(folded(formula), prefix)
        for point, value in zip(time_points(prefix.events), values, strict=True):
            assert known.get(point) is value or (value is None and not is_unate(formula))


@settings(max_examples=200)
@given(strategies.bounded_formulas(), strategies.traces(advances=True), strategies.end_times())
def test_definition_satisfies_the_properties(
    formula: Formula, steps: Trace, end_time: EndTime
) -> None:
    """Of any bounded formula, in whatever polarities."""
    timeline = Timeline(steps, end_time)
    view = view_of(formula, timeline)
    outputs = {}
    for mode in DEFINED_MODES:
        outputs[mode] = run_by_definition(Job(formula, steps, mode, end_time))
        check_output(view, timeline, mode, outputs[mode])
    check_modes_agree(outputs | {"global": outputs["local"]}, bounded=True)


@pytest.mark.parametrize("mode", DEFINED_MODES)
@pytest.mark.parametrize("rate", RATES)
def test_definition_of_a_prefix_is_a_prefix(rate: int, mode: Mode) -> None:
    generator = Generator(rate)
    for gaps in GAPS:
        formula, steps, _ = generator.rated_example(rate, gaps)
        whole = run_by_definition(Job(formula, steps, mode))
        for length in range(0, len(steps), max(1, len(steps) // 8)):
            check_prefix(run_by_definition(Job(formula, steps[:length], mode)), whole, length)


# Monitors against the definition.


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("rate", RATES)
def test_event_rates_and_gaps(rate: int, gaps: str) -> None:
    generator = Generator(1000 * rate + len(gaps))
    for _ in range(20):
        check_by_definition(generator.rated_example(rate, gaps))


@settings(max_examples=200)
@given(
    st.one_of(strategies.bounded_formulas(), strategies.compounds()),
    strategies.traces(maximum_length=14, advances=True),
    strategies.end_times(),
)
def test_formulas_of_all_operators(formula: Formula, steps: Trace, end_time: EndTime) -> None:
    timeline = Timeline(steps, end_time)
    outputs = {mode: run_steps(Job(formula, steps, mode, end_time)) for mode in DEFINED_MODES}
    compare_by_definition(formula, timeline, outputs)


@settings(max_examples=200)
@given(
    strategies.formulas(widths=strategies.huge_intervals()),
    st.one_of(strategies.traces(), strategies.huge_traces()),
    strategies.end_times(),
)
def test_huge_bounds_and_time_stamps(formula: Formula, steps: Trace, end_time: EndTime) -> None:
    outputs = {mode: run_steps(Job(formula, steps, mode, end_time)) for mode in DEFINED_MODES}
    compare_by_definition(formula, Timeline(steps, end_time), outputs)


# What is compared must be able to fail.

DUEL = "(EVENTUALLY[0,5] p) AND (q OR EVENTUALLY[0,3] r)", "@0; @0 q; @0; @0 q; @4"
GOOD = ["", "", "0:2 = 0:0", "0:3 = 0:1", "0:0 false", ""]


def check_rows(rows: list[str], formula: str, trace: str) -> None:
    check_merges(output_of(rows), by_definition(formula, trace))


def test_more_merges_are_allowed() -> None:
    trace = "@0; @0 p q; @1; @3 p; @9"
    check_rows(["", "", "", "0:1 = 0:0", "0:0 true, 1:0 true, 3:0 true", ""], ABSORBED, trace)
    check_rows(["", "", "0:1 = 0:0", "", "0:0 true, 1:0 true, 3:0 true", ""], ABSORBED, trace)
    check_rows(GOOD, *DUEL)


@pytest.mark.parametrize(
    ("complaint", "changes"),
    [
        ("0:2 = 0:0 is missing", {2: "", 3: "0:2 = 0:0, 0:3 = 0:1"}),
        ("known in one output only", {3: "0:3 = 0:0"}),
        ("known in one output only", {2: "0:2 = 0:1"}),
        ("known in one output only", {4: "", 5: "0:0 false"}),
        ("known in one output only", {2: "0:2 false"}),
        ("known in one output only", {4: "0:0 true"}),
    ],
)
def test_a_missing_merge_is_found(complaint: str, changes: dict[int, str]) -> None:
    rows = [changes.get(k, row) for k, row in enumerate(GOOD)]
    with pytest.raises(AssertionError, match=complaint):
        check_rows(rows, *DUEL)


def test_merges_that_follow_are_enough() -> None:
    """0:2 and 0:3 are one class however it was said."""
    check_merges(
        output_of(["", "", "0:2 = 0:1, 0:3 = 0:2", "0:1 = 0:0"]),
        output_of(["", "", "0:3 = 0:2", "0:2 = 0:1, 0:1 = 0:0"]),
    )


def test_a_late_value_is_found() -> None:
    outputs: dict[Mode, Output] = {"naive": output_of(["", "0:0 true", ""])}
    outputs["local"] = outputs["naive"]
    formula, timeline = parse("EVENTUALLY[0,3] p"), Timeline(steps_of("@0 p; @1"))
    with pytest.raises(AssertionError, match="moment 0: known in one output only"):
        compare_by_definition(formula, timeline, outputs)
    late = by_definition("EVENTUALLY[0,3] p", "@0 p; @1")
    with pytest.raises(AssertionError, match="moment 0"):
        check_same_values(output_of(["", "0:0 true, 1:0 false", ""]), late)
    outputs["local"] = late
    with pytest.raises(AssertionError, match="naive"):
        compare_by_definition(formula, timeline, outputs)


def test_comparisons_take_any_monitor() -> None:
    made: list[Job] = []

    def make(job: Job) -> mtlmon.Monitor:
        made.append(job)
        return make_own(job)

    compare(parse(MERGING), Timeline(steps_of("@0 p; @0 p; @2; @9")), make=make)
    assert [job.mode for job in made] == ["naive", "local", "global"]

    def never_merges(job: Job) -> mtlmon.Monitor:
        return make_shared(job._replace(mode="naive"))

    with pytest.raises(AssertionError, match="0:1 = 0:0 is missing"):
        check_by_definition((parse(MERGING), steps_of("@0 p; @0 p; @2"), None), make=never_merges)


# Folding.


@settings(max_examples=200)
@given(
    strategies.formulas(),
    strategies.traces(advances=True),
    st.booleans(),
)
def test_folding_keeps_the_meaning(formula: Formula, steps: Trace, closed: bool) -> None:
    """What the formula as it is written decides, the folded one decides alike, or earlier."""
    prefix = prefix_of(steps, closed=closed)
    for before, after in zip(
        evaluate(formula, prefix), evaluate(folded(formula), prefix), strict=True
    ):
        assert before is after or before is None
    assert folded(folded(formula)) == folded(formula)


def test_folding_orders_operands_by_themselves() -> None:
    """Rationale: an order by when operands are met is another one in the folded formula."""
    formula = parse("((PREVIOUS[0,0] p) OR p) WEAK_UNTIL (p WEAK_UNTIL q)")
    assert folded(folded(formula)) == folded(formula)


@pytest.mark.parametrize(
    ("formula", "same"),
    [
        ("NOT ALWAYS[0,3] NOT p", "EVENTUALLY[0,3] p"),
        ("EVENTUALLY[0,3] (p AND q)", "EVENTUALLY[0,3] (q AND p)"),
        ("p WEAK_UNTIL[0,3] q", "q RELEASE[0,3] (p OR q)"),
        ("p OR EVENTUALLY[0,3] (p AND NOT p)", "p"),
        ("false UNTIL[0,3] p", "p"),
        ("p UNTIL[0,3] ((NEXT q) OR NOT (NEXT q))", "true"),
        ("PREVIOUS (p AND false)", "false"),
        ("false SINCE[1,3] p", "false"),
        ("(EVENTUALLY[0,3] p) EQUIV true", "EVENTUALLY[0,3] p"),
        ("(EVENTUALLY[0,3] p) EQUIV (EVENTUALLY[0,3] p)", "true"),
    ],
)
def test_folding_by_hand(formula: str, same: str) -> None:
    assert folded(parse(f"({formula}) EQUIV ({same})")) == TRUE
    assert folded(parse(f"NOT (({formula}) EQUIV ({same}))")) == FALSE


def test_folding_goes_no_further() -> None:
    for formula in ("EVENTUALLY[1,3] true", "true SINCE[1,2] true", "NEXT true", "PREVIOUS true"):
        assert folded(parse(formula)).operator.is_temporal


UNATE = [
    "p",
    "NOT EVENTUALLY[0,5] p",
    "(EVENTUALLY[0,5] p) AND EVENTUALLY[0,3] p",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "(EVENTUALLY[0,3] p) IMPLIES ALWAYS[0,3] NOT p",
    "(EVENTUALLY[0,3] p) OR ALWAYS[0,3] p",
    "(ONCE p) EQUIV (q SINCE p)",
    "(ONCE p) EQUIV EVENTUALLY[0,5] (q AND NOT q)",
    "EVENTUALLY[0,5] (p EQUIV q)",
    "q UNTIL[0,3] ALWAYS[2,3] p",
    "ONCE[0,1] NEXT[0,2] ((NEXT[0,3] p) AND ALWAYS[0,1] q)",
    "EVENTUALLY[0,1] PREVIOUS[0,1] EVENTUALLY[0,1] PREVIOUS[0,1] PREVIOUS[1,2] (q AND p)",
    # Both polarities are below the operator on the right, but its operands are different ones.
    "(EVENTUALLY[0,3] p) AND NOT EVENTUALLY[0,3] NOT p",
]

FLAT_MIXED = [
    "(EVENTUALLY[0,1] p) AND NOT (EVENTUALLY[0,3] p)",
    "NOT ((EVENTUALLY[1,1] p) IMPLIES EVENTUALLY[0,2] p)",
    "(NOT EVENTUALLY[0,2] q) AND ((EVENTUALLY[0,0] q) EQUIV EVENTUALLY[0,2] p)",
    "((ALWAYS[0,1] q) OR ALWAYS[0,0] p) IMPLIES ((EVENTUALLY[0,0] q) IMPLIES EVENTUALLY[0,1] q)",
    "(EVENTUALLY[0,3] p) EQUIV q",
    "(NEXT[0,3] p) AND NOT NEXT[1,5] p",
    "(NEXT[1,2] (p SINCE q)) EQUIV NEXT[0,3] (p SINCE q)",
]

MIXED = [
    "(ALWAYS[1,10] p) OR ((PREVIOUS[1,7] EVENTUALLY[1,10] p)"
    " IMPLIES ((p AND q) OR EVENTUALLY[0,6] p))",
    "EVENTUALLY[0,9] ((EVENTUALLY[0,5] p) IFF q)",
    "ONCE[0,9] ((EVENTUALLY[0,5] p) IFF q)",
    "(EVENTUALLY[0,5] NEXT p) EQUIV q",
    "(EVENTUALLY[0,5] p) AND NOT PREVIOUS EVENTUALLY[0,5] p",
    "(EVENTUALLY[0,3] p) IMPLIES ALWAYS[1,1] EVENTUALLY[0,3] p",
    "((EVENTUALLY[0,3] p) EQUIV q) AND ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
]


def test_polarities_by_hand() -> None:
    for formula in map(parse, UNATE):
        assert is_unate(formula)
        assert modes_are_alike(formula)
    for formula in map(parse, FLAT_MIXED):
        assert is_flat(formula)
        assert modes_are_alike(formula)
        assert not is_unate(formula)
    for formula in map(parse, MIXED):
        assert not modes_are_alike(formula)
    assert not is_flat(parse("ONCE[0,5] EVENTUALLY[0,5] p"))
    assert modes_are_alike(parse("(EVENTUALLY p) EQUIV NEXT EVENTUALLY p"))


@settings(max_examples=200)
@given(st.one_of(strategies.bounded_formulas(), strategies.sandwiches(), strategies.compounds()))
def test_the_network_is_chosen_for_nested_formulas(formula: Formula) -> None:
    """Of those whose future is bounded, up to a number of unknowns."""
    waiting = [f for f in subformulas(folded(formula)) if f.interval is not None and looks_ahead(f)]
    fits = is_bounded(formula) and len(waiting) <= MOST_VARIABLES
    assume(not (fits and is_flat(formula)))
    program = compile_formula(formula)
    choice = choose_engine(program.rows, program.root, program.is_bounded, "local")
    assert choice.name == ("network" if fits else "expressions")


@pytest.mark.parametrize(
    ("formula", "trace", "known"),
    [
        ("HISTORICALLY[0,1] ((EVENTUALLY[0,1] r) IFF p)", "@0 p; @1", ["", "1:0 false", ""]),
        # Both windows end at 10, and from 1 on they are the same.
        (MIXED[0], "@0; @4", ["0:0 true", "4:0 true", ""]),
    ],
)
def test_mode_global_can_know_the_value_of_a_mixed_formula_earlier(
    formula: str, trace: str, known: list[str]
) -> None:
    """Boolean simplification sees that two uses of one obligation cancel out."""
    steps = steps_of(trace)
    assert run_steps(Job(parse(formula), steps, "global")) == output_of(known)
    expressions = Job(parse(formula), steps, "naive")
    assert run_steps(expressions, make_with_expressions) == output_of(known)
    for mode in DEFINED_MODES:
        late = by_definition(formula, trace, mode=mode)
        assert run_steps(Job(parse(formula), steps, mode)) == late
        with pytest.raises(AssertionError, match="moment 1: known in one output only"):
            check_same_values(output_of(known), late)
