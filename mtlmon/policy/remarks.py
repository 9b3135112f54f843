"""Finds formulas that say something, but probably not what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import make
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.syntax.formula import Formula

__all__ = ["remarks"]


def remarks(file: PolicyFile) -> Iterator[str]:
    """Yield a remark for each operator that reaches further than was probably meant.

    `ONCE a AND ONCE b` is `ONCE (a AND ONCE b)`, as a temporal operator reaches as far to the right
    as it can.
    """
    named: list[tuple[str, Formula]] = []
    for policy in file.policies:
        name = "the formula" if policy.name is None else f"policy {policy.name}"
        named.append((name, policy.written))
    named += [(f"let {name}", formula) for name, formula in file.lets.items()]
    for name, formula in named:
        for node in postorder(formula):
            meant = _meant(node, file.text)
            if meant is not None:
                yield (
                    f"{name}: {node.operator.word} is of all of ({node.operands[0]}); if that is "
                    f"not meant, write {meant}"
                )


def _meant(node: Formula, text: str) -> str | None:
    """What was probably meant instead of a formula; None if that is the formula itself."""
    if not (_is_prefix(node) and node.operands[0].operator in {ops.AND, ops.OR}):
        return None
    (operand,) = node.operands
    if operand.span is None or text[: operand.span.start].rstrip().endswith("("):
        return None
    left, right = operand.operands
    last = right
    while last.operator is ops.NOT:
        (last,) = last.operands
    if not _is_prefix(last):
        return None
    inner = make(node.operator, left, interval=node.interval)
    return str(make(operand.operator, inner, right))


def _is_prefix(node: Formula) -> bool:
    return node.operator.is_temporal and node.operator.is_prefix
