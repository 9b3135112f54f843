"""Slices that change when some get more rows than others: the answers do not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy import parse_policies
from mtlmon.relational import Answer, RelationalMonitor, analyse
from mtlmon.relational.slicing import Statistics, plan_slices
from tests.doors import SlicedEngine, engine_of
from tests.reference.first_order import Log
from tests.relational.formulas import logs, safe_formulas

POLICIES = """
atom p(x: text)
atom q(x: text, y: int)
find a: p(x) AND ONCE[0,9] q(x, y)
policy b: q(x, y) IMPLIES EVENTUALLY[0,5] p(x)
"""
Points = list[tuple[int, dict[str, list[tuple[str | int, ...]]]]]


def skewed(share: float, points: int) -> Points:
    """Rows of which so large a part has one value, but for the first quarter."""
    random = Random(3)
    found: Points = []
    for number in range(points):
        rows: list[tuple[str | int, ...]] = []
        for _ in range(4):
            is_usual = number > points // 4 and random.random() < share
            rows.append(("é" if is_usual else f"u{random.randrange(50)}", random.randrange(9)))
        found.append((number, {"q": rows, "p": [rows[0][:1]] if number % 9 == 0 else []}))
    return found


def restless(monitor: RelationalMonitor, window: int, sample: int) -> SlicedEngine:
    """The engine of a monitor, whose slices are compared often."""
    engine = engine_of(monitor)
    assert isinstance(engine, SlicedEngine)
    engine.balance.window, engine.balance.sample = window, sample
    return engine


@pytest.mark.parametrize("slices", [2, 5])
def test_frequent_values_are_split(slices: int) -> None:
    single, sliced = RelationalMonitor(POLICIES), RelationalMonitor(POLICIES, slices=slices)
    engine = restless(sliced, 200, 200)
    last = [0] * slices
    for point in skewed(0.8, 400):
        assert sliced.step(*point) == single.step(*point)
        if point[0] >= 300:
            last = [one + more for one, more in zip(last, engine.row_counts, strict=True)]
    assert sliced.finish() == single.finish()
    assert {"é"} in [one.heavy for one in engine.slicing.policies[0].variables]
    # 4 of 5 rows have one value
    assert max(last) < 0.7 * sum(last)
    restored = RelationalMonitor(POLICIES, slices=slices)
    restored.restore(sliced.snapshot())
    assert restless(restored, 1, 1).slicing.digest() == engine.slicing.digest()


def test_the_first_rows_tell_rates() -> None:
    # most rows are of p and q, which have y; without rates, x seems better, which two atoms have
    text = "atom p(x: int, y: int)\natom q(y: int)\natom r(x: int)\natom s(x: int)\n"
    text += "find a: p(x, y) AND ONCE[0,9] (q(y) AND ONCE[0,9] (r(x) AND ONCE[0,9] s(x)))\n"
    single, sliced = RelationalMonitor(text), RelationalMonitor(text, slices=2)
    engine = restless(sliced, 10**9, 300)
    assert [one.name for one in engine.slicing.policies[0].variables] == ["x"]
    random = Random(5)
    for time_stamp in range(100):
        rows: dict[str, list[tuple[str | int, ...]]] = {
            "p": [(random.randrange(9), random.randrange(9)) for _ in range(3)],
            "q": [(random.randrange(9),) for _ in range(3)],
        }
        if time_stamp % 10 == 0:
            rows["r"] = rows["s"] = [(time_stamp % 9,)]
        assert sliced.step(time_stamp, rows) == single.step(time_stamp, rows)
    assert sliced.finish() == single.finish()
    assert [one.name for one in engine.slicing.policies[0].variables] == ["y"]


def test_statistics_that_are_given_stay() -> None:
    given = Statistics({"p": 1.0, "q": 1.0})
    sliced = RelationalMonitor(POLICIES, slices=3, statistics=given)
    engine = restless(sliced, 10**9, 10)
    before = engine.slicing
    for point in skewed(0.9, 100):
        sliced.step(*point)
    assert engine.slicing is before


def test_what_is_even_stays() -> None:
    sliced = RelationalMonitor(POLICIES, slices=3)
    engine = restless(sliced, 100, 100)
    before = engine.slicing
    for point in skewed(0.0, 200):
        sliced.step(*point)
    assert engine.slicing is before


def test_comparisons_become_rare() -> None:
    # all rows have the same values, so no slices are better
    sliced = RelationalMonitor("atom p(x: int)\nfind a: p(x) AND ONCE[0,3] p(x)\n", slices=3)
    engine = restless(sliced, 10, 5)
    before = engine.slicing
    for time_stamp in range(200):
        sliced.step(time_stamp, {"p": [(1,)]})
    assert engine.slicing is before
    assert engine.balance.window >= 80


def test_proposals_keep_what_slices_expose() -> None:
    text = "atom p(x: int)\natom q(x: int, y: int)\nfind a: EXISTS x. p(x) AND ONCE[0,4] q(x, y)\n"
    file = parse_policies(text)
    analysis = analyse(file)
    slicing = plan_slices(file, analysis, 4)
    engine = SlicedEngine(file, analysis, slicing)
    engine.balance.window = engine.balance.sample = 40
    for time_stamp in range(200):
        engine.points.add(time_stamp, [(1, (7, time_stamp)), (0, (time_stamp,))])
        engine.advance()
        engine.answers.take()
    assert engine.slicing is not slicing
    assert engine.slicing.exposed == slicing.exposed


@given(
    st.lists(safe_formulas(aggregates=True), min_size=1, max_size=3),
    logs(),
    st.integers(2, 9),
    st.integers(1, 4),
    st.integers(1, 4),
)
@settings(max_examples=50)
def test_answers_are_those_of_one_engine(
    formulas: list[Formula], log: Log, slices: int, window: int, sample: int
) -> None:
    text = "atom p(x: int)\natom q(x: int, y: int)\n"
    text += "".join(f"find f{number}: {one}\n" for number, one in enumerate(formulas))

    def answers(monitor: RelationalMonitor) -> list[Answer]:
        found: list[Answer] = []
        for time_stamp, database in log.points:
            rows = {name: list(some) for name, some in database.items()}
            found += monitor.step(time_stamp, rows)
        return found + monitor.finish()

    try:
        expected = answers(RelationalMonitor(text))
    except (FormulaError, PolicyError):
        assume(False)
    sliced = RelationalMonitor(text, slices=slices, statistics=Statistics())
    restless(sliced, window, sample)
    assert answers(sliced) == expected
