"""The operators of a program that look as far as the stream goes.

Rows of a program with SINCE or UNTIL without upper bound and with the same operands are a *family*:
they differ in how near they look, and share what has to be known of the far end.
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
        level: 0 if no other family is inside the operands, else one more than the highest of those.
    """

    is_future: bool
    left: int
    right: int
    rows: tuple[int, ...]
    level: int


class Families(NamedTuple):
    """All families of a program.

    Attributes:
        families: each after those inside its operands.
        of_row: the number of the family by that of the instruction.
        is_stacked: whether an UNTIL of a family stands inside the operands of another family.
    """

    families: tuple[Family, ...]
    of_row: dict[int, int]
    is_stacked: bool


def find_families(program: Program) -> Families:
    """The families of a program, and how they are nested."""
    rows = program.rows
    members: dict[tuple[bool, int, int], list[int]] = {}
    # of each row: the least level that a family around it can have; whether an UNTIL of a family is
    # inside it, itself included
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
