"""Rules that make plans cheaper and keep their records as they are.

Many more equations hold for snapshots. They do not hold for records, which are what `valid` and
`split` look at, so none of them is here: where records of a relation are coalesced below `valid`,
for instance, fewer of them are left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import columns
from mtlmon.relations.algebra import (
    At,
    Binary,
    Coalesce,
    Deletes,
    Distinct,
    Every,
    Group,
    Inserts,
    Intersect,
    Join,
    Minus,
    MinusAll,
    Select,
    Semijoin,
    Shift,
    Source,
    Split,
    Union,
    UnionMax,
    ValidFor,
    ValidLast,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    Where,
    operands,
    rebuilt,
    with_operands,
)
from mtlmon.relations.conditions import conjunction, conjuncts, is_total, renamed, without_true

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.relations.algebra import Node
    from mtlmon.relations.typing import Types

# Operators whose records follow from the snapshots of their operands.
_OF_SNAPSHOTS = (
    Group | Distinct | Inserts | Deletes | Coalesce | UnionMax | Minus | MinusAll | Intersect | At
)
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
    kinds = ValidFor | ValidUntilNext | ValidTo | Every | Shift | At
    kinds |= Split | Coalesce | Distinct | Inserts | Deletes
    if not isinstance(node.of, kinds):
        return None
    return replace(node.of, of=Where(node.of.of, node.condition))


def select_below_valid(node: Node, types: Types) -> Node | None:
    """`select` looks at no times, so it can come before they change."""
    if not isinstance(node, Select):
        return None
    if not isinstance(node.of, ValidFor | ValidUntilNext | Every | Shift | Split):
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
    above, below = _parted(
        conjuncts(node.condition.expression), lambda part: set(columns(part)) <= set(names)
    )
    return _below(node, [renamed(part, names) for part in below], above)


def where_below_until(node: Node, types: Types) -> Node | None:
    """Conditions on the columns behind `per` hold for a record and for what ends it, or not."""
    if not isinstance(node, Where) or not isinstance(node.of, ValidUntil | ValidLast):
        return None
    if isinstance(node.of, ValidUntil) and not is_total(node.of.condition.expression):
        return None
    keys = set(node.of.per)
    above, below = _parted(conjuncts(node.condition.expression), lambda part: _is_of(part, keys))
    return _below(node, below, above)


def where_into_join(node: Node, types: Types) -> Node | None:
    """Conditions behind a join are looked at while it makes pairs, if they cannot fail there."""
    if not isinstance(node, Where) or not isinstance(node.of, Join | Semijoin):
        return None
    join = node.of
    above, into = _parted(conjuncts(node.condition.expression), is_total)
    if not into:
        return None
    on = join.on.with_expression(without_true([*conjuncts(join.on.expression), *into]))
    return _where(replace(join, on=on), node.condition, above)


def on_below_join(node: Node, types: Types) -> Node | None:
    """Conditions on one relation are looked at before it is joined, if they cannot fail there."""
    if not isinstance(node, Join | Semijoin):
        return None
    lefts = set(types.of(node.left).names)
    names = dict(zip(node.names, types.of(node.right).names, strict=True))
    above, total = _parted(conjuncts(node.on.expression), is_total)
    rest, of_left = _parted(total, lambda part: _is_of(part, lefts))
    rest, of_right = _parted(rest, lambda part: _is_of(part, set(names)))
    if not of_left and not of_right:
        return None
    return replace(
        node,
        left=_where(node.left, node.on, of_left),
        right=_where(node.right, node.on, [renamed(part, names) for part in of_right]),
        on=node.on.with_expression(without_true([*rest, *above])),
    )


def distinct_below_join(node: Node, types: Types) -> Node | None:
    """Pairs of records that are there once are there once, and so are those that have partners."""
    if not isinstance(node, Distinct) or not isinstance(node.of, Join | Semijoin):
        return None
    join = replace(node.of, left=Distinct(node.of.left))
    return replace(join, right=Distinct(join.right)) if isinstance(join, Join) else join


def where_below_group(node: Node, types: Types) -> Node | None:
    """Conditions on the columns of groups are looked at before there are groups."""
    if not isinstance(node, Where) or not isinstance(node.of, Group):
        return None
    keys = set(node.of.keys)
    above, below = _parted(conjuncts(node.condition.expression), lambda part: _is_of(part, keys))
    return _below(node, below, above)


def without_cuts(node: Node, types: Types) -> Node | None:
    """What looks at snapshots does not need records that are cut or coalesced before."""
    if not isinstance(node, _OF_SNAPSHOTS):
        return None
    if isinstance(node, Coalesce) and node.longest is None and isinstance(node.of, _OF_SNAPSHOTS):
        is_cut = isinstance(node.of, Coalesce) and node.of.longest is not None
        if not is_cut:
            return node.of
    of = [one.of if isinstance(one, Coalesce | Split) else one for one in operands(node)]
    changed = with_operands(node, of)
    return None if changed is node else changed


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
    where_into_join,
    on_below_join,
    where_below_group,
    without_cuts,
    distinct_once,
    distinct_below_join,
    presence_once,
)
"""The rules; each returns what a node becomes, or None if it does not fit."""


def optimized(node: Node, types: Types, used: Counter[str] | None = None) -> Node:
    """Apply rules as long as one fits; the result has the same records, in whatever order.

    Args:
        node: the plan.
        types: the columns of relations.
        used: counts how often rules are applied, by their names.
    """
    return rebuilt(node, lambda _, changed: _rewritten(changed, types, used))


def _rewritten(node: Node, types: Types, used: Counter[str] | None) -> Node:
    """Apply rules to a node whose operands are as they shall be."""
    for rule in RULES:
        changed = rule(node, types)
        if changed is not None:
            if used is not None:
                used[rule.__name__.replace("_", " ")] += 1
            # what is new below the node may fit other rules
            return optimized(changed, types, used)
    return node


def _where(node: Node, like: Predicate, parts: Sequence[Expression]) -> Node:
    """The records of a node that meet all of some conditions, from the text of another one."""
    return Where(node, like.with_expression(conjunction(parts))) if parts else node


def _below(node: Where, below: Sequence[Expression], above: Sequence[Expression]) -> Node | None:
    """Look at some conditions below the operand of `where`, and at others above it as before."""
    if not below or isinstance(node.of, Source | Binary):
        return None
    inner = _where(node.of.of, node.condition, below)
    return _where(replace(node.of, of=inner), node.condition, above)


def _parted(
    parts: Sequence[Expression], condition: Callable[[Expression], bool]
) -> tuple[list[Expression], list[Expression]]:
    """Conditions for which something is false, and those for which it is true."""
    found: tuple[list[Expression], list[Expression]] = ([], [])
    for part in parts:
        found[condition(part)].append(part)
    return found


def _is_of(part: Expression, names: set[str]) -> bool:
    """Whether a condition is about some columns, and about no others."""
    found = set(columns(part))
    return bool(found) and found <= names
