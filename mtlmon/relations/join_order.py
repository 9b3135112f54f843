"""The order in which relations are joined, by how many records there are.

Joins of several relations give the same records in any order, if no condition can fail. Which order
is cheap depends on how many records their results have, as P. Selinger et al. estimate them
("Access Path Selection in a Relational Database Management System", SIGMOD 1979): by the numbers of
rows of tables and of different values in columns. Here, records must also be valid together, which
is likelier the longer they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, columns
from mtlmon.relations.algebra import (
    Group,
    Join,
    Select,
    Source,
    Union,
    UnionMax,
    ValidFor,
    ValidLast,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    Where,
    nodes,
    operands,
    with_operands,
)
from mtlmon.relations.conditions import conjuncts, is_total, without_true
from mtlmon.relations.records import whole
from mtlmon.syntax.formula import Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.relations.algebra import Node
    from mtlmon.relations.typing import Types

__all__ = ["Statistics", "joins_by_size"]

# For how many records a condition is true of which nothing else is known.
_SELECTIVITY = 1 / 3
# Another order must be so much cheaper: estimates are rough, and columns are put in order again.
_WORTH = 2


class Statistics:
    """Estimates the sizes of relations over some tables.

    Args:
        tables: the tables, as for `evaluate`.
        types: the columns of relations.
    """

    def __init__(self, tables: Mapping[str, pa.Table], types: Types) -> None:
        self._tables = tables
        self._types = types
        self._counts: dict[Node, float] = {}
        self._lengths: dict[Node, float] = {}
        self._distinct: dict[tuple[str, str], float] = {}
        self.span = 1.0
        """The time from the first start to the last one, at least 1."""

    def prepare(self, names: Sequence[str]) -> None:
        """Look at the times of tables."""
        times = {name: tuple(map(whole, self._tables[name].columns[:2])) for name in names}
        starts = [one for one, _ in times.values() if len(one)]
        if starts:
            first = min(pc.min(one).as_py() for one in starts)
            last = max(pc.max(one).as_py() for one in starts)
            self.span = max(1.0, float(last - first))
        for name, (start, end) in times.items():
            lengths = end.to_numpy(zero_copy_only=False).astype(float) - start.to_numpy()
            # NaN stands for no end
            lengths = np.nan_to_num(lengths, nan=self.span).clip(0, self.span)
            self._counts[Source(name)] = len(start)
            self._lengths[Source(name)] = float(lengths.mean()) if len(start) else 0.0

    def count(self, node: Node) -> float:
        """Return about how many records a relation has."""
        if node not in self._counts:
            self._counts[node] = self._count(node)
        return self._counts[node]

    def _count(self, node: Node) -> float:
        of = [self.count(operand) for operand in operands(node)]
        if isinstance(node, Where):
            found = of[0]
            for part in conjuncts(node.condition.expression):
                found *= self._share(node.of, part)
            return found
        if isinstance(node, Join):
            return self.joined(self.side(node.left), self.side(node.right, node.names), node.on)
        return sum(of) if isinstance(node, Union | UnionMax) else of[0]

    def _share(self, node: Node, part: Expression) -> float:
        """For what share of records a condition is true."""
        names = columns(part)
        if part.operator is ops.EQUAL and len(names) == 1:
            return 1 / self.distinct(node, names[0])
        return _SELECTIVITY

    def length(self, node: Node) -> float:
        """Return for how long about a record is valid."""
        if node not in self._lengths:
            of = [self.length(operand) for operand in operands(node)]
            self._lengths[node] = min(of)
            if isinstance(node, ValidTo) or (isinstance(node, ValidFor) and node.length is None):
                self._lengths[node] = self.span
            elif isinstance(node, ValidFor | ValidUntilNext):
                assert node.length is not None
                self._lengths[node] = min(self.span, float(node.length))
            elif isinstance(node, ValidUntil | ValidLast):
                kinds = self._product(node.of, node.per)
                kinds *= node.count if isinstance(node, ValidLast) else 1
                self._lengths[node] = min(self.span, self.span * kinds / max(1, self.count(node)))
        return self._lengths[node]

    def _product(self, node: Node, names: Sequence[str]) -> float:
        found = 1.0
        for name in names:
            found *= self.distinct(node, name)
        return found

    def distinct(self, node: Node, name: str) -> float:
        """Return about how many different values a column has, at least 1."""
        if isinstance(node, Source):
            key = node.name, name
            if key not in self._distinct:
                column = self._tables[node.name].column(name)
                # `count_distinct` does not have all types
                self._distinct[key] = max(1.0, len(column.unique()))
            return self._distinct[key]
        most = max(1.0, self.count(node))
        if isinstance(node, Join) and name in node.names:
            own = dict(zip(node.names, self._types.of(node.right).names, strict=True))
            return min(most, self.distinct(node.right, own[name]))
        if isinstance(node, Select):
            value = dict(node.values)[name].expression
            if value.operator not in ops.COLUMNS:
                return most
            return min(most, self.distinct(node.of, value.name))
        of = operands(node)[0]
        if name not in self._types.of(of).names:
            # an aggregate
            return most
        if isinstance(node, Group):
            most = max(1.0, self.count(of))
        return min(most, self.distinct(of, name))

    def side(self, node: Node, names: Sequence[str] | None = None) -> _Side:
        """Return a relation as one side of a join, with other names for its columns."""
        own = self._types.of(node).names
        places = {name: (node, one) for name, one in zip(names or own, own, strict=True)}
        return _Side(self.count(node), self.length(node), places)

    def joined(self, left: _Side, right: _Side, on: Predicate) -> float:
        """Return about how many pairs two relations have that are valid together."""
        found = left.size * right.size
        found *= min(1.0, (left.length + right.length) / self.span)
        for part in conjuncts(on.expression):
            names = columns(part)
            if not names:
                continue
            if part.operator is ops.EQUAL and len(names) == 2:
                sides = [left if name in left.places else right for name in names]
                found /= max(
                    max(1.0, min(side.size, self.distinct(*side.places[name])))
                    for side, name in zip(sides, names, strict=True)
                )
            else:
                found *= _SELECTIVITY
        return found


class _Side(NamedTuple):
    """One side of a join.

    Attributes:
        size: about how many records it has.
        length: for how long about these are valid.
        places: for each column, the relation that it comes from, and its name there.
    """

    size: float
    length: float
    places: dict[str, tuple[Node, str]]


class _Chain(NamedTuple):
    """Relations that are joined one after the other.

    Attributes:
        parts: the relations, and what their columns are called in the result.
        conditions: the parts of all conditions.
        on: one of the conditions, whose text all are said to be of.
    """

    parts: list[tuple[Node, tuple[str, ...]]]
    conditions: list[Expression]
    on: Predicate

    def condition_of(self, names: set[str], before: set[str]) -> Predicate:
        """The conditions that can be looked at once there are some columns, and not before.

        Args:
            names: the columns.
            before: the columns that there are before; nothing has been looked at without any.
        """
        found = [
            one
            for one in self.conditions
            if (used := set(columns(one))) <= names and not (before and used <= before)
        ]
        return self.on.with_expression(without_true(found))


def joins_by_size(node: Node, types: Types, statistics: Statistics) -> Node:
    """Return a plan with the same records that joins relations in an order of low cost.

    Args:
        node: the plan.
        types: the columns of relations.
        statistics: about how many records there are.
    """
    found: dict[Node, Node] = {}
    # what is joined to a third relation is looked at there
    inner = {part.left for part in nodes(node) if isinstance(part, Join)}
    inner = {part for part in inner if isinstance(part, Join)}
    roots = [part for part in nodes(node) if isinstance(part, Join) and isinstance(part.left, Join)]
    if not roots:
        return node
    statistics.prepare([part.name for part in nodes(node) if isinstance(part, Source)])
    for part in nodes(node):
        changed = with_operands(part, [found[operand] for operand in operands(part)])
        found[part] = changed
        if part in roots and part not in inner:
            found[part] = _ordered(part, found, types, statistics)
    return found[node]


def _ordered(join: Join, found: Mapping[Node, Node], types: Types, statistics: Statistics) -> Node:
    """Joins of several relations in an order of low cost; `found` has their plans."""
    chain = _chain(join, types)
    written = tuple(range(len(chain.parts)))
    if not all(map(is_total, chain.conditions)):
        return with_operands(join, [found[operand] for operand in operands(join)])
    sides = [statistics.side(node, names) for node, names in chain.parts]
    best, least = written, _cost(chain, sides, written, statistics) / _WORTH
    for first in written:
        order = _greedy(chain, sides, first, statistics)
        cost = _cost(chain, sides, order, statistics)
        if cost < least:
            best, least = order, cost
    if best == written:
        return with_operands(join, [found[operand] for operand in operands(join)])
    result, before = _named(chain, best[0], found, types), set[str]()
    names = set(chain.parts[best[0]][1])
    for number in best[1:]:
        part, own = chain.parts[number]
        names |= set(own)
        result = Join(result, found[part], chain.condition_of(names, before), own)
        before = set(names)
    values = ((name, _column(chain.on, name)) for _, own in chain.parts for name in own)
    return Select(result, tuple(values))


def _chain(join: Join, types: Types) -> _Chain:
    parts: list[tuple[Node, tuple[str, ...]]] = []
    conditions: list[Expression] = []
    node: Node = join
    while isinstance(node, Join):
        parts.append((node.right, node.names))
        conditions += conjuncts(node.on.expression)
        node = node.left
    parts.append((node, tuple(types.of(node).names)))
    return _Chain(parts[::-1], conditions, join.on)


def _greedy(
    chain: _Chain, sides: Sequence[_Side], first: int, statistics: Statistics
) -> tuple[int, ...]:
    """The order that begins with a relation, and joins the one next that gives fewest records."""
    order, left = [first], [number for number in range(len(sides)) if number != first]
    side = sides[first]
    while left:
        joined = {number: _joined(chain, side, sides[number], statistics) for number in left}
        best = min(left, key=lambda number: joined[number].size)
        side = joined[best]
        order.append(best)
        left.remove(best)
    return tuple(order)


def _cost(
    chain: _Chain, sides: Sequence[_Side], order: Sequence[int], statistics: Statistics
) -> float:
    """How many records an order looks at: those of all relations that are joined on the way."""
    side = sides[order[0]]
    cost = 0.0
    for number in order[1:]:
        cost += side.size + sides[number].size
        side = _joined(chain, side, sides[number], statistics)
    return cost


def _joined(chain: _Chain, left: _Side, right: _Side, statistics: Statistics) -> _Side:
    places = {**left.places, **right.places}
    on = chain.condition_of(set(places), set(left.places))
    return _Side(statistics.joined(left, right, on), min(left.length, right.length), places)


def _named(chain: _Chain, number: int, found: Mapping[Node, Node], types: Types) -> Node:
    """The relation that comes first, under the names of its columns in the result."""
    node, names = chain.parts[number]
    own = types.of(node).names
    result = found[node]
    if tuple(own) != names:
        values = ((name, _column(chain.on, one)) for name, one in zip(names, own, strict=True))
        result = Select(result, tuple(values))
    return result


def _column(like: Predicate, name: str) -> Predicate:
    return like.with_expression(Expression(ops.COLUMN, (), name, Span(0, 0)))
