"""The syntax tree of expressions, with one immutable class for all nodes."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

from mtlmon.policy.predicates import operators as ops
from mtlmon.syntax.traversal import number_by, postorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.formula import Span
    from mtlmon.syntax.interval import Interval

Constant: TypeAlias = bool | int | Decimal | str | None


class Window(NamedTuple):
    """What an aggregate looks at.

    Attributes:
        interval: how far back, as for ONCE; a `DurationInterval` where the unit is not known yet.
        parameters: the constants behind the argument.
        default: the value where nothing is in the window; None is null, and for `count`,
            `distinct`, `any` and `all` what they are of nothing.
    """

    interval: Interval
    parameters: tuple[Constant, ...] = ()
    default: Constant = None


class Offset(NamedTuple):
    """Which other value LAST, NEXT, AT or HOLD is.

    Attributes:
        distance: for LAST and NEXT, how many values away, at least 1; for AT, how long ago, in the
            unit of the time-stamps or, where that is not known yet, as a `Duration`; for HOLD, 0.
        default: the value where there is none; None is null.
    """

    distance: int | Duration
    default: Constant = None


class Over(NamedTuple):
    """An aggregate over the live instances of a stream.

    Attributes:
        aggregate: one of `mtlmon.policy.predicates.operators.OVER_WORDS`.
        stream: the name of the stream.
    """

    aggregate: str
    stream: str


class Aggregate(NamedTuple):
    """An aggregate over the valuations of a formula.

    Attributes:
        word: one of `mtlmon.policy.predicates.operators.FORMULA_AGGREGATES`.
        formula: the number of the formula among the operands of the predicate or comparison that
            the expression belongs to.
        by: the variables whose values tell groups apart; None if all valuations are one group.
    """

    word: str
    formula: int
    by: tuple[str, ...] | None


Value: TypeAlias = Constant | tuple[Constant, ...] | Window | Offset | Over | Aggregate


# Operator, numbers of the operands, value, span.
def value_key(value: object) -> object:
    """A key that distinguishes values: True, 1 and 1.0 are equal in Python, but not here."""
    if isinstance(value, tuple):
        return tuple(map(value_key, value))
    return type(value).__name__, value


def number(*roots: Expression) -> tuple[list[Expression], dict[int, int]]:
    """Number the distinct subexpressions.

    Subexpressions that are equal except for their spans get the same number. Operands come before
    operators.

    Returns:
        A representative for each number, in order, and the number of every node by its `id`, valid
        as long as the roots exist.
    """
    return number_by(_content, *roots)


def _content(node: Expression) -> object:
    return node.operator.name, value_key(node.value)


def columns(*roots: Expression) -> tuple[str, ...]:
    """Return the names of the columns, in order of first occurrence."""
    names: dict[str, None] = {}
    for node in postorder(*roots):
        if node.operator in ops.COLUMNS:
            names[node.name] = None
    return tuple(names)


def _equal(left: Expression, right: Expression) -> bool:
    compared: set[tuple[int, int]] = set()
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b or (id(a), id(b)) in compared:
            continue
        if a._hash != b._hash or a.operator is not b.operator:
            return False
        if value_key(a.value) != value_key(b.value):
            return False
        compared.add((id(a), id(b)))
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True


def _to_rows(expression: Expression) -> list[_Row]:
    """A flat table of the nodes, to pickle expressions of any depth; shared nodes stay shared."""
    rows: list[_Row] = []
    row_of: dict[int, int] = {}
    for node in postorder(expression):
        row_of[id(node)] = len(rows)
        operands = tuple(row_of[id(operand)] for operand in node.operands)
        rows.append((node.operator, operands, node.value, node.span))
    return rows


def _from_rows(rows: list[_Row]) -> Expression:
    nodes: list[Expression] = []
    for operator, operands, value, span in rows:
        nodes.append(Expression(operator, tuple(nodes[i] for i in operands), value, span))
    return nodes[-1]
