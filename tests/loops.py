"""Whether the loops of a test ran over something, in at least one of its examples.

A loop over what hypothesis draws may run over nothing: what it asserts then holds of itself. Each
loop that asserts something, in the function of the test, must have run once over all its examples.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

__all__ = ["Loops"]

LOOPS = ast.For | ast.While
REQUIRING = ("assert", "check", "compare", "require")
"""How the names of functions begin that assert something."""


def _requires(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2].lstrip("_").startswith(REQUIRING)
    return isinstance(node, ast.Assert)


def _lines(function: Callable[..., object]) -> Iterator[int]:
    """The first lines of the bodies of loops that assert something."""
    source, first = inspect.getsourcelines(function)
    for node in ast.walk(ast.parse(textwrap.dedent("".join(source)))):
        if isinstance(node, LOOPS) and any(map(_requires, ast.walk(node))):
            yield first - 1 + node.body[0].lineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those within."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


class Loops:
    """The loops of a test of hypothesis.

    Args:
        test: the test, whose examples are traced until all its loops have run.

    Attributes:
        unseen: the lines of the loops that have not run yet.
    """

    def __init__(self, test: Any) -> None:
        inner = test.hypothesis.inner_test
        codes = set(_codes(inspect.unwrap(inner).__code__))
        self.unseen = set(_lines(inspect.unwrap(inner)))

        def trace(frame: FrameType, _event: str, _argument: object) -> Any:
            if frame.f_code not in codes:
                return None
            self.unseen.discard(frame.f_lineno)
            return trace

        @functools.wraps(inner)
        def traced(*arguments: object, **named: object) -> object:
            before = sys.gettrace()
            # another, as one that measures coverage, stays
            if not self.unseen or before is not None:
                return inner(*arguments, **named)
            sys.settrace(trace)
            try:
                return inner(*arguments, **named)
            finally:
                sys.settrace(before)

        self._test, self._inner = test, inner
        test.hypothesis.inner_test = traced

    def end(self) -> None:
        """Give the test its own function back."""
        self._test.hypothesis.inner_test = self._inner
