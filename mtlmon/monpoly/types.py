"""Finds the types of a formula in MonPoly's language, which has no mixed arithmetic."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.monpoly.lexer import error_at
from mtlmon.monpoly.signature import BUILT_IN, name_in_formulas
from mtlmon.policy.first_order.terms import (
    aggregates_of,
    free_in,
    free_variables,
    quantified,
    terms_of,
)
from mtlmon.policy.predicates import operators as terms
from mtlmon.syntax import operators as ops
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from typing import NoReturn

    from mtlmon.monpoly.parser import Parsed
    from mtlmon.monpoly.signature import Signature
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.syntax.formula import Formula

INT, FLOAT, STRING, REGEXP = "int", "float", "string", "regexp"
NUMBER = "int or float"
"""The type of a variable that is only known to be one of them."""

_SHOWN = 60
_SIGNATURES = {
    terms.INTEGER_OF_FLOAT: (FLOAT, INT),
    terms.FLOAT_OF_INTEGER: (INT, FLOAT),
    terms.TEXT_OF_INTEGER: (INT, STRING),
    terms.INTEGER_OF_TEXT: (STRING, INT),
    terms.TEXT_OF_FLOAT: (FLOAT, STRING),
    terms.FLOAT_OF_TEXT: (STRING, FLOAT),
    terms.TEXT_OF_PATTERN: (REGEXP, STRING),
    terms.PATTERN_OF_TEXT: (STRING, REGEXP),
    terms.DAY_OF_MONTH: (FLOAT, INT),
    terms.MONTH: (FLOAT, INT),
    terms.YEAR: (FLOAT, INT),
    terms.FORMAT_DATE: (FLOAT, STRING),
    terms.SUBSTRING: (STRING, STRING, ""),
    terms.PATTERN_MATCHES: (STRING, REGEXP, ""),
    terms.PATTERN_GROUP: (STRING, REGEXP, INT, STRING),
    terms.MODULO: (INT, INT, INT),
}
"""The types of the arguments and of the result of each function."""

Slot = int
Scope = dict[str, Slot]


class Types:
    """The types of a formula.

    Args:
        text: the text that spans refer to.
        source: its name in errors.
        signature: the types of the relations.
    """

    def __init__(self, text: str, source: str, signature: Signature) -> None:
        self.text = text
        self.source = source
        # Union-find: a slot for each variable, and the type of each class.
        self.parents: list[Slot] = []
        self.types: dict[Slot, str] = {}
        self.slots: dict[int, Slot] = {}
        self.relations: dict[str, list[Slot]] = {}
        self.constants: dict[str, Slot] = {}
        for name, arguments in {**BUILT_IN, **signature}.items():
            slots = [self.constant(argument) for argument in arguments]
            self.relations[name_in_formulas(name)] = slots

    def of(self, expression: Expression) -> str:
        """The type of an expression of the formula; what may have any type is a string."""
        found = self.types.get(self.root(self.slots[id(expression)]), STRING)
        return INT if found == NUMBER else found

    def of_slot(self, slot: Slot) -> str:
        found = self.types.get(self.root(slot), STRING)
        return INT if found == NUMBER else found

    def new(self, kind: str | None = None) -> Slot:
        slot = len(self.parents)
        self.parents.append(slot)
        if kind is not None:
            self.types[slot] = kind
        return slot

    def constant(self, kind: str) -> Slot:
        """The slot of a type that is known."""
        if kind not in self.constants:
            self.constants[kind] = self.new(kind)
        return self.constants[kind]

    def root(self, slot: Slot) -> Slot:
        while self.parents[slot] != slot:
            self.parents[slot] = self.parents[self.parents[slot]]
            slot = self.parents[slot]
        return slot

    def join(self, expression: Expression, slot: Slot) -> None:
        """Say that an expression has the type of a slot.

        Raises:
            PolicyError: it has another type.
        """
        one, other = self.root(self.slots[id(expression)]), self.root(slot)
        if one == other:
            return
        own, wanted = self.types.get(one), self.types.get(other)
        if own is None or wanted is None or own == wanted:
            joined = own or wanted
        elif NUMBER in (own, wanted) and {own, wanted} <= {NUMBER, INT, FLOAT}:
            joined = own if wanted == NUMBER else wanted
        else:
            self.fail(expression, own, wanted)
        self.parents[one] = other
        if joined is not None:
            self.types[other] = joined

    def fail(self, expression: Expression, own: str, wanted: str) -> NoReturn:
        assert expression.span is not None
        start = expression.span.start
        written = " ".join(self.text[start : expression.span.end].split())
        hint = _HINTS.get((own, wanted))
        message = f"{shorten(visible(written), _SHOWN)} is of type {own}, not {wanted}"
        raise error_at(self.text, start, message, self.source, hint)

    def take(self, formula: Formula, scope: Scope) -> None:
        """Find the types in a formula, whose free variables are those of the scope."""
        free = free_variables(formula)
        stack: list[tuple[Formula, Scope]] = [(formula, scope)]
        while stack:
            node, outer = stack.pop()
            inner = outer
            if names := quantified(node):
                inner = {**outer, **{name: self.new() for name in names}}
            if not terms_of(node):
                stack += ((operand, inner) for operand in reversed(node.operands))
                continue
            within: dict[int, Scope] = {}
            for aggregate in aggregates_of(node):
                number = aggregate.aggregate.formula
                groups = aggregate.aggregate.by or ()
                own = {
                    name: outer[name] if name in groups else self.new()
                    for name in free[id(node.operands[number])]
                }
                within[number] = own
                stack.append((node.operands[number], own))
            for term in terms_of(node):
                self.term(term, outer, within)
            if node.operator is ops.PREDICATE:
                slots = self.relations[node.name or ""]
                for argument, slot in zip(terms_of(node), slots, strict=True):
                    if argument.operator is not terms.WILDCARD:
                        self.join(argument, slot)

    def term(self, term: Expression, scope: Scope, within: dict[int, Scope]) -> None:
        """Find the types in a term.

        Args:
            term: the term.
            scope: the variables around it.
            within: the variables of the formulas of aggregates, by the formula's number.
        """
        scopes = {
            id(part): within[node.aggregate.formula]
            for node in postorder(term)
            if node.operator in terms.OF_FORMULAS
            for part in postorder(*node.operands)
        }
        for node in postorder(term):
            if node.operator is terms.VARIABLE:
                self.slots[id(node)] = scopes.get(id(node), scope)[node.name]
            else:
                self.slots[id(node)] = self.result(node)

    def result(self, node: Expression) -> Slot:
        """The type of an operator's value, whose operands must have the right types."""
        operator, operands = node.operator, node.operands
        if operator is terms.CONSTANT:
            return self.constant(_type_of_constant(node.value))
        if operator in terms.OF_FORMULAS:
            return self.aggregate(node)
        if operator in _SIGNATURES:
            *wanted, result = _SIGNATURES[operator]
            for operand, kind in zip(operands, wanted, strict=True):
                self.join(operand, self.constant(kind))
            return self.constant(result) if result else self.new()
        if operator is terms.WILDCARD:
            return self.new()
        # a comparison, or arithmetic on one type of numbers
        slot = self.new(NUMBER if operator in terms.ARITHMETIC else None)
        for operand in operands:
            self.join(operand, slot)
        return slot if operator in terms.ARITHMETIC else self.new()

    def aggregate(self, node: Expression) -> Slot:
        word = node.aggregate.word
        if word == "COUNT":
            return self.constant(INT)
        (operand,) = node.operands
        if word in {"SUM", "AVG", "MEDIAN"}:
            self.join(operand, self.new(NUMBER))
        return self.constant(FLOAT) if word in {"AVG", "MEDIAN"} else self.slots[id(operand)]


