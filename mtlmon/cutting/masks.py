"""Changes formulas so that atoms tell them what lies beyond a boundary.

A family whose operands are not known beyond a boundary is *masked*: three additional atoms set its
value there. `outside` holds at every time-point beyond the boundary, `witness` at those where
`f SINCE[0,*) g` or `f UNTIL[0,*) g` is to hold, and `open` at those where an UNTIL is to stay
undecided. Masking makes these replacements:

    f SINCE[a,*) g   becomes   f SINCE[a,*) (witness OR g AND NOT outside)
    f UNTIL[a,*) g   becomes   (open OR f AND NOT outside)
                               UNTIL[a,*) (witness OR g AND NOT outside)

Let i be a time-point where the value of the SINCE must be right. Inside the boundary, the witnesses
are those of the original formula. Let j be the last time-point outside. If `f SINCE[0,*) g` holds
at j in the trace, then j is a witness of the masked formula, and its age is at least a by the
choice of the boundary. The witness in the trace is j or older, and so old enough too. In both cases
the value at i depends on whether f holds from j to i.

The same holds for UNTIL, with time reversed. There, f must fail outside, unless the UNTIL is to
stay open; otherwise it would wait for later events.

At time-points inside, all three atoms are false, so that every operand keeps its own value, also if
that is an expression over obligations. No other row of the program is changed. So a monitor of the
masked program leaves the same time-points undecided.
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
    """Names for the atoms of masks, distinct from all atoms of the program."""

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
        """Name the atom that marks a single time-point; masks do not use it."""
        return f"{self._prefix} here {family}"


class MaskedProgram:
    """The rows of a program with some families masked, from which new programs can be built.

    Args:
        program: the original program.
        families: its families.
        masked: the numbers of the families to mask.

    Attributes:
        builder: the rows, to which callers can add more; it numbers atoms as the program does.
        atoms: the names of the atoms of masks.
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
                # each program that is built decides anew which UNTILs are outer
                plain = UNTIL if operation in UNTILS else operation
                operand = self.builder.row(plain, *operands, lower, upper)
            self._operands.append(operand)

    def of(self, operand: int) -> int:
        """Return the operand of `builder` that replaces an operand of the program."""
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
