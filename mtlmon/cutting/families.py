"""Groups the operators of a program that have no upper bound.

Rows with SINCE, or UNTIL, without upper bound and with the same operands form a *family*. They
differ only in their lower bounds, and need the same information from beyond a boundary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.engine.compile import OPERATIONS

if TYPE_CHECKING:
    from mtlmon.engine.native import Program

AND = OPERATIONS.index("AND")
ATOM = OPERATIONS.index("ATOM")
FALSE = OPERATIONS.index("FALSE")
NEXT = OPERATIONS.index("NEXT")
PREVIOUS = OPERATIONS.index("PREVIOUS")
SINCE = OPERATIONS.index("SINCE")
UNTIL = OPERATIONS.index("UNTIL")
UNTILS = (UNTIL, OPERATIONS.index("OUTER_UNTIL"))


class Family(NamedTuple):
    """SINCEs, or UNTILs, without upper bound over the same operands.

    Attributes:
        is_future: whether they are UNTILs.
        left: the left operand, as `mtlmon.engine.compile` numbers it.
        right: the right operand, likewise.
        rows: the numbers of the instructions, in ascending order.
        level: 0 if the operands contain no other family, otherwise one more than the highest level
            of these families.
    """

    is_future: bool
    left: int
    right: int
    rows: tuple[int, ...]
    level: int


class Families(NamedTuple):
    """All families of a program.

    Attributes:
        families: the families, each after those that its operands contain.
        of_row: the number of the family of each instruction that belongs to one.
        is_stacked: whether the operands of some family contain an UNTIL of another family.
    """

    families: tuple[Family, ...]
    of_row: dict[int, int]
    is_stacked: bool


def find_families(program: Program) -> Families:
    """Find the families of a program, and how they are nested."""
    rows = program.rows
    members: dict[tuple[bool, int, int], list[int]] = {}
    # for each row: the least level of a family that contains it, and whether the row is or contains
    # an UNTIL of a family
    levels = [0] * len(rows)
    has_until = [False] * len(rows)
    family_levels: dict[tuple[bool, int, int], int] = {}
    is_stacked = False
    for number, (operation, left, right, _, upper, _) in enumerate(rows):
        if operation in (ATOM, FALSE):
            continue
        inside = (left >> 1, right >> 1)
        levels[number] = max(levels[row] for row in inside)
        has_until[number] = any(has_until[row] for row in inside)
        is_future = operation in UNTILS
        if upper is None and (is_future or operation == SINCE):
            family = (is_future, left, right)
            members.setdefault(family, []).append(number)
            family_levels[family] = levels[number]
            is_stacked = is_stacked or has_until[number]
            levels[number] += 1
            has_until[number] = has_until[number] or is_future
    families = tuple(
        Family(*family, tuple(numbers), family_levels[family])
        for family, numbers in members.items()
    )
    of_row = {row: number for number, one in enumerate(families) for row in one.rows}
    return Families(families, of_row, is_stacked)
