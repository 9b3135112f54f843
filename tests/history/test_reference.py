"""The reference of histories: named cases, and a checker that can fail."""

from __future__ import annotations

import pytest

from mtlmon import parse
from tests.history.cases import Case, load_cases, parse_arrival
from tests.reference.changelog import Collapsed, changelog_of, holds, parse_line
from tests.reference.history import (
    Arrival,
    State,
    evaluated,
    monitored,
    state_after,
    states_of,
)

CASES = load_cases()


def states_of_case(case: Case) -> list[State]:
    judge = evaluated(case.formula)
    return states_of(
        case.batches, case.lateness, judge, case.clock, case.end_time, equality=case.equality
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases(case: Case) -> None:
    states = states_of_case(case)
    changelog = changelog_of(states)
    assert [sorted(lines) for lines in changelog] == [sorted(lines) for lines in case.lines]
    last = states[-1]
    assert last.refused == case.refused
    assert (last.unmatched, last.duplicates) == (case.unmatched, case.duplicates)
    holds(changelog, states, exactly=True)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_latest_state_does_not_depend_on_batches(case: Case) -> None:
    arrivals = [arrival for batch in case.batches for arrival in batch]
    judge = evaluated(case.formula)
    known = (case.lateness, judge, case.clock, case.end_time)
    one = states_of([arrivals], *known, equality=case.equality)
    many = states_of([[a] for a in arrivals], *known, equality=case.equality)
    assert one[-1] == many[-1] == states_of_case(case)[-1]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_monitor_judges_like_the_evaluator(case: Case) -> None:
    states = states_of_case(case)
    judge = monitored(case.formula)
    found = states_of(
        case.batches, case.lateness, judge, case.clock, case.end_time, equality=case.equality
    )
    for state, other in zip(states, found, strict=True):
        assert {name: state.value(name) for name in state.verdicts} == {
            name: other.value(name) for name in other.verdicts
        }
    holds(changelog_of(found), found, exactly=True)
    holds(changelog_of(found), states)


def batch(text: str) -> list[Arrival]:
    return [parse_arrival(arrival) for arrival in text.split("; ")]


RESPONSE = evaluated(parse("EVENTUALLY[0,5] p"))
ANSWERED = [batch("@1; @1; id=a @3 p"), batch("retract a"), batch("@9")]
STATES = states_of(ANSWERED, 8, RESPONSE)


@pytest.mark.parametrize(
    "changelog",
    [
        [
            ["1:0 true", "1:1 true", "3:0 true"],
            ["!1:0", "!1:1", "!x3:0"],
            ["!1:0 false", "!1:1 false"],
        ],
        # Followers need no line.
        [["1:1 = 1:0", "1:0 true", "3:0 true"], ["!1:0", "!x3:0"], ["!1:0 false"]],
        # Lines in between, also some that were wrong for a moment.
        [
            ["1:0 true", "3:0 false", "!3:0 true", "1:1 true"],
            ["!1:0 false", "!1:0", "!x3:0", "!1:1"],
            ["!1:1 = 1:0", "!1:0 false"],
        ],
        # Final below 1, as an event at 1 may still come.
        [["1:1 = 1:0", "1:0 true", "3:0 true"], ["!1:0", "!x3:0"], ["!1:0 false", "!@1"]],
    ],
)
def test_accepted_changelogs(changelog: list[list[str]]) -> None:
    holds(changelog, STATES)


GOOD = [["1:1 = 1:0", "1:0 true", "3:0 true"], ["!1:0", "!x3:0"], ["!1:0 false"]]


@pytest.mark.parametrize(
    ("number", "lines", "message"),
    [
        (0, ["1:1 = 1:0", "1:0 false", "3:0 true"], "1:0 is True, not False, after batch 0"),
        (0, ["1:1 = 1:0", "1:0 true"], "3:0 is True, not None, after batch 0"),
        (0, ["1:1 = 1:0", "!1:0 true", "3:0 true"], "!1:0 true: the first line about it"),
        (0, ["1:1 true", "1:1 true"], "1:1 true: not the first line about it"),
        (0, ["1:1 = 1:0", "1:0 = 1:1", "3:0 true"], "1:0 = 1:1: not earlier after batch 0"),
        (0, ["1:1 = 1:0", "1:0 true", "3:0 true", "4:0 true"], "4:0 is no time-point after"),
        (0, ["1:1 = 0:0", "1:0 true", "3:0 true"], "1:1 = 0:0: refers to no time-point after"),
        (0, ["1:1 = 1:0", "1:0 true", "!x3:0"], "['3:0'] were not retracted after batch 0"),
        (1, ["!1:0"], "3:0 has been retracted after batch 1"),
        (1, ["!1:0 true", "!x3:0"], "!1:0 true: says what was said"),
        (1, ["!x3:0", "!1:0", "!3:0 true"], "3:0 has been retracted after batch 1"),
        (2, [], "1:0 is False, not None, after batch 2"),
        (2, ["!1:0 false", "!@2"], "!@2: verdicts from 1 on may still change after batch 2"),
        (2, ["!@1", "!@1"], "!@1: the bound has not moved"),
    ],
)
def test_refused_changelogs(number: int, lines: list[str], message: str) -> None:
    changelog = [lines if k == number else good for k, good in enumerate(GOOD)]
    with pytest.raises(AssertionError) as caught:
        holds(changelog, STATES)
    assert str(caught.value).startswith(message)


def test_final_bounds_are_held_against_later_batches() -> None:
    states = states_of([batch("@1; @6"), batch("@4 p; @9")], 3, RESPONSE)
    changelog = [[], ["1:0 true", "4:0 true"]]
    holds(changelog, states)
    with pytest.raises(
        AssertionError, match="!@2: verdicts from 1 on may still change after batch 0"
    ):
        holds([["!@2"], changelog[1]], states)


def test_equivalences_are_compared_on_request() -> None:
    states = states_of(ANSWERED, 8, monitored(parse("EVENTUALLY[0,5] p")))
    holds(GOOD, states, exactly=True)
    spelt_out = [
        ["1:1 true", "1:0 true", "3:0 true"],
        ["!1:0", "!1:1", "!x3:0"],
        ["!1:0 false", "!1:1 false"],
    ]
    holds(spelt_out, states)
    with pytest.raises(AssertionError, match="in place of 1:1 = 1:0, after batch 0"):
        holds(spelt_out, states, exactly=True)


def test_lines() -> None:
    for line in ("5:0 true", "!5:0 false", "!5:0", "!x5:1", "!@17", "a\tb\t!5:1 = 5:0", "a\t!@3"):
        assert str(parse_line(line)) == line
    for line in ("x5:0", "!x5:0 true", "@17", "!5:0  true", "!!5:0", "!5", "", "! 5:0"):
        with pytest.raises(ValueError, match="not a verdict"):
            parse_line(line)


def test_bounds_by_key() -> None:
    collapsed = Collapsed()
    collapsed.read("a\t!@5")
    collapsed.read("b\t4:0 true")
    with pytest.raises(AssertionError, match="below the final bound"):
        collapsed.read("a\t4:0 true")
    collapsed.read("!@6")
    with pytest.raises(AssertionError, match="below the final bound"):
        collapsed.read("b\t5:0 true")


def test_what_is_counted() -> None:
    state = state_after(batch("@9; id=a @1; retract x; @9"), 3, RESPONSE, "all", "last")
    assert (state.refused, state.unmatched) == ((1,), 1)
    assert state.final_below[""] > 9


def test_what_is_final() -> None:
    """No event that may still come is in the window of `2:0`."""
    assert state_after(batch("@2; @3; @9; @12"), 4, RESPONSE).final_below == {"": 3}
    assert state_after(batch("@2; @3; @9; @12"), 3, RESPONSE).final_below == {"": 9}
    assert state_after(batch("@2; @3; @9; @12"), None, RESPONSE).final_below == {"": 0}
    # Without the last two, `2:0` would be open.
    assert state_after(batch("@2; @3; id=a @9; id=b @12"), 4, RESPONSE).final_below == {"": 2}
    # The time of b has not come beyond 3.
    arrivals = batch("key=a @2; key=b @3; key=a @9; key=a @14")
    assert state_after(arrivals, 2, RESPONSE).final_below == {"a": 9, "b": 3, "": 3}
    assert state_after(arrivals, 2, RESPONSE, "key").final_below == {"a": 9, "b": 1, "": 0}
