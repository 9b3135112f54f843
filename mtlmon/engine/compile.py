"""Compile a kernel formula to a program: hash-consing, folding, and placing each UNTIL.

An *operand* is `2 * instruction number`, plus 1 if it is negated. Instruction 0 is the constant
false, so operand 0 is false and operand 1 is true.
"""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.engine.choice import choose_engine
from mtlmon.engine.native import Program
from mtlmon.syntax import operators as ops
from mtlmon.syntax.conditions import refuse_conditions
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.native import form_of
from mtlmon.syntax.parser import parse
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtlmon.syntax.operators import Operator

    # operation, left operand, right operand, lower bound, upper bound (None: no limit), index
    _Row = tuple[int, int, int, int, int | None, int]
    # the arguments of a Program
    _Parts = tuple[tuple[_Row, ...], int, tuple[str, ...], bool, bool]

OPERATIONS = ("FALSE", "ATOM", "AND", "PREVIOUS", "SINCE", "NEXT", "UNTIL", "OUTER_UNTIL")
"""The names of the instructions' operations, in the order of the native enumeration."""

_ATOM, _AND, _PREVIOUS, _SINCE, _NEXT, _UNTIL, _OUTER_UNTIL = range(1, len(OPERATIONS))
_TEMPORAL = {_PREVIOUS, _SINCE, _NEXT, _UNTIL}
_FALSE_OPERAND, _TRUE_OPERAND = 0, 1


def compile_formula(formula: Formula | str, *, unit: str | None = None) -> Program:
    """Compile a formula, or a text that `parse` can read, for any number of monitors to share.

    Args:
        unit: the unit of the time-stamps, as for `Monitor`.

    Raises:
        FormulaError: the text is not a formula, a bound is not a whole number of units, or the
            formula has conditions on values.
        UnitError: the unit is not known.
        TypeError: the argument is neither a text nor a formula.
    """
    if isinstance(formula, str):
        formula = parse(formula, unit=unit)
    elif isinstance(formula, Formula):
        formula = formula if unit is None else formula.in_unit(unit)
    else:
        raise TypeError(
            f"a formula is a text, a Formula or a Program, not {type(formula).__name__}"
        )
    return next(compile_formulas([formula]))


def compile_formulas(formulas: Iterable[Formula]) -> Iterator[Program]:
    """Compile formulas, one after the other; those that differ in names of atoms only once.

    Raises:
        FormulaError: a formula has conditions on values.

    PERF: 1,000 policies of 6 forms with 4 bounds took 0.050 s where each is compiled for itself.
    """
    # with the places of a program's atoms among the names of its formula
    known: dict[object, tuple[list[int], _Parts]] = {}
    for formula in formulas:
        form, names = form_of(formula)
        refuse_conditions(names)
        if (found := known.get(form)) is None:
            parts = _compiled(formula)
            place_of = {name: place for place, name in enumerate(names)}
            found = known[form] = [place_of[name] for name in parts[2]], parts
        places, (rows, root, _, bounded, has_network) = found
        atoms = tuple([names[place] for place in places])
        yield Program(rows, root, atoms, bounded, has_network)


def _compiled(formula: Formula) -> _Parts:
    builder = Builder()
    operand_of: dict[int, int] = {}
    kernel = desugar(formula)
    for node in postorder(kernel):
        operands = [operand_of[id(operand)] for operand in node.operands]
        operand_of[id(node)] = _BUILD[node.operator](builder, node, *operands)
    rows, root = _without_dead_rows(builder.rows, operand_of[id(kernel)])
    rows, root = _balanced(rows, root)
    return _assembled(rows, root, builder.atoms, formula.is_bounded)


def _assembled(
    rows: list[_Row], root: int, numbers: dict[str, int], formula_is_bounded: bool
) -> _Parts:
    """The parts of the program of rows without dead rows, whose atoms have these numbers."""
    names = {index: name for name, index in numbers.items()}
    used = sorted(row[5] for row in rows if row[0] == _ATOM)
    renumbered = {index: number for number, index in enumerate(used)}
    rows = [
        (*row[:5], renumbered[row[5]]) if row[0] == _ATOM else row for row in _placed(rows, root)
    ]
    atoms = tuple(names[index] for index in used)
    choice = choose_engine(rows, root, formula_is_bounded, "local")
    return tuple(rows), root, atoms, formula_is_bounded, choice.name == "network"


