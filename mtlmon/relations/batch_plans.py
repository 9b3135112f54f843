"""Which operators of a plan look at records, at their starts or at their ends.

Where records come in batches, these get them in different ways; see `incremental`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError
from mtlmon.relations.algebra import (
    OF_RECORDS,
    OF_STARTS,
    Coalesce,
    Every,
    Join,
    Semijoin,
    Shift,
    Source,
    Split,
    Timed,
    ValidLast,
    ValidUntil,
    nodes,
    operands,
    rebuilt,
)
from mtlmon.relations.plan_texts import plan_line
from mtlmon.relations.steps import empty
from mtlmon.support.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.relations.algebra import Node, Unary
    from mtlmon.relations.records import Records
    from mtlmon.relations.typing import Types

__all__ = [
    "OF_LATER",
    "Part",
    "first_waiting",
    "moves_starts",
    "parts_of",
    "refused_in_batches",
    "replaced",
    "with_splits",
]

# Operators that look at starts for which ends follow from other records.
OF_LATER = ValidUntil | ValidLast
# Operators whose snapshots depend on the times of records.
_OF_TIMES = OF_STARTS | Every | Shift | Timed


def first_waiting(plan: Node) -> Unary | None:
    """Return the first operator of a plan that needs ends before they are known, or None."""
    is_open: set[Node] = set()
    for part in nodes(plan):
        below = operands(part)
        of_open = any(one in is_open or not isinstance(one, Source | OF_RECORDS) for one in below)
        if isinstance(part, Timed) and part.end is not None and of_open:
            return part
        if isinstance(part, Shift) and (part.start < 0 or (part.end < 0 and of_open)):
            return part
        if isinstance(part, OF_LATER) or (
            of_open and isinstance(part, OF_RECORDS) and not isinstance(part, OF_STARTS)
        ):
            is_open.add(part)
    return None


def replaced(plan: Node, old: Node, new: Node) -> Node:
    """Return a plan with another operator in the place of one."""
    return rebuilt(plan, lambda part, changed: new if part == old else changed)


class Part(NamedTuple):
    """A part of a plan, and what is wanted of it between two watermarks.

    Attributes:
        number: its number; operands come before what is made of them.
        node: the operator.
        of: the numbers of its operands.
        nothing: no records, of its columns.
        is_looked_at: whether its records are wanted as they begin, and as their ends are known.
        is_whole: whether all of them are wanted then that reach this time.
        is_valid: whether what is valid in this time is wanted.
    """

    number: int
    node: Node
    of: Sequence[int]
    nothing: Records
    is_looked_at: bool
    is_whole: bool
    is_valid: bool


def parts_of(plan: Node, types: Types, *, is_looked_at: bool) -> list[Part]:
    """Return the parts of a plan.

    Args:
        plan: the plan, without `coalesce max`.
        types: the columns of relations.
        is_looked_at: whether records of the plan are wanted, and not what is valid.
    """
    parts = list(nodes(plan))
    valid: set[Node] = set() if is_looked_at else {plan}
    records: set[Node] = set()
    whole: set[Node] = set()
    looked_at = [one for part in parts if isinstance(part, _OF_TIMES) for one in operands(part)]
    if is_looked_at or isinstance(plan, Split):
        looked_at.append(plan)
    while looked_at:
        part = looked_at.pop()
        if part not in records:
            records.add(part)
            looked_at += _looked_at(part)
    for part in parts:
        of = operands(part)
        # it is less to look at each record once than at all that are valid in each batch
        if isinstance(part, Source | OF_RECORDS) and records.issuperset(of):
            records.add(part)
        if moves_starts(part):
            whole.add(part)
        if part not in records:
            valid.update(of)
        elif not isinstance(part, Source | OF_RECORDS):
            whole.update(_looked_at(part))
            valid.update(() if isinstance(part, Join | Split) else of)
    # PERF: the hash of a part is that of all below it, so nothing is looked up for each batch
    numbers = {part: number for number, part in enumerate(parts)}
    return [
        Part(
            number,
            part,
            [numbers[operand] for operand in operands(part)],
            empty(types.of(part)),
            part in records,
            part in whole,
            part in valid,
        )
        for part, number in numbers.items()
    ]


def _looked_at(node: Node) -> tuple[Node, ...]:
    """The operands whose records an operator looks at, if its own ones are looked at."""
    if isinstance(node, Semijoin):
        return (node.left,)
    return operands(node) if isinstance(node, Join | Split | OF_RECORDS) else ()


def moves_starts(node: Node) -> bool:
    """Whether records begin later than what they are made of."""
    return isinstance(node, Every) or (isinstance(node, Shift) and node.start > 0)


def with_splits(plan: Node) -> Node:
    """Return a plan in which what is coalesced is cut afterwards."""

    def cut(_: Node, changed: Node) -> Node:
        if isinstance(changed, Coalesce) and changed.longest is not None:
            return Split(Coalesce(changed.of), changed.longest)
        return changed

    return rebuilt(plan, cut)


def refused_in_batches(node: Node) -> MtlmonError:
    """Return the error that an operator needs ends before they are known."""
    return MtlmonError(refused("batches, operator", word=f"`{plan_line(node, None)}`"))
