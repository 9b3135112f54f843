"""Rewrites formulas node by node, from the operands up, without recursion; sharing is kept."""

from __future__ import annotations

from mtlmon.syntax import operators as ops
from mtlmon.syntax.bounds import require_unit
from mtlmon.syntax.build import as_formula
from mtlmon.syntax.durations import DurationInterval
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Takes a node and its operands, some of them new, and returns its replacement.
    _Rule = Callable[[Formula, tuple[Formula, ...]], Formula]


def substitute(formula: Formula, parts: Mapping[str, Formula | bool]) -> Formula:
    """Replace the atoms with these names, all at once.

    Raises:
        TypeError: a part is neither a formula nor a bool.
    """
    replacements = {name: as_formula(part) for name, part in parts.items()}

    def replacement(node: Formula, operands: tuple[Formula, ...]) -> Formula:
        if node.operator is ops.ATOM:
            assert node.name is not None
            return replacements.get(node.name, node)
        return with_operands(node, operands)

    return _rewritten(formula, replacement)


def replaced(formula: Formula, parts: Mapping[Formula, Formula]) -> Formula:
    """Replace subformulas, the largest ones first.

    Args:
        formula: the formula.
        parts: what is replaced, and by what.
    """

    def replacement(node: Formula, operands: tuple[Formula, ...]) -> Formula:
        part = parts.get(node)
        return with_operands(node, operands) if part is None else part

    return _rewritten(formula, replacement)


def in_unit(formula: Formula, unit: str) -> Formula:
    """Convert bounds with units to numbers in the given unit.

    Raises:
        FormulaError: a bound is not a whole number of units or is too large, or an interval is
            empty.
        UnitError: the unit is unknown.
    """
    require_unit(unit)

    def converted(node: Formula, operands: tuple[Formula, ...]) -> Formula:
        if not isinstance(node.interval, DurationInterval):
            return with_operands(node, operands)
        interval = node.interval.in_unit(unit, node.operator.word)
        return Formula(node.operator, operands, interval, None, node.span)

    return _rewritten(formula, converted)


def has_durations(formula: Formula) -> bool:
    """Whether some bounds have units, so that the unit of the time-stamps must be declared."""
    return any(isinstance(node.interval, DurationInterval) for node in postorder(formula))


def with_operands(node: Formula, operands: tuple[Formula, ...]) -> Formula:
    """Return the node with these operands, or the node itself if it has them already."""
    if all(map(_is, operands, node.operands)):
        return node
    return Formula(node.operator, operands, node.interval, node.name, None, node.value)


def _rewritten(formula: Formula, rule: _Rule) -> Formula:
    result_of: dict[int, Formula] = {}
    for node in postorder(formula):
        operands = tuple(result_of[id(operand)] for operand in node.operands)
        result_of[id(node)] = rule(node, operands)
    return result_of[id(formula)]


def _is(one: Formula, other: Formula) -> bool:
    return one is other
