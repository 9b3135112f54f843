"""Which operators of a plan look at records, at their starts or at their ends.

Where records come in batches, these get them in different ways; see `incremental`.
"""

from __future__ import annotations

from mtlmon.errors import MtlmonError
from mtlmon.relations.algebra import (
    OF_RECORDS,
    Coalesce,
    Every,
    Join,
    Semijoin,
    Shift,
    Source,
    Split,
    Timed,
    ValidFor,
    ValidLast,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    nodes,
    operands,
    with_operands,
)
from mtlmon.relations.plan_texts import plan_line
from mtlmon.support.refusals import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.relations.algebra import Node, Unary

__all__ = [
    "OF_LATER",
    "OF_STARTS",
    "first_waiting",
    "records_of_plan",
    "refused_in_batches",
    "replaced",
    "words_of",
]

# Operators that look at the times of records, and not only at snapshots.
_OF_TIMES = (
    ValidFor | ValidUntilNext | ValidTo | ValidUntil | ValidLast | Every | Shift | Timed | Split
)
# Those that do not look at ends.
OF_STARTS = ValidFor | ValidUntilNext | ValidTo | ValidUntil | ValidLast
# Those of them for which ends follow from other records.
OF_LATER = ValidUntil | ValidLast


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
    found: dict[Node, Node] = {}
    for part in nodes(plan):
        changed = with_operands(part, [found[operand] for operand in operands(part)])
        found[part] = new if part == old else changed
    return found[plan]


def records_of_plan(plan: Node) -> tuple[set[Node], set[Node]]:
    """Return the operators that look at one record at a time, and those below them that do not.

    Raises:
        MtlmonError: these have other records than snapshots say, or the relation is cut.
    """
    whole: set[Node] = set()
    for part in nodes(plan):
        if isinstance(part, Split) or (isinstance(part, Coalesce) and part.longest is not None):
            raise refused_in_batches("split" if isinstance(part, Split) else "coalesce max")
        below = [*operands(part)] if isinstance(part, _OF_TIMES) else []
        while below:
            one = below.pop()
            if isinstance(one, OF_RECORDS):
                below += operands(one)
            elif isinstance(one, Join | Semijoin):
                word = type(one).__name__.lower()
                message = refused("batches, records of joins", word=words_of(part), join=word)
                raise MtlmonError(message)
            elif not isinstance(one, Source):
                whole.add(one)
    found: set[Node] = set()
    for part in nodes(plan):
        if isinstance(part, Source) or (
            isinstance(part, OF_RECORDS)
            and all(one in found or one in whole for one in operands(part))
        ):
            found.add(part)
    return found, whole


def words_of(node: Node) -> str:
    """Return an operator in the words of policy files."""
    return plan_line(node, None)


def refused_in_batches(word: str) -> MtlmonError:
    """Return the error that an operator needs all records at once."""
    return MtlmonError(refused("batches, operator", word=f"`{word}`"))
