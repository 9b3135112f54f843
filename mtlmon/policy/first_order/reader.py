"""Reads what first-order formulas have beyond others: predicates, terms, quantifiers, aggregates.

Names in terms are variables there, and `row.NAME` is a column. The lexer of formulas asks at each
place where an operand can be, as it does for the conditions of other formulas.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy.conditions import QUOTED, WORD, Conditions
from mtlmon.policy.first_order.recognition import (
    NAMES_BEFORE_PARENTHESIS,
    OPERATORS_BEFORE_PARENTHESIS,
    QUANTIFIER,
    has_arguments,
    has_comma,
)
from mtlmon.policy.first_order.terms import comparison, predicate
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Aggregate, Expression
from mtlmon.policy.predicates.keywords import KEYWORDS
from mtlmon.policy.predicates.own_functions import registered_function
from mtlmon.policy.predicates.parser import parse_comparison, parse_expression, parse_prefix
from mtlmon.policy.predicates.printer import column_text
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula, Span
from mtlmon.syntax.lexer import (
    ATOM,
    INVALID,
    LeafToken,
    QuantifierToken,
    Token,
    comment_end,
    quoted,
    skip_blanks,
)
from mtlmon.syntax.operators import QUANTIFIERS, SMALL_WORDS
from mtlmon.syntax.parser import parse_at
from mtlmon.syntax.report import formula_error, offset_of
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping

    from mtlmon.policy.predicates.expression import Constant

DEEPEST = 20
"""How deeply aggregates can nest."""

_CALL = re.compile(r"(?:[^\W\d]|\$)[\w$.']*\s*\(")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTED = re.compile(r"\s*([^\s,.()]*)\s*(,?)")
# What may hide or nest words in the parentheses of an aggregate.
_MARK = re.compile(r'/\*|\#[^\n]*|"(?:[^"\\\n]|\\.)*"|`[^`\n]*`|[][()]|\b(?:OVER|BY)\b')
_OTHER_ROWS = frozenset({ops.OVER, ops.INSTANCE, *ops.WINDOWS, *ops.OFFSETS.values()})
_NULL_TESTS = frozenset({ops.IS_NULL, ops.IS_NOT_NULL})


class FirstOrderReader(Conditions):
    """Reads predicates, comparisons of terms, and quantifiers inside one formula.

    Args:
        text: the text of the file.
        source: the name of the text in errors.
        unit: the unit of the time-stamps, as for `parse`.
        streams: the names of streams.
        constants: the values of constants by name.
        add: takes a condition on columns and returns the name of the atom that it is.
        relations: the names of the atoms and lets with arguments that the file declares.
        missing_parentheses: as for `parse_at`.
    """

    __slots__ = ("_depth", "_formulas", "_missing_parentheses", "_relations", "_text")

    def __init__(
        self,
        text: str,
        source: str,
        unit: str | None,
        streams: Container[str],
        constants: Mapping[str, Constant],
        add: Callable[[Expression], str],
        relations: Collection[str],
        missing_parentheses: set[Span] | None,
    ) -> None:
        super().__init__(source, unit, streams, constants, add)
        self._missing_parentheses = missing_parentheses
        self._text = text
        self._relations = relations
        # The formulas of the aggregates in the predicate or comparison that is being read.
        self._formulas: list[Formula] = []
        self._depth = 0

    def begins(self, text: str, position: int, end: int) -> bool:
        """Whether a quantifier, predicate or comparison begins where an operand can be."""
        if QUANTIFIER.match(text, position, end):
            return True
        if (found := QUOTED.match(text, position, end)) and has_arguments(text, found.end(), end):
            return True
        return super().begins(text, position, end)

    def read(self, text: str, position: int, end: int) -> Token:
        """Return what begins at a position: a leaf, quantifier or atom, or an invalid token."""
        outer, self._formulas = self._formulas, []
        try:
            if found := QUANTIFIER.match(text, position, end):
                return self._read_quantifier(found, end)
            word = WORD.match(text, position, end)
            name = "" if word is None else word.group()
            if self._is_predicate(text, position, end):
                return self._read_predicate(position, end)
            if name in OPERATORS_BEFORE_PARENTHESIS and _CALL.match(text, position, end):
                hint = f'an atom of that name is written "{name}"(...)'
                raise self._error(position, f"{name} is an operator", hint)
            return self._read_comparison(position, end)
        except FormulaError as error:
            place = offset_of(text, error)
            return Token(INVALID, place, place + 1, error.message, hint=error.hint)
        finally:
            self._formulas = outer

    def reads(self, word: str) -> bool:
        """Whether a word before a parenthesis begins an aggregate over a formula."""
        return word in ops.FORMULA_AGGREGATES

    def read_aggregate(self, position: int, end: int) -> tuple[Expression, int]:
        """Read an aggregate over a formula.

        Args:
            position: the position of its word.
            end: where the text that it is part of ends.

        Returns:
            The aggregate, and the position behind it.

        Raises:
            FormulaError: it is not valid.
        """
        text = self._text
        found = WORD.match(text, position, end)
        assert found is not None
        word = found.group()
        opening = text.index("(", found.end())
        closing = self._closing_of(opening, end)
        start, over, by = self._parts_of_aggregate(opening + 1, closing)
        hint = "as in COUNT(p(u, a) BY u)" if word == "COUNT" else f"as in {word}(a OVER p(u, a))"
        if word == "COUNT" and over is not None:
            raise self._error(over, "COUNT counts valuations, not values of a term", hint)
        if word != "COUNT" and over is None:
            raise self._error(closing, f"{word} needs a term and OVER before its formula", hint)
        if self._depth == DEEPEST:
            hint = "name some of them by let"
            raise self._error(position, f"more than {DEEPEST} aggregates in each other", hint)
        operands: tuple[Expression, ...] = ()
        if over is not None:
            value = parse_expression(text, self._source, start, over, self._unit, self._constants)
            operands = (self._term(value),)
            start = over + len("OVER")
        formula = self._nested(start, closing if by is None else by)
        groups = None if by is None else self._variables(by + len("BY"), closing, "BY")
        self._formulas.append(formula)
        aggregate = Aggregate(word, len(self._formulas) - 1, groups)
        operator = ops.AGGREGATE_FORMULA if operands else ops.COUNT_FORMULA
        span = Span(position, closing + 1)
        return Expression(operator, operands, aggregate, span), closing + 1

    def _nested(self, start: int, end: int) -> Formula:
        outer, self._formulas = self._formulas, []
        self._depth += 1
        try:
            cursor = Cursor(self._text, self._source, start, end, self, constants=self._constants)
            return parse_at(cursor, self._unit, self._missing_parentheses)
        finally:
            self._depth -= 1
            self._formulas = outer

    def _parts_of_aggregate(self, start: int, end: int) -> tuple[int, int | None, int | None]:
        """Where the parts of an aggregate begin: the first, OVER and BY."""
        depth, position = 0, start
        over: int | None = None
        by: int | None = None
        while mark := _MARK.search(self._text, position, end):
            found, position = mark.group(), mark.end()
            if found == "/*":
                position = comment_end(self._text, position, end)
                if position < 0:
                    break
            depth += (found in {"(", "["}) - (found in {")", "]"})
            if depth == 0 and found == "OVER" and over is None and by is None:
                over = mark.start()
            elif depth == 0 and found == "BY":
                by = mark.start()
        return start, over, by

    def _begins_with(self, word: str, text: str, behind: int, end: int) -> bool:
        if word in OPERATORS_BEFORE_PARENTHESIS and has_arguments(text, behind, end):
            # an operator and a parenthesis, unless there are several arguments
            opening = skip_blanks(text, behind, end)
            closing = self._behind(text, opening, end)
            return closing is not None and has_comma(text, opening + 1, closing - 1)
        if word in NAMES_BEFORE_PARENTHESIS and has_arguments(text, behind, end):
            return True
        return super()._begins_with(word, text, behind, end)

    def _begins_with_call(self, word: str, text: str, opening: int, end: int) -> bool:
        if super()._begins_with_call(word, text, opening, end):
            return True
        behind = text.rfind(word, 0, opening) + len(word)
        return has_arguments(text, behind, end) and word not in SMALL_WORDS

    def _is_predicate(self, text: str, position: int, end: int) -> bool:
        """Whether what begins is an atom with arguments rather than a comparison."""
        name = QUOTED.match(text, position, end) or WORD.match(text, position, end)
        if name is None or not has_arguments(text, name.end(), end):
            return False
        word = name.group()
        if word[0] == '"' or word in self._relations:
            return True
        if word in {*ops.FUNCTIONS, *ops.RESERVED, *ops.OVER_WORDS}:
            return False
        if word in OPERATORS_BEFORE_PARENTHESIS or registered_function(word) is not None:
            return False
        behind = self._behind(text, skip_blanks(text, name.end(), end), end)
        return behind is None or not self._goes_on(text, behind, end)

    def _read_quantifier(self, found: re.Match[str], end: int) -> Token:
        text, start = self._text, found.start()
        word = found["quantifier"]
        point = text.find(".", found.end("quantifier"), end)
        if point < 0:
            message = f"there is no point behind the variables of {word}"
            raise self._error(start, message, f"as in {word} x, y. p(x, y)")
        variables = self._variables(found.end("quantifier"), point, word)
        return QuantifierToken(start, point + 1, QUANTIFIERS[word], variables)

    def _variables(self, start: int, end: int, what: str) -> tuple[str, ...]:
        """Read the names of variables, separated by commas."""
        names: list[str] = []
        position = start
        while True:
            found = _LISTED.match(self._text, position, end)
            assert found is not None
            name, place = found[1], found.start(1)
            if not _VARIABLE.fullmatch(name) or name == "_" or name.lower() in KEYWORDS:
                shown = f"'{name}' is not the name of a variable" if name else "no variable"
                hint = "a variable has letters, digits and _, as in FORALL u, f. ..."
                raise self._error(place, f"{shown} after {what}", hint)
            if name in self._constants:
                hint = "give the variable another name"
                raise self._error(place, f"{name} is a constant of this file", hint)
            if name in names:
                raise self._error(place, f"the variable {name} is named twice", "name it once")
            names.append(name)
            position = found.end()
            if not found[2]:
                break
        if position < end:
            raise self._error(position, "expected a comma between variables", None)
        return tuple(names)

    def _read_predicate(self, position: int, end: int) -> Token:
        text = self._text
        found = QUOTED.match(text, position, end)
        if found is None:
            found = WORD.match(text, position, end)
            assert found is not None
            name = found.group()
        else:
            token = quoted(text, position, end)
            if token.kind == INVALID:
                return token
            name = token.value
        opening = skip_blanks(text, found.end(), end)
        closing = self._closing_of(opening, end)
        arguments: list[Expression] = []
        place = opening + 1
        while True:
            start = skip_blanks(text, place, closing)
            if start >= closing:
                hint = f"as in {name}(u, _)"
                raise self._error(start, "an argument is missing here", hint)
            argument, behind = parse_prefix(
                text, self._source, place, closing, self._unit, self._constants, self
            )
            arguments.append(self._term(argument, is_argument=True))
            place = skip_blanks(text, behind, closing)
            if place >= closing:
                break
            if text[place] != ",":
                hint = "arguments are separated by commas"
                raise self._error(place, f"expected ',' or ')' in {name}(...)", hint)
            place += 1
        first = arguments[0]
        is_named = first.operator is ops.CONSTANT and ":" in str(first.constant)
        if name == ops.MACHINE.word and is_named and name not in self._relations:
            raise self._machine(position, text[position : closing + 1])
        span = Span(position, closing + 1)
        formula = predicate(name, *arguments, formulas=tuple(self._formulas), span=span)
        return LeafToken(position, closing + 1, formula)

    def _read_comparison(self, position: int, end: int) -> Token:
        read, stop = parse_comparison(
            self._text, self._source, position, end, self._unit, self._constants, self
        )
        if read.operator in ops.OF_FORMULAS:
            message = f"{read.aggregate.word}(...) is a value, not true or false"
            hint = "compare it with something, as in ... > 3"
            if re.match(r"BY\b", self._text[skip_blanks(self._text, stop, end) : end]):
                hint = f"write BY inside the parentheses: {read.aggregate.word}(... BY u) > 3"
            raise self._error(position, message, hint)
        columns = [node for node in postorder(read) if node.operator is ops.ROW_COLUMN]
        if columns:
            mixed = [node for node in postorder(read) if self._is_variable(node)]
            if not mixed and not self._formulas:
                return Token(ATOM, position, stop, self._add(read))
            place = columns[0].span
            column = column_text(columns[0].name)
            message = f"row.{column} cannot be used beside values that are not columns of the row"
            hint = f"make the column an argument of an atom: atom NAME({column}, ...)"
            raise self._error(position if place is None else place.start, message, hint)
        expression = self._term(read)
        span = Span(position, stop)
        return LeafToken(position, stop, comparison(expression, tuple(self._formulas), span))

    def _machine(self, start: int, written: str) -> FormulaError:
        hint = f"declare stream NAME: TYPE = {written}, and write NAME here"
        return self._error(start, "a machine gives the values of a stream", hint)

    def _is_variable(self, node: Expression) -> bool:
        return node.operator is ops.COLUMN and node.name not in self._constants

    def _term(self, expression: Expression, *, is_argument: bool = False) -> Expression:
        """An expression as parsed, with variables for names."""
        if is_argument and expression.operator is ops.COLUMN and expression.name == "_":
            return Expression(ops.WILDCARD, (), None, expression.span)
        done: dict[int, Expression] = {}
        for node in postorder(expression):
            operator = node.operator
            start = 0 if node.span is None else node.span.start
            if operator is ops.ROW_COLUMN:
                hint = f"make it an argument of an atom: atom NAME({column_text(node.name)}, ...)"
                raise self._error(start, "a column cannot be used beside variables", hint)
            if operator is ops.MACHINE:
                assert node.span is not None
                raise self._machine(start, self._text[start : node.span.end])
            if operator in _OTHER_ROWS:
                message = "windows, streams and other rows cannot be used beside variables"
                hint = "write an aggregate over a formula, as in COUNT(ONCE[0,5m] p(u, a) BY u)"
                raise self._error(start, message, hint)
            if operator in ops.LOOK_UPS:
                message = "a look-up in a relation cannot be used beside variables"
                hint = f"make it an argument of an atom: atom NAME(x: {node}, ...) = CONDITION"
                raise self._error(start, message, hint)
            if operator in _NULL_TESTS:
                hint = "a row with a null argument is left out of its atom"
                raise self._error(start, "variables are never null", hint)
            if operator is not ops.COLUMN:
                operands = tuple(done[id(operand)] for operand in node.operands)
                done[id(node)] = Expression(operator, operands, node.value, node.span)
            elif node.name in self._constants:
                value = self._constants[node.name]
                done[id(node)] = Expression(ops.CONSTANT, (), value, node.span)
            elif node.name == "_":
                hint = "_ is an argument of an atom, as in approve(_, f)"
                raise self._error(start, "_ is not a value", hint)
            elif not _VARIABLE.fullmatch(node.name):
                hint = f"the column is row.{column_text(node.name)}"
                message = f"{column_text(node.name)} is not the name of a variable"
                raise self._error(start, message, hint)
            else:
                done[id(node)] = Expression(ops.VARIABLE, (), node.name, node.span)
        return done[id(expression)]

    def _closing_of(self, opening: int, end: int) -> int:
        """The position of the parenthesis that closes the one at `opening`."""
        behind = self._behind(self._text, opening, end)
        if behind is None or behind > end:
            raise self._error(opening, "this parenthesis is never closed", None)
        return behind - 1

    def _error(self, place: int, message: str, hint: str | None) -> FormulaError:
        return formula_error(
            self._text, place, message, source=self._source, hint=hint, kind=PolicyError
        )
