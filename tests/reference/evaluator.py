"""The semantics of metric temporal logic, evaluated directly, on what is known of a stream.

Written for obviousness, not for speed: every operator of the surface syntax has its own definition
with quantifiers over time-points, nothing is desugared.

Values are three-valued: True, False, or None for "not decided by this prefix". *Decided* means
decided by strong Kleene logic, operator by operator: a conjunction is false as soon as one member
is, true when all are, undecided otherwise; dually for disjunctions. A quantifier over time-points
is a conjunction or disjunction over the ones read and, unless the prefix excludes it, one undecided
member for those that are still to come. The prefix excludes them when no event comes any more, or
when time has passed beyond the interval. So `p OR NOT p` with p undecided counts as undecided: an
engine may know more than this evaluator, never less.

Of time-points that are still to come a formula has a value only if it has that value everywhere by
its constants alone: `EVENTUALLY[3,5] false` is false at once, `ALWAYS[3,5] (p OR true)` true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mtlmon import Formula
from tests.doors import Interval, Operator
from tests.doors import syntax_operators as ops
from tests.traces import Prefix

Truth = bool | None


def negation(value: Truth) -> Truth:
    return None if value is None else not value


def every(values: Iterable[Truth]) -> Truth:
    """Kleene's conjunction."""
    seen = set(values)
    return False if False in seen else None if None in seen else True


def some(values: Iterable[Truth]) -> Truth:
    """Kleene's disjunction."""
    seen = set(values)
    return True if True in seen else None if None in seen else False


def same(left: Truth, right: Truth) -> Truth:
    """Kleene's equivalence."""
    return None if left is None or right is None else left is right


class Column(NamedTuple):
    """The values of one formula: `at[i]` at time-point i, `beyond` at every one still to come."""

    at: tuple[Truth, ...]
    beyond: Truth


class Evaluator:
    """Values of formulas on one prefix, each subformula computed once."""

    def __init__(self, prefix: Prefix) -> None:
        self.prefix = prefix
        self.times = [event.time_stamp for event in prefix.events]
        self.columns: dict[Formula, Column] = {}

    def values(self, formula: Formula) -> tuple[Truth, ...]:
        """The formula's value at every time-point of the prefix."""
        return self.column(formula).at

    def column(self, formula: Formula) -> Column:
        known = self.columns.get(formula)
        if known is not None:
            return known
        if formula.operator is ops.ATOM:
            column = Column(
                tuple(formula.name in event.atoms for event in self.prefix.events), None
            )
        else:
            operands = [self.column(operand) for operand in formula.operands]
            beyond = BEYOND[formula.operator](formula.interval, *(c.beyond for c in operands))
            here = AT[formula.operator]
            at = tuple(here(self, i, formula.interval, *operands) for i in range(len(self.times)))
            column = Column(at, beyond)
        self.columns[formula] = column
        return column

    def behind(self, i: int, interval: Interval) -> Iterator[int]:
        """The time-points j <= i at a distance in the interval."""
        return (j for j in range(i + 1) if self.times[i] - self.times[j] in interval)

    def ahead(self, i: int, interval: Interval) -> Iterator[int]:
        """The time-points j >= i that were read, at a distance in the interval."""
        return (j for j in range(i, len(self.times)) if self.times[j] - self.times[i] in interval)

    def unread(self, i: int, interval: Interval) -> Truth:
        """Whether a time-point still to come is at a distance in the interval: unknown or False."""
        if self.prefix.closed:
            return False
        if interval.upper is not None and self.prefix.clock - self.times[i] > interval.upper:
            return False
        return None

    def previous(self, i: int, interval: Interval, f: Column) -> Truth:
        if i == 0:
            return False
        return every([self.times[i] - self.times[i - 1] in interval, f.at[i - 1]])

    def next(self, i: int, interval: Interval, f: Column) -> Truth:
        if i + 1 == len(self.times):
            return every([self.unread(i, interval), f.beyond])
        return every([self.times[i + 1] - self.times[i] in interval, f.at[i + 1]])

    def once(self, i: int, interval: Interval, f: Column) -> Truth:
        return some(f.at[j] for j in self.behind(i, interval))

    def historically(self, i: int, interval: Interval, f: Column) -> Truth:
        return every(f.at[j] for j in self.behind(i, interval))

    def since(self, i: int, interval: Interval, f: Column, g: Column) -> Truth:
        return some(every([g.at[j], *f.at[j + 1 : i + 1]]) for j in self.behind(i, interval))

    def trigger(self, i: int, interval: Interval, f: Column, g: Column) -> Truth:
        return every(some([g.at[j], *f.at[j + 1 : i + 1]]) for j in self.behind(i, interval))

    def eventually(self, i: int, interval: Interval, f: Column) -> Truth:
        read = [f.at[j] for j in self.ahead(i, interval)]
        return some([*read, every([self.unread(i, interval), f.beyond])])

    def always(self, i: int, interval: Interval, f: Column) -> Truth:
        read = [f.at[j] for j in self.ahead(i, interval)]
        return every([*read, some([negation(self.unread(i, interval)), f.beyond])])

    def until(self, i: int, interval: Interval, f: Column, g: Column) -> Truth:
        read = [every([g.at[j], *f.at[i:j]]) for j in self.ahead(i, interval)]
        return some([*read, every([self.unread(i, interval), g.beyond, *f.at[i:]])])

    def release(self, i: int, interval: Interval, f: Column, g: Column) -> Truth:
        """g at every time-point ahead, but for those that an earlier f released."""
        read = [some([g.at[j], *f.at[i:j]]) for j in self.ahead(i, interval)]
        unread = negation(self.unread(i, interval))
        return every([*read, some([unread, g.beyond, *f.at[i:]])])

    def weak_until(self, i: int, interval: Interval, f: Column, g: Column) -> Truth:
        """f or g at every time-point ahead, but for those that an earlier g released."""
        read = [some([f.at[j], g.at[j], *g.at[i:j]]) for j in self.ahead(i, interval)]
        unread = negation(self.unread(i, interval))
        return every([*read, some([unread, f.beyond, g.beyond, *g.at[i:]])])


