"""Runs functions that call each other to any depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

Result = TypeVar("Result")


def run(call: Generator[Any, Any, Result]) -> Result:
    """Run a generator that yields other generators, whose results it is sent.

    What would be a recursive function is written as a generator: `yield f(x)` in place of `f(x)`.
    The depth is then limited by memory alone.

    >>> def depth(nested):
    ...     deepest = 0
    ...     for part in nested:
    ...         deepest = max(deepest, (yield depth(part)))
    ...     return deepest + 1
    >>> run(depth([[], [[]]]))
    3
    """
    stack: list[Generator[Any, Any, Any]] = [call]
    value: Any = None
    while stack:
        try:
            waiting = stack[-1].send(value)
        except StopIteration as end:
            stack.pop()
            value = end.value
        else:
            stack.append(waiting)
            value = None
    result: Result = value
    return result
