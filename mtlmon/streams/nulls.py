"""Which expressions always have a value, as far as that is known before any row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.time_points import MEMORY
from mtlmon.streams.kernels import default_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.declarations import Stream

_NEVER_NULL = {
    *(ops.WINDOW_COUNT, ops.COUNT_ROWS, ops.WINDOW_ANY, ops.WINDOW_ALL, ops.WINDOW_DISTINCT),
    *(ops.IS_NULL, ops.IS_NOT_NULL),
}
# Their values are not null if those of their operands are not.
_KEEP_VALUES = {
    *(ops.ADD, ops.SUBTRACT, ops.MULTIPLY, ops.NEGATE, ops.NOT, ops.AND, ops.OR, ops.IF),
    *ops.COMPARISONS.values(),
}


def may_be_null(
    expression: Expression,
    streams: Mapping[str, Stream],
    definitions: Mapping[str, Predicate],
    schema: pa.Schema | None,
) -> bool:
    """Whether an expression that looks at no later values may be null, as far as is known.

    Args:
        expression: the expression.
        streams: the declared streams.
        definitions: what the names of atoms and lets stand for.
        schema: the columns of rows; None at ticks, where no column is known to have a value.
    """
    stack = [expression]
    while stack:
        node = stack.pop()
        operator = node.operator
        if operator is ops.CONSTANT:
            is_known = node.value is not None
        elif operator in MEMORY:
            is_known = operator in _NEVER_NULL or default_of(node) is not None
        elif operator in ops.COLUMNS:
            place = -1 if schema is None else schema.get_field_index(node.name)
            is_known = schema is not None and place >= 0 and not schema.field(place).nullable
        elif operator is ops.COALESCE:
            is_known = not all(
                may_be_null(operand, streams, definitions, schema) for operand in node.operands
            )
        elif operator is ops.STREAM:
            stream = streams[node.name]
            is_known = not stream.per and stream.on is None
            stack.append(stream.value.expression)
        elif operator in {ops.ATOM, ops.LET}:
            is_known = node.name in definitions
            if is_known:
                stack.append(definitions[node.name].expression)
        elif operator in _NEVER_NULL:
            is_known = True
        else:
            is_known = operator in _KEEP_VALUES
            stack += node.operands
        if not is_known:
            return True
    return False
