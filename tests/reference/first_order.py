"""The semantics of first-order formulas, evaluated directly, on what is known of a log.

Written for obviousness, not for speed. A time-point has a database: for each name a set of rows. A
variable ranges over the *active domain*: the values in the log and in the formula, the values that
its terms have over these, and one fresh value of each type, which stands for all others. Values of
formulas are three-valued, decided as in `tests.reference.evaluator`; a predicate is undecided at
time-points that are still to come.

A comparison whose terms have no value (null, NaN, texts and numbers compared) is false. A value is
never a row error here: what overflows has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from mtlmon import Formula
from tests.doors import Expression, free_variables, postorder, quantified, terms_of, variables_of
from tests.doors import predicates_operators as terms
from tests.doors import syntax_operators as ops
from tests.policy.evaluator import Overflow
from tests.policy.evaluator import evaluate as evaluate_expression
from tests.reference.evaluator import AT, BEYOND, Column, Evaluator, Truth, every, some
from tests.traces import Event, Prefix

Scalar = int | float | bool | str
Row = tuple[Scalar, ...]
Database = Mapping[str, Iterable[Row]]
Valuation = Mapping[str, Scalar]

FRESH: dict[type, Scalar] = {int: -7_777_777, float: -7_777_777.5, str: "a fresh text"}
"""The values that stand for all others of their type."""


class Log(NamedTuple):
    """What is known of a log.

    Attributes:
        points: the time-points read: time-stamp and database.
        clock: no time-point after them has a time-stamp below this one.
        closed: no time-point comes after them at all.
    """

    points: tuple[tuple[int, Database], ...]
    clock: int = 0
    closed: bool = True


class Let(NamedTuple):
    """A named formula with parameters, in which it may be used itself at earlier time-points."""

    parameters: tuple[str, ...]
    formula: Formula


Table = Mapping[Row, Truth]
"""What a let that uses itself is of some arguments, at a time-point; of all others it is false."""


class _Undecided:
    """The value of a term that the prefix does not decide."""


_UNDECIDED = _Undecided()


class FirstOrder(Evaluator):
    """Values of first-order formulas on one log, with the variables ranging over one domain.

    Args:
        log: what is known.
        domain: the values of all variables, or those of each variable by its name.
        lets: the lets with parameters by name.
        tables: what is known of lets that use themselves, from the first time-point on; behind
            that, they are false.
    """

    def __init__(
        self,
        log: Log,
        domain: Sequence[Scalar] | Mapping[str, Sequence[Scalar]],
        lets: Mapping[str, Let] | None = None,
        tables: Mapping[str, Sequence[Table]] | None = None,
    ) -> None:
        events = tuple(Event(time_stamp, frozenset()) for time_stamp, _ in log.points)
        clock = max([log.clock, *(time_stamp for time_stamp, _ in log.points)])
        super().__init__(Prefix(events, clock, log.closed))
        self.databases = [
            {name: set(rows) for name, rows in database.items()} for _, database in log.points
        ]
        self.domain = domain
        self.lets = lets or {}
        self.log = log
        self.tables = dict(tables or {})
        self.free: dict[int, tuple[str, ...]] = {}
        self.known: dict[tuple[int, tuple[Scalar, ...], tuple[type, ...]], Column] = {}
        self.kept: list[Formula] = []

    def values_of(self, variable: str) -> Sequence[Scalar]:
        if isinstance(self.domain, Mapping):
            return self.domain[variable]
        return self.domain

    def free_in(self, formula: Formula) -> tuple[str, ...]:
        if id(formula) not in self.free:
            self.kept.append(formula)
            self.free |= free_variables(formula)
        return self.free[id(formula)]

    def under(self, formula: Formula, valuation: Valuation) -> Column:
        """The values of a formula under a valuation of its free variables."""
        values = tuple(valuation[name] for name in self.free_in(formula))
        # 1, 1.0 and True are equal in Python
        key = (id(formula), values, tuple(map(type, values)))
        if key not in self.known:
            self.known[key] = self.computed(formula, valuation)
        return self.known[key]

    def computed(self, formula: Formula, valuation: Valuation) -> Column:
        operator = formula.operator
        points = range(len(self.times))
        if operator is ops.ATOM:
            name = formula.name or ""
            if name in self.lets:
                return self.under(self.lets[name].formula, {})
            return Column(tuple(() in self.databases[i].get(name, ()) for i in points), None)
        if operator is ops.PREDICATE:
            return self.predicate(formula, valuation)
        if operator is ops.COMPARISON:
            at = tuple(self.truth(formula, valuation, i) for i in points)
            return Column(at, self.truth(formula, valuation, None))
        if operator in (ops.FORALL, ops.EXISTS):
            names = quantified(formula)
            columns = [
                self.under(
                    formula.operands[0], {**valuation, **dict(zip(names, values, strict=True))}
                )
                for values in product(*map(self.values_of, names))
            ]
            joined = every if operator is ops.FORALL else some
            beyond = joined(column.beyond for column in columns)
            return Column(tuple(joined(column.at[i] for column in columns) for i in points), beyond)
        operands = [self.under(operand, valuation) for operand in formula.operands]
        beyond = BEYOND[operator](formula.interval, *(column.beyond for column in operands))
        here = AT[operator]
        return Column(tuple(here(self, i, formula.interval, *operands) for i in points), beyond)

    def predicate(self, formula: Formula, valuation: Valuation) -> Column:
        name = formula.name or ""
        if name in self.lets and uses_itself(name, self.lets[name]):
            return self.recursion(name, formula, valuation)
        if name in self.lets:
            return self.let(self.lets[name], formula, valuation)
        return Column(
            tuple(self.row_truth(formula, valuation, i) for i in range(len(self.times))), None
        )

    def row_truth(self, formula: Formula, valuation: Valuation, i: int) -> Truth:
        wanted = [
            None
            if argument.operator is terms.WILDCARD
            else self.value(formula, argument, valuation, i)
            for argument in terms_of(formula)
        ]
        wildcards = [argument.operator is terms.WILDCARD for argument in terms_of(formula)]
        if any(isinstance(value, _Undecided) for value in wanted):
            return None
        return any(
            all(
                is_wildcard or _same(value, found)
                for value, is_wildcard, found in zip(wanted, wildcards, row, strict=True)
            )
            for row in self.rows(formula.name or "", i)
        )

    def rows(self, name: str, i: int) -> Iterable[Row]:
        """The rows of an atom; `point` and `time` are built in."""
        if name == "point":
            return [(i,)]
        if name == "time":
            return [(self.times[i],)]
        return self.databases[i].get(name, ())

    def let(self, let: Let, formula: Formula, valuation: Valuation) -> Column:
        """A let is true of some arguments if its formula is true of its parameters."""
        choices = self.choices(let, formula, valuation)
        columns = [
            self.under(let.formula, dict(zip(let.parameters, values, strict=True)))
            for values in product(*choices)
        ]
        at = tuple(some(column.at[i] for column in columns) for i in range(len(self.times)))
        return Column(at, some(column.beyond for column in columns))

    def choices(self, let: Let, formula: Formula, valuation: Valuation) -> list[Sequence[Scalar]]:
        """For each parameter of a let, the values that its argument may be."""
        choices: list[Sequence[Scalar]] = []
        for parameter, argument in zip(let.parameters, terms_of(formula), strict=True):
            if argument.operator is terms.WILDCARD:
                choices.append(self.values_of(parameter))
            else:
                value = self.value(formula, argument, valuation, None)
                assert not isinstance(value, _Undecided)
                choices.append([] if value is None else [value])
        return choices

    def recursion(self, name: str, formula: Formula, valuation: Valuation) -> Column:
        """A let that uses itself is a table at each time-point, made of those of earlier ones."""
        let = self.lets[name]
        if name not in self.tables:
            tables: list[Table] = []
            for i in range(len(self.times)):
                known = FirstOrder(self.log, self.domain, self.lets, {**self.tables, name: tables})
                table = {}
                for values in product(*map(self.values_of, let.parameters)):
                    own = dict(zip(let.parameters, values, strict=True))
                    table[values] = known.under(let.formula, own).at[i]
                tables.append(table)
            self.tables[name] = tables
        choices = self.choices(let, formula, valuation)
        found = self.tables[name]
        at = tuple(
            some(found[i].get(values, False) for values in product(*choices))
            if i < len(found)
            else False
            for i in range(len(self.times))
        )
        return Column(at, None)

    def truth(self, formula: Formula, valuation: Valuation, i: int | None) -> Truth:
        """Whether a comparison holds at a time-point, or at those still to come (None)."""
        (expression,) = terms_of(formula)
        value = self.value(formula, expression, valuation, i)
        if isinstance(value, _Undecided):
            return None
        return value is True

    def value(
        self, formula: Formula, expression: Expression, valuation: Valuation, i: int | None
    ) -> Scalar | _Undecided | None:
        """The value of a term; None if it has none."""
        grounded = self.grounded(formula, expression, valuation, i)
        if isinstance(grounded, _Undecided):
            return grounded
        if any(
            node.operator in terms.ARITHMETIC | terms.OF_FLOATS and isinstance(operand.value, str)
            for node in postorder(grounded)
            for operand in node.operands
        ):
            return None
        try:
            value = evaluate_expression(grounded, {})
        except (TypeError, Overflow, AttributeError):
            return None
        if isinstance(value, Decimal):
            value = float(value)
        if isinstance(value, float) and math.isnan(value):
            return None
        return value  # type: ignore[no-any-return]

    def grounded(
        self, formula: Formula, expression: Expression, valuation: Valuation, i: int | None
    ) -> Expression | _Undecided:
        """The expression with constants for variables and aggregates."""
        if expression.operator is terms.VARIABLE:
            return _constant(valuation[expression.name])
        if expression.operator in terms.OF_FORMULAS:
            if i is None:
                return _UNDECIDED
            value = self.aggregate(formula, expression, valuation, i)
            return value if isinstance(value, _Undecided) else _constant(value)
        operands = []
        for operand in expression.operands:
            found = self.grounded(formula, operand, valuation, i)
            if isinstance(found, _Undecided):
                return found
            operands.append(found)
        return Expression(expression.operator, tuple(operands), expression.value)

    def aggregate(
        self, formula: Formula, expression: Expression, valuation: Valuation, i: int
    ) -> Scalar | _Undecided | None:
        """The value of an aggregate for the group that the valuation is in."""
        word, number, by, is_of_rows = expression.aggregate
        operand = formula.operands[number]
        group = {name: valuation[name] for name in by or ()}
        names = dict.fromkeys(self.free_in(operand))
        for term in expression.operands:
            names |= dict.fromkeys(variables_of(term))
        own = [name for name in names if name not in group]
        bag: list[Scalar] = []
        for values in product(*map(self.values_of, own)):
            inner = {**group, **dict(zip(own, values, strict=True))}
            truth = self.under(operand, inner).at[i]
            if truth is None:
                return _UNDECIDED
            if not truth:
                continue
            value: Scalar | _Undecided | None = 1
            if expression.operands:
                value = self.value(formula, expression.operands[0], inner, i)
            if isinstance(value, _Undecided):
                return value
            if value is not None:
                bag.append(value)
        is_total = word in {"COUNT", "SUM"} and (by is None or not is_of_rows)
        if not bag and not is_total:
            return None
        return _AGGREGATES[word](bag)


def uses_itself(name: str, let: Let) -> bool:
    """Whether a let uses itself."""
    return any(node.name == name for node in postorder(let.formula))


def _same(one: object, other: Scalar) -> bool:
    return one is not None and isinstance(one, str) is isinstance(other, str) and one == other


def _constant(value: Any) -> Expression:
    return Expression(terms.CONSTANT, (), value)


def _mean(bag: list[Any]) -> float:
    return float(sum(map(Fraction, bag)) / len(bag))


_AGGREGATES: dict[str, Callable[[list[Any]], Scalar]] = {
    "COUNT": len,
    "SUM": sum,
    "AVG": _mean,
    "MIN": min,
    "MAX": max,
    "MEDIAN": lambda bag: float(median(map(Fraction, bag))),
}


class Answers(NamedTuple):
    """The valuations of a formula's free variables at a time-point."""

    satisfying: frozenset[Row]
    undecided: frozenset[Row]


