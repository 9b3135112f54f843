"""The engine on formulas of MonPoly's language, against the reference, on random logs."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError, TimeStampError
from mtlmon.monpoly import MonPolyMonitor, MonPolyPolicy, TimePoint, read_policy, read_signature
from mtlmon.relational import analyse
from tests.monpoly.oracle import expected_output
from tests.monpoly.own_cases import CASES, SIGNATURE

_SIGNATURE = read_signature(SIGNATURE)
_VALUES = {
    "int": st.integers(-1, 3),
    "float": st.sampled_from([-1.0, 0.0, 0.5, 2.0]),
    "string": st.sampled_from(["a", "ab", "b", "1"]),
    "regexp": st.sampled_from(["a", r"\(a\)b*", "[b]"]),
}


def output(policy: MonPolyPolicy, points: list[TimePoint], *, adds_last: bool) -> str:
    """What the engine makes of a log."""
    monitor = MonPolyMonitor(policy, adds_last=adds_last)
    return "".join([*map(monitor.step, points), monitor.finish()])


@st.composite
def logs(draw: st.DrawFn, policy: MonPolyPolicy) -> list[TimePoint]:
    """Logs with rows of the relations of a formula."""
    points = []
    time_stamp = 0
    for _ in range(draw(st.integers(0, 5))):
        time_stamp += draw(st.sampled_from([0, 0, 1, 2, 60]))
        rows = {}
        for name, inner in policy.relations.items():
            row = st.tuples(*(_VALUES[kind] for kind in _SIGNATURE[name]))
            if found := draw(st.lists(row, max_size=3)):
                rows[inner] = found
        points.append(TimePoint(time_stamp, rows))
    return points


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=5)
def test_the_engine_agrees_with_the_reference(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    policy = read_policy(case.formula, _SIGNATURE, negate=case.negate)
    points = data.draw(logs(policy))
    adds_last = data.draw(st.booleans())
    expected = expected_output(policy, points, adds_last=adds_last)
    found = output(policy, points, adds_last=adds_last)
    if adds_last:
        assert found == expected
    else:
        # what no later time-point changes may be known to the reference alone
        assert expected.startswith(found)
        check_nothing_is_missing(policy, points)


def check_nothing_is_missing(policy: MonPolyPolicy, points: list[TimePoint]) -> None:
    """What time-points find is written once others are so far behind that nothing is open."""
    last = points[-1].time_stamp if points else 0
    more = [*points, *(TimePoint(last + number * 10_000, {}) for number in range(1, 6))]
    expected = expected_output(policy, more, adds_last=False)
    found = output(policy, more, adds_last=False)
    assert first_lines(found, len(points)) == first_lines(expected, len(points))


def first_lines(text: str, count: int) -> list[str]:
    """The lines of so many time-points."""
    numbered = re.findall(r"^(@.*? \(time point (\d+)\):.*)$", text, re.MULTILINE)
    assert len(numbered) == text.count("\n")
    return [line for line, number in numbered if int(number) < count]


_LEAVES = st.sampled_from(
    ["p(x)", "p(y)", "q(x, y)", "q(y, x)", "q(x, x)", "q(x, _)", "r()", "x = 1", "x < y"]
)
_INTERVALS = st.sampled_from(["", "[0,1]", "[1,2)", "(0,3]", "[0,*)"])


def _extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operands = inner.map(lambda text: f"({text})")
    past = st.sampled_from(["ONCE", "PREV", "NEXT", "NOT", "HISTORICALLY"])
    return st.one_of(
        st.builds("{} AND {}".format, inner, operands),
        st.builds("{} AND NOT {}".format, inner, operands),
        st.builds("{} OR {}".format, operands, inner),
        st.builds("{} SINCE{} {}".format, operands, _INTERVALS, operands),
        st.builds("{} UNTIL[0,2] {}".format, operands, operands),
        st.builds("EVENTUALLY[0,2] {}".format, inner),
        st.builds(
            lambda word, interval, text: f"{word}{'' if word == 'NOT' else interval} {text}",
            past,
            _INTERVALS,
            operands,
        ),
        st.builds("EXISTS {}. {}".format, st.sampled_from("xy"), inner),
        st.builds("x <- {} y; x {}".format, st.sampled_from(["CNT", "SUM", "MAX"]), operands),
        st.builds("y <- {} x {}".format, st.sampled_from(["CNT", "MIN", "AVG"]), operands),
        st.builds("LET p(x) = {} IN {}".format, operands, inner),
    )


@given(st.recursive(_LEAVES, _extended, max_leaves=5), st.booleans(), st.data())
@settings(max_examples=50)
def test_random_formulas(text: str, negate: bool, data: st.DataObject) -> None:
    try:
        policy = read_policy(text, _SIGNATURE, negate=negate)
    except MtlmonError:
        reject()
    assume(not analyse(policy.file).errors)
    points = data.draw(logs(policy))
    try:
        found = output(policy, points, adds_last=True)
    except MtlmonError:
        # the engine cannot follow every left side of UNTIL
        reject()
    assert found == expected_output(policy, points)


def test_texts_that_are_forgotten() -> None:
    """The engine forgets texts that no window holds any more, and gives their numbers to others."""
    policy = read_policy("t(x, y) AND NOT ONCE[1,3] EXISTS y. t(x, y)", _SIGNATURE)
    monitor = MonPolyMonitor(policy)
    for number in range(3000):
        names = [f"n{number}", f"n{number - 2}", f"n{number - 9}"]
        point = TimePoint(number, {"t": [(name, 1) for name in names]})
        # the second was there two time-units ago, and the third is so late that it is new again
        expected = sorted(names if number < 2 else [names[0], names[2]])
        rows = " ".join(f'("{name}",1)' for name in expected)
        assert monitor.step(point) == f"@{number} (time point {number}): {rows}\n"


def test_a_time_point_in_the_past_is_refused() -> None:
    monitor = MonPolyMonitor(read_policy("t(x, y)", _SIGNATURE))
    assert monitor.step(TimePoint(5, {"t": [("a", 1)]})) == '@5 (time point 0): ("a",1)\n'
    with pytest.raises(TimeStampError, match="between 5"):
        monitor.step(TimePoint(4, {"t": [("b", 1)]}))
    assert monitor.step(TimePoint(5, {"t": [("c", 1)]})) == '@5 (time point 1): ("c",1)\n'
