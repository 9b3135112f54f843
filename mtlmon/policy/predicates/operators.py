"""The table of the operators and functions of predicates.

Operators are compared by identity: `expression.operator is ops.AND`.
"""

from __future__ import annotations

# How tightly operators bind; the larger, the tighter.
OR_BINDING, AND_BINDING, NOT_BINDING, COMPARISON, SUM, PRODUCT, SIGN, OPERAND = range(1, 9)


class Operator:
    """One row of the table.

    Attributes:
        name: the name of the constant in this module, or of the function in predicates.
        word: how it is written; empty for columns and constants.
        arity: the number of operands.
        binding: how tightly it binds; the larger, the tighter.
        constants: for a function, how many of its last arguments must be constant texts.
        signature: for a function, the kinds of its first argument and of its result.
    """

    __slots__ = ("arity", "binding", "constants", "name", "signature", "word")

    def __init__(
        self,
        name: str,
        word: str,
        arity: int,
        binding: int,
        *,
        constants: int = 0,
        signature: tuple[str, str] = ("", ""),
    ) -> None:
        self.name = name
        self.word = word
        self.arity = arity
        self.binding = binding
        self.constants = constants
        self.signature = signature

    def __repr__(self) -> str:
        return self.name


def _function(name: str, argument: str, result: str, *, constants: int = 0) -> Operator:
    return Operator(
        name,
        name,
        1 + constants,
        OPERAND,
        constants=constants,
        signature=(argument, result),
    )


COLUMN = Operator("COLUMN", "", 0, OPERAND)
CONSTANT = Operator("CONSTANT", "", 0, OPERAND)

OR = Operator("OR", "or", 2, OR_BINDING)
AND = Operator("AND", "and", 2, AND_BINDING)
NOT = Operator("NOT", "not", 1, NOT_BINDING)

EQUAL = Operator("EQUAL", "=", 2, COMPARISON)
NOT_EQUAL = Operator("NOT_EQUAL", "!=", 2, COMPARISON)
LESS = Operator("LESS", "<", 2, COMPARISON)
LESS_EQUAL = Operator("LESS_EQUAL", "<=", 2, COMPARISON)
GREATER = Operator("GREATER", ">", 2, COMPARISON)
GREATER_EQUAL = Operator("GREATER_EQUAL", ">=", 2, COMPARISON)

IN = Operator("IN", "in", 1, COMPARISON)
NOT_IN = Operator("NOT_IN", "not in", 1, COMPARISON)
IS_NULL = Operator("IS_NULL", "is null", 1, COMPARISON)
IS_NOT_NULL = Operator("IS_NOT_NULL", "is not null", 1, COMPARISON)

ADD = Operator("ADD", "+", 2, SUM)
SUBTRACT = Operator("SUBTRACT", "-", 2, SUM)
MULTIPLY = Operator("MULTIPLY", "*", 2, PRODUCT)
DIVIDE = Operator("DIVIDE", "/", 2, PRODUCT)
REMAINDER = Operator("REMAINDER", "%", 2, PRODUCT)
NEGATE = Operator("NEGATE", "-", 1, SIGN)

STARTSWITH = _function("startswith", "text", "boolean", constants=1)
ENDSWITH = _function("endswith", "text", "boolean", constants=1)
CONTAINS = _function("contains", "text", "boolean", constants=1)
MATCHES = _function("matches", "text", "boolean", constants=1)
LOWER = _function("lower", "text", "text")
UPPER = _function("upper", "text", "text")
LENGTH = _function("length", "text", "integer")
ABS = _function("abs", "number", "number")

COMPARISONS = {
    **{operator.word: operator for operator in (EQUAL, NOT_EQUAL, LESS, LESS_EQUAL)},
    **{operator.word: operator for operator in (GREATER, GREATER_EQUAL)},
    "==": EQUAL,
    "<>": NOT_EQUAL,
}
"""The comparison for each spelling."""

ORDERINGS = frozenset({LESS, LESS_EQUAL, GREATER, GREATER_EQUAL})

ARITHMETIC = frozenset({ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, NEGATE})

BINARY = {
    **COMPARISONS,
    **{operator.word: operator for operator in (OR, AND, ADD, SUBTRACT)},
    **{operator.word: operator for operator in (MULTIPLY, DIVIDE, REMAINDER)},
}
"""The binary operator for each spelling."""

FUNCTIONS = {
    function.name: function
    for function in (STARTSWITH, ENDSWITH, CONTAINS, MATCHES, LOWER, UPPER, LENGTH, ABS)
}
"""The function for each name."""

MIRRORED = {
    EQUAL: EQUAL,
    NOT_EQUAL: NOT_EQUAL,
    LESS: GREATER,
    LESS_EQUAL: GREATER_EQUAL,
    GREATER: LESS,
    GREATER_EQUAL: LESS_EQUAL,
}
"""The equivalent comparison of swapped operands."""
