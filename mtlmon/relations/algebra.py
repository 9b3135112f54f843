"""The operators of relations as a tree of immutable nodes.

Nodes say what a relation is and nothing about how it is computed. They are equal if they say the
same; places in the text of a policy file do not matter. Durations are integers in the unit of the
time-stamps. Conditions and values are expressions over the columns of the operand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtlmon.policy.predicates.own_aggregates import OwnAggregate
    from mtlmon.policy.predicates.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Source:
    """The records of a table, with the validity that they have there.

    Attributes:
        name: the name of the table among those that the plan is evaluated on.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Where:
    """The records for which a condition is true."""

    of: Node
    condition: Predicate


@dataclass(frozen=True, slots=True)
class Select:
    """Records of new columns; equal records stay as many as they are.

    Attributes:
        values: the name and the expression of each column, at least one.
    """

    of: Node
    values: tuple[tuple[str, Predicate], ...]


@dataclass(frozen=True, slots=True)
class ValidFor:
    """Each record is valid for some time from its start on, whatever its end was.

    Attributes:
        length: how long; None for ever.
    """

    of: Node
    length: int | None


@dataclass(frozen=True, slots=True)
class ValidUntilNext:
    """Each record is valid from its start until the next multiple of a length after it."""

    of: Node
    length: int


@dataclass(frozen=True, slots=True)
class ValidTo:
    """Each record is valid up to a time that it has itself, and for ever where that is null.

    A record whose end is not behind its start is valid at no time.

    Attributes:
        end: a time-stamp, or a time.
    """

    of: Node
    end: Predicate


@dataclass(frozen=True, slots=True)
class ValidUntil:
    """Each record is valid until the next start of a record for which a condition is true.

    That record starts later, and has the same values in some columns, where null is a value like
    others. Where there is none, the record has no end. Records that close others are records
    themselves.

    Attributes:
        per: the columns; without any, a record may be closed by every other one.
    """

    of: Node
    condition: Predicate
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidLast:
    """Each record is valid until so many others with the same values in some columns have begun.

    These begin later than the record. Where there are not so many, the record has no end.

    Attributes:
        count: how many, at least 1.
        per: the columns, as for `ValidUntil`.
    """

    of: Node
    count: int
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Every:
    """What is valid at a multiple of a length, up to the next multiple."""

    of: Node
    length: int


