"""Parses formulas of MonPoly's language.

The result is a formula of our own tree in which names are as written: a variable may be bound more
than once, and `/` is our division. `mtlmon.monpoly.resolving` mends that once the types are known.
The functions that would be recursive are generators, which `run` drives.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.monpoly import grammar
from mtlmon.monpoly.lexer import (
    DECIMAL,
    DURATION,
    END,
    INTEGER,
    NAME,
    PATTERN,
    TEXT,
    Token,
    error_at,
    tokens_of,
)
from mtlmon.monpoly.signature import BUILT_IN, name_in_formulas
from mtlmon.policy.first_order.terms import comparison, free_in, predicate, variables_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Aggregate, Expression
from mtlmon.policy.predicates.integers import fits
from mtlmon.policy.predicates.patterns import PatternError, compile_pattern
from mtlmon.support.generators import run
from mtlmon.support.guesses import advice, with_advice
from mtlmon.support.other_words import AGGREGATES as OTHER_AGGREGATES
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import FALSE, TRUE, Formula, Span
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import NoReturn

    from mtlmon.monpoly.signature import Signature
    from mtlmon.policy.predicates.expression import Constant

    _Part = Formula | Expression
    _Steps = Generator[Any, Any, _Part]


class Let(NamedTuple):
    """A formula that LET or LETPAST names.

    Attributes:
        parameters: its variables; () if it has none.
        formula: its definition; None while that is read.
        is_past: whether it is one of LETPAST that uses itself, at earlier time-points.
    """

    parameters: tuple[str, ...]
    formula: Formula | None
    is_past: bool = False


class Parsed(NamedTuple):
    """A formula as parsed.

    Attributes:
        formula: the formula.
        lets: what LET and LETPAST name, by names that are unlike each other and all relations.
    """

    formula: Formula
    lets: dict[str, Let]


def parse_formula(text: str, signature: Signature, source: str = "<formula>") -> Parsed:
    """Parse a formula.

    Args:
        text: the formula.
        signature: the relations.
        source: the name of the text in errors.

    Raises:
        PolicyError: the text is not a formula, or uses what is not supported; the error says where.
    """
    return _Parser(text, signature, source).parse()


class _Parser:
    def __init__(self, text: str, signature: Signature, source: str) -> None:
        self.text = text
        self.source = source
        self.signature = signature
        self.tokens = tokens_of(text, source)
        self.place = 0
        # The names of lets in scope, and how the lets are called in `lets`.
        self.scope: dict[str, str] = {}
        self.lets: dict[str, Let] = {}

    def parse(self) -> Parsed:
        formula = run(self.formula(grammar.LOOSEST))
        if self.token.kind != END:
            self.fail_at_operator()
        return Parsed(formula, self.lets)

    # The tokens.

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def ahead(self, distance: int) -> str:
        """The kind of a token further on."""
        return self.tokens[min(self.place + distance, len(self.tokens) - 1)].kind

    def take(self) -> Token:
        token = self.token
        self.place += token.kind != END
        return token

    def expect(self, kind: str, hint: str | None = None) -> Token:
        if self.token.kind != kind:
            wanted = kind if " " in kind else f"'{kind}'"
            self.fail(self.token, f"expected {wanted}, not {shown(self.token)}", hint)
        return self.take()

    def fail(self, token: Token, message: str, hint: str | None = None) -> NoReturn:
        raise error_at(self.text, token.start, message, self.source, hint)

    def fail_at_operator(self) -> NoReturn:
        token = self.token
        hint = None
        if token.kind == "." or token.kind in {"{", "}"}:
            message = "records are not supported"
            hint = "give the relation an argument for each field that the formula uses"
            self.fail(token, message, hint)
        if token.kind in {"?", "|"}:
            self.fail(token, "regular expressions over time are not supported")
        if token.kind == NAME:
            hint = advice(token.text, grammar.BINARY)
        elif token.kind in {INTEGER, DECIMAL} and token.text.startswith("-"):
            hint = f"write a blank behind the minus: - {token.text[1:]}"
        elif token.kind in {"=", "<", "<=", ">", ">="}:
            hint = "comparisons do not chain: write a < b AND b < c"
        self.fail(token, f"expected an operator, not {shown(token)}", hint)

    # Formulas and terms.

    def formula(self, least: int) -> Generator[Any, Any, Formula]:
        """Parse a formula of operators that bind more tightly than `least`."""
        start = self.token
        part = yield self.part(least)
        return self.as_formula(part, start)

    def term(self, least: int = grammar.COMPARISON) -> Generator[Any, Any, Expression]:
        """Parse a term."""
        start = self.token
        part = yield self.part(least, is_term=True)
        return self.as_term(part, start)

    def as_formula(self, part: _Part, start: Token) -> Formula:
        if isinstance(part, Formula):
            return part
        if self.token.kind in {INTEGER, DECIMAL}:
            self.fail_at_operator()
        hint = "compare it with something, as in x > 3"
        if part.operator is terms.VARIABLE:
            hint = f"an atom has parentheses: {part.name}()"
        self.fail(start, "this is a value, not true or false", hint)

    def as_term(self, part: _Part, start: Token) -> Expression:
        if isinstance(part, Expression):
            return part
        self.fail(start, "this is a formula, not a value")

    def part(self, least: int, *, is_term: bool = False) -> _Steps:
        """Parse what operators that bind more tightly than `least` hold together."""
        start = self.token
        left: _Part = yield self.primary(is_term=is_term)
        compared = False
        while True:
            word = self.token.kind
            if (binary := grammar.BINARY.get(word)) and binary.left > least:
                self.take()
                interval = self.interval() if binary.operator.is_temporal else None
                operand = self.as_formula(left, start)
                other: Formula = yield self.formula(binary.right)
                span = self.span_from(start)
                left = Formula(binary.operator, (operand, other), interval, None, span)
            elif (between := grammar.BINARY_TERMS.get(word)) and between.left > least:
                is_comparison = between.left == grammar.COMPARISON
                if is_comparison and compared:
                    self.fail_at_operator()
                compared = compared or is_comparison
                self.take()
                value = self.as_term(left, start)
                right: Expression = yield self.term(between.right)
                span = self.span_from(start)
                expression = Expression(between.operator, (value, right), None, span)
                if word == "MATCHES":
                    left = yield self.matches(expression, start)
                else:
                    left = comparison(expression, (), span) if is_comparison else expression
            else:
                return left

    def primary(self, *, is_term: bool) -> _Steps:
        """Parse what begins with no operator between operands."""
        token = self.token
        kind = token.kind
        part: _Part
        if kind == "(":
            self.take()
            part = yield self.part(grammar.LOOSEST)
            self.expect(")")
            return part
        if kind == NAME:
            if not is_term and self.ahead(1) == "<-":
                part = yield self.aggregation()
                return part
            if not is_term and self.ahead(1) == "(":
                part = yield self.predicate()
                return part
            return self.variable()
        if kind in {"TRUE", "FALSE"}:
            self.take()
            return TRUE if kind == "TRUE" else FALSE
        if kind == "NOT":
            self.take()
            operand = yield self.formula(grammar.NOT)
            return Formula(ops.NOT, (operand,), None, None, self.span_from(token))
        if kind in grammar.UNARY_TEMPORAL:
            self.take()
            interval = self.interval()
            operand = yield self.formula(grammar.TEMPORAL)
            operator = grammar.UNARY_TEMPORAL[kind]
            return Formula(operator, (operand,), interval, None, self.span_from(token))
        if kind in grammar.QUANTIFIERS:
            part = yield self.quantified()
            return part
        if kind in {"LET", "LETPAST"}:
            part = yield self.let()
            return part
        if kind in grammar.FUNCTIONS:
            self.take()
            self.expect("(")
            argument = yield self.term()
            self.expect(")")
            span = self.span_from(token)
            return Expression(grammar.FUNCTIONS[kind], (argument,), None, span)
        if kind == "-":
            self.take()
            operand = yield self.term(grammar.SIGN)
            return Expression(terms.NEGATE, (operand,), None, self.span_from(token))
        return self.constant()

    def constant(self) -> Expression:
        token = self.token
        value: Constant
        if token.kind == INTEGER:
            value = int(token.text)
            if not fits(value):
                self.fail(token, f"{token.text} does not fit in 64 bits")
        elif token.kind == DECIMAL:
            value = Decimal(token.text)
        elif token.kind == TEXT:
            value = token.text[1:-1]
        elif token.kind == PATTERN:
            value = token.text[2:-1]
            try:
                compile_pattern(value)
            except PatternError as error:
                self.fail(token, str(error))
            span = Span(token.start, token.end)
            self.take()
            constant = Expression(terms.CONSTANT, (), value, span)
            return Expression(terms.PATTERN_OF_TEXT, (constant,), None, span)
        else:
            self.fail_at_operand()
        self.take()
        return Expression(terms.CONSTANT, (), value, Span(token.start, token.end))

    def fail_at_operand(self) -> NoReturn:
        token = self.token
        if token.kind in grammar.UNSUPPORTED:
            self.fail(token, f"{grammar.UNSUPPORTED[token.kind]} is not supported")
        hint = None
        if token.kind == "_":
            hint = "_ is an argument of a relation"
        elif token.kind in {"{", "."}:
            self.fail_at_operator()
        self.fail(token, f"expected a formula or a value, not {shown(token)}", hint)

    def variable(self) -> Expression:
        token = self.take()
        if self.token.kind == "." and self.ahead(1) == NAME:
            self.fail_at_operator()
        return Expression(terms.VARIABLE, (), token.text, Span(token.start, token.end))

    def predicate(self) -> _Steps:
        """Parse a relation with its arguments."""
        token = self.take()
        arguments: list[Expression] = yield self.arguments()
        span = self.span_from(token)
        count = self.argument_count(token)
        if count != len(arguments):
            takes = "one argument" if count == 1 else f"{count or 'no'} arguments"
            self.fail(token, f"{token.text} has {takes}, not {len(arguments) or 'none'}")
        name = self.scope.get(token.text) or name_in_formulas(token.text)
        let = self.lets.get(name)
        if token.text == "tpts" and token.text not in self.scope:
            point = predicate(name_in_formulas("tp"), arguments[0], span=span)
            time = predicate(name_in_formulas("ts"), arguments[1], span=span)
            formula = Formula(ops.AND, (point, time), None, None, span)
        elif arguments:
            formula = predicate(name, *arguments, span=span)
        elif let is not None and let.formula is not None and not let.is_past:
            formula = let.formula
        else:
            formula = Formula(ops.ATOM, name=name, span=span)
        # a variable that begins with _ is one of the relation alone
        hidden = {name for one in arguments for name in variables_of(one) if name[0] == "_"}
        if hidden:
            formula = Formula(ops.EXISTS, (formula,), None, None, span, tuple(sorted(hidden)))
        return formula

    def argument_count(self, token: Token) -> int:
        name = token.text
        if name in self.scope:
            return len(self.lets[self.scope[name]].parameters)
        types = BUILT_IN.get(name, self.signature.get(name))
        if types is None:
            known = [*self.signature, *self.scope]
            self.fail(token, f"the signature has no relation {name}", advice(name, known))
        return len(types)

    def arguments(self) -> Generator[Any, Any, list[Expression]]:
        """Parse terms in parentheses, some of which may be _."""
        self.expect("(")
        found: list[Expression] = []
        while self.token.kind != ")":
            if self.token.kind == "_" and self.ahead(1) in {",", ")"}:
                token = self.take()
                found.append(Expression(terms.WILDCARD, (), None, Span(token.start, token.end)))
            else:
                found.append((yield self.term()))
            if self.token.kind == ",":
                self.take()
            elif self.token.kind != ")":
                self.fail(self.token, f"expected ',' or ')', not {shown(self.token)}")
        self.take()
        return found

    def matches(self, matched: Expression, start: Token) -> _Steps:
        """Parse what MATCHES binds its groups to."""
        text, pattern = matched.operands
        formula = comparison(matched, (), matched.span)
        if self.token.kind != "(":
            return formula
        groups: list[Expression] = yield self.arguments()
        span = self.span_from(start)
        for number, group in enumerate(groups, 1):
            if group.operator is terms.WILDCARD:
                continue
            index = Expression(terms.CONSTANT, (), number, span)
            value = Expression(terms.PATTERN_GROUP, (text, pattern, index), None, span)
            equal = Expression(terms.EQUAL, (group, value), None, span)
            formula = Formula(ops.AND, (formula, comparison(equal, (), span)), None, None, span)
        return formula

    def quantified(self) -> _Steps:
        token = self.take()
        names = [self.expect(NAME, "a quantifier takes variables: EXISTS x, y. p(x, y)").text]
        while self.token.kind == ",":
            self.take()
            names.append(self.expect(NAME).text)
        self.expect(".", "a quantifier ends with a point: EXISTS x, y. p(x, y)")
        operand = yield self.formula(grammar.QUANTIFIER)
        variables = tuple(dict.fromkeys(names))
        operator = grammar.QUANTIFIERS[token.kind]
        return Formula(operator, (operand,), None, None, self.span_from(token), variables)

    def aggregation(self) -> _Steps:
        """Parse an aggregate, as in `s <- SUM a; u withdraw(u, a)`."""
        start = self.token
        result = self.variable()
        self.take()
        word = self.token
        if word.kind not in grammar.AGGREGATES:
            hint = f"the aggregates are {', '.join(grammar.AGGREGATES)}"
            names = {one.lower(): one for one in grammar.AGGREGATES}
            others = {
                other: names[meant] for other, meant in OTHER_AGGREGATES.items() if meant in names
            }
            hint = with_advice(word.text, grammar.AGGREGATES, hint, others)
            self.fail(word, f"expected an aggregate, not {shown(word)}", hint)
        self.take()
        argument = self.expect(NAME, f"as in {result.name} <- {word.kind} x p(x)")
        groups: list[Token] = []
        if self.token.kind == ";":
            self.take()
            if self.token.kind == NAME:
                groups.append(self.take())
                while self.token.kind == ",":
                    self.take()
                    groups.append(self.expect(NAME))
        operand: Formula = yield self.formula(grammar.LOOSEST)
        free = free_in(operand)
        for variable in (argument, *groups):
            if variable.text not in free:
                hint = f"its free variables are {', '.join(free)}" if free else "it has none"
                message = f"the formula of the aggregate has no free variable {variable.text}"
                self.fail(variable, message, hint)
        span = self.span_from(start)
        by = tuple(dict.fromkeys(group.text for group in groups)) or None
        value = Aggregate(grammar.AGGREGATES[word.kind], 0, by, is_of_rows=True)
        aggregate = Expression(terms.COUNT_FORMULA, (), value, span)
        if word.kind != "CNT":
            place = Span(argument.start, argument.end)
            variable_term = Expression(terms.VARIABLE, (), argument.text, place)
            aggregate = Expression(terms.AGGREGATE_FORMULA, (variable_term,), value, span)
        equality = Expression(terms.EQUAL, (result, aggregate), None, span)
        return comparison(equality, (operand,), span)

    def let(self) -> _Steps:
        """Parse `LET name(x, ...) = formula IN formula`, or LETPAST, whose formula may use it."""
        word = self.take().kind
        name = self.expect(NAME, f"as in {word} q(x) = EXISTS y. p(x, y) IN q(x)")
        arguments: list[Expression] = yield self.arguments()
        self.expect("=")
        parameters: list[str] = []
        for argument in arguments:
            assert argument.span is not None
            token = Token(NAME, "", argument.span.start)
            if argument.operator is not terms.VARIABLE:
                self.fail(token, f"a parameter of a {word} is a variable")
            if argument.name in parameters:
                self.fail(token, f"the parameter {argument.name} is named twice")
            parameters.append(argument.name)
        unique, number = name.text, 1
        used = {*self.signature, *map(name_in_formulas, (*self.signature, *BUILT_IN)), *self.lets}
        while unique in used:
            number += 1
            unique = f"{name.text}'{number}"
        outer, inner = self.scope, {**self.scope, name.text: unique}
        let = Let(tuple(parameters), None, word == "LETPAST")
        if let.is_past:
            self.scope, self.lets[unique] = inner, let
        try:
            definition: Formula = yield self.formula(grammar.LOOSEST)
            self.expect("IN", f"a {word} goes on with IN and the formula that uses it")
            free = free_in(definition)
            for argument in arguments:
                if argument.name not in free:
                    assert argument.span is not None
                    token = Token(NAME, "", argument.span.start)
                    message = f"the parameter {argument.name} is not free in the definition"
                    self.fail(token, message)
            for variable in free:
                if variable not in parameters:
                    hint = f"name it in the parentheses, or write EXISTS {variable}. ..."
                    message = f"the variable {variable} is not a parameter of {name.text}"
                    self.fail(name, message, hint)
            within = [one.formula for one in self.lets.values() if one.formula is not None]
            nodes = postorder(definition, *within)
            is_past = let.is_past and any(node.name == unique for node in nodes)
            self.scope, self.lets[unique] = inner, Let(let.parameters, definition, is_past)
            part: _Part = yield self.formula(grammar.LOOSEST)
            return part
        finally:
            self.scope = outer

    # Intervals.

    def interval(self) -> Interval:
        """Parse an interval if one begins, else return the one without bounds."""
        opening = self.token
        is_number = self.ahead(1) in {INTEGER, DURATION}
        if not (is_number and self.ahead(2) == "," and opening.kind in {"(", "["}):
            return Interval.FULL
        self.take()
        lower = self.bound() + (opening.kind == "(")
        self.take()
        upper: int | None = None
        if self.token.kind == "*":
            self.take()
        else:
            upper = self.bound()
        if self.token.kind not in {")", "]"}:
            self.fail(self.token, f"expected ']' or ')', not {shown(self.token)}")
        if upper is not None and self.token.kind == ")":
            upper -= 1
        closing = self.take()
        if upper is not None and upper < lower:
            written = self.text[opening.start : closing.end]
            self.fail(opening, f"the interval {written} is empty", "its bounds are whole numbers")
        if lower > MAXIMUM_BOUND:
            self.fail(opening, f"a bound is at most {MAXIMUM_BOUND}")
        return Interval(lower, upper)

    def bound(self) -> int:
        token = self.token
        if token.kind not in {INTEGER, DURATION}:
            hint = "as in [0,7d) or [5,*)"
            self.fail(token, f"expected a bound, not {shown(token)}", hint)
        self.take()
        if token.text.startswith("-"):
            self.fail(token, "a bound is not negative")
        number, factor = token.text, 1
        if token.kind == DURATION:
            number, unit = token.text[:-1], token.text[-1]
            if unit not in grammar.UNITS:
                hint = f"the units are {', '.join(grammar.UNITS)}"
                self.fail(token, f"there is no unit {unit}", hint)
            factor = grammar.UNITS[unit]
        value = int(number) * factor if len(number) < _DIGITS else MAXIMUM_BOUND + 1
        if value > MAXIMUM_BOUND:
            self.fail(token, f"a bound is at most {MAXIMUM_BOUND}")
        return value

    def span_from(self, start: Token) -> Span:
        """The place from a token to the last one that was taken."""
        return Span(start.start, self.tokens[self.place - 1].end)


_DIGITS = 25


def shown(token: Token) -> str:
    """How errors call a token."""
    return "the end" if token.kind == END else f"'{token.text}'"
