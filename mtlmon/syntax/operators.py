"""The table of the operators of metric temporal logic.

It is the only place that says how an operator is written, how tightly it binds and in which
direction it looks. Operators are compared by identity: `formula.operator is ops.UNTIL`.
"""

from __future__ import annotations

# How tightly operators bind; the larger, the tighter.
_QUANTIFIER, _IFF, _IMPLIES, _UNARY_TEMPORAL, _BINARY_TEMPORAL, _OR, _AND, _NOT, _OPERAND = range(9)

ANY_NUMBER = -1
"""The arity of an operator that takes any number of operands."""


class Operator:
    """One row of the table.

    Attributes:
        name: the name of the constant in this module, for instance `IFF`.
        word: the spelling that the printer writes, for instance `EQUIV`; empty for atoms.
        spellings: every spelling that the parser accepts; the first is `word`.
        arity: the number of operands, or `ANY_NUMBER`.
        binding: how tightly it binds; the larger, the tighter.
        is_past: whether it is a temporal operator that looks back.
        is_future: whether it is a temporal operator that looks ahead.
        is_temporal: whether it is one of these, and so has an interval.
        is_first_order: whether it is an operator of first-order logic, and so has a value.
        is_prefix: whether it is written before its single operand.
        groups_right: whether `a op b op c` is `a op (b op c)`.
    """

    __slots__ = (
        "arity",
        "binding",
        "groups_right",
        "is_first_order",
        "is_future",
        "is_past",
        "is_prefix",
        "is_temporal",
        "name",
        "spellings",
        "word",
    )

    def __init__(self, name: str, arity: int, binding: int, direction: str, spellings: str) -> None:
        self.name = name
        self.arity = arity
        self.binding = binding
        self.spellings = tuple(spellings.split())
        self.word = self.spellings[0] if self.spellings else ""
        self.is_past = direction == "past"
        self.is_future = direction == "future"
        self.is_temporal = self.is_past or self.is_future
        self.is_first_order = direction == "first-order"
        self.is_prefix = arity == 1
        self.groups_right = binding in {_IFF, _IMPLIES}

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        # Pickle a reference to the constant, so that identity survives.
        return self.name


TRUE = Operator("TRUE", 0, _OPERAND, "", "true TRUE ⊤")
FALSE = Operator("FALSE", 0, _OPERAND, "", "false FALSE ⊥")
ATOM = Operator("ATOM", 0, _OPERAND, "", "")

NOT = Operator("NOT", 1, _NOT, "", "NOT ! ¬")
AND = Operator("AND", 2, _AND, "", "AND & && ∧")
OR = Operator("OR", 2, _OR, "", "OR | || ∨")
IMPLIES = Operator("IMPLIES", 2, _IMPLIES, "", "IMPLIES -> => →")
IFF = Operator("IFF", 2, _IFF, "", "EQUIV IFF <-> <=> ↔")

PREVIOUS = Operator("PREVIOUS", 1, _UNARY_TEMPORAL, "past", "PREVIOUS PREV Y X⁻ ●")
ONCE = Operator("ONCE", 1, _UNARY_TEMPORAL, "past", "ONCE PAST_EVENTUALLY FINALLY_PAST F⁻ O ⧫")
HISTORICALLY = Operator(
    "HISTORICALLY",
    1,
    _UNARY_TEMPORAL,
    "past",
    "HISTORICALLY PAST_ALWAYS GLOBALLY_PAST G⁻ H ■",
)
SINCE = Operator("SINCE", 2, _BINARY_TEMPORAL, "past", "SINCE S U⁻")
TRIGGER = Operator("TRIGGER", 2, _BINARY_TEMPORAL, "past", "TRIGGER T R⁻")

NEXT = Operator("NEXT", 1, _UNARY_TEMPORAL, "future", "NEXT X ○")
EVENTUALLY = Operator("EVENTUALLY", 1, _UNARY_TEMPORAL, "future", "EVENTUALLY FINALLY F ◊")
ALWAYS = Operator("ALWAYS", 1, _UNARY_TEMPORAL, "future", "ALWAYS GLOBALLY G □")
UNTIL = Operator("UNTIL", 2, _BINARY_TEMPORAL, "future", "UNTIL U")
RELEASE = Operator("RELEASE", 2, _BINARY_TEMPORAL, "future", "RELEASE R")
WEAK_UNTIL = Operator("WEAK_UNTIL", 2, _BINARY_TEMPORAL, "future", "WEAK_UNTIL W")

FORALL = Operator("FORALL", 1, _QUANTIFIER, "first-order", "FORALL ∀")
EXISTS = Operator("EXISTS", 1, _QUANTIFIER, "first-order", "EXISTS ∃")
PREDICATE = Operator("PREDICATE", ANY_NUMBER, _OPERAND, "first-order", "")
"""An atom with arguments; its operands are the formulas of the aggregates in them."""
COMPARISON = Operator("COMPARISON", ANY_NUMBER, _OPERAND, "first-order", "")
"""A comparison of terms; its operands are the formulas of the aggregates in them."""

QUANTIFIERS = {
    spelling: operator for operator in (FORALL, EXISTS) for spelling in operator.spellings
}
"""The quantifier for each spelling. They are operators in first-order formulas only."""

OPERATORS = (
    *(TRUE, FALSE, ATOM, NOT, AND, OR, IMPLIES, IFF),
    *(PREVIOUS, ONCE, HISTORICALLY, SINCE, TRIGGER),
    *(NEXT, EVENTUALLY, ALWAYS, UNTIL, RELEASE, WEAK_UNTIL),
)
"""Every operator of formulas without variables, in the order of the table."""

BY_SPELLING = {spelling: operator for operator in OPERATORS for spelling in operator.spellings}
"""The operator for each spelling."""

SMALL_WORDS = {
    "not": NOT,
    "and": AND,
    "or": OR,
    "implies": IMPLIES,
    "iff": IFF,
    "previous": PREVIOUS,
    "once": ONCE,
    "historically": HISTORICALLY,
    "since": SINCE,
    "next": NEXT,
    "eventually": EVENTUALLY,
    "always": ALWAYS,
    "until": UNTIL,
}
"""Words in lower case that are operators where no atom can be, and atoms elsewhere."""