class Builder:
    """Builds rows: equal rows are shared, and operators with a known value are folded.

    Attributes:
        rows: the instructions so far.
        atoms: the number of each atom, by name.
    """

    def __init__(self) -> None:
        self.rows: list[_Row] = [(0, 0, 0, 0, 0, 0)]
        self.atoms: dict[str, int] = {}
        self._number_of: dict[_Row, int] = {}

    def row(
        self,
        operation: int,
        left: int = 0,
        right: int = 0,
        lower: int = 0,
        upper: int | None = 0,
        index: int = 0,
    ) -> int:
        row = (operation, left, right, lower, upper, index)
        number = self._number_of.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return 2 * number

    def atom(self, name: str) -> int:
        return self.row(_ATOM, index=self.atoms.setdefault(name, len(self.atoms)))

    def conjunction(self, left: int, right: int) -> int:
        if left > right:
            left, right = right, left
        if left == _FALSE_OPERAND or left == right ^ 1:
            return _FALSE_OPERAND
        if left in (_TRUE_OPERAND, right):
            return right
        return self.row(_AND, left, right)

    def disjunction(self, left: int, right: int) -> int:
        return self.conjunction(left ^ 1, right ^ 1) ^ 1

    def equivalence(self, left: int, right: int) -> int:
        return self.conjunction(
            self.disjunction(left ^ 1, right), self.disjunction(left, right ^ 1)
        )

    def step(self, operation: int, node: Formula, operand: int) -> int:
        """PREVIOUS and NEXT."""
        assert node.interval is not None
        if operand == _FALSE_OPERAND:
            return _FALSE_OPERAND
        return self.row(operation, operand, 0, node.interval.lower, node.interval.upper)

    def binary(self, operation: int, node: Formula, left: int, right: int) -> int:
        """SINCE and UNTIL."""
        assert node.interval is not None
        lower, upper = node.interval.lower, node.interval.upper
        if right == _FALSE_OPERAND:
            return _FALSE_OPERAND
        if left == _FALSE_OPERAND:
            # Only the current time-point can be the witness.
            return right if lower == 0 else _FALSE_OPERAND
        if right == _TRUE_OPERAND and lower == 0:
            return _TRUE_OPERAND
        return self.row(operation, left, right, lower, upper)

    def program(self, root: int, *, is_bounded: bool = True) -> Program:
        """Make the program of an operand from its rows, without rebalancing conjunctions.

        Args:
            root: the operand.
            is_bounded: whether the formula is bounded that the rows come from, if folding may have
                left out what is not.
        """
        rows, root = _without_dead_rows(self.rows, root)
        bounded = is_bounded and all(row[0] != _UNTIL or row[4] is not None for row in rows)
        return Program(*_assembled(rows, root, self.atoms, bounded))


_BUILD: dict[Operator, Callable[..., int]] = {
    ops.TRUE: lambda builder, node: _TRUE_OPERAND,
    ops.FALSE: lambda builder, node: _FALSE_OPERAND,
    ops.ATOM: lambda builder, node: builder.atom(node.name),
    ops.NOT: lambda builder, node, operand: operand ^ 1,
    ops.AND: lambda builder, node, left, right: builder.conjunction(left, right),
    ops.OR: lambda builder, node, left, right: builder.disjunction(left, right),
    ops.IFF: lambda builder, node, left, right: builder.equivalence(left, right),
    ops.PREVIOUS: lambda builder, node, operand: builder.step(_PREVIOUS, node, operand),
    ops.NEXT: lambda builder, node, operand: builder.step(_NEXT, node, operand),
    ops.SINCE: lambda builder, node, left, right: builder.binary(_SINCE, node, left, right),
    ops.UNTIL: lambda builder, node, left, right: builder.binary(_UNTIL, node, left, right),
}


