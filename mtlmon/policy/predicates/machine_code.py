"""Compiles expressions to the code of machines, which compute them on cells of 64 bits.

What a name stands for is said by subclasses: a column, a value of a stream, a variable.
"""

from __future__ import annotations

from abc import abstractmethod
from decimal import ROUND_FLOOR, Decimal
from math import floor
from struct import pack, unpack
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.integers import LARGEST, SMALLEST
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.operators import Operator

LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
WANTED = {
    ops.EQUAL: EQUAL,
    ops.NOT_EQUAL: LESS | GREATER | UNORDERED,
    ops.LESS: LESS,
    ops.LESS_EQUAL: LESS | EQUAL,
    ops.GREATER: GREATER,
    ops.GREATER_EQUAL: GREATER | EQUAL,
}
_ALWAYS = LESS | EQUAL | GREATER | UNORDERED

# The operations on integers and on floats.
_ARITHMETIC: dict[Operator, tuple[str, str]] = {
    ops.ADD: ("add_integers", "add_floats"),
    ops.SUBTRACT: ("subtract_integers", "subtract_floats"),
    ops.MULTIPLY: ("multiply_integers", "multiply_floats"),
    ops.REMAINDER: ("remainder_integers", "remainder_floats"),
    ops.DIVIDE: ("", "divide_floats"),
    ops.NEGATE: ("negate_integer", "negate_float"),
    ops.ABS: ("abs_integer", "abs_float"),
    ops.SQRT: ("", "sqrt_float"),
    ops.SIN: ("", "sin_float"),
    ops.COS: ("", "cos_float"),
    ops.TAN: ("", "tan_float"),
    ops.ATAN2: ("", "atan2_floats"),
    ops.EXP: ("", "exp_float"),
    ops.LOG: ("", "log_float"),
    ops.POW: ("", "power_floats"),
    ops.FLOOR: ("copy", "floor_float"),
    ops.ROUND: ("copy", "round_float"),
    ops.LEAST: ("least_integer", "least_float"),
    ops.GREATEST: ("greatest_integer", "greatest_float"),
}
_LOGIC = {
    ops.AND: "and",
    ops.OR: "or",
    ops.NOT: "not",
    ops.IS_NULL: "is_null",
    ops.IS_NOT_NULL: "is_not_null",
}


class NotPossible(Exception):
    """What machines cannot do, in words; the caller makes an error of it that has a place."""


