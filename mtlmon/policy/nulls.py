"""Finds where the value of an expression can be null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.policy.predicates.expression import Expression

__all__ = ["Nulls"]

_NEVER = frozenset(
    {
        *(ops.CONSTANT, ops.PARAMETER, ops.ATOM, ops.LET),
        *(ops.IS_NULL, ops.IS_NOT_NULL, ops.COUNT_ROWS, ops.EXISTS),
        *(ops.WINDOW_COUNT, ops.WINDOW_DISTINCT, ops.WINDOW_ANY, ops.WINDOW_ALL),
    }
)
_WITH_DEFAULT = (ops.WINDOWS | frozenset(ops.OFFSETS.values())) - _NEVER


class Nulls:
    """Finds the parts of expressions of a policy file that can make their values null.

    Args:
        file: the policy file.
        is_nullable: whether a column can have nulls.
    """

    def __init__(self, file: PolicyFile, is_nullable: Callable[[str], bool]) -> None:
        self._file = file
        self._is_nullable = is_nullable
        # a stream that reads itself has no other nulls for that
        self._streams: dict[str, bool] = dict.fromkeys(file.streams, False)
        changed = True
        while changed:
            changed = False
            for name, stream in file.streams.items():
                if not self._streams[name] and self.of(stream.expression):
                    self._streams[name] = changed = True

    def of(self, expression: Expression) -> tuple[str, ...]:
        """Return the columns, streams and other parts that make the value null where they are."""
        found: dict[int, dict[str, None]] = {}
        for node in postorder(expression):
            found[id(node)] = self._of_node(node, [found[id(one)] for one in node.operands])
        return tuple(found[id(expression)])

    def _of_node(self, node: Expression, operands: list[dict[str, None]]) -> dict[str, None]:
        operator = node.operator
        if operator in _NEVER or (operator is ops.OVER and node.over.aggregate in _COUNTING):
            return {}
        if operator in {ops.COLUMN, ops.ROW_COLUMN}:
            is_time = node.name == self._file.environment.time
            return {str(node): None} if not is_time and self._is_nullable(node.name) else {}
        if operator is ops.STREAM:
            return {str(node): None} if self._streams.get(node.name, True) else {}
        if operator in _WITH_DEFAULT:
            default = node.offset.default if operator in _OFFSETS else node.window.default
            return {str(node): None} if default is None else {}
        if operator in {ops.OVER, ops.INSTANCE, ops.LOOK_UP}:
            return {str(node): None}
        if operator is ops.COALESCE and not all(operands):
            return {}
        if operator is ops.IF:
            operands = operands[1:]
        nulls = {name: None for one in operands for name in one}
        if operator is ops.OWN_FUNCTION:
            nulls[str(node)] = None
        if operator in {ops.DIVIDE, ops.REMAINDER}:
            divisor = node.operands[1]
            if divisor.operator is not ops.CONSTANT or not divisor.constant:
                nulls[str(node)] = None
        return nulls


_COUNTING = frozenset({"any", "all", "count"})
_OFFSETS = frozenset(ops.OFFSETS.values())
