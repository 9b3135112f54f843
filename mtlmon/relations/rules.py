"""Rules that make plans cheaper and keep their records as they are.

Many more equations hold for snapshots. They do not hold for records, which are what `valid` and
`split` look at, so none of them is here: where records of a relation are coalesced below `valid`,
for instance, fewer of them are left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import columns
from mtlmon.relations.algebra import (
    Coalesce,
    Distinct,
    Group,
    Intersect,
    Join,
    Minus,
    MinusAll,
    Select,
    Semijoin,
    Split,
    Union,
    UnionMax,
    ValidFor,
    ValidUntil,
    ValidUntilNext,
    Where,
    nodes,
    operands,
)
from mtlmon.relations.conditions import conjunction, conjuncts, is_total, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.relations.algebra import Node
    from mtlmon.relations.typing import Types

# Operators whose records follow from the snapshots of their operands.
_OF_SNAPSHOTS = Group | Distinct | Coalesce | UnionMax | Minus | MinusAll | Intersect
_BAGS = UnionMax | Minus | MinusAll | Intersect


def where_below_union(node: Node, types: Types) -> Node | None:
    """`where` of a union or difference is that of both relations."""
    if not isinstance(node, Where) or not isinstance(node.of, Union | _BAGS):
        return None
    if types.of(node.of.left) != types.of(node.of.right):
        return None
    # records that a difference takes away must not make the condition fail
    if not isinstance(node.of, Union) and not is_total(node.condition.expression):
        return None
    return type(node.of)(Where(node.of.left, node.condition), Where(node.of.right, node.condition))


def select_below_union(node: Node, types: Types) -> Node | None:
    """`select` of a union is that of both relations."""
    if not isinstance(node, Select) or not isinstance(node.of, Union):
        return None
    if types.of(node.of.left) != types.of(node.of.right):
        return None
    return Union(Select(node.of.left, node.values), Select(node.of.right, node.values))


def valid_below_union(node: Node, types: Types) -> Node | None:
    """`valid` of a union is that of both relations, if the end follows from the start."""
    if not isinstance(node, ValidFor | ValidUntilNext) or not isinstance(node.of, Union):
        return None
    return Union(replace(node, of=node.of.left), replace(node, of=node.of.right))


def where_below_valid(node: Node, types: Types) -> Node | None:
    """`where` looks at no times, so it can come before they change."""
    if not isinstance(node, Where):
        return None
    if not isinstance(node.of, ValidFor | ValidUntilNext | Split | Coalesce | Distinct):
        return None
    return replace(node.of, of=Where(node.of.of, node.condition))


def select_below_valid(node: Node, types: Types) -> Node | None:
    """`select` looks at no times, so it can come before they change."""
    if not isinstance(node, Select) or not isinstance(node.of, ValidFor | ValidUntilNext | Split):
        return None
    return replace(node.of, of=Select(node.of.of, node.values))


def where_below_select(node: Node, types: Types) -> Node | None:
    """`where` looks at columns under the names that they had before `select`, if it keeps them."""
    if not isinstance(node, Where) or not isinstance(node.of, Select):
        return None
    # records that are left out must have been able to make `select` fail neither
    if not all(is_total(value.expression) for _, value in node.of.values):
        return None
    names = {
        name: value.expression.name
        for name, value in node.of.values
        if value.expression.operator in ops.COLUMNS
    }
    parts = conjuncts(node.condition.expression)
    below = [renamed(part, names) for part in parts if set(columns(part)) <= set(names)]
    if not below:
        return None
    above = [part for part in parts if not set(columns(part)) <= set(names)]
    return _where(replace(node.of, of=_where(node.of.of, node, below)), node, above)


def where_below_until(node: Node, types: Types) -> Node | None:
    """Conditions on the columns behind `per` hold for a record and for what ends it, or not."""
    if not isinstance(node, Where) or not isinstance(node.of, ValidUntil):
        return None
    if not is_total(node.of.condition.expression):
        return None
    parts = conjuncts(node.condition.expression)
    is_below = [bool(found := set(columns(part))) and found <= set(node.of.per) for part in parts]
    if not any(is_below):
        return None
    below, above = (
        [part for part, own in zip(parts, is_below, strict=True) if own == wanted]
        for wanted in (True, False)
    )
    return _where(replace(node.of, of=_where(node.of.of, node, below)), node, above)


def where_below_join(node: Node, types: Types) -> Node | None:
    """Conditions on one relation are looked at before it is joined, if they cannot fail there."""
    if not isinstance(node, Where) or not isinstance(node.of, Join | Semijoin):
        return None
    join = node.of
    lefts = set(types.of(join.left).names)
    names = dict(zip(join.names, types.of(join.right).names, strict=True))

    def side_of(part: Expression) -> int:
        found = set(columns(part))
        if not found or not is_total(part):
            return 2
        return 0 if found <= lefts else 1 if found <= set(names) else 2

    parts: tuple[list[Expression], ...] = ([], [], [])
    for part in conjuncts(node.condition.expression):
        side = side_of(part)
        parts[side].append(renamed(part, names) if side == 1 else part)
    if not parts[0] and not parts[1]:
        return None
    pushed = replace(
        join,
        left=_where(join.left, node, parts[0]),
        right=_where(join.right, node, parts[1]),
    )
    return _where(pushed, node, parts[2])


def where_below_group(node: Node, types: Types) -> Node | None:
    """Conditions on the columns of groups are looked at before there are groups."""
    if not isinstance(node, Where) or not isinstance(node.of, Group):
        return None
    keys = set(node.of.keys)
    below: list[Expression] = []
    above: list[Expression] = []
    for part in conjuncts(node.condition.expression):
        found = set(columns(part))
        (below if found and found <= keys else above).append(part)
    if not below:
        return None
    return _where(replace(node.of, of=_where(node.of.of, node, below)), node, above)


def without_cuts(node: Node, types: Types) -> Node | None:
    """What looks at snapshots does not need records that are cut or coalesced before."""
    if not isinstance(node, _OF_SNAPSHOTS):
        return None
    if isinstance(node, Coalesce) and node.longest is None and isinstance(node.of, _OF_SNAPSHOTS):
        is_cut = isinstance(node.of, Coalesce) and node.of.longest is not None
        if not is_cut:
            return node.of
    return _replaced(
        node, [one.of if isinstance(one, Coalesce | Split) else one for one in operands(node)]
    )


def distinct_once(node: Node, types: Types) -> Node | None:
    """What is distinct or a group of each key needs no `distinct`."""
    if isinstance(node, Distinct) and isinstance(node.of, Distinct | Group):
        return node.of
    return None


def presence_once(node: Node, types: Types) -> Node | None:
    """What only asks whether there is a record needs each neither once nor in one piece."""
    if not isinstance(node, Semijoin | MinusAll):
        return None
    if not isinstance(node.right, Distinct | Coalesce | Split):
        return None
    return replace(node, right=node.right.of)


RULES: tuple[Callable[[Node, Types], Node | None], ...] = (
    where_below_union,
    select_below_union,
    valid_below_union,
    where_below_valid,
    select_below_valid,
    where_below_select,
    where_below_until,
    where_below_join,
    where_below_group,
    without_cuts,
    distinct_once,
    presence_once,
)
"""The rules; each returns what a node becomes, or None if it does not fit."""


def optimized(node: Node, types: Types) -> Node:
    """Apply rules as long as one fits; the result has the same records, in whatever order."""
    found: dict[Node, Node] = {}
    for part in nodes(node):
        found[part] = _rewritten(
            _replaced(part, [found[operand] for operand in operands(part)]) or part, types
        )
    return found[node]


def _rewritten(node: Node, types: Types) -> Node:
    """Apply rules to a node whose operands are as they shall be."""
    for rule in RULES:
        changed = rule(node, types)
        if changed is not None:
            # what is new below the node may fit other rules
            return optimized(changed, types)
    return node


def _replaced(node: Node, of: Sequence[Node]) -> Node | None:
    """A node with other operands, or None if they are the same."""
    if tuple(of) == operands(node):
        return None
    # the type checker cannot tell which of the classes have which operands
    changed: Any = node
    found: Node
    if len(of) == 1:
        found = replace(changed, of=of[0])
    else:
        found = replace(changed, left=of[0], right=of[1])
    return found


def _where(node: Node, old: Where, parts: Sequence[Expression]) -> Node:
    if not parts:
        return node
    return Where(node, old.condition.with_expression(conjunction(parts)))