def answers(
    formula: Formula,
    log: Log,
    variables: Sequence[str] | None = None,
    *,
    types: Mapping[str, type] | None = None,
    lets: Mapping[str, Let] | None = None,
) -> list[Answers]:
    """The valuations that satisfy a formula at each time-point.

    Args:
        formula: the formula.
        log: what is known of the log.
        variables: the order of the values in rows; by default, that of first occurrence.
        types: the type of the values of each variable; by default, variables have values of every
            type, which is the same for formulas whose types fit.
        lets: the lets with parameters.
    """
    names = free_variables(formula)[id(formula)] if variables is None else tuple(variables)
    domain = active_domain(formula, log, types, lets)
    evaluator = FirstOrder(log, domain, lets)
    found: list[tuple[set[Row], set[Row]]] = [(set(), set()) for _ in log.points]
    for values in product(*map(evaluator.values_of, names)):
        column = evaluator.under(formula, dict(zip(names, values, strict=True)))
        for truth, (satisfying, undecided) in zip(column.at, found, strict=True):
            if truth is not False:
                (undecided if truth is None else satisfying).add(values)
    return [Answers(*map(frozenset, pair)) for pair in found]


def violations(
    formula: Formula,
    log: Log,
    variables: Sequence[str] | None = None,
    *,
    types: Mapping[str, type] | None = None,
    lets: Mapping[str, Let] | None = None,
) -> list[Answers]:
    """The valuations that violate a policy; leading FORALLs are dropped."""
    names: list[str] = []
    while formula.operator is ops.FORALL:
        names += quantified(formula)
        formula = formula.operands[0]
    free = free_variables(formula)[id(formula)]
    reported = list(dict.fromkeys([*names, *free])) if variables is None else variables
    return answers(Formula(ops.NOT, (formula,)), log, reported, types=types, lets=lets)