def _without_dead_rows(rows: list[_Row], root: int) -> tuple[list[_Row], int]:
    """Only the rows that the root needs, as folding leaves unused rows."""
    needed = [False] * len(rows)
    needed[0] = needed[root >> 1] = True
    for number in range(len(rows) - 1, 0, -1):
        if needed[number]:
            _, left, right, *_ = rows[number]
            needed[left >> 1] = needed[right >> 1] = True
    new_number: dict[int, int] = {}
    kept: list[_Row] = []
    for number, (operation, left, right, lower, upper, index) in enumerate(rows):
        if needed[number]:
            new_number[number] = len(kept)
            new_left = 2 * new_number[left >> 1] + (left & 1)
            new_right = 2 * new_number[right >> 1] + (right & 1)
            kept.append((operation, new_left, new_right, lower, upper, index))
    return kept, 2 * new_number[root >> 1] + (root & 1)


def _balanced(rows: list[_Row], root: int) -> tuple[list[_Row], int]:
    """Rebalance nested conjunctions into trees of least depth.

    An event creates a conjunction for the value of each row: over n obligations, a row for each
    prefix would create expressions of n^2 / 2 literals in total, while a balanced tree creates n
    log n.
    """
    uses = [0] * len(rows)
    for _, left, right, *_ in rows:
        uses[left >> 1] += 1
        uses[right >> 1] += 1
    uses[root >> 1] += 1
    inner = {
        operand >> 1
        for operation, left, right, *_ in rows
        if operation == _AND
        for operand in (left, right)
        if not operand & 1 and uses[operand >> 1] == 1 and rows[operand >> 1][0] == _AND
    }
    new_operand = [0] * len(rows)
    balanced: list[_Row] = []
    for number, (operation, left, right, lower, upper, index) in enumerate(rows):
        if number in inner:
            continue
        operands = _gathered(rows, inner, number) if operation == _AND else [left, right]
        operands = [new_operand[operand >> 1] ^ (operand & 1) for operand in operands]
        while len(operands) > 2:
            pairs = []
            for i in range(0, len(operands) - 1, 2):
                balanced.append((_AND, operands[i], operands[i + 1], 0, 0, 0))
                pairs.append(2 * len(balanced) - 2)
            operands = pairs + operands[2 * len(pairs) :]
        new_operand[number] = 2 * len(balanced)
        balanced.append((operation, operands[0], operands[1], lower, upper, index))
    return balanced, new_operand[root >> 1] ^ (root & 1)


def _gathered(rows: list[_Row], inner: set[int], number: int) -> list[int]:
    """The operands of a conjunction, with its inner conjunctions replaced by their operands."""
    operands = []
    waiting = [2 * number]
    while waiting:
        operand = waiting.pop()
        if operand & 1 or (operand >> 1 != number and operand >> 1 not in inner):
            operands.append(operand)
        else:
            _, left, right, *_ = rows[operand >> 1]
            waiting += [right, left]
    return operands


def _placed(rows: list[_Row], root: int) -> list[_Row]:
    """Separate outer UNTILs from nested ones, and number the families of obligations.

    A family is the pair of operands of an UNTIL, which its obligations wait for. An UNTIL is
    *outer* if it is below no temporal operator and is the only UNTIL of its family: then only
    pending time-points mention its obligations, and each mentions only its own.
    """
    nested = [False] * len(rows)
    for number in range(len(rows) - 1, 0, -1):
        operation, left, right, *_ = rows[number]
        if nested[number] or operation in _TEMPORAL:
            nested[left >> 1] = nested[right >> 1] = True
    members: dict[tuple[int, int], int] = {}
    for operation, left, right, *_ in rows:
        if operation == _UNTIL:
            members[left, right] = members.get((left, right), 0) + 1
    families: dict[tuple[int, int], int] = {}
    placed: list[_Row] = []
    for number, (operation, left, right, lower, upper, index) in enumerate(rows):
        if operation != _UNTIL:
            placed.append((operation, left, right, lower, upper, index))
        elif members[left, right] == 1 and not nested[number]:
            placed.append((_OUTER_UNTIL, left, right, lower, upper, 0))
        else:
            family = families.setdefault((left, right), len(families))
            placed.append((_UNTIL, left, right, lower, upper, family))
    return placed
