"""Which columns of a table a relation can be evaluated by, one part of the rows after the other.

All records that meet are equal in such columns. Each operator removes the columns in which records
that meet can differ, and Spark splits the rows by a hash of the remaining ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from mtlmon.policy.predicates import operators as ops
from mtlmon.relations.algebra import (
    Coalesce,
    Deletes,
    Distinct,
    DistinctOn,
    Group,
    Inserts,
    Intersect,
    Join,
    Minus,
    MinusAll,
    Select,
    Semijoin,
    Source,
    Union,
    UnionMax,
    ValidLast,
    ValidUntil,
    nodes,
    operands,
)
from mtlmon.relations.conditions import conjuncts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.relations.algebra import Node
    from mtlmon.relations.typing import Types

__all__ = ["partitioning_columns"]

# The columns of a relation that are columns of the table, by name; None if the relation does not
# depend on the table, and so is the same in each part.
_Origins: TypeAlias = dict[str, str] | None


def partitioning_columns(
    plan: Node, table: str, columns: Iterable[str], types: Types
) -> tuple[str, ...]:
    """Return columns such that rows with different values in them never meet.

    Where the rows of a table are cut into parts, and all rows with equal values in these columns,
    or in some of them, are in the same part, the records of the relation are those of the parts
    together. Other tables are there as a whole for each part. Nulls are equal.

    Args:
        plan: the relation, coalesced as its records shall be.
        table: the table that is cut.
        columns: columns of the table to choose from, whose values can be told apart.
        types: the columns of the relations.

    Returns:
        The columns in the given order; without any, the table cannot be cut.
    """
    allowed = set(columns)
    found: dict[Node, _Origins] = {}
    for node in nodes(plan):
        of = [found[operand] for operand in operands(node)]
        if isinstance(node, Source):
            names = types.of(node).names
            found[node] = {name: name for name in names} if node.name == table else None
        elif all(one is None for one in of):
            found[node] = None
        elif len(of) == 1:
            assert of[0] is not None
            found[node] = _of_one(node, of[0], allowed)
        else:
            found[node] = _of_two(node, of, allowed, types)
    if found[plan] is None:
        return ()
    return tuple(name for name in columns if name in allowed)


def _of_one(node: Node, of: dict[str, str], allowed: set[str]) -> _Origins:
    """The origins of an operator on one relation; takes away what does not keep records apart."""
    if isinstance(node, Select):
        columns = ((name, _column(value.expression)) for name, value in node.values)
        return {name: of[column] for name, column in columns if column in of}
    if isinstance(node, Group):
        of = {name: of[name] for name in node.keys if name in of}
        allowed.intersection_update(of.values())
    elif isinstance(node, DistinctOn):
        allowed.intersection_update(of[name] for name in node.keys if name in of)
    elif isinstance(node, ValidUntil | ValidLast):
        allowed.intersection_update(of[name] for name in node.per if name in of)
    elif isinstance(node, Coalesce | Distinct | Inserts | Deletes):
        # equal records must be in the same part
        allowed.intersection_update(of.values())
    return of


def _of_two(node: Node, of: list[_Origins], allowed: set[str], types: Types) -> _Origins:
    """Likewise of an operator on two relations, at least one of which depends on the table."""
    left, right = of
    if isinstance(node, Join | Semijoin):
        own = types.of(node.right).names
        renamed = (
            None
            if right is None
            else {
                name: right[column]
                for name, column in zip(node.names, own, strict=True)
                if column in right
            }
        )
        if left is not None and renamed is not None:
            allowed.intersection_update(_equal(node, left, renamed))
        if isinstance(node, Join):
            return (left or {}) | (renamed or {})
        if left is None:
            allowed.clear()
        return left or {}
    assert isinstance(node, Union | UnionMax | Minus | MinusAll | Intersect)
    if left is None or right is None:
        is_kept = isinstance(node, Intersect) or (
            isinstance(node, Minus | MinusAll) and left is not None
        )
        if not is_kept:
            # each part would have the records of the other tables
            allowed.clear()
    names = [types.of(side).names for side in operands(node)]
    common: dict[str, str] = {}
    for one, other in zip(*names, strict=True):
        origins = {
            side.get(name) for side, name in ((left, one), (right, other)) if side is not None
        }
        origin = origins.pop()
        if not origins and origin is not None:
            common[one] = origin
    if not isinstance(node, Union):
        allowed.intersection_update(common.values())
    return common


def _equal(node: Join | Semijoin, left: dict[str, str], right: dict[str, str]) -> set[str]:
    """The columns of the table that are equal in records that a join makes pairs of."""
    found = set()
    for part in conjuncts(node.on.expression):
        if part.operator is ops.EQUAL:
            names = [_column(operand) for operand in part.operands]
            for one, other in (names, names[::-1]):
                if one in left and other in right and left[one] == right[other]:
                    found.add(left[one])
    return found


def _column(expression: Expression) -> str:
    """The column that an expression is, or no name of a column if it is something else."""
    return expression.name if expression.operator in ops.COLUMNS else ""