_HINTS = {
    (INT, FLOAT): "convert it: i2f(...), or write a constant with a point: 3.",
    (FLOAT, INT): "convert it: f2i(...)",
    (INT, STRING): "convert it: i2s(...), or write a constant in quotes",
    (STRING, INT): "convert it: s2i(...)",
    (FLOAT, STRING): "convert it: f2s(...)",
    (STRING, FLOAT): "convert it: s2f(...)",
    (STRING, REGEXP): 'convert it: s2r(...), or write a pattern: r"..."',
    (REGEXP, STRING): "convert it: r2s(...)",
}


def _type_of_constant(value: object) -> str:
    if isinstance(value, int):
        return INT
    return FLOAT if isinstance(value, Decimal) else STRING


def find_types(parsed: Parsed, text: str, signature: Signature, source: str) -> tuple[Types, Scope]:
    """Find the types of a formula and its lets.

    Args:
        parsed: the formula.
        text: its text.
        signature: the types of the relations.
        source: the name of the text in errors.

    Returns:
        The types, and the slots of the formula's free variables.

    Raises:
        PolicyError: a variable has two types.
    """
    types = Types(text, source, signature)
    scopes: dict[str, Scope] = {}
    for name, let in parsed.lets.items():
        scopes[name] = {parameter: types.new() for parameter in let.parameters}
        # one of LETPAST may use itself
        types.relations[name] = list(scopes[name].values())
    for name, let in parsed.lets.items():
        assert let.formula is not None
        types.take(let.formula, scopes[name])
    scope = {name: types.new() for name in free_in(parsed.formula)}
    types.take(parsed.formula, scope)
    return types, scope


__all__ = ["FLOAT", "INT", "REGEXP", "STRING", "Scope", "Types", "find_types"]
