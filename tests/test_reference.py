"""The references themselves: by hand, against each other, and checkers that must complain."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import Formula, parse
from tests import strategies
from tests.doors import Interval, future_reach
from tests.doors import syntax_operators as ops
from tests.engines import Job, run_literally
from tests.formulas import is_bounded, latest_decision
from tests.properties import (
    Answers,
    Output,
    Timeline,
    check_modes_agree,
    check_not_behind,
    check_on_other_streams,
    check_output,
    check_prefix,
    view_of,
)
from tests.reference.evaluator import Truth, evaluate
from tests.reference.paper import (
    PaperMonitor,
    dense_size,
    kernel,
    skew,
    skewed_subformulas,
)
from tests.traces import MODES, Event, Mode, Prefix, Step, parse_step, prefix_of

Steps = tuple[Step, ...]


def steps_of(text: str) -> Steps:
    return tuple(parse_step(line) for line in text.split("; "))


def values(formula: str, trace: str, *, closed: bool = False) -> tuple[Truth, ...]:
    return evaluate(parse(formula), prefix_of(steps_of(trace), closed=closed))


@pytest.mark.parametrize(
    ("formula", "trace", "expected"),
    [
        ("p", "@1 p; @2", (True, False)),
        ("PREVIOUS[1,2] p", "@1 p; @2 p; @4; @5", (False, True, True, False)),
        ("NEXT[1,2] p", "@1; @2 p; @5 p; @6", (True, False, False, None)),
        ("ONCE[1,2] p", "@1 p; @1; @2; @3; @4", (False, False, True, True, False)),
        ("HISTORICALLY[1,2] p", "@1; @2 p; @3 p; @4", (True, False, False, True)),
        ("p SINCE[1,2] q", "@1 q; @2 p; @3; @4 q; @5 p", (False, True, False, False, True)),
        ("p TRIGGER[1,2] q", "@1; @2; @3 p q; @4", (True, False, True, True)),
        ("EVENTUALLY[1,2] p", "@1; @3 p; @4; @9", (True, False, False, None)),
        ("ALWAYS[1,2] p", "@1; @2; @3 p; @9", (False, True, True, None)),
        ("p UNTIL[1,2] q", "@1 p; @2 p q; @3; @4 p", (True, False, False, None)),
        ("p RELEASE[0,2] q", "@1 q; @2 p q; @3; @4 q", (True, True, False, None)),
        ("p WEAK_UNTIL[0,2] q", "@1 p; @2 q; @3; @4 p", (True, True, False, None)),
        ("p WEAK_UNTIL[2,3] q", "@1; @2 q; @3; @5 p", (True, True, None, None)),
        ("NOT p AND q OR p", "@1 p; @2 q; @3", (True, True, False)),
        ("p IMPLIES q", "@1 p; @2 q; @3", (False, True, True)),
        ("p EQUIV q", "@1 p; @2 p q; @3", (False, True, True)),
    ],
)
def test_evaluator_by_hand(formula: str, trace: str, expected: tuple[Truth, ...]) -> None:
    assert values(formula, trace) == expected


@pytest.mark.parametrize(
    ("formula", "trace", "expected"),
    [
        # Time alone settles what has ended, and nothing else.
        ("EVENTUALLY[0,2] p", "@1; advance 3", (None,)),
        ("EVENTUALLY[0,2] p", "@1; advance 4", (False,)),
        ("NEXT[0,2] p", "@1; advance 4", (False,)),
        ("NEXT p", "@1; advance 400", (None,)),
        ("p UNTIL q", "@1 p; advance 400", (None,)),
        # Constants say what comes, whatever comes.
        ("NEXT false", "@1", (False,)),
        ("NEXT true", "@1", (None,)),
        ("EVENTUALLY[3,5] false", "@1", (False,)),
        ("EVENTUALLY[3,5] true", "@1", (None,)),
        ("ALWAYS[3,5] (p OR true)", "@1", (True,)),
        ("q UNTIL[3,5] NEXT false", "@1 q", (False,)),
        ("q RELEASE[3,5] ONCE true", "@1", (True,)),
        ("(EVENTUALLY[4,7] b) UNTIL[0,5] true", "@1", (True,)),
        # Decided means operator by operator.
        ("(NEXT p) OR NOT (NEXT p)", "@1", (None,)),
        ("p UNTIL[0,9] q", "@1 p; @2", (False, False)),
    ],
)
def test_evaluator_is_as_early_as_promised(
    formula: str, trace: str, expected: tuple[Truth, ...]
) -> None:
    assert values(formula, trace) == expected


def test_closed_evaluation_makes_pending_false_and_duals_true() -> None:
    assert values("EVENTUALLY p", "@1", closed=True) == (False,)
    assert values("NEXT true", "@1", closed=True) == (False,)
    assert values("ALWAYS p", "@1 p", closed=True) == (True,)
    assert values("p WEAK_UNTIL q", "@1 p", closed=True) == (True,)


@given(strategies.formulas(), strategies.traces(advances=True))
def test_a_closed_prefix_decides_everything(formula: Formula, steps: Steps) -> None:
    assert None not in evaluate(formula, prefix_of(steps, closed=True))


@given(strategies.formulas(), strategies.traces(advances=True), st.data())
def test_what_is_decided_stays(formula: Formula, steps: Steps, data: st.DataObject) -> None:
    earlier = steps[: data.draw(st.integers(0, len(steps)))]
    before = evaluate(formula, prefix_of(earlier))
    for after in (prefix_of(steps), prefix_of(steps, closed=True)):
        for old, new in zip(before, evaluate(formula, after), strict=False):
            assert old is None or old is new


@given(strategies.formulas(), strategies.traces(advances=True), st.booleans())
def test_every_operator_means_what_its_definition_in_the_kernel_means(
    formula: Formula, steps: Steps, closed: bool
) -> None:
    prefix = prefix_of(steps, closed=closed)
    assert evaluate(formula, prefix) == evaluate(kernel(formula), prefix)


@given(strategies.bounded_formulas(), strategies.traces(advances=True))
def test_every_time_point_is_decided_when_its_reach_has_ended(
    formula: Formula, steps: Steps
) -> None:
    reach = latest_decision(formula)
    prefix = prefix_of(steps)
    if reach is not None:
        for event, value in zip(prefix.events, evaluate(formula, prefix), strict=True):
            assert value is not None or prefix.clock - event.time_stamp <= reach


@given(strategies.formulas())
def test_no_time_point_waits_less_than_the_future_reach(formula: Formula) -> None:
    reach, latest = future_reach(formula), latest_decision(formula)
    assert latest is None or (reach is not None and reach <= latest)


def test_skewed_subformulas_that_coincide_are_one() -> None:
    formula = kernel(parse("(EVENTUALLY[2,5] p) AND (EVENTUALLY[0,3] p)"))
    intervals = {str(f.interval) for f in skewed_subformulas(formula) if f.operator is ops.UNTIL}
    assert intervals == {"[2,5]", "[1,4]", "[0,3]", "[0,2]", "[0,1]", "[0,0]"}
    assert skew(Interval(2, None), 5) == Interval(0, None)
    assert skew(Interval(2, 4), 5) is None
    assert dense_size(parse("EVENTUALLY[2,5] p")) == 7


@pytest.mark.parametrize("mode", ["local", "global"])
def test_the_running_example_literally(mode: Mode) -> None:
    """As in the paper: each time-point is answered at the next event at the earliest."""
    monitor = PaperMonitor(parse("a UNTIL[0,1] b"), mode)
    trace = steps_of("@1 a; @2 a; @2 a; @3 b; @4 a b; @9")
    output = [", ".join(map(str, monitor.step(*step))) for step in trace if isinstance(step, Event)]
    assert output == ["", "", "", "1:0 false, 2:1 = 2:0", "2:0 true, 3:0 true", "4:0 true"]


def one_later(output: Output) -> Output:
    """The same answers, each one step later than it was given."""
    return ((), *output[:-1])


@settings(max_examples=200)
@given(strategies.formulas(depth=2), strategies.traces())
def test_the_literal_algorithm_agrees_with_the_evaluator(formula: Formula, steps: Steps) -> None:
    closed = evaluate(formula, prefix_of(steps, closed=True))
    timeline = Timeline(steps)
    resolved = {}
    for mode in MODES:
        answers = Answers(run_literally(Job(formula, steps, mode))).moments[-1]
        for point, value in answers[1].items():
            assert value is closed[timeline.number[point]]
        resolved[mode] = answers[1]
    assert resolved["naive"] == resolved["local"] == resolved["global"]


@settings(max_examples=200)
@given(
    strategies.formulas(depth=2).filter(lambda f: not _has_constants(f)),
    strategies.traces(maximum_length=6),
)
def test_the_literal_algorithm_answers_all_that_is_decided(formula: Formula, steps: Steps) -> None:
    """By the last event's time-stamp, without its letter; it does not fold constants."""
    *earlier, last = prefix_of(steps).events
    known = evaluate(formula, Prefix(tuple(earlier), last.time_stamp))
    answers = Answers(run_literally(Job(formula, steps, "naive"))).moments[-1][1]
    names = Timeline(steps).points
    for i, value in enumerate(known):
        assert value is None or answers[names[i]] is value


