"""Reads the declarations of first-order policies: atoms with arguments, parameters, formulas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.policy.declarations import ATOM, LET, STREAM
from mtlmon.policy.definitions import Argument, Relation
from mtlmon.policy.first_order.reader import FirstOrderReader
from mtlmon.policy.first_order.terms import terms_of
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.kinds import DECLARED
from mtlmon.policy.predicates.parser import parse_prefix
from mtlmon.support.other_words import type_hint
from mtlmon.syntax import operators as formula_ops
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.lexer import skip_blanks
from mtlmon.syntax.parser import parse_at
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.reading import FileReader
    from mtlmon.syntax.formula import Formula

BUILT_IN = {"point": "int", "time": "int"}
"""The type of the argument of each built-in atom; files can declare others of these names."""

_NAMED_VALUE = re.compile(r"(?P<name>[^\W\d]\w*)\s*=(?!=)")
_TYPE = re.compile(r"\s*:\s*(?P<type>[^\s,)]*)")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FirstOrderDeclarations:
    """Reads what only first-order policies have, for the reader of a policy file.

    Args:
        reader: the reader of the file.
    """

    def __init__(self, reader: FileReader) -> None:
        self.reader = reader
        self.file = reader.file
        self.text = reader.text
        # The lets with parameters that have been read, in order.

    def read_relation(self, declaration: Declaration) -> Relation:
        """Read an atom with arguments.

        Raises:
            FormulaError: an argument or the condition is not valid.
        """
        self.require_free_name(declaration)
        condition = None
        if declaration.has_body:
            written = self.reader.expression(declaration)
            condition = self.reader.resolved(written, is_atom=True)
        arguments: list[Argument] = []
        assert declaration.arguments is not None
        place, end = declaration.arguments
        while True:
            place = skip_blanks(self.text, place, end)
            argument, place = self.read_argument(place, end, has_columns=condition is not None)
            if any(argument.name == other.name for other in arguments):
                message = f"{declaration.name} has two arguments called {argument.name}"
                hint = "write NAME = COLUMN to give one of them another name"
                raise self.reader.error(argument.place, message, hint)
            arguments.append(argument)
            place = skip_blanks(self.text, place, end)
            if place >= end:
                break
            if self.text[place] != ",":
                hint = "an argument is COLUMN, COLUMN: type or NAME = EXPRESSION"
                raise self.reader.error(place, "expected ',' or ')' after an argument", hint)
            place += 1
        return Relation(declaration.name, tuple(arguments), condition, declaration.place)

    def read_argument(self, place: int, end: int, *, has_columns: bool) -> tuple[Argument, int]:
        """Read an argument; return it and the position behind it."""
        text, reader = self.text, self.reader
        if place >= end:
            hint = "an argument is COLUMN, COLUMN: type or NAME = EXPRESSION"
            raise reader.error(place, "an argument is missing here", hint)
        named = _NAMED_VALUE.match(text, place, end)
        start = place if named is None else named.end()
        unit, constants = self.file.unit, self.file.constants
        written, behind = parse_prefix(text, reader.source, start, end, unit, constants)
        is_column = written.operator in ops.COLUMNS
        if named is None and not is_column:
            hint = "give it a name: NAME = EXPRESSION"
            raise reader.error(place, "an argument without a name", hint)
        if not has_columns and (named is not None or not is_column):
            hint = "an atom of a table has a condition: atom NAME(...) = CONDITION"
            message = "an atom without a condition is of a log of relations, which has no columns"
            raise reader.error(place, message, hint)
        name = written.name if named is None else named["name"]
        kind = None
        if found := _TYPE.match(text, behind, end):
            kind, behind = found["type"], found.end()
            if kind not in DECLARED:
                hint = type_hint(kind, DECLARED)
                raise reader.error(found.start("type"), f"there is no type {kind}", hint)
        value = reader.resolved(written, is_atom=True) if has_columns else None
        return Argument(name, value, kind, place), behind

    def require_free_name(self, declaration: Declaration) -> None:
        """Refuse an atom or let with arguments that is called like a function."""
        if declaration.name in ops.RESERVED:
            message = f"{declaration.name} is a function"
            raise self.reader.error(declaration.place, message, "give it another name")

    def read_parameters(self, declaration: Declaration) -> None:
        """Read the parameters of a let whose formula has been read.

        Raises:
            FormulaError: they are not valid, or not the free variables of the formula.
        """
        from mtlmon.policy.first_order.terms import free_in

        self.require_free_name(declaration)
        assert declaration.arguments is not None
        place, end = declaration.arguments
        names: dict[str, int] = {}
        for part in re.finditer(r"[^,]*", self.text[place:end]):
            if part.start() and self.text[place + part.start() - 1] != ",":
                continue
            name = part.group().strip()
            start = skip_blanks(self.text, place + part.start(), end)
            if not _PARAMETER.fullmatch(name) or name == "_" or name in self.file.constants:
                message = f"'{name}' is not the name of a parameter" if name else "no parameter"
                hint = "a parameter is a variable, of letters, digits and _"
                raise self.reader.error(start, message, hint)
            if name in names:
                message = f"the parameter {name} is named twice"
                raise self.reader.error(start, message, "name it once")
            names[name] = start
        self.file.parameters[declaration.name] = tuple(names)
        formula = self.reader.written[declaration.name]
        free = free_in(formula)
        for name, start in names.items():
            if name not in free:
                message = f"let {declaration.name}: the parameter {name} is not in its formula"
                hint = "the parameters are the free variables of the formula"
                if free:
                    hint += f": {', '.join(free)}"
                raise self.reader.error(start, message, hint)
        for name in free:
            if name not in names:
                message = f"let {declaration.name}: the variable {name} is not a parameter"
                hint = f"name it in the parentheses, or write EXISTS {name}. ..."
                raise self.reader.error(place_of(name, formula), message, hint)

    def read_formula(self, declaration: Declaration) -> Formula:
        """Parse a first-order formula.

        Raises:
            FormulaError: it is not a formula.
        """
        reader = self.reader
        conditions = FirstOrderReader(
            self.text,
            reader.source,
            self.file.unit,
            reader.names_of(STREAM),
            self.file.constants,
            reader.add_condition,
            reader.relations,
            reader.missing_parentheses,
        )
        place = self.text, reader.source, declaration.start, declaration.end
        cursor = Cursor(*place, conditions, constants=self.file.constants)
        formula = parse_at(cursor, self.file.unit, reader.missing_parentheses)
        reader.define_streams(formula)
        self.check(formula, declaration)
        return formula

    def check(self, formula: Formula, declaration: Declaration | None = None) -> None:
        """Check that atoms and lets have as many arguments as are declared.

        Raises:
            PolicyError: one has another number.
        """
        for node in postorder(formula):
            if node.name is None or node.operator not in (formula_ops.ATOM, formula_ops.PREDICATE):
                continue
            count = len(terms_of(node))
            expected, place = self.expected(node)
            if declaration is not None and declaration.kind == LET and declaration.arguments:
                self.require_earlier(node, declaration)
            if expected is not None and count != expected:
                start = 0 if node.span is None else node.span.start
                line = self.text.count("\n", 0, place) + 1
                has = "one argument" if expected == 1 else f"{expected or 'no'} arguments"
                message = f"{node.name} has {has} (line {line}), not {count or 'none'}"
                hint = "an argument that may be anything is written _" if expected else None
                raise self.reader.error(start, message, hint or "leave them out")

    def require_earlier(self, node: Formula, declaration: Declaration) -> None:
        """Refuse a let with parameters that uses a later one.

        It can use itself, at earlier time-points (`mtlmon.relational.recursion`).
        """
        used = self.reader.relations.get(node.name or "")
        if used is not None and used.kind == LET and used.place > declaration.place:
            start = 0 if node.span is None else node.span.start
            message = f"let {declaration.name} uses {node.name}, which is declared later"
            hint = f"move the declaration of {node.name} up"
            raise self.reader.error(start, message, hint)

    def expected(self, node: Formula) -> tuple[int | None, int]:
        """How many arguments an atom or let has, and the place that says so.

        The number is None where this is the first place.
        """
        name = node.name or ""
        declared = self.reader.named.get(name)
        if declared is not None and declared.kind in {ATOM, LET, STREAM}:
            if declared.arguments is None:
                return 0, declared.place
            if declared.kind == LET:
                start, end = declared.arguments
                return self.text.count(",", start, end) + 1, declared.place
            relation = self.file.relations.get(name)
            return (None if relation is None else len(relation.arguments)), declared.place
        terms = terms_of(node)
        if not terms:
            return (
                (None, 0)
                if name not in self.file.relations
                else (len(self.file.relations[name].arguments), self.file.relations[name].place)
            )
        start = 0 if node.span is None else node.span.start
        if name not in self.file.relations:
            arguments = tuple(
                Argument(f"argument {number}", None, BUILT_IN.get(name), start)
                for number in range(1, 1 + (1 if name in BUILT_IN else len(terms)))
            )
            relation = Relation(name, arguments, None, start, is_declared=False)
            self.file.relations[name] = relation
        relation = self.file.relations[name]
        return len(relation.arguments), relation.place

    def error(self, node: Formula, message: str, hint: str) -> FormulaError:
        """Make an error at a formula."""
        return self.reader.error(0 if node.span is None else node.span.start, message, hint)


def place_of(variable: str, formula: Formula) -> int:
    """The position where a variable occurs first in the terms of a formula."""
    places = [
        part.span.start
        for node in postorder(formula)
        for part in postorder(*terms_of(node))
        if part.operator is ops.VARIABLE and part.name == variable and part.span is not None
    ]
    return min(places, default=0)
