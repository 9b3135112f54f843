"""First-order formulas for tests: short ways to write them in Python, and random ones."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from mtlmon import FALSE, TRUE, Formula, atom
from tests.doors import (
    Aggregate,
    Constant,
    Expression,
    Interval,
    TermOperator,
    comparison,
    free_variables,
    make,
    predicate,
)
from tests.doors import predicates_operators as terms
from tests.doors import syntax_operators as ops
from tests.reference.first_order import Log

X, Y, Z = (Expression(terms.VARIABLE, (), name) for name in "xyz")
ANYTHING = Expression(terms.WILDCARD)


def constant(value: Constant) -> Expression:
    return Expression(terms.CONSTANT, (), value)


def term(operator: TermOperator, *operands: Expression) -> Expression:
    return Expression(operator, operands)


def compare(operator: TermOperator, left: Expression, right: Expression) -> Formula:
    return comparison(Expression(operator, (left, right)))


def forall(names: str, body: Formula) -> Formula:
    return make(ops.FORALL, body, value=tuple(names.split()))


def exists(names: str, body: Formula) -> Formula:
    return make(ops.EXISTS, body, value=tuple(names.split()))


def count_of(number: int, *by: str) -> Expression:
    return Expression(terms.COUNT_FORMULA, (), Aggregate("COUNT", number, by or None))


def aggregate_of(word: str, value: Expression, number: int, *by: str) -> Expression:
    return Expression(terms.AGGREGATE_FORMULA, (value,), Aggregate(word, number, by or None))


_VARIABLES = st.sampled_from([X, Y, Z])
_CONSTANTS = st.sampled_from([0, 1, 2]).map(constant)
_SIMPLE = st.one_of(_VARIABLES, _VARIABLES, _CONSTANTS)
_TERMS = st.one_of(
    _SIMPLE,
    st.builds(term, st.sampled_from([terms.ADD, terms.SUBTRACT]), _VARIABLES, _SIMPLE),
)
_COMPARISONS = [terms.EQUAL, terms.NOT_EQUAL, terms.LESS, terms.LESS_EQUAL, terms.GREATER]
_ARGUMENTS = st.one_of(_SIMPLE, _SIMPLE, st.just(ANYTHING))
_INTERVALS = st.sampled_from([(0, 0), (0, 1), (1, 2), (0, None), (2, None)]).map(
    lambda bounds: Interval(*bounds)
)
_ORDINARY = [operator for operator in ops.OPERATORS if operator.arity > 0]


def leaves() -> st.SearchStrategy[Formula]:
    """Predicates over `p(x)` and `q(x, y)`, comparisons, and atoms without arguments."""
    return st.one_of(
        st.builds(predicate, st.just("p"), _ARGUMENTS),
        st.builds(predicate, st.just("q"), _ARGUMENTS, _ARGUMENTS),
        st.builds(compare, st.sampled_from(_COMPARISONS), _TERMS, _SIMPLE),
        st.sampled_from([TRUE, FALSE, atom("r")]),
    )


@st.composite
def _composed(draw: st.DrawFn, operands: st.SearchStrategy[Formula]) -> Formula:
    operator = draw(st.sampled_from([*_ORDINARY, ops.FORALL, ops.EXISTS, ops.EXISTS]))
    if operator.is_first_order:
        names = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True))
        return make(operator, draw(operands), value=tuple(names))
    interval = draw(_INTERVALS) if operator.is_temporal else None
    taken = [draw(operands) for _ in range(operator.arity)]
    return make(operator, *taken, interval=interval)


@st.composite
def _compared(draw: st.DrawFn, operands: st.SearchStrategy[Formula]) -> Formula:
    by = tuple(draw(st.lists(st.sampled_from("xy"), max_size=2, unique=True))) or None
    word = draw(st.sampled_from(terms.FORMULA_AGGREGATES))
    if word == "COUNT":
        value = count_of(0, *(by or ()))
    else:
        value = aggregate_of(word, draw(_TERMS), 0, *(by or ()))
    sides = draw(st.permutations([value, draw(_TERMS)]))
    operator = draw(st.sampled_from(_COMPARISONS))
    return comparison(Expression(operator, tuple(sides)), (draw(operands),))


def formulas(size: int = 6, *, aggregates: bool = False) -> st.SearchStrategy[Formula]:
    """Formulas of any shape, safe or not."""

    def compose(operands: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        composed = _composed(operands)
        return st.one_of(composed, composed, _compared(operands)) if aggregates else composed

    return st.recursive(leaves(), compose, max_leaves=size)


_VALUES = st.integers(0, 2)
DATABASES = st.fixed_dictionaries(
    {
        "p": st.frozensets(st.tuples(_VALUES), max_size=2),
        "q": st.frozensets(st.tuples(_VALUES, _VALUES), max_size=2),
        "r": st.frozensets(st.just(()), max_size=1),
    }
)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Logs of up to four time-points, some of them at one time-stamp, that may go on."""
    points = []
    time_stamp = 0
    for _ in range(draw(st.integers(0, 4))):
        time_stamp += draw(st.integers(0, 2))
        points.append((time_stamp, draw(DATABASES)))
    return Log(tuple(points), time_stamp + draw(st.integers(0, 2)), draw(st.booleans()))


