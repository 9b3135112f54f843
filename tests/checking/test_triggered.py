"""How often left sides of implications hold is what the semantics says, and changes no verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, always, parse
from mtlmon.policy import parse_policies
from tests.checking.logs import Event, Log, lines_of, logs, policies
from tests.checking.test_check_snapshot import Relay
from tests.checking.test_log_check import some_events
from tests.doors import LogCheck, antecedent_of
from tests.reference.evaluator import evaluate
from tests.strategies import formulas
from tests.traces import Event as TimePoint
from tests.traces import Prefix

OPTIONS: list[dict[str, Any]] = [
    {},
    {"verdicts": "none"},
    {"verdicts": "false", "resolve": True, "collect": True},
    {"advance_every": 3},
]


def held(left: Formula, events: list[Event], *, has_keys: bool) -> int:
    """At how many time-points the left side is true, if no event follows."""
    traces: dict[str, list[TimePoint]] = {}
    for time_stamp, key, atoms in events:
        traces.setdefault(key if has_keys else "", []).append(TimePoint(time_stamp, atoms))
    return sum(
        value is True
        for trace in traces.values()
        for value in evaluate(left, Prefix(tuple(trace), trace[-1].time_stamp, closed=True))
    )


@pytest.mark.parametrize(
    ("formula", "left", "is_own"),
    [
        ("p IMPLIES q", "p", True),
        ("p IMPLIES q IMPLIES r", "p", True),
        ("ALWAYS[0,5] (p AND q IMPLIES NEXT r)", "p AND q", False),
        ("HISTORICALLY ALWAYS (p IMPLIES q)", "p", False),
    ],
)
def test_left_sides(formula: str, left: str, is_own: bool) -> None:
    assert antecedent_of(parse(formula)) == (parse(left), is_own)


@pytest.mark.parametrize("formula", ["p", "NOT p OR q", "p EQUIV q", "ONCE (p IMPLIES q)"])
def test_no_left_side(formula: str) -> None:
    assert antecedent_of(parse(formula)) is None


def test_left_sides_with_variables() -> None:
    (policy,) = parse_policies("policy x: FORALL x. (p(x) IMPLIES q(x))").policies
    found = antecedent_of(policy.formula)
    assert found is not None
    assert (str(found.formula), found.is_own) == ("p(x)", True)


@given(
    formulas(depth=2),
    formulas(depth=2),
    logs([0, 0, 1, 1, 2, 3, 9]),
    st.sampled_from(["naive", "local", "global"]),
    st.booleans(),
    st.sampled_from(OPTIONS),
)
def test_any_implication(
    left: Formula,
    right: Formula,
    events: list[Event],
    mode: Any,
    has_keys: bool,
    options: dict[str, Any],
) -> None:
    asked = policies(left >> right, right, always(left >> right, 0, 3), left >> ~right)
    plain = LogCheck(asked, mode, **options)
    expected = lines_of(plain, Log(events, [4], has_keys=has_keys), "inf")
    assert plain.triggered == [None] * 4
    check = LogCheck(asked, mode, **options, counts_triggered=True)
    assert lines_of(check, Log(events, [4], has_keys=has_keys), "inf") == expected
    assert check.counts == plain.counts
    assert check.partitions == plain.partitions
    count = held(left, events, has_keys=has_keys)
    again = antecedent_of(right)
    of_right = None if again is None else held(again.formula, events, has_keys=has_keys)
    found = [None if one is None else one.times for one in check.triggered]
    assert found == [count, of_right, count, count]
    assert check.counts[0].false <= count


def test_a_check_that_stops_does_not_count() -> None:
    events: list[Event] = [(1, "a", frozenset("p")), (2, "a", frozenset()), (3, "a", frozenset())]
    asked = policies("p IMPLIES NEXT q", "(EVENTUALLY r) IMPLIES q")
    check = LogCheck(asked, verdicts="first", counts_triggered=True)
    assert lines_of(check, Log(events, [1], has_keys=False)) == ["0\t1:0 false"]
    assert check.triggered == [None, None]


@pytest.mark.parametrize("options", [{}, {"verdicts": "none"}, {"advance_every": 3}])
def test_snapshots_keep_the_counts(options: dict[str, Any]) -> None:
    asked = policies(
        "p IMPLIES EVENTUALLY[0,5] q", "q", "ALWAYS[0,9] ((EVENTUALLY[0,4] q) IMPLIES p)"
    )
    events = some_events("triggered", 200, 30)
    check = LogCheck(asked, **options, counts_triggered=True)
    expected = lines_of(check, Log(events, [1, 300], has_keys=True), "last")
    relay = Relay(
        lambda: LogCheck(asked, **options, counts_triggered=True), events, [3, 50], has_keys=True
    )
    assert relay.run("last") == expected
    assert relay.check.triggered == check.triggered
    assert check.triggered[1] is None


def test_snapshots_of_checks_that_count_something_else() -> None:
    asked = policies("p IMPLIES q")
    snapshot = LogCheck(asked).snapshot()
    with pytest.raises(Exception, match="counts other left sides"):
        LogCheck(asked, counts_triggered=True).restore(snapshot)
