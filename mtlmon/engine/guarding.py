"""Methods that refuse to run while another call of the same object is active.

Native classes enter their `Guard` themselves (`structures/guard`); methods of Python classes are
`@guarded`. A guarded method calls only unguarded functions of its own object.

`tests/public_objects.py` lists all such classes and how to call their methods. The tests of
threads, copies and forged snapshots use this list, and fail if a documented class is missing from
it.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Protocol, TypeVar

from mtlmon.engine.native import Guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec

    _P = ParamSpec("_P")

__all__ = ["Guard", "guarded"]


class _HasGuard(Protocol):
    _guard: Guard


_S = TypeVar("_S", bound=_HasGuard)
_R = TypeVar("_R")


def guarded(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Let a public method refuse to run while another call of its object is active.

    It raises `InUseError` then, and the object is as it was. The object has a `_guard`. Methods
    call others of the same object by functions that are not guarded.
    """

    @wraps(method)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._guard:
            return method(self, *args, **kwargs)

    return call
