"""Formulas that are told what lies beyond a boundary instead of reading it.

A family whose operands are not known beyond a boundary is *masked*: three atoms of its own say what
becomes of it there. `outside` holds at every time-point beyond the boundary, `witness` where
`f SINCE[0,*) g`, or `f UNTIL[0,*) g`, is to hold there, `open` where a UNTIL shall stay undecided.
With them

    f SINCE[a,*) g   becomes   f SINCE[a,*) (witness OR g AND NOT outside)
    f UNTIL[a,*) g   becomes   (open OR f AND NOT outside)
                               UNTIL[a,*) (witness OR g AND NOT outside)

Take a time-point i of the interval where the SINCE must be right. Witnesses inside the boundary are
those of the original. The last time-point outside, j, is one if `f SINCE[0,*) g` holds there in the
trace, at an age of at least a by the choice of the boundary. Then i has f all the way from j, or
not, just as it has from the witness of the trace behind j, which is older than j and so old enough.
For UNTIL the same holds in the mirror; f must fail outside, unless it shall stay open, for the
UNTIL not to wait for more.

At time-points inside all three atoms are false, so every operand has its own value there, also as
an expression over obligations about the future, and no other row of the program is changed: what a
monitor of the program leaves undecided is left undecided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.cutting.families import ATOM, FALSE, UNTIL, UNTILS
from mtlmon.engine.compile import Builder

if TYPE_CHECKING:
    from collections.abc import Collection

    from mtlmon.cutting.families import Families
    from mtlmon.engine.native import Program


class MaskAtoms:
    """Names of the atoms of masks, none of which the program has."""

    def __init__(self, program: Program) -> None:
        prefix = "mask"
        while any(name.startswith(prefix) for name in program.atoms):
            prefix += "'"
        self._prefix = prefix

    def outside(self, family: int) -> str:
        return f"{self._prefix} outside {family}"

    def witness(self, family: int) -> str:
        return f"{self._prefix} witness {family}"

    def open(self, family: int) -> str:
        return f"{self._prefix} open {family}"

    def here(self, family: int) -> str:
        """Of the atom that marks one time-point, for other uses than masks."""
        return f"{self._prefix} here {family}"


class MaskedProgram:
    """The rows of a program, some families masked, to make other programs of.

    Args:
        masked: the numbers of those families.

    Attributes:
        builder: the rows, to which more may be added; it numbers atoms as the program does.
        atoms: the names of the masks' atoms.
    """

    def __init__(self, program: Program, families: Families, masked: Collection[int]) -> None:
        self.atoms = MaskAtoms(program)
        self.builder = Builder()
        self._operands: list[int] = []
        for name in program.atoms:
            self.builder.atom(name)
        for number, (operation, left, right, lower, upper, index) in enumerate(program.rows):
            if operation == FALSE:
                operand = 0
            elif operation == ATOM:
                operand = self.builder.atom(program.atoms[index])
            else:
                operands = self.of(left), self.of(right)
                family = families.of_row.get(number)
                if family is not None and family in masked:
                    operands = self._masked(family, operation in UNTILS, *operands)
                # which UNTILs are outer is found out for each program anew
                plain = UNTIL if operation in UNTILS else operation
                operand = self.builder.row(plain, *operands, lower, upper)
            self._operands.append(operand)

    def of(self, operand: int) -> int:
        """What an operand of the program has become."""
        return self._operands[operand >> 1] ^ (operand & 1)

    def _masked(self, family: int, is_future: bool, left: int, right: int) -> tuple[int, int]:
        builder, atoms = self.builder, self.atoms
        inside = builder.atom(atoms.outside(family)) ^ 1
        if is_future:
            left = builder.disjunction(
                builder.atom(atoms.open(family)), builder.conjunction(left, inside)
            )
        witness = builder.atom(atoms.witness(family))
        return left, builder.disjunction(witness, builder.conjunction(right, inside))