_BOUNDED = st.sampled_from([(0, 0), (0, 1), (1, 2), (0, 3), (2, 3)]).map(
    lambda bounds: Interval(*bounds)
)
_PAST_BOUNDS = st.one_of(_BOUNDED, _INTERVALS)


def _names(formula: Formula) -> list[str]:
    return sorted(free_variables(formula)[id(formula)])


def _fitted(formula: Formula, names: list[str]) -> Formula:
    """The formula with exactly these free variables."""
    own = _names(formula)
    if extra := [name for name in own if name not in names]:
        formula = exists(" ".join(extra), formula)
    for name in names:
        if name not in own:
            formula = make(ops.AND, formula, predicate("p", Expression(terms.VARIABLE, (), name)))
    return formula


def _filter_of(formula: Formula, names: list[str]) -> Formula:
    """The formula with no other free variables than these."""
    extra = [name for name in _names(formula) if name not in names]
    return exists(" ".join(extra), formula) if extra else formula


@st.composite
def _safe(draw: st.DrawFn, depth: int, *, aggregates: bool) -> Formula:
    """A formula that binds all of its free variables."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(
            st.one_of(
                st.builds(predicate, st.just("p"), _VARIABLES),
                st.builds(predicate, st.just("q"), _ARGUMENTS, _ARGUMENTS),
                st.builds(compare, st.just(terms.EQUAL), _VARIABLES, _CONSTANTS),
                st.just(atom("r")),
            )
        )
    inner = _safe(depth - 1, aggregates=aggregates)
    formula = draw(inner)
    names = _names(formula)
    variables = [Expression(terms.VARIABLE, (), name) for name in names]
    shapes = ["and", "not", "or", "past", "future", "since", "until", "exists", "count"]
    shape = draw(st.sampled_from([*shapes, *(["aggregate"] * 3 if aggregates else [])]))
    if shape == "and":
        return make(ops.AND, *draw(st.permutations([formula, draw(inner)])))
    if shape == "not":
        if draw(st.booleans()) and variables:
            sides = st.sampled_from([*variables, constant(1)])
            other = compare(draw(st.sampled_from(_COMPARISONS)), draw(sides), draw(sides))
        else:
            other = _filter_of(draw(inner), names)
        return make(ops.AND, formula, make(ops.NOT, other))
    if shape == "or":
        return make(ops.OR, formula, _fitted(draw(inner), names))
    if shape == "past":
        operator = draw(st.sampled_from([ops.ONCE, ops.ONCE, ops.PREVIOUS]))
        return make(operator, formula, interval=draw(_PAST_BOUNDS))
    if shape == "future":
        operator = draw(st.sampled_from([ops.EVENTUALLY, ops.EVENTUALLY, ops.NEXT]))
        return make(operator, formula, interval=draw(_BOUNDED))
    if shape in {"since", "until"}:
        left = _filter_of(draw(inner), names)
        if variables and draw(st.integers(0, 3)) == 0:
            left = make(ops.AND, left, compare(terms.LESS, draw(st.sampled_from(variables)), ONE))
        if draw(st.booleans()):
            left = make(ops.NOT, left)
        if draw(st.integers(0, 4)) == 0:
            left = make(ops.OR, left, _filter_of(draw(inner), names))
        past = shape == "since"
        interval = draw(_PAST_BOUNDS if past else _BOUNDED)
        return make(ops.SINCE if past else ops.UNTIL, left, formula, interval=interval)
    if shape == "exists" and names:
        return exists(draw(st.sampled_from(names)), formula)
    if shape == "count":
        operator = draw(st.sampled_from([ops.HISTORICALLY, ops.ALWAYS]))
        interval = draw(_PAST_BOUNDS if operator is ops.HISTORICALLY else _BOUNDED)
        counted = make(operator, _filter_of(draw(inner), names), interval=interval)
        return make(ops.AND, formula, draw(st.sampled_from([counted, make(ops.NOT, counted)])))
    if shape == "aggregate":
        by = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        word = draw(st.sampled_from(terms.FORMULA_AGGREGATES))
        if word == "COUNT" or not names:
            value = count_of(0, *by)
        else:
            value = aggregate_of(word, draw(st.sampled_from(variables)), 0, *by)
        relation = draw(st.sampled_from([terms.EQUAL, terms.LESS, terms.GREATER]))
        right = draw(st.sampled_from([ONE, ONE, *(Expression(terms.VARIABLE, (), n) for n in by)]))
        compared = comparison(Expression(relation, (value, right)), (formula,))
        if draw(st.booleans()):
            return compared
        # of groups without rows as well
        found = draw(st.sampled_from([compared, make(ops.NOT, compared)]))
        for name in by:
            driver = predicate("p", Expression(terms.VARIABLE, (), name))
            found = make(ops.AND, *draw(st.permutations([driver, found])))
        return found
    return formula


def safe_formulas(depth: int = 3, *, aggregates: bool = False) -> st.SearchStrategy[Formula]:
    """Formulas that can be evaluated, but for a few."""
    return _safe(depth, aggregates=aggregates)


HALF = constant(Decimal("0.5"))
ONE = constant(1)