def is_fresh(row: Row) -> bool:
    """Whether a row has a fresh value: the formula holds for values that are nowhere."""
    return any(_same(value, fresh) for value in row for fresh in FRESH.values())


def active_domain(
    formula: Formula,
    log: Log,
    types: Mapping[str, type] | None = None,
    lets: Mapping[str, Let] | None = None,
) -> list[Scalar] | dict[str, list[Scalar]]:
    """The values in the log and in the formula, those of its terms, and one fresh value a type."""
    every_formula = [formula, *(let.formula for let in (lets or {}).values())]
    nodes = [node for one in every_formula for node in postorder(one)]
    found: dict[tuple[type, Scalar], Scalar] = {}

    def add(values: Iterable[Any]) -> None:
        for given in values:
            value = float(given) if isinstance(given, Decimal) else given
            if value is not None:
                found[type(value), value] = value

    for i, (time_stamp, database) in enumerate(log.points):
        add(value for rows in database.values() for row in rows for value in row)
        if any(node.name in {"point", "time"} for node in nodes):
            add([i, time_stamp])
    for node in nodes:
        for term in terms_of(node):
            add(_constants(term))
    add(FRESH.values())
    if any(isinstance(value, bool) for value in found.values()):
        add([True, False])
    # A term's value can be the argument of another term; that of the last is never needed. A let
    # that uses itself can add to a value at each time-point.
    sides = [side for node in nodes for side in _calculated(node)]
    is_recursive = any(uses_itself(name, let) for name, let in (lets or {}).items())
    for _ in sides * (len(log.points) if is_recursive else 1):
        before = len(found)
        evaluator = FirstOrder(log, _typed(found.values(), types), lets)
        for node, side in sides:
            names = variables_of(side)
            for values in product(*map(evaluator.values_of, names)):
                if is_fresh(values):
                    continue
                valuation = dict(zip(names, values, strict=True))
                for i in range(len(log.points)):
                    value = evaluator.value(node, side, valuation, i)
                    add([] if isinstance(value, _Undecided) else [value])
        if len(found) == before:
            break
    return _typed(found.values(), types)


def _typed(
    values: Iterable[Scalar], types: Mapping[str, type] | None
) -> list[Scalar] | dict[str, list[Scalar]]:
    if types is None:
        return list(values)
    kept = list(values)
    return {name: [value for value in kept if type(value) is kind] for name, kind in types.items()}


def _constants(term: Expression) -> Iterator[Any]:
    for node in postorder(term):
        if node.operator is terms.CONSTANT:
            yield node.value
        elif node.operator in {terms.IN, terms.NOT_IN}:
            yield from node.members


def _calculated(formula: Formula) -> Iterator[tuple[Formula, Expression]]:
    """The terms that an equality may bind a variable to, unless they are variables or constants."""
    simple = {terms.VARIABLE, terms.CONSTANT, terms.WILDCARD}
    for term in terms_of(formula):
        if formula.operator is ops.PREDICATE and term.operator not in simple:
            yield formula, term
        if term.operator is terms.EQUAL:
            for side in term.operands:
                if side.operator not in simple:
                    yield formula, side
