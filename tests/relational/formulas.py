"""First-order formulas for tests: short ways to write them in Python, and random ones."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from mtlmon.policy.first_order.terms import comparison, predicate
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Aggregate, Constant, Expression
from mtlmon.policy.predicates.operators import Operator as TermOperator
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import FALSE, TRUE, Formula, atom, make
from mtlmon.syntax.interval import Interval
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
_DATABASES = st.fixed_dictionaries(
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
        points.append((time_stamp, draw(_DATABASES)))
    return Log(tuple(points), time_stamp + draw(st.integers(0, 2)), draw(st.booleans()))


HALF = constant(Decimal("0.5"))
