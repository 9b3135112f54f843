from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon import Formula, parse
from tests.analysis.finite import Trace, holds
from tests.analysis.strategies import formulas, traces
from tests.doors import decision_delay, future_reach, past_reach

MAXIMUM = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "future", "past", "bounded"),
    [
        ("p", 0, 0, True),
        ("true", 0, 0, True),
        ("NEXT[2,5] p", 5, 0, True),
        ("NEXT p", None, 0, True),
        ("PREVIOUS[2,5] p", 0, 5, True),
        ("PREVIOUS p", 0, None, True),
        ("p UNTIL[2,5] q", 5, 0, True),
        ("p UNTIL q", None, 0, False),
        ("p SINCE[2,5] q", 0, 5, True),
        ("p SINCE q", 0, None, True),
        ("ALWAYS[0,10] (p -> EVENTUALLY[0,3] q)", 13, 0, True),
        ("ALWAYS[0,10] (p -> ONCE[0,3] q)", 10, 3, True),
        ("ONCE[4,9] EVENTUALLY[0,3] q", 0, 9, True),
        ("ONCE[2,9] EVENTUALLY[0,3] q", 1, 9, True),
        ("(EVENTUALLY[0,3] p) SINCE[4,9] EVENTUALLY[0,5] q", 3, 9, True),
        ("PREVIOUS[2,9] EVENTUALLY[0,3] q", 1, 9, True),
        ("PREVIOUS[2,9] EVENTUALLY q", None, 9, False),
        ("p WEAK_UNTIL[1,4] q", 4, 0, True),
        ("p WEAK_UNTIL q", None, 0, False),
        ("p RELEASE q", None, 0, False),
        ("p TRIGGER[3,7] EVENTUALLY[0,5] q", 2, 7, True),
        (f"EVENTUALLY[0,{MAXIMUM}] EVENTUALLY[0,{MAXIMUM}] p", 2 * MAXIMUM, 0, True),
        # The literature's future reach lets a subformula's reach be negative.
        ("(PREVIOUS[3,3] p) UNTIL[0,5] (PREVIOUS[3,3] q)", 2, 3, True),
        ("NEXT[0,5] (PREVIOUS[3,3] q)", 2, 3, True),
        ("EVENTUALLY[0,5] (PREVIOUS[3,3] q)", 5, 3, True),
    ],
)
def test_reaches(text: str, future: int | None, past: int | None, bounded: bool) -> None:
    formula = parse(text)
    assert future_reach(formula) == future
    assert past_reach(formula) == past
    assert formula.is_bounded is bounded


def test_a_decision_may_come_after_the_future_reach() -> None:
    formula = parse("(PREVIOUS[3,3] p) UNTIL[0,5] (PREVIOUS[3,3] q)")
    assert future_reach(formula) == 2
    assert decision_delay(formula) == 5
    before: Trace = [(0, frozenset("p")), (3, frozenset("q"))]
    assert holds(formula, [*before, (6, frozenset())], 1)
    assert not holds(formula, [*before, (7, frozenset())], 1)


@given(formulas())
def test_the_delay_is_no_shorter_than_the_reach(formula: Formula) -> None:
    reach, delay = future_reach(formula), decision_delay(formula)
    assert (reach is None) == (delay is None)
    assert reach is None or delay is None or 0 <= reach <= delay


@given(formulas(), traces(), st.integers(0, 7), st.data())
def test_what_is_later_does_not_matter(
    formula: Formula, trace: Trace, i: int, data: st.DataObject
) -> None:
    delay = decision_delay(formula)
    assume(delay is not None)
    assert delay is not None
    i %= len(trace)
    end = trace[i][0] + delay
    other = [event for event in trace if event[0] <= end] + data.draw(traces(start=end + 1))
    assert holds(formula, trace, i) == holds(formula, other, i)


@given(formulas(), traces(start=20), st.integers(0, 7), st.data())
def test_what_is_earlier_does_not_matter(
    formula: Formula, trace: Trace, i: int, data: st.DataObject
) -> None:
    reach = past_reach(formula)
    assume(reach is not None)
    assert reach is not None
    i %= len(trace)
    begin = trace[i][0] - reach
    kept = [event for event in trace if event[0] >= begin]
    earlier = [event for event in data.draw(traces()) if event[0] < begin]
    moved = i - (len(trace) - len(kept)) + len(earlier)
    assert holds(formula, trace, i) == holds(formula, earlier + kept, moved)
