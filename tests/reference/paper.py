"""The published algorithm, transcribed literally: a dense array of skewed subformulas.

D. Basin, B. Bhatt, D. Traytel, "Almost Event-Rate Independent Monitoring of Metric Temporal Logic",
TACAS 2017, without the refinement of section 5.4: a time-point is answered at the next event at the
earliest, and at the end of the log the last one stays open. Its cost grows with the interval
constants; it is here to be compared with, on small formulas.
"""

from __future__ import annotations

from dd.autoref import BDD, Function

from mtlmon import TRUE, Formula
from tests.doors import Interval, make
from tests.doors import syntax_operators as ops
from tests.traces import Mode, TimePoint
from tests.verdicts import Verdict

Expression = Function
Array = dict[Formula, Expression]


def kernel(formula: Formula) -> Formula:
    """The formula in the paper's operators: NOT, AND, OR, PREVIOUS, NEXT, SINCE, UNTIL."""

    def negated(f: Formula) -> Formula:
        return make(ops.NOT, f)

    operator, interval = formula.operator, formula.interval
    operands = [kernel(operand) for operand in formula.operands]
    match operator.name, operands:
        case "IMPLIES", [f, g]:
            return make(ops.OR, negated(f), g)
        case "IFF", [f, g]:
            both, neither = make(ops.AND, f, g), make(ops.AND, negated(f), negated(g))
            return make(ops.OR, both, neither)
        case "ONCE", [f]:
            return make(ops.SINCE, TRUE, f, interval=interval)
        case "HISTORICALLY", [f]:
            return negated(make(ops.SINCE, TRUE, negated(f), interval=interval))
        case "EVENTUALLY", [f]:
            return make(ops.UNTIL, TRUE, f, interval=interval)
        case "ALWAYS", [f]:
            return negated(make(ops.UNTIL, TRUE, negated(f), interval=interval))
        case "TRIGGER", [f, g]:
            return negated(make(ops.SINCE, negated(f), negated(g), interval=interval))
        case "RELEASE", [f, g]:
            return negated(make(ops.UNTIL, negated(f), negated(g), interval=interval))
        case "WEAK_UNTIL", [f, g]:
            either = make(ops.OR, f, g)
            return negated(make(ops.UNTIL, negated(g), negated(either), interval=interval))
        case _:
            return make(operator, *operands, interval=interval, name=formula.name)


def interval_of(formula: Formula) -> Interval:
    assert formula.interval is not None
    return formula.interval


def largest_constant(interval: Interval) -> int:
    return interval.lower if interval.upper is None else interval.upper


def skew(interval: Interval, n: int) -> Interval | None:
    """I-n = {x-n | x in I, x >= n}; None if that is empty."""
    lower = max(interval.lower - n, 0)
    if interval.upper is None:
        return Interval(lower, None)
    return Interval(lower, interval.upper - n) if n <= interval.upper else None


def skewed(formula: Formula, n: int) -> Formula:
    """The same SINCE or UNTIL over I-n, which must not be empty."""
    interval = skew(interval_of(formula), n)
    assert interval is not None
    return make(formula.operator, *formula.operands, interval=interval)


def skewed_subformulas(phi: Formula) -> list[Formula]:
    """The interval-skewed subformulas as an indexed set: operands before operators, phi last."""
    index: dict[Formula, None] = {}

    def collect(formula: Formula) -> None:
        for operand in formula.operands:
            collect(operand)
        if formula.operator in {ops.SINCE, ops.UNTIL}:
            for n in range(largest_constant(interval_of(formula)), 0, -1):
                index.setdefault(skewed(formula, n))
        index.setdefault(formula)

    collect(phi)
    return list(index)


def dense_size(formula: Formula) -> int:
    """About how many entries the array will have, without building it."""
    own = largest_constant(formula.interval) if formula.interval is not None else 0
    return 1 + own + sum(dense_size(operand) for operand in formula.operands)


