"""Formulas made to grow, and random ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import atom, make
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon import Formula
    from mtlmon.syntax.operators import Operator

SIZES = (10, 30, 100, 300, 1000)
DEPTHS = (1, 2, 3, 4, 6, 8)

SIZE_ATOMS = tuple(f"a{i}" for i in range(10))
"""The atoms of the formulas of `of_size`."""

# Windows of the nests, as long as makes them hard at one event per time-stamp.
_NEST_LENGTH = 10
_UNTIL_START = 3

_UNARY = (ops.PREVIOUS, ops.ONCE, ops.HISTORICALLY, ops.NEXT, ops.EVENTUALLY, ops.ALWAYS)
_BINARY = (ops.SINCE, ops.UNTIL)
_BOOLEAN = (ops.AND, ops.OR, ops.IMPLIES)
_MOST_LOWER = 3
_MOST_WIDTH = 10
_MOST_DEPTH = 4


def operator_count(formula: Formula) -> int:
    """How many operators the formula is written with, atoms and constants aside."""
    return sum(bool(node.operands) for node in postorder(formula))


def of_size(operators: int, temporal: Operator) -> Formula:
    """A conjunction of rules `a IMPLIES temporal[0,w] b` with so many operators, or up to 2 fewer.

    The rules go round ten atoms, and each has a window of its own.
    """
    formula: Formula | None = None
    for i in range((operators + 1) // 3):
        left, right = (atom(SIZE_ATOMS[j % len(SIZE_ATOMS)]) for j in (i, i + 1))
        consequence = make(temporal, right, interval=Interval(0, 5 + i))
        rule = make(ops.IMPLIES, left, consequence)
        formula = rule if formula is None else make(ops.AND, formula, rule)
    if formula is None:
        raise ValueError(f"a rule has 2 operators, {operators} are too few")
    return formula


def nested(depth: int) -> Formula:
    """So many future operators within each other, ALWAYS and EVENTUALLY in turn."""
    formula = atom("q")
    for level in range(depth):
        if (depth - level) % 2:
            formula = make(ops.EVENTUALLY, formula, interval=Interval(0, 5))
            formula = make(ops.IMPLIES, atom("p"), formula)
        else:
            formula = make(ops.ALWAYS, formula, interval=Interval(0, 5))
            formula = make(ops.OR, atom("q"), formula)
    return formula


def alternation(depth: int) -> Formula:
    """So many EVENTUALLY and ALWAYS in turn, the innermost an EVENTUALLY, with nothing between."""
    return _nest(depth, (ops.EVENTUALLY, ops.ALWAYS))


def mixed_nest(depth: int) -> Formula:
    """So many future and past operators in turn."""
    return _nest(depth, (ops.EVENTUALLY, ops.ONCE, ops.ALWAYS, ops.HISTORICALLY))


def until_nest(depth: int) -> Formula:
    """So many UNTILs, each the right operand of the next."""
    formula = atom("q")
    interval = Interval(_UNTIL_START, _NEST_LENGTH)
    for _ in range(depth):
        formula = make(ops.UNTIL, make(ops.NOT, atom("p")), formula, interval=interval)
    return formula


def _nest(depth: int, operators: tuple[Operator, ...]) -> Formula:
    formula = atom("q")
    for level in range(depth):
        operator = operators[level % len(operators)]
        formula = make(operator, formula, interval=Interval(0, _NEST_LENGTH))
    return formula


def scaled(formula: Formula, factor: int) -> Formula:
    """The formula with all bounds so many times as large."""

    def remade(node: Formula, operands: list[Formula]) -> Formula:
        bounds = node.interval
        if bounds is None:
            return make(node.operator, *operands)
        upper = None if bounds.upper is None else bounds.upper * factor
        return make(node.operator, *operands, interval=Interval(bounds.lower * factor, upper))

    return _remade(formula, remade)


def without_implications(formula: Formula) -> Formula:
    """The formula with `NOT a OR b` for each `a IMPLIES b`."""

    def remade(node: Formula, operands: list[Formula]) -> Formula:
        if node.operator is ops.IMPLIES:
            return make(ops.OR, make(ops.NOT, operands[0]), operands[1])
        if node.interval is None:
            return make(node.operator, *operands)
        return make(node.operator, *operands, interval=node.interval)

    return _remade(formula, remade)


def _remade(formula: Formula, remade: Callable[[Formula, list[Formula]], Formula]) -> Formula:
    """The formula with each operator replaced, operands first."""
    made: dict[int, Formula] = {}
    for node in postorder(formula):
        operands = [made[id(operand)] for operand in node.operands]
        made[id(node)] = remade(node, operands) if operands else node
    return made[id(formula)]


def random_nested(count: int, seed: int) -> list[Formula]:
    """Different random formulas over p and q, bounds up to 13.

    Each has at least 2 future operators, and temporal operators nest at least 2 deep in it.
    """
    generator = random.Random(seed)
    formulas: dict[Formula, None] = {}
    while len(formulas) < count:
        formula = _random(generator, _MOST_DEPTH)
        if future_count(formula) >= 2 and temporal_depth(formula) >= 2:
            formulas[formula] = None
    return list(formulas)


def random_core(count: int, seed: int) -> list[str]:
    """Random formulas of the operators that all monitors have, over a, b and c, bounds up to 10.

    They are like those that the generator of HYDRA makes: each operator is as likely as the others,
    the operands share the size at random, and a quarter of the intervals are [0,0], another quarter
    begins at 0. Their size is from 8 to 20, with two temporal operators at least.
    """
    generator = random.Random(seed)
    formulas: dict[str, None] = {}
    while len(formulas) < count:
        text = _core(generator, generator.randint(8, 20))
        if text.count("[") >= 2:
            formulas[text] = None
    return list(formulas)


def _core(generator: random.Random, size: int) -> str:
    if size == 1:
        return generator.choice("abc")
    unary, binary = ("NOT ", "PREV", "NEXT"), (" OR ", " AND ", " SINCE", " UNTIL")
    operator = generator.choice(unary if size == 2 else unary + binary)
    low = generator.choice([0, 0, None, None])
    high = generator.choice([0, None]) if low == 0 else None
    low = generator.randint(1, 10) if low is None else low
    high = generator.randint(max(1, low), 10) if high is None else high
    interval = f"[{low},{high}] " if operator[-1] != " " else ""
    if operator in unary:
        return f"({operator}{interval}{_core(generator, size - 1)})"
    left = generator.randint(1, size - 2)
    return f"({_core(generator, left)}{operator}{interval}{_core(generator, size - 1 - left)})"


def future_count(formula: Formula) -> int:
    """How many future operators there are."""
    return sum(node.operator.is_future for node in postorder(formula))


def temporal_depth(formula: Formula) -> int:
    """How deep temporal operators nest."""
    depth_of: dict[int, int] = {}
    for node in postorder(formula):
        below = max((depth_of[id(operand)] for operand in node.operands), default=0)
        depth_of[id(node)] = below + node.operator.is_temporal
    return depth_of[id(formula)]


def _random(generator: random.Random, depth: int) -> Formula:
    """A random formula of so many levels at most, Boolean ones included.

    It recurses, which production code must not; the depth is fixed.
    """
    if depth == 0 or generator.random() < 0.1:
        return atom(generator.choice("pq"))
    operator = generator.choice((ops.NOT, *_BOOLEAN, *_UNARY, *_UNARY, *_BINARY, *_BINARY))
    operands = [_random(generator, depth - 1) for _ in range(operator.arity)]
    if not operator.is_temporal:
        return make(operator, *operands)
    lower = generator.randint(0, _MOST_LOWER)
    interval = Interval(lower, lower + generator.randint(0, _MOST_WIDTH))
    return make(operator, *operands, interval=interval)
