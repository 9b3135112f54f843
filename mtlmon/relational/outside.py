"""Binds from outside what operands of temporal operators cannot bind by themselves.

The rows of an operand are remembered, so it is evaluated by itself. What it needs from outside is
taken out of it, by equivalences of formulas:

- A condition on values is *rigid*, as time does not change it: `ONCE (p(x) AND NOT x = u)` is
  `NOT x = u AND ONCE p(x)`. EXISTS and OR are taken out as well.
- Of all time-points at which the right side of SINCE holds, the last one is the best for its left
  side, if the interval begins at 0. So `NOT a(u) SINCE g` is `ONCE g`, and not
  `NOT g SINCE (a(u) AND NOT g)`: there is no a(u) behind the last g. The left side `a(u)` holds
  from behind the last g on. UNTIL is the mirror image.
- In all other cases time-points are named: `ONCE (p(x) AND NOT a(u))` is
  `EXISTS i. ONCE (p(x) AND point(i)) AND NOT ONCE (a(u) AND point(i))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.terms import comparison, predicate, quantified, terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.relational.binding import Unbound, conjuncts
from mtlmon.relational.normal import normal_form
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import STRICT, TRUE, Formula
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mtlmon.relational.binding import BindingAnalysis, Names

MOMENT = "point "
"""The atom that names time-points; no file can have it. It is `point` unless that is declared."""
_DEEPEST = 12
_COUNTED = (ops.HISTORICALLY, ops.ALWAYS)
_BINARY = (ops.SINCE, ops.UNTIL)
_NEIGHBOURS = (ops.PREVIOUS, ops.NEXT)
_RIGID = frozenset({ops.COMPARISON, ops.NOT, ops.AND, ops.OR, ops.EXISTS, ops.TRUE, ops.FALSE})
_EVER = Interval(0, None)


class _Around(NamedTuple):
    """A temporal operator around an operand.

    Attributes:
        node: the operator as it is.
        make: puts it around an operand that can be evaluated by itself; None if that is not
            possible.
    """

    node: Formula
    make: Callable[[Formula], Formula | None]

    @property
    def is_neighbour(self) -> bool:
        return self.node.operator in _NEIGHBOURS or self.node.value == STRICT


class Outside:
    """Takes out of operands what they need from outside.

    Args:
        binding: the analysis of the formulas.
    """

    def __init__(self, binding: BindingAnalysis) -> None:
        self._binding = binding
        self._names = 0

    def turned(self, formula: Formula) -> Formula:
        """Return an equivalent formula whose operands can be evaluated by themselves.

        Operators for which there is none stay as they are.

        Args:
            formula: the formula, in normal form. Bound variables do not shadow others.
        """
        order: list[Formula] = []
        stack = [formula]
        while stack:
            node = stack.pop()
            order.append(node)
            if not terms_of(node):
                stack += node.operands
        done: dict[int, Formula] = {}
        for node in reversed(order):
            if terms_of(node):
                operands = tuple(self._of_aggregate(one) for one in node.operands)
            else:
                operands = tuple(done[id(one)] for one in node.operands)
            found = _with(node, operands)
            if found.operator.is_temporal:
                freed = self._freed(found)
                found = found if freed is None else freed
            elif found.operator is ops.EXISTS:
                found = self._distributed(found)
            done[id(node)] = found
        return done[id(formula)]

    def _distributed(self, node: Formula) -> Formula:
        """EXISTS of an AND as one for each side of an OR that have different variables.

        So each side only has to bind those that it has.
        """
        sides, found, count = [node.operands[0]], list[Formula](), 0
        while sides:
            side = sides.pop()
            if side.operator is ops.OR:
                # EXISTS is about each of its sides anyway
                sides += reversed(side.operands)
                continue
            parts = conjuncts(side)
            for place, part in enumerate(parts):
                if part.operator is not ops.OR or count >= _DEEPEST:
                    continue
                others = [*parts[:place], *parts[place + 1 :]]
                known = self._binding.free(_all(self._taken(others)[0]))
                own = set(quantified(node)) - known
                names = [own & self._binding.free(one) for one in part.operands]
                if any(one != names[0] for one in names):
                    sides += (_all([*others, one]) for one in reversed(part.operands))
                    count += 1
                    break
            else:
                found.append(side)
        if not count:
            return node
        whole = self._joined(ops.OR, [self._exists(quantified(node), one, node) for one in found])
        assert whole is not None
        return whole

    def _of_aggregate(self, operand: Formula) -> Formula:
        normal = self._binding.normal(operand)
        found = self.turned(normal)
        return operand if found is normal else found

    def _freed(self, node: Formula) -> Formula | None:
        """What is equivalent to a temporal operator, or None if it stays as it is."""
        operator, right = node.operator, node.operands[-1]
        is_alone = self._binding.is_alone
        if operator in _COUNTED:
            if is_alone(normal_form(right, negated=True)) or is_alone(right):
                return None
            return _not(self._negation(node))
        free = self._binding.free
        if is_alone(right) and (operator not in _BINARY or free(node.operands[0]) <= free(right)):
            return None
        return self._split(self._around(node), right, 0)

    def _around(self, node: Formula) -> _Around:
        if node.operator in _BINARY:
            return _Around(node, lambda right: self._binary(node, right))
        return _Around(
            node, lambda right: Formula(node.operator, (right,), node.interval, None, node.span)
        )

    def _split(self, around: _Around, formula: Formula, depth: int) -> Formula | None:
        """The operator around an operand that needs variables from outside."""
        if self._binding.is_alone(formula):
            return around.make(formula)
        if depth > _DEEPEST:
            return None
        if formula.operator is ops.EXISTS:
            found = self._split(around, formula.operands[0], depth + 1)
            return None if found is None else self._exists(quantified(formula), found, formula)
        if formula.operator is ops.OR:
            return self._joined(ops.OR, [self._split(around, one, depth + 1)
                                         for one in formula.operands])  # fmt: skip
        taken, left = self._taken(conjuncts(formula))
        for place, part in enumerate(left):
            if part.operator not in (ops.OR, ops.EXISTS) or _is_rigid(part):
                continue
            others = [*taken, *left[:place], *left[place + 1 :]]
            if part.operator is ops.EXISTS:
                whole = _all([*others, part.operands[0]])
                found = self._split(around, whole, depth + 1)
                return None if found is None else self._exists(quantified(part), found, part)
            return self._joined(
                ops.OR,
                [self._split(around, _all([*others, one]), depth + 1) for one in part.operands],
            )
        rigid = [part for part in left if _is_rigid(part)]
        excluded: list[Formula] = []
        for part in left:
            if _is_rigid(part):
                continue
            negation = self._negation(part)
            if negation is None:
                return None
            excluded.append(negation)
        found = self._without(around, _all(taken), excluded, depth)
        return self._joined(ops.AND, [*rigid, found])

    def _negation(self, part: Formula) -> Formula | None:
        """What a conjunct that binds nothing is NOT of; None if it is no negation."""
        if part.operator is ops.NOT:
            return part.operands[0]
        if part.operator is ops.COMPARISON:
            found = normal_form(part, negated=True)
            return None if found.operator is ops.NOT else found
        if part.operator not in _COUNTED:
            return None
        other = ops.ONCE if part.operator is ops.HISTORICALLY else ops.EVENTUALLY
        negation = normal_form(part.operands[0], negated=True)
        found = Formula(other, (self.turned(negation),), part.interval, None, part.span)
        freed = self._freed(found)
        return found if freed is None else freed

    def _taken(self, parts: Sequence[Formula]) -> tuple[list[Formula], list[Formula]]:
        """The conjuncts that bind their variables by themselves, and the others."""
        bound: Names = frozenset()
        taken: list[Formula] = []
        left = list(parts)
        while True:
            for part in left:
                found = run(self._binding.conjunct(part, bound, parts))
                if not isinstance(found, Unbound) and self._binding.free(part) <= found:
                    bound = found
                    taken.append(part)
                    left = [one for one in left if one is not part]
                    break
            else:
                return taken, left

    def _without(
        self, around: _Around, taken: Formula, excluded: Sequence[Formula], depth: int
    ) -> Formula | None:
        """The operator around a formula that holds where some others do not."""
        if not excluded:
            return around.make(taken)
        if around.is_neighbour:
            # there is one neighbour at most
            kept = [around.make(taken)]
            if around.node.value == STRICT:
                # that of a key
                excluded = [_all([taken, one]) for one in excluded]
            kept += [_not(self._split(around, one, depth + 1)) for one in excluded]
            return self._joined(ops.AND, kept)
        name = self._fresh()
        found = [around.make(_all([taken, _moment(name)]))]
        located = self._located(around.node, around.node.interval or _EVER)
        for one in excluded:
            own = self._exists(
                [n for n in self._ordered(taken) if n not in self._binding.free(one)], taken, taken
            )
            parts = _all([one, own, _moment(name)])
            found.append(_not(self._split(located, parts, depth + 1)))
        whole = self._joined(ops.AND, found)
        return None if whole is None else self._exists([name], whole, around.node)

    def _located(self, node: Formula, interval: Interval) -> _Around:
        """ONCE or EVENTUALLY with an interval, by whether an operator looks back or ahead."""
        operator = ops.ONCE if node.operator.is_past else ops.EVENTUALLY
        return self._around(Formula(operator, (TRUE,), interval, None, node.span))

    def _binary(self, node: Formula, right: Formula) -> Formula | None:
        """SINCE or UNTIL with a right side that can be evaluated by itself."""
        assert node.interval is not None
        known = self._binding.free(right)
        parts = [one for one in conjuncts(node.operands[0]) if one.operator is not ops.TRUE]
        outer = [one for one in parts if not self._binding.free(one) <= known]
        rigid = [one for one in outer if _is_rigid(one)]
        others = [one for one in outer if not _is_rigid(one)]
        own = _all([one for one in parts if self._binding.free(one) <= known])
        if others and node.interval.lower > 0:
            found = self._named_sides(node, own, right, others)
        else:
            whole = _with_left(node, own, right)
            found = self._joined(
                ops.AND, [whole, *(self._kept(node, one, right) for one in others)]
            )
        if found is None or not rigid:
            return found
        found = _all([*rigid, found])
        # at the present, nothing is asked of the left side
        return found if node.interval.lower > 0 else Formula(ops.OR, (found, right))

    def _kept(self, node: Formula, part: Formula, right: Formula) -> Formula | None:
        """That a conjunct of the left side holds from behind the last time-point of the right one.

        For UNTIL, up to the first one. There is one in the interval, which begins at 0.
        """
        broken = self.turned(normal_form(part, negated=True))
        missing = normal_form(right, negated=True)
        ends = [broken, missing]
        if not self._binding.free(right) <= self._binding.free(broken):
            located = self._located(node, node.interval or _EVER)
            ends.insert(1, Formula(located.node.operator, (right,), node.interval))
        ended = Formula(node.operator, (missing, _all(ends)), node.interval, None, part.span)
        if self._binding.is_alone(ended.operands[1]):
            return _not(ended)
        if self._binding.is_alone(part):
            operator = ops.PREVIOUS if node.operator.is_past else ops.NEXT
            begun = _all([part, Formula(operator, (right,), _EVER)])
            held = Formula(node.operator, (part, begun), node.interval, None, part.span)
            return Formula(ops.OR, (right, held), None, None, part.span)
        found = self._split(self._around(ended), ended.operands[1], 1)
        return _not(found)

    def _named_sides(
        self, node: Formula, own: Formula, right: Formula, others: Sequence[Formula]
    ) -> Formula | None:
        """SINCE or UNTIL whose interval does not begin at 0."""
        assert node.interval is not None
        name, other = self._fresh(), self._fresh()
        named = _all([right, _moment(name)])
        parts: list[Formula | None] = [_with_left(node, own, named)]
        located = self._located(node, Interval(0, node.interval.upper))
        order = terms.GREATER if node.operator.is_past else terms.LESS
        inside = comparison(Expression(order, (_variable(other), _variable(name))))
        for part in others:
            broken = _all([self.turned(normal_form(part, negated=True)), _moment(other)])
            found = self._split(located, broken, 1)
            whole = self._joined(ops.AND, [inside, found])
            parts.append(None if whole is None else _not(self._exists([other], whole, part)))
        found = self._joined(ops.AND, parts)
        return None if found is None else self._exists([name], found, node)

    def _joined(self, operator: ops.Operator, parts: Iterable[Formula | None]) -> Formula | None:
        """The parts, joined by AND or OR; None if there is none for one of them."""
        found: Formula | None = None
        for part in parts:
            if part is None:
                return None
            found = part if found is None else Formula(operator, (found, part))
        return found

    def _exists(self, names: Iterable[str], formula: Formula, origin: Formula) -> Formula:
        own = tuple(name for name in names if name in self._binding.free(formula))
        if not own:
            return formula
        return Formula(ops.EXISTS, (formula,), None, None, origin.span, own)

    def _ordered(self, formula: Formula) -> list[str]:
        return sorted(self._binding.free(formula))

    def _fresh(self) -> str:
        self._names += 1
        # those of the expansion have one blank
        return f"moment  {self._names}"


def _with_left(node: Formula, left: Formula, right: Formula) -> Formula:
    """SINCE or UNTIL with other sides; ONCE or EVENTUALLY if nothing is asked of the left one."""
    if left.operator is not ops.TRUE:
        return Formula(node.operator, (left, right), node.interval, None, node.span, node.value)
    operator = ops.ONCE if node.operator.is_past else ops.EVENTUALLY
    return Formula(operator, (right,), node.interval, None, node.span)


def _is_rigid(formula: Formula) -> bool:
    """Whether a formula only compares values, so that time does not change it."""
    return all(
        node.operator in _RIGID and not (terms_of(node) and node.operands)
        for node in postorder(formula)
    )


def _with(node: Formula, operands: tuple[Formula, ...]) -> Formula:
    if all(one is other for one, other in zip(operands, node.operands, strict=True)):
        return node
    return Formula(node.operator, operands, node.interval, node.name, node.span, node.value)


def _all(parts: Iterable[Formula]) -> Formula:
    """AND of formulas; TRUE if there are none."""
    found = TRUE
    for part in parts:
        if part.operator is ops.TRUE:
            continue
        found = part if found is TRUE else Formula(ops.AND, (found, part), None, None, part.span)
    return found


def _not(formula: Formula | None) -> Formula | None:
    return None if formula is None else normal_form(formula, negated=True)


def _moment(name: str) -> Formula:
    return predicate(MOMENT, _variable(name))


def _variable(name: str) -> Expression:
    return Expression(terms.VARIABLE, (), name)
