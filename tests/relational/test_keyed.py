"""Policies with variables for each key: what they say of each key's part of the log alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import plan_slices
from tests.doors import (
    HERE,
    RelationalEngine,
    SlicedEngine,
    keyed_file,
    number_texts,
    plan,
    written_name,
)
from tests.reference.first_order import Let, Log, Row, answers
from tests.relational.formulas import DATABASES, formulas, safe_formulas

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_TYPES = dict.fromkeys("xyzint", int)


class KeyedLog(NamedTuple):
    """A log of which each time-point is of a key.

    Attributes:
        log: what is known of it.
        keys: the key of each time-point.
    """

    log: Log
    keys: tuple[int, ...]

    def of(self, key: int) -> Log:
        """What is known of the part of a key: no time-point of the log, so none of its own."""
        own = (point for point, one in zip(self.log.points, self.keys, strict=True) if one == key)
        return Log(tuple(own), max([self.log.clock, *(time for time, _ in self.log.points)]),
                   self.log.closed)  # fmt: skip


@st.composite
def keyed_logs(draw: st.DrawFn, most: int = 7) -> KeyedLog:
    points = []
    time_stamp = 0
    for _ in range(draw(st.integers(0, most))):
        time_stamp += draw(st.sampled_from([0, 0, 1, 2]))
        points.append((time_stamp, draw(DATABASES)))
    keys = draw(st.lists(st.integers(0, 2), min_size=len(points), max_size=len(points)))
    log = Log(tuple(points), time_stamp + draw(st.integers(0, 2)), draw(st.booleans()))
    return KeyedLog(log, tuple(keys))


Engine = RelationalEngine | SlicedEngine


def engine_for(
    formula: Formula, slices: int | None = None, text: str = ""
) -> tuple[tuple[str, ...], Engine]:
    """An engine, and the variables that it reports behind the key; `text` has the lets."""
    file = parse_policies(f"{_DECLARED}{text}find f: {formula}\n")
    # a comparison by itself is one of columns, not of variables
    assume(file.policies[0].formula == formula)
    unkeyed = analyse(file)
    assume(not unkeyed.errors and unkeyed.policies)
    try:
        keyed = keyed_file(file, ("k",))
    except MtlmonError as error:
        assert "looks ahead without bound" in str(error)
        assume(False)
    analysis = analyse(keyed)
    assert not analysis.errors
    (reported,) = (one.reported for one in analysis.policies)
    assert reported[0] == "k key"
    if slices is not None:
        return reported[1:], SlicedEngine(keyed, analysis, plan_slices(keyed, analysis, slices))
    planned = plan(keyed, analysis)
    return reported[1:], RelationalEngine(planned, planned.texts)


def evaluated(
    formula: Formula,
    given_log: KeyedLog,
    cuts: frozenset[int],
    slices: int | None,
    text: str,
) -> tuple[tuple[str, ...], list[set[Row]], int]:
    """What the engine answers: variables, rows of each time-point, and how many are known.

    Behind each time-point of `cuts`, it is saved and a new one goes on.
    """
    names, engine = engine_for(formula, slices, text)
    found: list[set[Row]] = [set() for _ in given_log.keys]

    texts = number_texts(engine.plan.texts, ["0", "1", "2"])

    def take() -> None:
        for _, _, _, _, point, (key, *cells) in engine.answers.take():
            assert key == texts[given_log.keys[point]]
            assert tuple(cells) not in found[point], "an answer occurs twice"
            found[point].add(tuple(cells))

    for number, ((time_stamp, database), key) in enumerate(
        zip(given_log.log.points, given_log.keys, strict=True)
    ):
        rows = []
        for place, atom in enumerate(engine.plan.named_atoms):
            name = written_name(atom.name)
            if place in {engine.plan.point, engine.plan.time}:
                continue
            own = [()] if name == HERE else database.get(name, ())
            extra = [texts[key]] if atom.name != name else []
            rows += [(place, [*map(int, row), *extra]) for row in own]
        engine.points.add(time_stamp, rows)
        engine.advance()
        take()
        if number in cuts:
            saved = engine.snapshot()
            _, engine = engine_for(formula, slices, text)
            engine.restore(saved)
            texts = number_texts(engine.plan.texts, ["0", "1", "2"])
    engine.end(max(given_log.log.clock, engine.clock), given_log.log.closed)
    take()
    return names, found, engine.answered_points[0]


def agree(
    formula: Formula,
    given_log: KeyedLog,
    cuts: frozenset[int] = frozenset(),
    slices: int | None = None,
    *,
    text: str = "",
    lets: Mapping[str, Let] | None = None,
) -> None:
    """The engine answers for each key what the reference does for the key's part of the log."""
    try:
        names, found, known = evaluated(formula, given_log, cuts, slices, text)
    except FormulaError:
        assume(False)
    for key in set(given_log.keys):
        types = _TYPES | dict.fromkeys(re.findall(r"\b[xyzw]\d*\b", f"{text} {formula}"), int)
        expected = iter(answers(formula, given_log.of(key), names, types=types, lets=lets))
        for point, own in enumerate(given_log.keys):
            if own != key:
                continue
            answer = next(expected)
            if point < known:
                assert not answer.undecided
                assert found[point] == answer.satisfying
            else:
                assert not found[point]
    assert known == len(given_log.keys) or not given_log.log.closed