def evaluate(formula: Formula, prefix: Prefix) -> tuple[Truth, ...]:
    """The formula's value at every time-point of the prefix."""
    return Evaluator(prefix).values(formula)


# The value at time-point i, given the columns of the operands.
AT: dict[Operator, Callable[..., Truth]] = {
    ops.TRUE: lambda e, i, _: True,
    ops.FALSE: lambda e, i, _: False,
    ops.NOT: lambda e, i, _, f: negation(f.at[i]),
    ops.AND: lambda e, i, _, f, g: every([f.at[i], g.at[i]]),
    ops.OR: lambda e, i, _, f, g: some([f.at[i], g.at[i]]),
    ops.IMPLIES: lambda e, i, _, f, g: some([negation(f.at[i]), g.at[i]]),
    ops.IFF: lambda e, i, _, f, g: same(f.at[i], g.at[i]),
    ops.PREVIOUS: Evaluator.previous,
    ops.NEXT: Evaluator.next,
    ops.ONCE: Evaluator.once,
    ops.HISTORICALLY: Evaluator.historically,
    ops.SINCE: Evaluator.since,
    ops.TRIGGER: Evaluator.trigger,
    ops.EVENTUALLY: Evaluator.eventually,
    ops.ALWAYS: Evaluator.always,
    ops.UNTIL: Evaluator.until,
    ops.RELEASE: Evaluator.release,
    ops.WEAK_UNTIL: Evaluator.weak_until,
}


def _now(interval: Interval, value: Truth, otherwise: bool) -> Truth:
    """The value where only the present time-point is certain to be there to look at."""
    return value if 0 in interval else otherwise


def _existential(interval: Interval, f: Truth, g: Truth) -> Truth:
    """`f UNTIL g` or `f SINCE g` by constants alone: other time-points may be there or not."""
    return some([_now(interval, g, False), every([None, f, g])])


def _universal(interval: Interval, f: Truth, g: Truth) -> Truth:
    """`f RELEASE g` or `f TRIGGER g` by constants alone."""
    return every([_now(interval, g, True), some([None, f, g])])


# The value at every time-point still to come, given that of the operands.
BEYOND: dict[Operator, Callable[..., Truth]] = {
    ops.TRUE: lambda _: True,
    ops.FALSE: lambda _: False,
    ops.NOT: lambda _, f: negation(f),
    ops.AND: lambda _, f, g: every([f, g]),
    ops.OR: lambda _, f, g: some([f, g]),
    ops.IMPLIES: lambda _, f, g: some([negation(f), g]),
    ops.IFF: lambda _, f, g: same(f, g),
    ops.PREVIOUS: lambda _, f: every([None, f]),
    ops.NEXT: lambda _, f: every([None, f]),
    ops.ONCE: lambda interval, f: _existential(interval, True, f),
    ops.HISTORICALLY: lambda interval, f: _universal(interval, False, f),
    ops.SINCE: _existential,
    ops.TRIGGER: _universal,
    ops.EVENTUALLY: lambda interval, f: _existential(interval, True, f),
    ops.ALWAYS: lambda interval, f: _universal(interval, False, f),
    ops.UNTIL: _existential,
    ops.RELEASE: _universal,
    ops.WEAK_UNTIL: lambda interval, f, g: _universal(interval, g, some([f, g])),
}
