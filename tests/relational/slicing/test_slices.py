"""Plans of slices: shares, owners, and that slices together answer what one monitor does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError, LimitError, PolicyError
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import PolicySlices, Slicing, Statistics, plan_slices
from tests.doors import RelationalEngine, Value, best_shares, expected_load, plan
from tests.doors import SliceLoad as Load
from tests.reference.first_order import Log
from tests.reference.slicing import hashed, owner, rows_of_slices, slices_of
from tests.relational.formulas import logs, safe_formulas

DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


def sliced(text: str, slices: int, statistics: Statistics | None = None, seed: int = 0) -> Slicing:
    file = parse_policies(text)
    analysis = analyse(file)
    assert not analysis.errors, analysis.errors
    return plan_slices(file, analysis, slices, statistics=statistics, seed=seed)


def only(text: str, slices: int, statistics: Statistics | None = None) -> PolicySlices:
    (found,) = sliced(text, slices, statistics).policies
    return found


# Computed by Spark 4.3: xxhash64(cast(7 as bigint), x).
SPARK = [
    (0, -4457042067931036189),
    (1, 3110148328363424865),
    (-1, 931983307523278007),
    (2**63 - 1, -4966806732458144142),
    (-(2**63), 6431210648012042434),
    (0.0, -4457042067931036189),
    (-0.0, -4457042067931036189),
    (1.5, -6640084042037716094),
    (-2.25, -1619087713718028471),
    (float("inf"), 3482950452229649547),
    ("", -783033954723276226),
    ("abc", -3681078997601013626),
    ("abcd", 247497006147837590),
    ("abcdefgh", 1405376523028264676),
    ("ümlaut €", 7049283169913991754),
    ("0123456789abcdef", 2661547159398198483),
    ("x" * 31, 3588174683985331749),
    ("y" * 32, 6165774876201278933),
    ("z" * 33, 8410325719728367618),
    ("publish/" * 13 + "q", 4557058116288873785),
]


@pytest.mark.parametrize(("value", "expected"), SPARK)
def test_the_reference_hashes_as_spark_does(value: Value, expected: int) -> None:
    assert hashed(value, 7) == expected


def test_seeds_may_be_negative() -> None:
    assert hashed(42, -5000000000) == 7024896426710606020


STAR = "find f: (ONCE[0,10] p(x)) AND q(x, y) AND EVENTUALLY[0,10] q(x, z)"
LINEAR = "find f: (ONCE[0,10] q(x, y)) AND q(y, z) AND EVENTUALLY[0,10] q(z, w)"
TRIANGLE = "find f: (ONCE[0,10] q(x, y)) AND q(y, z) AND EVENTUALLY[0,10] q(z, x)"


@pytest.mark.parametrize(
    ("formula", "expected"), [(STAR, (16,)), (LINEAR, (4, 4)), (TRIANGLE, (2, 2, 4))]
)
def test_shares_of_the_formulas_of_the_paper(formula: str, expected: tuple[int, ...]) -> None:
    policy = only(DECLARED + formula, 16)
    assert [grid.shares for grid in policy.grids] == [expected]


def test_frequent_values_have_grids_without_their_variable() -> None:
    heavy = Statistics({}, {("q", 0): frozenset([1, 2])})
    policy = only(DECLARED + "find f: p(x) AND q(x, y) AND q(y, x)", 16, heavy)
    assert [one.name for one in policy.variables] == ["x", "y"]
    assert all(one.heavy == {1, 2} for one in policy.variables)
    shares = [policy.grids[number].shares for number in policy.grid_of]
    assert shares == [(16, 1), (1, 16), (16, 1), (1, 1)]
    # the grids of {} and {y} are equal, so they have the same functions
    assert policy.grid_of[0] == policy.grid_of[2]


def test_rates_decide_which_variable_is_split() -> None:
    text = DECLARED + "find f: q(x, _) AND ONCE[0,5] (q(x, y) AND ONCE[0,5] p(y))"
    rare = only(text, 16, Statistics({"p": 1.0, "q": 100.0}))
    often = only(text, 16, Statistics({"p": 1000.0, "q": 1.0}))
    assert rare.grids[0].shares == (16,)
    assert [one.name for one in rare.variables] == ["x"]
    assert [one.name for one in often.variables] == ["y"]


_LOADS = st.lists(
    st.builds(Load, st.integers(1, 9).map(float), st.frozensets(st.integers(0, 2), max_size=3)),
    min_size=1,
    max_size=3,
)


@given(_LOADS, st.integers(1, 12), st.frozensets(st.integers(0, 2)))
def test_no_shares_are_better(loads: list[Load], slices: int, fixed: frozenset[int]) -> None:
    found = best_shares(loads, 3, slices, fixed)
    assert all(found[one] == 1 for one in fixed)
    for shares in product(range(1, slices + 1), repeat=3):
        if shares[0] * shares[1] * shares[2] <= slices and all(shares[one] == 1 for one in fixed):
            assert expected_load(loads, found) <= expected_load(loads, shares) + 1e-9


def test_seeds_depend_on_the_text_and_on_what_is_given() -> None:
    text = DECLARED + STAR
    seeds = {
        sliced(one, 4, seed=seed).policies[0].grids[0].seeds
        for one in (text, text.replace("10", "11"))
        for seed in (0, 1)
    }
    assert len(seeds) == 4
    assert sliced(text, 4).policies == sliced(text, 4).policies


@pytest.mark.parametrize(
    ("formula", "remark"),
    [
        ("find f: EXISTS x. x = 1 AND p(1)", "it has no variables to split rows by"),
        ("find f: x = 1 AND ONCE EXISTS y. p(y)", "no atom has one of its variables"),
        ("find f: COUNT(p(x)) > 1", "it has no variables to split rows by"),
    ],
)
def test_what_cannot_be_split_says_so(formula: str, remark: str) -> None:
    policy = only(DECLARED + formula, 4)
    assert policy.remark == remark
    assert policy.variables == ()


def test_policies_in_one_slice_are_spread() -> None:
    text = DECLARED + "".join(f"find f{k}: COUNT(p(x)) > {k}\n" for k in range(3))
    assert [one.home for one in sliced(text, 2).policies] == [0, 1, 0]


def test_exists_at_the_top_is_split_as_well() -> None:
    policy = only(DECLARED + "find f: EXISTS x. p(x) AND EXISTS y. ONCE[0,3] q(x, y)", 4)
    assert policy.exposed == ("x",)
    assert [(one.name, one.place) for one in policy.variables] == [("x", 0)]
    other = only(DECLARED + "find f: EXISTS x. p(x) OR (q(_, 1) AND NOT p(2))", 4)
    assert other.exposed == ()


def test_constants_and_equal_arguments_are_matched() -> None:
    policy = only(DECLARED + "find f: p(x) AND q(x, x) AND NOT q(2, x)", 4)
    assert {(one.constants, one.equal) for one in policy.atoms} == {
        ((), ()),
        ((), ((0, 1),)),
        (((0, 2),), ()),
    }
    assert slices_of(policy, "q", (1, 3)) == set()
    assert len(slices_of(policy, "q", (2, 3))) == 1


def test_all_parts() -> None:
    policy = only(DECLARED + LINEAR, 16)
    first, middle, _ = policy.atoms
    assert len(policy.all_parts(first, 0)) == 4
    assert policy.all_parts(middle, 0) == [0]
    assert policy.grid_numbers(first) == [0]


@pytest.mark.parametrize("slices", [0, 1025])
def test_how_many_slices_there_can_be(slices: int) -> None:
    with pytest.raises(LimitError, match="from 1 to 1024"):
        sliced(DECLARED + STAR, slices)


@pytest.mark.parametrize(
    ("formula", "marks"),
    [
        ("p(x) AND NOT ONCE[0,5] q(x, _)", []),
        ("p(x) AND PREVIOUS q(x, _)", []),
        ("p(x) AND ((NOT p(x)) SINCE[0,5] q(x, _))", []),
        ("p(x) AND HISTORICALLY[0,3] (q(x, _) IMPLIES p(x))", []),
        ("COUNT(p(x) BY x) > 2", []),
        ("p(x) AND MAX(y OVER p(y)) = x", []),
        ("p(x) AND (p(x) SINCE q(x, _))", []),
        ("p(x) AND (p(x) UNTIL[0,5] q(x, _))", []),
        ("p(x) AND (r SINCE q(x, _))", ["r SINCE q(x, _)"]),
        ("p(x) AND ((p(x) AND x < y) SINCE q(x, y))", []),
        ("p(x) AND ((p(x) OR r) SINCE q(x, _))", ["(p(x) OR r) SINCE q(x, _)"]),
        ("p(x) AND ((p(x) OR NOT p(y)) SINCE q(x, y))", None),
        ("p(x) AND ((ONCE p(x)) SINCE q(x, _))", None),
        ("ONCE[0,5] p(x)", ["ONCE[0,5] p(x)"]),
        ("x = 1 AND NOT EXISTS y. p(y)", None),
        ("p(x) AND COUNT(p(y)) = 0", []),
        ("p(x) AND ONCE[0,5] (q(x, y) AND NOT p(y) OR point(x) AND point(y))", None),
        ("COUNT(p(x)) = 0", None),
        ("p(x) AND HISTORICALLY[0,3] p(x)", None),
        ("p(x) AND ONCE[0,3] NOT EXISTS y. p(y)", None),
    ],
)
def test_what_asks_for_time_points_without_rows(formula: str, marks: list[str] | None) -> None:
    found = only(f"{DECLARED}find f: {formula}", 4).marks
    if marks is None:
        assert found
    else:
        assert list(found) == marks


def statistics_of(heavy: Sequence[frozenset[int]]) -> Statistics:
    one, other, third = heavy
    return Statistics({}, {("p", 0): one, ("q", 0): other, ("q", 1): third})


_HEAVY = st.tuples(*[st.frozensets(st.integers(0, 2), max_size=2)] * 3).map(statistics_of)


def united(
    file: PolicyFile, slicing: Slicing, log: Log
) -> tuple[list[tuple[int, int, set[tuple[int, ...]]]], list[int]]:
    """What the slices own together: the policy, the time-point and rows, and what is answered."""
    analysis = analyse(file)
    engines: list[RelationalEngine] = []
    for _ in range(slicing.slices):
        made = plan(file, analysis, prepared=slicing.prepared)
        engines.append(RelationalEngine(made, made.texts))
    for time_stamp, database in log.points:
        parts = rows_of_slices(
            slicing.policies, slicing.slices, {k: list(v) for k, v in database.items()}
        )
        for engine, part in zip(engines, parts, strict=True):
            feed(engine, time_stamp, part)
    found: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for number, engine in enumerate(engines):
        engine.end(max(log.clock, engine.clock), log.closed)
        for policy, _, _, _, point, cells in engine.answers.take():
            known = slicing.policies[policy]
            if owner(known, cells) == number:
                row = cells[: len(known.reported)]
                found.setdefault((point, policy), set()).add(row)
    ordered = [(point, policy, found[point, policy]) for point, policy in sorted(found)]
    return ordered, engines[0].answered_points


def feed(
    engine: RelationalEngine, time_stamp: int, database: dict[str, list[Sequence[Value]]]
) -> None:
    numbers = {atom.name: number for number, atom in enumerate(engine.plan.named_atoms)}
    rows = [
        (numbers[name], [int(value) for value in row])
        for name, some in database.items()
        if name in numbers
        for row in some
    ]
    engine.points.add(time_stamp, rows)
    engine.advance()


def whole(
    file: PolicyFile, log: Log
) -> tuple[list[tuple[int, int, set[tuple[int, ...]]]], list[int]]:
    made = plan(file, analyse(file))
    engine = RelationalEngine(made, made.texts)
    for time_stamp, database in log.points:
        feed(engine, time_stamp, {name: list(rows) for name, rows in database.items()})
    engine.end(max(log.clock, engine.clock), log.closed)
    found: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for policy, _, _, _, point, cells in engine.answers.take():
        found.setdefault((point, policy), set()).add(cells)
    return [(*key, found[key]) for key in sorted(found)], engine.answered_points


@settings(max_examples=100)
@given(
    st.lists(safe_formulas(aggregates=True), min_size=1, max_size=2),
    logs(),
    _HEAVY,
    st.integers(1, 9),
    st.integers(0, 3),
)
def test_slices_together_answer_what_one_monitor_does(
    formulas: list[Formula], log: Log, statistics: Statistics, slices: int, seed: int
) -> None:
    text = DECLARED + "".join(f"find f{k}: {one}\n" for k, one in enumerate(formulas))
    try:
        file = parse_policies(text)
        analysis = analyse(file)
    except FormulaError:
        assume(False)
    assume(not analysis.errors and len(analysis.policies) == len(formulas))
    slicing = plan_slices(file, analysis, slices, statistics=statistics, seed=seed)
    try:
        expected = whole(file, log)
    except PolicyError:
        # an UNTIL that the engine does not follow
        assume(False)
    assert united(file, slicing, log) == expected


@given(_HEAVY, st.integers(2, 16), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
def test_the_owner_of_a_valuation_gets_its_rows(
    statistics: Statistics, slices: int, x: int, y: int, z: int
) -> None:
    text = DECLARED + "find f: p(x) AND ONCE[0,3] (q(x, y) AND NOT q(y, z) AND PREVIOUS q(z, y))"
    policy = only(text, slices, statistics)
    mine = owner(policy, (x, y, z))
    assert 0 <= mine < slices
    for atom, row in (("p", (x,)), ("q", (x, y)), ("q", (y, z)), ("q", (z, y))):
        assert mine in slices_of(policy, atom, row)
