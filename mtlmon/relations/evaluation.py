"""Evaluates relations over whole tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.policy.predicates.environment import NOTHING
from mtlmon.relations.algebra import (
    At,
    Coalesce,
    Deletes,
    Distinct,
    DistinctOn,
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
    Timed,
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
)
from mtlmon.relations.grouping import grouped, latest
from mtlmon.relations.join_order import Statistics, joins_by_size
from mtlmon.relations.joining import joined, semijoined
from mtlmon.relations.multiplicity import at_time, changed, coalesced, multiplied
from mtlmon.relations.records import NO_END, records_of, table_of, up_to
from mtlmon.relations.rowwise import Expressions, selected, united, where
from mtlmon.relations.rules import optimized
from mtlmon.relations.typing import Types
from mtlmon.relations.validity import (
    every,
    shifted,
    split,
    timed,
    valid_for,
    valid_last,
    valid_to,
    valid_until,
    valid_until_next,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.relations.algebra import Node
    from mtlmon.relations.multiplicity import Rule
    from mtlmon.relations.records import Records

_BAGS: dict[type[Node], Rule] = {
    UnionMax: "most",
    Minus: "less",
    MinusAll: "absent",
    Intersect: "least",
}


class FoundPlan(NamedTuple):
    """How a relation is evaluated.

    Attributes:
        declared: the plan as it is declared.
        plan: the plan that has the same records and is evaluated.
        rules: the names of the rules by which it was found, and how often each was applied.
    """

    declared: Node
    plan: Node
    rules: Sequence[tuple[str, int]]


def evaluate(
    node: Node,
    tables: Mapping[str, pa.Table],
    environment: Environment = NOTHING,
    tell: Callable[[FoundPlan], object] | None = None,
    end: int = NO_END,
) -> pa.Table:
    """Evaluate a relation.

    Args:
        node: the relation.
        tables: each table that it reads: its start and its end, both integers of 64 bits, where
            null is no end, then the columns of the relation.
        environment: the time column, the unit and the zone, for functions of time.
        tell: gets the plan before it is evaluated.
        end: what is valid later is not wanted.

    Returns:
        Its records: `start`, `end`, and the columns of the relation, in order of start, end and
        columns. They are as few as can be, unless the last step of the relation cuts them.

    Raises:
        PolicyError: an expression does not fit the columns of its relation.
        RowError: integers overflow in an expression.
        MtlmonError: a table is missing or cannot be read, a sum of integers overflows, or a
            column of the result is called `start` or `end`.

    How many jobs have run at the same time:

    >>> from mtlmon.relations.algebra import Aggregation
    >>> jobs = pa.table({"from": [0, 2, 9], "to": [5, 7, None], "job": ["a", "b", "c"]})
    >>> open_jobs = Group(Source("jobs"), (), (Aggregation("n", "count"),))
    >>> for record in evaluate(open_jobs, {"jobs": jobs}).to_pylist():
    ...     print(record)
    {'start': 0, 'end': 2, 'n': 1}
    {'start': 2, 'end': 5, 'n': 2}
    {'start': 5, 'end': 7, 'n': 1}
    {'start': 9, 'end': None, 'n': 1}
    """
    return evaluate_all({"": node}, tables, environment, tell, end)[""]


def evaluate_all(
    relations: Mapping[str, Node],
    tables: Mapping[str, pa.Table],
    environment: Environment = NOTHING,
    tell: Callable[[FoundPlan], object] | None = None,
    end: int = NO_END,
) -> dict[str, pa.Table]:
    """Evaluate several relations, and what they have in common only once; see `evaluate`.

    Args:
        relations: the relations by name.
        tables: as for `evaluate`.
        environment: as for `evaluate`.
        tell: as for `evaluate`.
        end: as for `evaluate`.

    Returns:
        The records of each relation.
    """
    schemas = {name: pa.schema(list(table.schema)[2:]) for name, table in tables.items()}
    types = Types(schemas, environment)
    for node in relations.values():
        types.of(node)
    statistics = Statistics(tables, types)
    plans = {}
    for name, node in relations.items():
        found_plan = planned(node, types, statistics)
        plans[name] = found_plan.plan
        if tell is not None:
            tell(found_plan)
    uses = Counter(plans.values())
    now = min(NO_END, end + earlier(*plans.values()))
    for node in nodes(*plans.values()):
        uses.update(operands(node))
    found: dict[Node, Records] = {}
    expressions = Expressions(environment)

    def used(node: Node) -> Records:
        uses[node] -= 1
        return found[node] if uses[node] else found.pop(node)

    for node in nodes(*plans.values()):
        if isinstance(node, Source):
            found[node] = records_of(tables[node.name])
        else:
            of = [used(operand) for operand in operands(node)]
            found[node] = apply(node, of, types.of(node), expressions, now)
    return {name: table_of(up_to(used(plan), end)) for name, plan in plans.items()}


def earlier(*plans: Node) -> int:
    """Return by how much plans shift starts to earlier times, at most."""
    return sum(-min(0, one.start) for one in nodes(*plans) if isinstance(one, Shift))


def coalesced_plan(node: Node, types: Types) -> Node:
    """Return the plan of a relation, coalesced unless its last step says how records are cut."""
    return planned(node, types).plan


def planned(node: Node, types: Types, statistics: Statistics | None = None) -> FoundPlan:
    """Return how a relation is evaluated: coalesced unless its last step says how records are cut.

    Args:
        node: the relation.
        types: the columns of relations.
        statistics: how many records there are; without it, relations are joined as declared.
    """
    used = Counter[str]()
    is_cut = isinstance(node, Split) or (isinstance(node, Coalesce) and node.longest is not None)
    plan = optimized(node if is_cut else Coalesce(node), types, used)
    if statistics is not None:
        ordered = joins_by_size(plan, types, statistics)
        used["joins by size"] += ordered != plan
        plan = ordered
    return FoundPlan(node, plan, [(name, count) for name, count in used.items() if count])


def apply(
    node: Node,
    of: list[Records],
    schema: pa.Schema,
    expressions: Expressions,
    now: int = NO_END,
) -> Records:
    """Apply one operator to its operands.

    Args:
        node: the operator, which is not a `Source`.
        of: the records of its operands.
        schema: the columns of the result.
        expressions: what is known of those of the plan.
        now: as for `split`.

    Raises:
        RowError: integers overflow in an expression.
        MtlmonError: a sum of integers overflows, or a record without end is to be cut.
    """
    first = of[0]
    if isinstance(node, Where):
        return where(first, node.condition, expressions)
    if isinstance(node, Select):
        return selected(first, dict(node.values), schema, expressions)
    if isinstance(node, ValidFor):
        return valid_for(first, node.length)
    if isinstance(node, ValidTo):
        return valid_to(first, node.end, expressions)
    if isinstance(node, ValidUntilNext):
        return valid_until_next(first, node.length)
    if isinstance(node, ValidUntil):
        return valid_until(first, node.condition, node.per, expressions)
    if isinstance(node, ValidLast):
        return valid_last(first, node.count, node.per)
    if isinstance(node, Every):
        return every(first, node.length)
    if isinstance(node, Shift):
        return shifted(first, node.start, node.end)
    if isinstance(node, Timed):
        return timed(first, node, schema)
    if isinstance(node, At):
        return at_time(first, node.time)
    if isinstance(node, Group):
        return grouped(first, node.keys, node.values, schema, expressions)
    if isinstance(node, Distinct):
        return multiplied("once", first)
    if isinstance(node, DistinctOn):
        return latest(first, node.keys, node.order, schema)
    if isinstance(node, Inserts | Deletes):
        return changed(first, is_insert=isinstance(node, Inserts))
    if isinstance(node, Coalesce):
        found = coalesced(first)
        return found if node.longest is None else split(found, node.longest, now=now)
    if isinstance(node, Split):
        return split(first, node.length, now=now)
    if isinstance(node, Join):
        return joined(first, of[1], node.on, node.names, schema, expressions)
    if isinstance(node, Semijoin):
        return semijoined(first, of[1], node.on, node.names, expressions)
    assert not isinstance(node, Source)
    both = united(first, of[1], schema)
    if isinstance(node, Union):
        return both
    return multiplied(_BAGS[type(node)], both, len(first))
