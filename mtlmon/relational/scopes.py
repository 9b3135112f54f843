"""Finds variables that are bound twice, and futures without bound beside variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.terms import (
    aggregates_of,
    free_variables,
    quantified,
    terms_of,
    variables_of,
)
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.syntax.formula import Formula, Span


class Finding(NamedTuple):
    """Something wrong at a place.

    Attributes:
        span: the place, or None if it is not known.
        message: what is wrong.
        hint: how to mend it, or None.
    """

    span: Span | None
    message: str
    hint: str | None = None


def scope_findings(formula: Formula, names: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the variables that shadow others, and those of aggregates that are used wrongly.

    Args:
        formula: the formula.
        names: the variables that are bound around it: parameters, or its free variables.
    """
    free = free_variables(formula)
    stack = [(formula, frozenset(names))]
    while stack:
        node, scope = stack.pop()
        inner = scope
        if bound := quantified(node):
            for name in bound:
                if name in scope:
                    hint = "give one of the two another name"
                    yield Finding(
                        node.span, f"the variable {name} has a meaning here already", hint
                    )
            inner = scope | set(bound)
        for aggregate in aggregates_of(node):
            operand = node.operands[aggregate.aggregate.formula]
            yield from _aggregate_findings(aggregate, free[id(operand)], scope)
        if terms_of(node):
            for aggregate in aggregates_of(node):
                operand = node.operands[aggregate.aggregate.formula]
                stack.append((operand, scope | set(free[id(operand)])))
        else:
            stack += ((operand, inner) for operand in reversed(node.operands))


def _aggregate_findings(
    aggregate: Expression, free: tuple[str, ...], scope: frozenset[str]
) -> Iterator[Finding]:
    word, _, by, _ = aggregate.aggregate
    groups = by or ()
    wanted = [*groups]
    for operand in aggregate.operands:
        wanted += variables_of(operand)
    for name in wanted:
        if name not in free:
            message = f"{word}: its formula has no free variable {name}"
            hint = f"its free variables are {', '.join(free)}" if free else "it has none"
            yield Finding(aggregate.span, message, hint)
            return
    for name in free:
        if name in scope and name not in groups:
            message = f"{word}: {name} belongs to the aggregate, but is used outside as well"
            listed = ", ".join([*groups, name])
            yield Finding(aggregate.span, message, f"write BY {listed}, or give it another name")
            return


def future_findings(
    formula: Formula, *, is_closed: bool, is_find: bool = False
) -> Iterator[Finding]:
    """Yield the operators that look ahead without bound where variables forbid that.

    Args:
        formula: the formula, behind its leading FORALLs.
        is_closed: whether it has no free variables.
        is_find: whether it is that of a `find`; a policy that is ALWAYS FORALL would not say which
            values violate it.
    """
    free = free_variables(formula)
    has_findings = False
    stack = [(formula, False)]
    while stack:
        node, is_below = stack.pop()
        if node.operator.is_future and node.operator is not ops.NEXT:
            assert node.interval is not None
            if not node.interval.is_bounded and (is_below or not is_closed or free[id(node)]):
                word = node.operator.word
                message = f"{word} looks ahead without bound, beside variables"
                hint = f"give it an interval: {word}[0,b]"
                if node.operator is ops.ALWAYS and node is formula:
                    hint = "leave ALWAYS out: a policy is checked at every time-point"
                has_findings = True
                yield Finding(node.span, message, hint)
        is_inner = is_below or bool(quantified(node)) or bool(terms_of(node))
        stack += ((operand, is_inner) for operand in reversed(node.operands))
    interval = formula.interval
    is_always = formula.operator is ops.ALWAYS and interval is not None and not interval.is_bounded
    is_hiding = is_always and is_closed and not is_find and bool(quantified(formula.operands[0]))
    if is_hiding and not has_findings:
        message = "ALWAYS looks ahead without bound, beside variables"
        hint = "leave ALWAYS out: a policy is checked at every time-point"
        yield Finding(formula.span, message, hint)