class PaperMonitor:
    """One run of the algorithm: `step` events in, verdicts out.

    Args:
        phi: any formula.
        mode: which time-points may be merged.
    """

    def __init__(self, phi: Formula, mode: Mode) -> None:
        self.mode = mode
        self.phi = kernel(phi)
        self.index = skewed_subformulas(self.phi)
        self.bdd = BDD()
        self.variables = {psi: f"v{i}" for i, psi in enumerate(self.index)}
        self.bdd.declare(*self.variables.values())
        self.history: list[tuple[TimePoint, Expression]] = []
        self.present: TimePoint | None = None
        self.suspended: tuple[Array, int, int, frozenset[str]] | None = None

    def step(self, time_stamp: int, atoms: frozenset[str]) -> list[Verdict]:
        """The verdicts that this event earns."""
        a = self.fa(time_stamp)
        verdicts = self.update_history(a)
        if self.present is not None:
            verdicts += self.conclude(self.present, a[self.phi])
        t0 = time_stamp if self.present is None else self.present[0]
        repeated = self.present is not None and t0 == time_stamp
        self.present = (time_stamp, self.present[1] + 1 if repeated and self.present else 0)
        self.suspended = (a, t0, time_stamp, atoms)
        return verdicts

    def fa(self, t1: int) -> Array:
        """The present array as a function of the next time-stamp; false everywhere at first."""
        if self.suspended is None:
            return dict.fromkeys(self.index, self.bdd.false)
        return self.progress(*self.suspended, t1)

    def update_history(self, a: Array) -> list[Verdict]:
        """Entries move to the next array; constant ones, and equivalent later ones, leave."""
        before, self.history = self.history, []
        verdicts: list[Verdict] = []
        for point, expression in before:
            verdicts += self.conclude(point, self.subst(a, expression))
        return verdicts

    def conclude(self, point: TimePoint, expression: Expression) -> list[Verdict]:
        """Outputs the entry if it is constant or equivalent to an earlier one, else stores it."""
        if expression in (self.bdd.true, self.bdd.false):
            return [Verdict(point, expression == self.bdd.true, None)]
        for earlier, other in self.history:
            if self.may_merge(point, earlier) and other == expression:
                return [Verdict(point, None, earlier)]
        self.history.append((point, expression))
        return []

    def may_merge(self, point: TimePoint, earlier: TimePoint) -> bool:
        if self.mode == "local":
            return point[0] == earlier[0]
        return self.mode == "global"

    def var(self, psi: Formula) -> Expression:
        return self.bdd.var(self.variables[psi])

    def constant(self, value: bool) -> Expression:
        return self.bdd.true if value else self.bdd.false

    def subst(self, s: Array, expression: Expression) -> Expression:
        """Replaces every var(psi) by s[psi], simultaneously."""
        support = self.bdd.support(expression)
        assignment = {v: s[psi] for psi, v in self.variables.items() if v in support}
        return self.bdd.let(assignment, expression) if assignment else expression

    def progress(self, a: Array, t0: int, t1: int, atoms: frozenset[str], t2: int) -> Array:
        """The array at the event (atoms, t1), after a at t0, if the next event is at t2."""
        b: Array = {}
        for psi in self.index:
            b[psi] = self.entry(psi, a, b, atoms, t1 - t0, t2 - t1)
        return b

    def entry(
        self, psi: Formula, a: Array, b: Array, atoms: frozenset[str], behind: int, ahead: int
    ) -> Expression:
        """One entry of b; `behind` and `ahead` are the distances to the neighbouring events."""
        match psi.operator.name, psi.operands:
            case "TRUE", _:
                return self.bdd.true
            case "FALSE", _:
                return self.bdd.false
            case "ATOM", _:
                return self.constant(psi.name in atoms)
            case "NOT", (f,):
                return ~b[f]
            case "AND", (f, g):
                return b[f] & b[g]
            case "OR", (f, g):
                return b[f] | b[g]
            case "PREVIOUS", (f,):
                return self.constant(behind in interval_of(psi)) & self.subst(b, a[f])
            case "NEXT", (f,):
                return self.constant(ahead in interval_of(psi)) & self.var(f)
            case "SINCE", (f, g):
                now = self.constant(0 in interval_of(psi)) & b[g]
                if self.ended(psi, behind):
                    return now
                return now | (b[f] & self.subst(b, a[self.at_distance(psi, behind)]))
            case "UNTIL", (f, g):
                now = self.constant(0 in interval_of(psi)) & b[g]
                if self.ended(psi, ahead):
                    return now
                return now | (b[f] & self.var(self.at_distance(psi, ahead)))
            case name, _:
                raise AssertionError(f"{name} is no operator of the paper")

    @staticmethod
    def ended(psi: Formula, distance: int) -> bool:
        upper = interval_of(psi).upper
        return upper is not None and distance > upper

    @staticmethod
    def at_distance(psi: Formula, distance: int) -> Formula:
        """psi over I-distance; beyond the largest constant of an unbounded I nothing changes."""
        return skewed(psi, min(distance, largest_constant(interval_of(psi))))