_CUTS = st.frozensets(st.integers(0, 5), max_size=2)


@given(safe_formulas(), keyed_logs(), _CUTS)
def test_formulas_that_are_safe_by_construction(
    formula: Formula, log: KeyedLog, cuts: frozenset[int]
) -> None:
    agree(formula, log, cuts)


@given(safe_formulas(aggregates=True), keyed_logs(), _CUTS)
def test_formulas_with_aggregates(formula: Formula, log: KeyedLog, cuts: frozenset[int]) -> None:
    agree(formula, log, cuts)


@given(formulas(9), keyed_logs(), _CUTS)
def test_formulas_of_any_shape(formula: Formula, log: KeyedLog, cuts: frozenset[int]) -> None:
    agree(formula, log, cuts)


@given(safe_formulas(2, aggregates=True), keyed_logs(), _CUTS, st.integers(2, 3))
def test_slices(formula: Formula, log: KeyedLog, cuts: frozenset[int], slices: int) -> None:
    agree(formula, log, cuts, slices)


# few of each shape, unless somebody hunts
EXAMPLES = 50 if settings().max_examples <= 200 else settings().max_examples

_SHAPES = [
    "p(x) AND PREVIOUS p(x)",
    "p(x) AND PREVIOUS[1,2] NOT q(x, x)",
    "p(x) AND PREVIOUS (r AND NOT q(x, _))",
    "p(x) AND NOT PREVIOUS (PREVIOUS p(x))",
    "p(x) AND NEXT[0,2] p(x)",
    "p(x) AND NEXT[0,2] NOT p(x)",
    "p(x) AND PREVIOUS ONCE q(x, _)",
    "p(x) AND (p(x) SINCE q(x, _))",
    "p(x) AND (p(y) SINCE q(x, y))",
    "p(x) AND (p(x) SINCE[1,3] q(x, _))",
    "p(x) AND ((r AND NOT p(y)) SINCE q(x, y))",
    "p(x) AND ((p(x) OR q(x, y)) SINCE q(y, x))",
    "p(x) AND (r SINCE[0,2] q(x, y))",
    "p(x) AND (p(x) UNTIL[0,2] q(x, y))",
    "p(x) AND (NOT p(y) UNTIL[1,2] q(x, y))",
    "p(x) AND HISTORICALLY[0,2] p(x)",
    "p(x) AND HISTORICALLY[0,2] NOT r",
    "p(x) AND ALWAYS[0,2] q(x, _)",
    "p(x) AND (p(x) TRIGGER[0,2] q(x, _))",
    "p(x) AND (p(x) RELEASE[0,2] q(x, _))",
    "p(x) AND (p(x) WEAK_UNTIL[0,2] q(x, _))",
    "p(x) AND ONCE[1,2] NOT EXISTS y. q(x, y)",
    "p(x) AND COUNT(ONCE[0,2] (q(x, y) AND point(i)) BY x) < 2",
    "p(x) AND n = COUNT(ONCE[0,2] p(y))",
    "p(x) AND n = SUM(y OVER (NOT p(y)) SINCE q(_, y))",
    "p(x) AND COUNT(ONCE[0,3] COUNT(p(y)) = 0) > 0",
    "p(x) AND time(t)",
]


@pytest.mark.parametrize("text", _SHAPES)
@settings(max_examples=EXAMPLES)
@given(log=keyed_logs(9), cuts=_CUTS, slices=st.sampled_from([None, 2]))
def test_shapes(text: str, log: KeyedLog, cuts: frozenset[int], slices: int | None) -> None:
    formula = parse_policies(f"{_DECLARED}find f: {text}\n").policies[0].formula
    agree(formula, log, cuts, slices)