def _has_constants(formula: Formula) -> bool:
    own = formula.operator in {ops.TRUE, ops.FALSE}
    return own or any(map(_has_constants, formula.operands))


EXAMPLE = "a UNTIL[0,1] b", "@1 a; @2 a; @2 a; @3 b; @4 a b"
GOOD = ["", "", "2:1 = 2:0", "1:0 false, 2:0 true, 3:0 true", "4:0 true", ""]


def check(rows: list[str], mode: Mode, formula: str, trace: str) -> None:
    parsed, timeline = parse(formula), Timeline(steps_of(trace))
    check_output(view_of(parsed, timeline), timeline, mode, output_of(rows))


def output_of(rows: list[str]) -> Output:
    return tuple(tuple(filter(None, row.split(", "))) for row in rows)


def test_the_checker_accepts_what_is_right() -> None:
    check(GOOD, "local", *EXAMPLE)
    check(GOOD, "global", *EXAMPLE)


@pytest.mark.parametrize(
    ("complaint", "changes"),
    [
        ("second verdict", {4: "4:0 true, 4:0 true"}),
        ("no such time-point", {0: "2:0 true"}),
        ("no such time-point", {4: "4:0 true, 7:7 true"}),
        ("not in time-point order", {3: "2:0 true, 1:0 false, 3:0 true"}),
        ("written before", {3: "3:0 true", 4: "1:0 false, 2:0 true, 4:0 true"}),
        ("not answered", {4: ""}),
        ("not answered", {2: "", 3: "1:0 false, 2:0 true, 3:0 true"}),
        ("wrong if the stream ends", {4: "4:0 false"}),
        ("wrong if the stream ends", {1: "1:0 true", 3: "2:0 true, 3:0 true"}),
        ("across time-stamps", {1: "2:0 = 1:0", 2: "2:1 = 1:0", 3: "1:0 false, 3:0 true"}),
        ("refers to no earlier", {2: "2:0 = 2:1"}),
        ("refers to a time-point that has a verdict", {4: "4:0 = 3:0"}),
        ("it is decided", {2: "", 3: "1:0 false, 2:0 true, 2:1 = 2:0, 3:0 true"}),
        ("not a verdict", {4: "4:0 yes"}),
    ],
)
def test_the_checker_complains(complaint: str, changes: dict[int, str]) -> None:
    rows = [changes.get(k, row) for k, row in enumerate(GOOD)]
    with pytest.raises((AssertionError, ValueError)) as caught:
        check(rows, "local", *EXAMPLE)
    known = (complaint, "refers to", "it is decided") if "decided" in complaint else (complaint,)
    assert any(words in str(caught.value) for words in known)


