"""How many valuations match the left sides of policies, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon.errors import LimitError, MtlmonError, RowError
from mtlmon.policy import parse_policies
from mtlmon.relational.slicing import plan_slices
from tests.doors import RelationalEngine, SlicedEngine, free_variables, plan, valid_analysis
from tests.reference.first_order import Database, Log
from tests.reference.left_sides import left_side_counts
from tests.relational.formulas import logs, safe_formulas

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_TYPES = dict.fromkeys("xyz", int)


def engine_for(text: str, *, counts: bool = True) -> RelationalEngine:
    file = parse_policies(_DECLARED + text)
    analysis = valid_analysis(file)
    planned = plan(file, analysis, counts_triggered=counts)
    return RelationalEngine(planned, planned.texts)


def sliced_engine_for(text: str, slices: int) -> SlicedEngine:
    file = parse_policies(_DECLARED + text)
    analysis = valid_analysis(file)
    slicing = plan_slices(file, analysis, slices, counts_triggered=True)
    return SlicedEngine(file, analysis, slicing, threads=1)


def resliced(engine: SlicedEngine, text: str, slices: int) -> None:
    """Let the engine go on with other slices."""
    file = parse_policies(_DECLARED + text)
    exposed = engine.slicing.exposed
    engine.reslice(
        plan_slices(
            file, valid_analysis(file), slices, exposed=exposed, counts_triggered=True, seed=slices
        )
    )


def fed_slices(
    text: str, log: Log, slices: int, changes: Mapping[int, tuple[str, int]] | None = None
) -> tuple[SlicedEngine, list[tuple[object, ...]]]:
    """An engine that has read a log in slices, and its answers; other slices go on behind some of
    its time-points.
    """
    engine = sliced_engine_for(text, slices)
    found: list[tuple[object, ...]] = []
    for number, point in enumerate(log.points):
        take(engine, point)
        found += engine.answers.take()
        way, slices = (changes or {}).get(number, ("", 1))
        if way == "reslice":
            resliced(engine, text, slices)
        elif way:
            saved = engine.snapshot()
            engine = sliced_engine_for(text, slices)
            engine.restore(saved)
    engine.end(max(log.clock, engine.clock), log.closed)
    found += engine.answers.take()
    return engine, found


def take(engine: RelationalEngine | SlicedEngine, point: tuple[int, Database]) -> None:
    """Let an engine take in a time-point."""
    numbers = {atom.name: number for number, atom in enumerate(engine.plan.named_atoms)}
    time_stamp, database = point
    engine.points.add(
        time_stamp,
        [
            (numbers[name], [value for value in row if isinstance(value, int)])
            for name, rows in database.items()
            if name in numbers
            for row in rows
        ],
    )
    engine.advance()


def fed(
    text: str, log: Log, cuts: frozenset[int] = frozenset(), *, counts: bool = True
) -> tuple[RelationalEngine, list[tuple[object, ...]]]:
    """An engine that has read a log, and its answers; behind each of `cuts`, a new one goes on."""
    engine = engine_for(text, counts=counts)
    found: list[tuple[object, ...]] = []
    for number, point in enumerate(log.points):
        take(engine, point)
        found += engine.answers.take()
        if number in cuts:
            saved = engine.snapshot()
            engine = engine_for(text, counts=counts)
            engine.restore(saved)
            assert engine.snapshot() == saved
    engine.end(max(log.clock, engine.clock), log.closed)
    found += engine.answers.take()
    return engine, found


# right sides, each with the variables that it has
_RIGHT_SIDES = {
    "r": "",
    "EVENTUALLY[0,2] r": "",
    "ONCE[0,1] NOT r": "",
    "NEXT (r OR p(1))": "",
    "ONCE p(x)": "x",
    "EVENTUALLY[0,1] q(x, y)": "xy",
    "x = 1": "x",
    # a variable that the left side does not have
    "NOT q(1, z)": "",
}
_AROUND = ["{}", "{}", "{}", "ALWAYS[0,2] ({})", "HISTORICALLY[0,2] ({})"]


@st.composite
def implications(draw: st.DrawFn) -> str:
    left = draw(safe_formulas())
    names = set(free_variables(left)[id(left)])
    rights = [right for right, own in _RIGHT_SIDES.items() if names.issuperset(own)]
    text = f"({left}) IMPLIES {draw(st.sampled_from(rights))}"
    return draw(st.sampled_from(_AROUND)).format(text)


@given(implications(), logs(), st.frozensets(st.integers(0, 3)))
def test_random_left_sides(text: str, log: Log, cuts: frozenset[int]) -> None:
    try:
        engine, found = fed(f"policy f: {text}\n", log, cuts)
        plain, same = fed(f"policy f: {text}\n", log, counts=False)
    except MtlmonError:
        assume(False)
    # to count changes nothing
    assert found == same
    assert engine.found_points == plain.found_points
    assert not plain.counted_valuations
    assume(engine.counted_valuations)
    ((_, (times, violated)),) = engine.counted_valuations.items()
    (counted,) = engine.plan.counted
    assert violated == len(found)
    if log.closed:
        (policy,) = parse_policies(f"{_DECLARED}policy f: {text}\n").policies
        expected = left_side_counts(policy.formula, log, _TYPES)
        assert expected == (times, violated, counted.is_own)
        assert violated <= times or not counted.is_own


@settings(max_examples=40)
@given(
    st.lists(implications(), min_size=1, max_size=2),
    logs(),
    st.integers(1, 6),
    st.dictionaries(
        st.integers(0, 3), st.tuples(st.sampled_from(["reslice", "restart"]), st.integers(1, 6))
    ),
)
def test_slices_count_the_same(
    formulas: list[str], log: Log, slices: int, changes: dict[int, tuple[str, int]]
) -> None:
    text = "".join(f"policy f{number}: {one}\n" for number, one in enumerate(formulas))
    try:
        engine, found = fed(text, log)
    except MtlmonError:
        assume(False)
    assume(engine.counted_valuations)
    sliced, same = fed_slices(text, log, slices, changes)
    assert same == found
    assert sliced.counted_valuations == engine.counted_valuations
    assert sliced.found_points == engine.found_points
    assert sliced.answered_points == engine.answered_points


def point(
    time_stamp: int, **rows: set[tuple[int, ...]]
) -> tuple[int, dict[str, set[tuple[int, ...]]]]:
    return time_stamp, rows


LOG = Log(
    (
        point(1, p={(1,), (2,)}, q={(1, 1), (1, 2)}),
        point(2, r={()}),
        point(2, q={(1, 1), (3, 1)}),
        point(6, p={(1,)}),
    ),
    True,
)


@pytest.mark.parametrize(
    ("text", "times", "violated", "is_own"),
    [
        ("p(x) IMPLIES ONCE q(x, x)", 3, 1, True),
        ("FORALL x, y. q(x, y) IMPLIES EVENTUALLY[0,1] r", 4, 2, True),
        ("q(x, _) IMPLIES r", 3, 3, True),
        ("(EXISTS y. q(x, y)) IMPLIES r", 3, 3, True),
        # each of these valuations violates it for several values of y
        ("p(x) IMPLIES NOT q(x, y)", 3, 2, False),
        ("r IMPLIES NOT p(x)", 1, 0, False),
        ("ALWAYS[0,1] (FORALL x. p(x) IMPLIES r)", 3, 2, False),
        ("ALWAYS ((EXISTS x. p(x)) IMPLIES r)", 2, 4, False),
        ("(EVENTUALLY[0,4] p(x)) IMPLIES r", 5, 4, True),
        ("(COUNT(p(x)) > 1) IMPLIES r", 1, 1, True),
        # two values make it hold, but only once
        ("(EXISTS x. p(x)) IMPLIES r", 2, 2, True),
        ("(EXISTS x. p(x)) IMPLIES EVENTUALLY r", 2, 1, True),
        ("p(x) OR q(x, x) IMPLIES r", 4, 4, True),
        ("p(x) AND x > 5 IMPLIES r", 0, 0, True),
    ],
)
def test_named_cases(text: str, times: int, violated: int, is_own: bool) -> None:
    engine, _ = fed(f"policy f: {text}\n", LOG)
    (counted,) = engine.plan.counted
    assert engine.counted_valuations == {0: (times, violated)}
    assert counted.is_own == is_own
    for slices in (1, 2, 7):
        sliced, _ = fed_slices(f"policy f: {text}\n", LOG, slices, {1: ("restart", slices + 1)})
        assert sliced.counted_valuations == {0: (times, violated)}
        assert [one.is_own for one in sliced.plan.counted] == [is_own]


@pytest.mark.parametrize(
    "text",
    [
        "NOT p(x)",
        "NOT p(x) OR r",
        # by itself, x > 1 does not say which values x takes
        "x > 1 IMPLIES NOT p(x)",
        "(EVENTUALLY p(1)) IMPLIES EVENTUALLY r",
    ],
)
def test_what_is_not_counted(text: str) -> None:
    engine, _ = fed(f"policy f: {text}\n", LOG)
    assert not engine.plan.counted
    assert engine.counted_valuations == {}
    sliced, _ = fed_slices(f"policy f: {text}\n", LOG, 3)
    assert not sliced.plan.counted
    assert sliced.counted_valuations == {}


def test_lets_and_several_policies() -> None:
    text = (
        "let both(x, y) = q(x, y) AND p(x)\n"
        "let rule = (EXISTS x. p(x)) IMPLIES r\n"
        "policy one: both(x, y) IMPLIES r\nfind two: p(x)\npolicy three: rule\n"
    )
    engine, _ = fed(text, LOG)
    assert engine.counted_valuations == {0: (2, 2), 2: (2, 2)}
    sliced, _ = fed_slices(text, LOG, 3)
    assert sliced.counted_valuations == {0: (2, 2), 2: (2, 2)}
    assert sliced.plan.policies == engine.plan.policies


def test_snapshots_tell_whether_left_sides_are_counted() -> None:
    from mtlmon.errors import SnapshotError

    engine, _ = fed("policy f: p(x) IMPLIES r\n", LOG)
    plain = engine_for("policy f: p(x) IMPLIES r\n", counts=False)
    with pytest.raises(SnapshotError):
        plain.restore(engine.snapshot())
    text = "policy f: p(x) IMPLIES r\n"
    with pytest.raises(SnapshotError, match="without slices, which count left sides in another"):
        sliced_engine_for(text, 2).restore(engine.snapshot())
    file = parse_policies(_DECLARED + text)
    analysis = valid_analysis(file)
    uncounted = SlicedEngine(file, analysis, plan_slices(file, analysis, 2))
    with pytest.raises(SnapshotError, match="of a run that did not count left sides"):
        sliced_engine_for(text, 2).restore(uncounted.snapshot())
    with pytest.raises(SnapshotError, match="of a run that counted left sides"):
        uncounted.restore(sliced_engine_for(text, 2).snapshot())


def test_overflows_of_left_sides_are_told_by_the_policy() -> None:
    text = "policy f: p(x) AND x + 9223372036854775807 > 0 IMPLIES r\n"
    with pytest.raises(RowError, match="overflows"):
        fed(text, LOG)
    # where only the left side overflows, nothing happens
    engine = engine_for("policy f: p(x) AND x + 9223372036854775807 > 0 IMPLIES r\n")
    engine.skips_overflows = True
    numbers = {atom.name: number for number, atom in enumerate(engine.plan.named_atoms)}
    engine.points.add(1, [(numbers["p"], (1,))])
    engine.advance()
    assert engine.overflows == 1
    with pytest.raises(RowError, match="overflows"):
        fed_slices(text, LOG, 3)
    sliced = sliced_engine_for(text, 3)
    sliced.skips_overflows = True
    take(sliced, (1, {"p": {(1,)}}))
    assert sliced.overflows == 1


def test_limits_name_the_left_side() -> None:
    engine = engine_for("policy f: q(x, _) AND q(y, _) IMPLIES q(x, y) AND NOT r\n")
    left = engine.plan.counted[0].query
    assert engine.plan.words_of_query(left) == "the left side of policy f"
    engine.most_rows = 1
    engine.points.add(1, [(0, (1, 2)), (0, (2, 1))])
    with pytest.raises(LimitError):
        engine.advance()
