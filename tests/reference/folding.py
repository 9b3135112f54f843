"""A formula in kernel operators, in which everything that needs no stream is already decided.

`EVENTUALLY[0,3] (p AND NOT p)` is false before its window is over, and `NOT ALWAYS[0,3] NOT p` is
the same subformula as `EVENTUALLY[0,3] p`. An engine has to know that much, so a reference that
wants to say *when* a value is known, or *how many* unknowns a formula has, has to know it too.
"""

from __future__ import annotations

from functools import partial

from mtlmon import FALSE, TRUE, Formula
from tests.doors import Interval, Operator, make
from tests.doors import syntax_operators as ops
from tests.formulas import is_bounded


def folded(formula: Formula) -> Formula:
    """The formula over TRUE, FALSE, ATOM, NOT, AND, PREVIOUS, NEXT, SINCE and UNTIL.

    - TRUE and FALSE stand alone or as operands of a temporal operator where they make a difference.
    - NOT stands below no NOT.
    - The operands of an AND are different, none is the negation of the other, and their order is
      always the same.
    """
    return _Folder().fold(formula)


def negation(f: Formula) -> Formula:
    if f in (TRUE, FALSE):
        return FALSE if f == TRUE else TRUE
    return f.operands[0] if f.operator is ops.NOT else make(ops.NOT, f)


class _Folder:
    def __init__(self) -> None:
        self.done: dict[Formula, Formula] = {}
        self.text: dict[Formula, str] = {}

    def fold(self, formula: Formula) -> Formula:
        result = self.done.get(formula)
        if result is None:
            result = self.apply(formula, [self.fold(operand) for operand in formula.operands])
            self.done[formula] = result
        return result

    def apply(self, formula: Formula, operands: list[Formula]) -> Formula:
        match formula.operator.name, operands:
            case "NOT", [f]:
                return negation(f)
            case "AND", [f, g]:
                return self.conjunction(f, g)
            case "OR", [f, g]:
                return self.disjunction(f, g)
            case "IMPLIES", [f, g]:
                return self.disjunction(negation(f), g)
            case "IFF", [f, g]:
                forth, back = self.disjunction(negation(f), g), self.disjunction(f, negation(g))
                return self.conjunction(forth, back)
            case "PREVIOUS" | "NEXT", [f]:
                return FALSE if f == FALSE else make(formula.operator, f, interval=formula.interval)
            case _:
                return self.binary(formula, operands) if operands else formula

    def binary(self, formula: Formula, operands: list[Formula]) -> Formula:
        """An operator that is SINCE or UNTIL in other words."""
        name = formula.operator.name
        is_past = name in {"SINCE", "ONCE", "HISTORICALLY", "TRIGGER"}
        witnessed = partial(self.witnessed, ops.SINCE if is_past else ops.UNTIL, formula.interval)
        match name, operands:
            case "SINCE" | "UNTIL", [f, g]:
                return witnessed(f, g)
            case "ONCE" | "EVENTUALLY", [f]:
                return witnessed(TRUE, f)
            case "HISTORICALLY" | "ALWAYS", [f]:
                # nowhere is it false
                return negation(witnessed(TRUE, negation(f)))
            case "TRIGGER" | "RELEASE", [f, g]:
                # nowhere is g false before an f
                return negation(witnessed(negation(f), negation(g)))
            case "WEAK_UNTIL", [f, g]:
                # nowhere are both false before a g
                return negation(witnessed(negation(g), self.conjunction(negation(f), negation(g))))
        raise AssertionError(name)

    def conjunction(self, f: Formula, g: Formula) -> Formula:
        if FALSE in (f, g) or f == negation(g):
            return FALSE
        if f in (TRUE, g):
            return g
        if g == TRUE:
            return f
        first, second = sorted((f, g), key=self.order)
        return make(ops.AND, first, second)

    def disjunction(self, f: Formula, g: Formula) -> Formula:
        return negation(self.conjunction(negation(f), negation(g)))

    @staticmethod
    def witnessed(operator: Operator, interval: Interval | None, f: Formula, g: Formula) -> Formula:
        """`f SINCE g` and `f UNTIL g`: the present time-point may be the witness, or none can."""
        assert interval is not None
        if g == FALSE or (f == FALSE and 0 not in interval):
            return FALSE
        if 0 in interval and (f == FALSE or g == TRUE):
            return g
        return make(operator, f, g, interval=interval)

    def order(self, f: Formula) -> str:
        if f not in self.text:
            self.text[f] = str(f)
        return self.text[f]


Family = tuple[Operator, tuple[Formula, ...]]
"""NEXT or UNTIL, and its operands: what its obligations wait for, whatever their windows."""


def mixed_families(formula: Formula) -> set[Family]:
    """The families of a folded formula that are used in both polarities.

    The formula's own polarity is positive. A NOT turns the polarity around for what is below it;
    all other operators of a folded formula are monotone, so they leave it as it is. An operator
    that is used several times may be used in both polarities, and so is everything below it then.
    """
    polarities: dict[Family, set[bool]] = {}
    seen: set[tuple[Formula, bool]] = set()

    def visit(f: Formula, positive: bool) -> None:
        if (f, positive) in seen:
            return
        seen.add((f, positive))
        if f.operator.is_future:
            polarities.setdefault((f.operator, f.operands), set()).add(positive)
        for operand in f.operands:
            visit(operand, positive is not (f.operator is ops.NOT))

    visit(formula, True)
    return {family for family, found in polarities.items() if len(found) == 2}


def is_unate(formula: Formula) -> bool:
    """Whether each family of future obligations is used in one polarity only.

    Then Kleene's values are exact: what three values leave undecided, Boolean simplification
    leaves undecided too. All values are monotone in the obligations, or antitone, so those that are
    not decided one by one can be all false together, or all true.
    """
    return not mixed_families(folded(formula))


def is_flat(formula: Formula) -> bool:
    """Whether no operator waits for another: what looks ahead is below no temporal operator.

    Then an obligation is decided by a single event, and truth tables over the obligations and their
    order are exact, whatever the polarities.
    """
    return not any(
        looks_ahead(operand)
        for f in subformulas(folded(formula))
        if f.interval is not None
        for operand in f.operands
    )


def modes_are_alike(formula: Formula) -> bool:
    """Whether Boolean simplification knows no value earlier than `naive` and `local` mode do.

    In mode global, it may know the values of other formulas earlier.
    """
    return not is_bounded(formula) or is_unate(formula) or is_flat(formula)


def subformulas(formula: Formula) -> list[Formula]:
    """Each different subformula once, operands before operators."""
    found: dict[Formula, None] = {}

    def collect(f: Formula) -> None:
        if f not in found:
            for operand in f.operands:
                collect(operand)
            found[f] = None

    collect(formula)
    return list(found)


def looks_ahead(formula: Formula) -> bool:
    return any(f.operator.is_future for f in subformulas(formula))
