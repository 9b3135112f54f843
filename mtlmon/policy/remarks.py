"""Finds formulas that say something, but probably not what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.nulls import Nulls
from mtlmon.policy.predicates import operators as predicate_ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.hints import some
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.syntax.formula import Formula

__all__ = ["remarks"]

_OPPOSITES = {
    predicate_ops.EQUAL: predicate_ops.NOT_EQUAL,
    predicate_ops.LESS: predicate_ops.GREATER_EQUAL,
    predicate_ops.GREATER: predicate_ops.LESS_EQUAL,
    predicate_ops.IN: predicate_ops.NOT_IN,
}
_OPPOSITES |= {after: before for before, after in _OPPOSITES.items()}


def remarks(file: PolicyFile, is_nullable: Callable[[str], bool]) -> Iterator[str]:
    """Yield a remark for each part of a formula that probably says something else than was meant.

    `NOT x > 5` is true where x is null, as the comparison is not.

    Args:
        file: the policy file.
        is_nullable: whether a column can have nulls.
    """
    nulls = Nulls(file, is_nullable)
    named: list[tuple[str, Formula]] = []
    for policy in file.policies:
        name = "the formula" if policy.name is None else f"policy {policy.name}"
        named.append((name, policy.written))
    named += [(f"let {name}", formula) for name, formula in file.lets.items()]
    for name, formula in named:
        for node in postorder(formula):
            yield from (f"{name}: {text}" for text in _negated_null(node, file, nulls))


def _negated_null(node: Formula, file: PolicyFile, nulls: Nulls) -> Iterator[str]:
    """Yield a remark if a comparison is negated whose value can be null."""
    # the NOT of a trigger has no place, as it is not written
    if node.operator is not ops.NOT or node.span is None or node.operands[0].name is None:
        return
    predicate = file.atoms.get(node.operands[0].name)
    if predicate is None or predicate.name is not None:
        return
    parts = nulls.of(predicate.expression)
    if not parts:
        return
    written = str(predicate)
    opposite = _opposite(predicate.expression)
    meant = f"atom NAME = not {written}" if opposite is None else opposite
    yield (
        f"NOT {written} is true also where there is no value of {some(parts)}; if that is not "
        f"meant, write {meant}"
    )


def _opposite(expression: Expression) -> str | None:
    """The comparison that is true where another one is false, but not where that is null."""
    operator = _OPPOSITES.get(expression.operator)
    if operator is None:
        return None
    return str(Expression(operator, expression.operands, expression.value))