@dataclass(frozen=True, slots=True)
class Shift:
    """Each record begins and ends some time later, or earlier if that is negative.

    A record whose end is not behind its start then is valid at no time.
    """

    of: Node
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Records with their starts and ends as further columns; the end is null where there is none.

    Attributes:
        start: the column with the starts; None if these are not wanted.
        end: likewise.
    """

    of: Node
    start: str | None
    end: str | None = None


@dataclass(frozen=True, slots=True)
class At:
    """The records that are valid at a time, valid then alone."""

    of: Node
    time: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate over the records of a group.

    Attributes:
        name: the name of the column.
        word: one of `mtlmon.policy.validity.declared.AGGREGATES`, or the name of `own`.
        argument: what is aggregated; for `count`, a condition or None, which counts all records.
        share: of a quantile.
        own: the aggregate, if a program defines it.
        order: for `first`, `last` and those of programs, the column with the starts of records.
    """

    name: str
    word: str
    argument: Predicate | None = None
    share: float | None = None
    own: OwnAggregate | None = None
    order: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """One record for each group of records with equal values in some columns.

    Nulls are equal to each other. Aggregates ignore nulls, and are null where nothing is left,
    but counts are 0. Where no record is valid, there is no group.

    Attributes:
        keys: the columns, which come first in the result; without any, all records are one group.
        values: the aggregates.
    """

    of: Node
    keys: tuple[str, ...]
    values: tuple[Aggregation, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """The pairs of records that are valid at the same time and for which a condition is true.

    Attributes:
        on: the condition over the columns of both.
        names: what the condition and the result call the columns of the right relation, as many
            as there are; none of them is a column of the left one.
    """

    left: Node
    right: Node
    on: Predicate
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Semijoin:
    """The records of the left relation while a record of the right one meets the condition.

    Records stay as many as they are, however many records of the right relation there are.

    Attributes:
        on: as for `Join`.
        names: as for `Join`.
    """

    left: Node
    right: Node
    on: Predicate
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """The records of both relations; columns are matched by their order."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class UnionMax:
    """Each record as often as in that relation where it is more often."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Minus:
    """The records of the left relation without as many equal ones as the right one has."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class MinusAll:
    """The records of the left relation that do not occur in the right one."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Intersect:
    """Each record as often as in that relation where it is less often."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each record once."""

    of: Node


@dataclass(frozen=True, slots=True)
class DistinctOn:
    """Of the records with equal values in some columns, the one that has begun last.

    Of several, it is the last one in the order of the columns; there, null comes last, and NaN
    before it.

    Attributes:
        keys: the columns; without any, there is one record at a time.
        order: the column with the starts of records, which the result does not have.
    """

    of: Node
    keys: tuple[str, ...]
    order: str


@dataclass(frozen=True, slots=True)
class Inserts:
    """At each time, the records that are valid then and were not just before, as often as that."""

    of: Node


@dataclass(frozen=True, slots=True)
class Deletes:
    """At each time, the records that were valid just before and are not then, as often as that."""

    of: Node


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The same snapshots in as few records as can be.

    Of equal records, the one that starts first ends first.

    Attributes:
        longest: how long a record may be at most; longer ones are cut. None if it does not matter.
    """

    of: Node
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The same snapshots in records that are cut after every so much time from their start."""

    of: Node
    length: int


Unary: TypeAlias = (
    Where
    | Select
    | ValidFor
    | ValidUntilNext
    | ValidTo
    | ValidUntil
    | ValidLast
    | Every
    | Shift
    | Timed
    | At
    | Group
    | Distinct
    | DistinctOn
    | Inserts
    | Deletes
    | Coalesce
    | Split
)
Binary: TypeAlias = Join | Semijoin | Union | UnionMax | Minus | MinusAll | Intersect
Node: TypeAlias = Source | Unary | Binary


OF_STARTS = ValidFor | ValidUntilNext | ValidTo | ValidUntil | ValidLast
"""What looks at the starts of records, and not at their ends."""

OF_RECORDS = Where | Select | OF_STARTS | Every | Shift | Timed | Union
"""What is defined for each record, or by the starts of others, and not by snapshots."""


def is_of_records(node: Node) -> bool:
    """Whether a relation has the records of its tables, each by itself."""
    return all(isinstance(part, Source | OF_RECORDS) for part in nodes(node))


def operands(node: Node) -> tuple[Node, ...]:
    """Return the relations that a node is made of, in order."""
    if isinstance(node, Source):
        return ()
    if isinstance(node, Binary):
        return node.left, node.right
    return (node.of,)


def with_operands(node: Node, of: Sequence[Node]) -> Node:
    """Return a node with other operands, or the node itself if they are the same."""
    if tuple(of) == operands(node):
        return node
    # the type checker cannot tell which of the classes have which operands
    changed: Any = node
    found: Node
    if len(of) == 1:
        found = replace(changed, of=of[0])
    else:
        found = replace(changed, left=of[0], right=of[1])
    return found


def rebuilt(plan: Node, change: Callable[[Node, Node], Node]) -> Node:
    """Return a plan whose parts have been changed, from the tables on.

    Args:
        plan: the plan.
        change: returns what a part becomes; it gets the part, and the part with what its operands
            have become.
    """
    found: dict[Node, Node] = {}
    for part in nodes(plan):
        changed = with_operands(part, [found[operand] for operand in operands(part)])
        found[part] = change(part, changed)
    return found[plan]


def sources(node: Node) -> tuple[str, ...]:
    """Return the names of the tables that a plan reads, in order of first occurrence."""
    return tuple(dict.fromkeys(found.name for found in nodes(node) if isinstance(found, Source)))


def nodes(*roots: Node) -> Iterator[Node]:
    """Yield the distinct nodes of plans, operands before what is made of them."""
    seen: set[Node] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, is_ready = stack.pop()
        if node in seen:
            continue
        if is_ready:
            seen.add(node)
            yield node
            continue
        stack.append((node, True))
        stack.extend((operand, False) for operand in reversed(operands(node)))