def test_a_right_guess_is_found_out_on_other_streams() -> None:
    """1:0 turns out false, but with b at 2 it would have been true."""
    parsed, timeline = parse(EXAMPLE[0]), Timeline(steps_of(EXAMPLE[1]))
    guess = output_of(["", "1:0 false", *GOOD[2:]])
    with pytest.raises(AssertionError, match=r"1:0 false: wrong if the stream ends after moment 1"):
        for seed in range(20):
            check_on_other_streams(parsed, timeline, guess, Random(seed))


def test_the_checker_complains_of_equivalences_in_naive() -> None:
    with pytest.raises(AssertionError, match="mode naive"):
        check(GOOD, "naive", *EXAMPLE)


def test_the_checker_complains_of_a_wrong_equivalence() -> None:
    """Neither is decided when it is said; only the b at 3 tells them apart."""
    with pytest.raises(AssertionError, match="2:0 = 1:0: wrong if the stream ends at moment 3"):
        check(["", "2:0 = 1:0", "", "1:0 false, 3:0 true", "4:0 true", ""], "global", *EXAMPLE)


def test_the_checker_complains_of_a_late_equivalence_for_the_decided() -> None:
    with pytest.raises(AssertionError, match="1:0 is True, not answered"):
        check(["", "1:1 = 1:0", ""], "local", "EVENTUALLY[0,3] p", "@1; @1 p")


def test_modes_that_disagree_are_found() -> None:
    good, late = output_of(["", "1:0 true", ""]), output_of(["", "", "1:0 true"])
    check_modes_agree({"naive": good, "local": good, "global": good}, bounded=True)
    with pytest.raises(AssertionError, match="differ at moment 1"):
        check_modes_agree({"naive": good, "local": late, "global": good}, bounded=True)
    short = output_of(["", "1:0 true"])
    with pytest.raises(AssertionError, match="global has 2 moments, not 3"):
        check_modes_agree({"naive": good, "local": good, "global": short}, bounded=True)
    merged, apart = output_of(["", "2:0 = 1:0", ""]), output_of(["", "", ""])
    with pytest.raises(AssertionError, match="must run as global"):
        check_modes_agree({"naive": apart, "local": apart, "global": merged}, bounded=False)


def test_lagging_behind_the_literal_algorithm_is_found() -> None:
    literal = output_of(["", "2:0 = 1:0", "1:0 true"])
    check_not_behind(literal, literal)
    check_not_behind(output_of(["", "2:0 = 1:0, 1:0 true", ""]), literal)
    with pytest.raises(AssertionError, match="has answered"):
        check_not_behind(one_later(literal), literal)


def test_an_output_that_changes_with_the_future_is_found() -> None:
    whole = output_of(["", "1:0 true", ""])
    check_prefix(output_of(["", ""]), whole, 1)
    with pytest.raises(AssertionError, match="no prefix"):
        check_prefix(output_of(["1:0 true", ""]), whole, 1)


def test_boundedness_is_about_until_alone() -> None:
    assert is_bounded(parse("NEXT ONCE p"))
    assert not is_bounded(parse("ONCE (p RELEASE[3,*) q)"))
