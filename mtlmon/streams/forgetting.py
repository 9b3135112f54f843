"""For how long instances matter behind their last rows, where their streams only have windows.

Who reads a stream as of now (see `NOW`) reads the instances that have a row in its longest window.
So where all that is computed in instances are such windows, one whose windows have emptied is as
good as new, and is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, Window
from mtlmon.streams.instances import LookUpTask, OverTask
from mtlmon.streams.layer import KernelTask
from mtlmon.streams.waiting import chosen_value
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mtlmon.streams.declarations import Declarations, Stream
    from mtlmon.streams.layer import Layer, Task

# The windows that have a value where they are empty.
_COUNTS = frozenset(
    {ops.WINDOW_COUNT, ops.COUNT_ROWS, ops.WINDOW_ANY, ops.WINDOW_ALL, ops.WINDOW_DISTINCT}
)
# They are null where an operand is.
_STRICT = frozenset({*ops.ARITHMETIC, *ops.COMPARISONS.values(), ops.NOT, ops.ABS, ops.SQRT})
_REMEMBERED = frozenset({ops.WINDOW_INTEGRAL, ops.WINDOW_OWN, ops.MACHINE})


def longest_window(name: str, declared: Declarations) -> int | None:
    """Return the longest window of a stream that is read as of now; None if one has no bound."""
    longest = 0
    open_nodes, seen = [declared.streams[name].value.expression], {name}
    while open_nodes:
        node = open_nodes.pop()
        if node.operator in ops.WINDOWS:
            upper = declared.extent(node, declared.streams[name].value).upper
            if upper < 0:
                return None
            longest = max(longest, upper)
        elif node.operator is ops.STREAM:
            if node.name not in seen:
                seen.add(node.name)
                open_nodes.append(declared.streams[node.name].value.expression)
        else:
            open_nodes += node.operands
    return longest


def of_remembered(value: Expression, name: str, declared: Declarations) -> Expression:
    """Return a value over instances as of now, null where no row is in the longest window.

    Args:
        value: the value, which reads streams of these instances.
        name: the stream whose windows matter.
        declared: the streams.
    """
    longest = longest_window(name, declared)
    if longest is None or _is_null_without_rows(value, longest, declared.streams[name], declared):
        return value
    window = Window(Interval(0, longest))
    rows = Expression(ops.COUNT_ROWS, (), window, value.span)
    zero = Expression(ops.CONSTANT, (), 0, value.span)
    return chosen_value(Expression(ops.GREATER, (rows, zero), None, value.span), value, None)


def _is_null_without_rows(
    value: Expression, length: int, stream: Stream, declared: Declarations
) -> bool:
    """Whether a value is null where no rows are at most so old."""
    stack = [value]
    while stack:
        node = stack.pop()
        if node.operator in ops.WINDOWS:
            is_null = node.operator not in _COUNTS and node.window.default is None
            if is_null and 0 <= declared.extent(node, stream.value).upper <= length:
                return True
        elif node.operator is ops.STREAM:
            if declared.is_of_now(node.name):
                stack.append(declared.streams[node.name].value.expression)
        elif node.operator in _STRICT:
            stack += node.operands
    return False


def silence_to_forget(
    layers: Iterable[Layer], frames: Collection[int], now: int | None
) -> int | None:
    """Return after how much silence instances can be forgotten; None if never.

    Args:
        layers: the layers of a program.
        frames: the numbers of all time-points of the instances.
        now: that of those where windows are read as of now; None if there are none.
    """
    longest = 0
    for layer in layers:
        for task in layer.tasks:
            length = _length(task, frames, now)
            if length is None:
                return None
            longest = max(longest, length)
    return longest + 1 if longest < MAXIMUM_BOUND else None


def _length(task: Task, frames: Collection[int], now: int | None) -> int | None:
    """For how long a task needs rows of instances; None for no limit."""
    if isinstance(task, LookUpTask | OverTask):
        is_read = task.family.frame in frames
        return None if is_read and task.argument_period != now else 0
    if task.period not in frames and task.argument_period not in frames:
        return 0
    if not isinstance(task, KernelTask):
        return 0 if not task.kernels else None
    longest = 0
    for kernel in task.kernels:
        operator, extent = kernel.node.operator, kernel.extent
        if operator not in ops.WINDOWS or operator in _REMEMBERED or extent.upper < 0:
            return None
        longest = max(longest, extent.upper)
    return longest