class MachineCode:
    """The code of a machine while it is written.

    Args:
        operations: the number of each operation by name.
        owner: what the values belong to, in messages.
    """

    def __init__(self, operations: Mapping[str, int], owner: str) -> None:
        self._operations = operations
        self._owner = owner
        self._code: list[tuple[int, int, int, int, int]] = []
        self._nodes: list[Expression] = []
        self._constants: list[int | None] = []
        self._registers: dict[Expression, int] = {}
        self._register_count = 0
        # The kinds of nodes by `id`.
        self._kinds: dict[int, Kind] = {}

    @abstractmethod
    def _name(self, node: Expression) -> int:
        """Emit the code of a name; its register."""

    @abstractmethod
    def _text_cell(self, text: str) -> int:
        """The cell of a constant text."""

    def _expression(self, expression: Expression) -> int:
        """Emit the code of an expression whose kernels have been read; its register."""
        for node in postorder(expression):
            if node not in self._registers:
                self._registers[node] = self._node(node)
        return self._registers[expression]

    def _node(self, node: Expression) -> int:
        operator, kind = node.operator, self._kinds[id(node)]
        if operator in ops.NAMES:
            return self._name(node)
        if operator is ops.CONSTANT:
            return self._cell(node.constant, kind)
        registers = [self._registers[operand] for operand in node.operands]
        found = [self._kinds[id(operand)] for operand in node.operands]
        if operator in _LOGIC:
            return self._new(_LOGIC[operator], node, *registers)
        if operator in {ops.IF, ops.COALESCE}:
            first = operator is ops.IF
            chosen = [
                self._as(register, one, kind)
                for register, one in zip(registers[first:], found[first:], strict=True)
            ]
            word = "if" if operator is ops.IF else "coalesce"
            return self._new(word, node, *registers[:first], *chosen)
        if operator in _ARITHMETIC:
            on_integers, on_floats = _ARITHMETIC[operator]
            if kind.name in {"integer", "null", "boolean", "time"} and on_integers:
                return self._new(on_integers, node, *registers)
            converted = [
                self._as(register, one, kinds.FLOAT)
                for register, one in zip(registers, found, strict=True)
            ]
            return self._new(on_floats, node, *converted)
        if operator in WANTED:
            return self._comparison(node, registers, found)
        if operator in {ops.IN, ops.NOT_IN}:
            return self._membership(node, registers[0], found[0])
        word = operator.word or operator.name
        raise NotPossible(f"{word} is not possible on values of {self._owner}")

    def _comparison(self, node: Expression, registers: list[int], found: list[Kind]) -> int:
        operator = node.operator
        left, right = registers
        one, other = found
        constant = node.operands[1]
        if one.name == "float" and other.name == "integer":
            operator, constant = ops.MIRRORED[operator], node.operands[0]
            left, right, one, other = right, left, other, one
        wanted = WANTED[operator]
        if {one.name, other.name} & kinds.OPEN or one.name == other.name == "float":
            is_float = "float" in {one.name, other.name}
            return self._new(
                "compare_floats" if is_float else "compare_integers", node, left, right, wanted
            )
        if one.name == "integer" and other.name == "float":
            if constant.operator is ops.CONSTANT:
                return self._with_decimal(node, operator, left, Decimal(str(constant.constant)))
            return self._new("compare_mixed", node, left, right, wanted)
        if kinds.equal_as_texts(one, other):
            raise NotPossible(
                f"values of {self._owner} can only be compared with those of their type"
            )
        if one.name == "text" and operator in ops.ORDERINGS:
            raise NotPossible(f"texts of {self._owner} can only be compared with =")
        if one != other and "time" in {one.name, other.name}:
            raise NotPossible(f"times of {self._owner} need one unit")
        return self._new("compare_integers", node, left, right, wanted)

    def _with_decimal(
        self, node: Expression, operator: Operator, register: int, constant: Decimal
    ) -> int:
        """Compare an integer with a number that has a fraction or an exponent, exactly."""
        below = constant.to_integral_value(ROUND_FLOOR)
        wanted = WANTED[operator]
        if below > LARGEST or below < SMALLEST:
            holds = bool(wanted & (LESS if below > LARGEST else GREATER))
            return self._new("compare_integers", node, register, register, _ALWAYS if holds else 0)
        if below != constant:
            # Every integer is below or above the constant; the floor is below it.
            wanted = (wanted & ~EQUAL) | (EQUAL if wanted & LESS else 0)
        other = self._constant(int(below))
        return self._new("compare_integers", node, register, other, wanted)

    def _membership(self, node: Expression, register: int, kind: Kind) -> int:
        # false, or null where the operand is
        found = self._new("compare_integers", node, register, register, 0)
        for member in node.members:
            if kind.name == "integer" and isinstance(member, Decimal):
                one = self._with_decimal(node, ops.EQUAL, register, member)
            elif kind.name == "float" and isinstance(member, int):
                other = self._constant(member)
                one = self._new("compare_mixed", node, other, register, EQUAL)
            else:
                word = "compare_floats" if kind.name == "float" else "compare_integers"
                one = self._new(word, node, register, self._cell(member, kind), EQUAL)
            found = self._new("or", node, found, one)
        return found if node.operator is ops.IN else self._new("not", node, found)

    def _as(self, register: int, kind: Kind, wanted: Kind) -> int:
        """The register of a value converted to another kind."""
        if wanted.name == "float" and kind.name == "integer":
            return self._new("to_float", _NO_NODE, register)
        return register

    def _cell(self, value: Constant, kind: Kind) -> int:
        if value is None:
            return self._constant(None)
        if kind.name == "text":
            assert isinstance(value, str)
            return self._constant(self._text_cell(value))
        found = constant_as(value, kind)
        if isinstance(found, float):
            (found,) = unpack("<q", pack("<d", found))
        assert isinstance(found, int)
        return self._constant(int(found))

    def _constant(self, cell: int | None) -> int:
        self._constants.append(cell)
        return self._new("constant", _NO_NODE, len(self._constants) - 1)

    def _new(
        self, operation: str, node: Expression, a: int, b: int | None = None, c: int = 0
    ) -> int:
        """Emit an instruction, and return its register."""
        register = self._register_count
        self._register_count += 1
        # an operation of one operand takes the same register twice
        second = b if b is not None else a if operation not in _NUMBERED else register
        self._add(operation, node, register, a, second, c)
        return register

    def _add(
        self, operation: str, node: Expression, target: int, a: int, b: int, c: int = 0
    ) -> None:
        self._code.append((self._operations[operation], target, a, b, c))
        self._nodes.append(node)


# What cannot overflow stands for no node.
_NO_NODE = Expression(ops.CONSTANT)
_NUMBERED = {"load", "constant", "get"}


def constant_as(value: Constant, kind: Kind) -> bool | int | float | str | None:
    """A constant as a value of a kind; floats may be written as integers, and times as texts."""
    if kind.name == "float" and value is not None:
        return float(value)
    if kind.name == "time":
        read = read_instant(str(value))
        assert read is not None
        return floor(read[0] / (kind.unit or 1))
    assert not isinstance(value, Decimal)
    return value
