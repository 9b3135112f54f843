"""How tightly the operators of MonPoly's language bind, and what each of them is.

From the loosest to the tightest: LET and the formula of an aggregate, SINCE and UNTIL, other
temporal operators, quantifiers, EQUIV, IMPLIES, OR, AND, NOT, comparisons, + and -, * and /, a
minus sign.
MOD takes the nearest value on its left and all that it can on its right: `a * b MOD c + d` is
`a * (b MOD (c + d))`.
"""

from __future__ import annotations

from typing import NamedTuple

from mtlmon.policy.predicates import operators as terms
from mtlmon.syntax import operators as ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.predicates.operators import Operator as TermOperator
    from mtlmon.syntax.operators import Operator

LOOSEST, TEMPORAL_BINARY, TEMPORAL, QUANTIFIER, EQUIV, IMPLIES, OR, AND, NOT = range(9)
COMPARISON, SUM, PRODUCT, SIGN, REMAINDER = range(9, 14)


class Binary(NamedTuple):
    """An operator between formulas.

    Attributes:
        operator: what it is.
        left: how tightly it binds on its left.
        right: what binds more tightly than this belongs to its right operand.
    """

    operator: Operator
    left: int
    right: int


class BinaryTerm(NamedTuple):
    """An operator between values; attributes as of `Binary`."""

    operator: TermOperator
    left: int
    right: int


BINARY = {
    "SINCE": Binary(ops.SINCE, TEMPORAL_BINARY, TEMPORAL_BINARY - 1),
    "UNTIL": Binary(ops.UNTIL, TEMPORAL_BINARY, TEMPORAL_BINARY - 1),
    "EQUIV": Binary(ops.IFF, EQUIV, EQUIV),
    "IMPLIES": Binary(ops.IMPLIES, IMPLIES, IMPLIES - 1),
    "OR": Binary(ops.OR, OR, OR),
    "AND": Binary(ops.AND, AND, AND),
}

BINARY_TERMS = {
    "=": BinaryTerm(terms.EQUAL, COMPARISON, COMPARISON),
    "<": BinaryTerm(terms.LESS, COMPARISON, COMPARISON),
    "<=": BinaryTerm(terms.LESS_EQUAL, COMPARISON, COMPARISON),
    ">": BinaryTerm(terms.GREATER, COMPARISON, COMPARISON),
    ">=": BinaryTerm(terms.GREATER_EQUAL, COMPARISON, COMPARISON),
    "SUBSTRING": BinaryTerm(terms.SUBSTRING, COMPARISON, COMPARISON),
    "MATCHES": BinaryTerm(terms.PATTERN_MATCHES, COMPARISON, COMPARISON),
    "+": BinaryTerm(terms.ADD, SUM, SUM),
    "-": BinaryTerm(terms.SUBTRACT, SUM, SUM),
    "*": BinaryTerm(terms.MULTIPLY, PRODUCT, PRODUCT),
    "/": BinaryTerm(terms.DIVIDE, PRODUCT, PRODUCT),
    "MOD": BinaryTerm(terms.MODULO, REMAINDER, COMPARISON),
}

UNARY_TEMPORAL = {
    "PREV": ops.PREVIOUS,
    "PREVIOUS": ops.PREVIOUS,
    "NEXT": ops.NEXT,
    "EVENTUALLY": ops.EVENTUALLY,
    "SOMETIMES": ops.EVENTUALLY,
    "ONCE": ops.ONCE,
    "ALWAYS": ops.ALWAYS,
    "PAST_ALWAYS": ops.HISTORICALLY,
    "HISTORICALLY": ops.HISTORICALLY,
}

QUANTIFIERS = {"EXISTS": ops.EXISTS, "FORALL": ops.FORALL}

AGGREGATES = {
    "CNT": "COUNT",
    "SUM": "SUM",
    "AVG": "AVG",
    "MIN": "MIN",
    "MAX": "MAX",
    "MED": "MEDIAN",
}
"""The aggregate of our language for each of MonPoly's."""

FUNCTIONS = {
    name: terms.CONVERSIONS[name]
    for name in (
        *("f2i", "i2f", "i2s", "s2i", "f2s", "s2f", "r2s", "s2r"),
        *("DAY_OF_MONTH", "MONTH", "YEAR", "FORMAT_DATE"),
    )
}

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""The units of bounds, in seconds, which time-stamps count."""

UNSUPPORTED = {
    **dict.fromkeys(("|>", "▷", "FORWARD", "MATCHF"), "matching of the future"),
    **dict.fromkeys(("<|", "◁", "BACKWARD", "MATCHP"), "matching of the past"),
}
"""The operators that are not supported."""
