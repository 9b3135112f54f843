"""Functions of values that a program of Python defines.

The expression holds the function itself, so a file that has been read keeps the one that it was
read with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates.own_aggregates import RESULTS, require_own_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.policy.predicates.kinds import Kind

    Type: TypeAlias = Literal["int", "float", "bool", "text"]

__all__ = ["OwnFunction", "register_function", "registered_function"]

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "float": (float, int),
    "boolean": (bool,),
    "text": (str,),
}

_registered: dict[str, OwnFunction] = {}


class OwnFunction:
    """A function that a program defines; `register_function` explains its parts.

    Attributes:
        name: its name in expressions.
        function: what computes it.
        arguments: the kinds of its arguments.
        kind: the kind of its results.
    """

    __slots__ = ("arguments", "function", "kind", "name")

    def __init__(
        self, name: str, function: Callable[..., Any], arguments: tuple[Kind, ...], kind: Kind
    ) -> None:
        self.name = name
        self.function = function
        self.arguments = arguments
        self.kind = kind

    def __call__(self, *values: Any) -> Any:
        """Compute a result; None stands for null.

        Raises:
            ArithmeticError: the function raises an error, or its result has another type.
        """
        try:
            found = self.function(*values)
        except Exception as error:
            # whatever it is, it is an error of the row
            raise ArithmeticError(f"{type(error).__name__}: {error}") from error
        if found is None:
            return None
        is_other = isinstance(found, bool) and self.kind.name != "boolean"
        if is_other or not isinstance(found, _TYPES[self.kind.name]):
            raise ArithmeticError(f"the result is {found!r}, not {self.kind.words}")
        if isinstance(found, str) and not is_unicode(found):
            raise ArithmeticError(f"the result is {found!r}, which is no Unicode text")
        return found

    def __repr__(self) -> str:
        return f"<function {self.name}>"


def register_function(
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[Type] = ("float",),
    *,
    result: Type = "float",
) -> None:
    """Define a function of values for policy files, as in `distance(x, y) > 5`.

    It is called once for each row, so it must give the same result for the same arguments. It is
    null, and not called, where an argument is null. An error that it raises is one of the row.

    Args:
        name: its name; a function that is already registered under it is replaced for files that
            are read later.
        function: takes the arguments, and returns the result; None stands for null.
        arguments: the type of each argument. An argument that is a float can be any number.
        result: the type of the results.

    Raises:
        PolicyError: the name is no name, or means something else in expressions; or a type is not
            one of these.

    >>> import pyarrow as pa
    >>> from math import hypot
    >>> from mtlmon import streams
    >>> streams.register_function("distance", hypot, ["float", "float"])
    >>> rows = pa.record_batch({"ts": [0, 1, 2], "x": [3, 5, None], "y": [4.0, 12.0, 1.0]})
    >>> streams.compile("stream s = distance(x, y)", rows.schema).evaluate(rows).to_pydict()
    {'time': [0, 1, 2], 's': [5.0, 13.0, None]}
    """
    require_own_name(name, "a function")
    for one in (*arguments, result):
        if one not in RESULTS:
            what = "the result" if one is result else "an argument"
            raise PolicyError(f"{what} must be one of {', '.join(RESULTS)}, not {one!r}")
    if not arguments:
        raise PolicyError("a function takes at least one argument")
    kinds = tuple(RESULTS[one] for one in arguments)
    _registered[name] = OwnFunction(name, function, kinds, RESULTS[result])


def is_unicode(text: str) -> bool:
    """Whether columns can have a text: half a surrogate pair is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def registered_function(name: str) -> OwnFunction | None:
    """Return the function with a name; None if none is registered."""
    return _registered.get(name)
