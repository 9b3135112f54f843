"""Rewrites a formula in the kernel operators, the only ones that engines know.

The kernel is TRUE, FALSE, ATOM, NOT, AND, OR, IFF, PREVIOUS, NEXT, SINCE and UNTIL. Every other
operator is replaced by its definition, a row of `_DEFINITIONS`.
"""

from __future__ import annotations

# PERF: `operator` itself, which has this function from here, takes 0.4 ms
from _operator import is_

from mtlmon.errors import MtlmonError
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.syntax.interval import Interval
    from mtlmon.syntax.operators import Operator

    _Make = Callable[..., Formula]
    _Rule = Callable[[_Make, Interval | None, tuple[Formula, ...]], Formula]

KERNEL = frozenset(
    {
        *(ops.TRUE, ops.FALSE, ops.ATOM, ops.NOT, ops.AND, ops.OR, ops.IFF),
        *(ops.PREVIOUS, ops.NEXT, ops.SINCE, ops.UNTIL),
    }
)
"""The operators that can occur in a desugared formula."""


def desugar(formula: Formula) -> Formula:
    """Return the equivalent formula over the kernel operators.

    Nodes with kernel operators keep their spans. Nodes made for a derived operator have the span
    of that operator, marked as indirect. Where a definition uses an operand twice, both uses share
    it. So the result is a directed acyclic graph, larger than the formula by at most a constant
    factor.

    Raises:
        MtlmonError: the formula is first-order, which no engine runs yet.
    """
    nodes = postorder(formula)
    if all(node.operator in KERNEL for node in nodes):
        return formula
    kernel_of: dict[int, Formula] = {}
    for node in nodes:
        operands = tuple(kernel_of[id(operand)] for operand in node.operands)
        kernel_of[id(node)] = _rewrite(node, operands)
    return kernel_of[id(formula)]


def _rewrite(node: Formula, operands: tuple[Formula, ...]) -> Formula:
    if node.operator in KERNEL:
        if _same(operands, node.operands):
            return node
        return Formula(node.operator, operands, node.interval, node.name, node.span)
    if node.operator.is_first_order:
        raise MtlmonError(
            "a formula with variables needs the command mtlmon or a RelationalMonitor"
        )
    span = node.span.made() if node.span else None

    def make(operator: Operator, *parts: Formula, interval: Interval | None = None) -> Formula:
        return Formula(operator, parts, interval, None, span)

    return _DEFINITIONS[node.operator](make, node.interval, operands)


def _same(operands: tuple[Formula, ...], others: tuple[Formula, ...]) -> bool:
    return all(map(is_, operands, others))


def _implies(make: _Make, _: Interval | None, operands: tuple[Formula, ...]) -> Formula:
    condition, consequence = operands
    return make(ops.OR, make(ops.NOT, condition), consequence)


def _some_time(binary: Operator) -> _Rule:
    """TRUE binary f."""
    return lambda make, interval, operands: make(
        binary, make(ops.TRUE), *operands, interval=interval
    )


def _every_time(binary: Operator) -> _Rule:
    """NOT (TRUE binary NOT f)."""
    return lambda make, interval, operands: make(
        ops.NOT, make(binary, make(ops.TRUE), make(ops.NOT, *operands), interval=interval)
    )


def _dual(binary: Operator) -> _Rule:
    """NOT (NOT f binary NOT g)."""
    return lambda make, interval, operands: make(
        ops.NOT, make(binary, *(make(ops.NOT, part) for part in operands), interval=interval)
    )


def _weak_until(make: _Make, interval: Interval | None, operands: tuple[Formula, ...]) -> Formula:
    """g RELEASE (f OR g)."""
    left, right = operands
    return _dual(ops.UNTIL)(make, interval, (right, make(ops.OR, left, right)))


_DEFINITIONS: dict[Operator, _Rule] = {
    ops.IMPLIES: _implies,
    ops.ONCE: _some_time(ops.SINCE),
    ops.EVENTUALLY: _some_time(ops.UNTIL),
    ops.HISTORICALLY: _every_time(ops.SINCE),
    ops.ALWAYS: _every_time(ops.UNTIL),
    ops.TRIGGER: _dual(ops.SINCE),
    ops.RELEASE: _dual(ops.UNTIL),
    ops.WEAK_UNTIL: _weak_until,
}
