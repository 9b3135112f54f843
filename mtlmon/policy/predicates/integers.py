"""The integer arithmetic of predicates, exact even if the result does not fit into 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops

if TYPE_CHECKING:
    from mtlmon.policy.predicates.operators import Operator

SMALLEST, LARGEST = -(2**63), 2**63 - 1


def calculate(operator: Operator, *values: int) -> int | None:
    """Compute an arithmetic operator other than division; None means null.

    >>> calculate(ops.REMAINDER, -7, 4)
    -3
    """
    if operator is ops.NEGATE:
        return -values[0]
    if operator is ops.ABS:
        return abs(values[0])
    if operator in {ops.FLOOR, ops.ROUND}:
        return values[0]
    left, right = values
    if operator is ops.ADD:
        return left + right
    if operator is ops.SUBTRACT:
        return left - right
    if operator is ops.MULTIPLY:
        return left * right
    if right == 0:
        return None
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def fits(value: int | None) -> bool:
    """Whether a value is null or an integer of 64 bits."""
    return value is None or SMALLEST <= value <= LARGEST
