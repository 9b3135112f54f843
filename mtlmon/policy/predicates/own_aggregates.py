"""Aggregates of windows that a program of Python defines by functions of its own.

The expression holds the aggregate itself, so a file that has been read keeps the one that it was
read with. `mtlmon.streams.own_windows` computes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.keywords import KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.policy.predicates.kinds import Kind

__all__ = ["OwnAggregate", "register_aggregate", "registered"]

_NAME = re.compile(r"[^\W\d]\w*")
RESULTS = {
    "int": kinds.INTEGER,
    "float": kinds.FLOAT,
    "bool": kinds.BOOLEAN,
    "text": kinds.TEXT,
}
"""The kind for each type that a program can name."""

_registered: dict[str, OwnAggregate] = {}


class OwnAggregate:
    """An aggregate that a program defines; `register_aggregate` explains its parts.

    Attributes:
        name: its name in expressions.
        lift: makes a state of a value.
        combine: makes one state of two.
        lower: makes the result of a state.
        inverse: takes a state off another one; None if that is not possible.
        kind: the kind of the results.
    """

    __slots__ = ("combine", "inverse", "kind", "lift", "lower", "name")

    def __init__(
        self,
        name: str,
        lift: Callable[[Any], Any],
        combine: Callable[[Any, Any], Any],
        lower: Callable[[Any], Any],
        inverse: Callable[[Any, Any], Any] | None,
        kind: Kind,
    ) -> None:
        self.name = name
        self.lift = lift
        self.combine = combine
        self.lower = lower
        self.inverse = inverse
        self.kind = kind

    def __repr__(self) -> str:
        return f"<aggregate {self.name}>"


def register_aggregate(
    name: str,
    lift: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    inverse: Callable[[Any, Any], Any] | None = None,
    *,
    result: Literal["int", "float", "bool", "text"] = "float",
) -> None:
    """Define an aggregate for policy files, as in `spread[0,5m](latency)`.

    It works in windows of streams, and in groups of relations: `group shop select spread(price) as
    spread`.

    The states of the values in a window are combined in the order of the values. `combine` must be
    associative. States are plain values, which snapshots can contain: None, Booleans, integers,
    floats, texts, and tuples, lists and dictionaries (by texts) of these; functions must not change
    them. An aggregate of a window without values is null, or what `or:` says.

    Args:
        name: its name; an aggregate that is already registered under it is replaced for files that
            are read later.
        lift: makes a state from a value that is not null.
        combine: makes a state from the state of earlier values and that of later ones.
        lower: makes the result from a state; None stands for null.
        inverse: makes the state of the later values from that of all values and that of the first
            ones. Without it, windows keep two stacks of states; both ways take a few calls for each
            row.
        result: the type of the results.

    Raises:
        PolicyError: the name is no name, or means something else in expressions; or the type is not
            one of these.

    >>> import pyarrow as pa
    >>> from mtlmon import streams
    >>> streams.register_aggregate(
    ...     "spread",
    ...     lift=lambda x: (x, x),
    ...     combine=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
    ...     lower=lambda state: state[1] - state[0],
    ... )
    >>> rows = pa.record_batch({"ts": [0, 1, 2, 3], "x": [5.0, 1.0, 3.0, 4.0]})
    >>> streams.compile("stream s = spread[0,2](x)", rows.schema).evaluate(rows).to_pydict()
    {'time': [0, 1, 2, 3], 's': [0.0, 4.0, 4.0, 3.0]}
    """
    require_own_name(name, "an aggregate")
    if result not in RESULTS:
        raise PolicyError(f"the result must be one of {', '.join(RESULTS)}, not {result!r}")
    _registered[name] = OwnAggregate(name, lift, combine, lower, inverse, RESULTS[result])


def require_own_name(name: str, what: str) -> None:
    """Check that a program can give a name to something of its own.

    Raises:
        PolicyError: it is no name, or means something else in expressions.
    """
    if _NAME.fullmatch(name) is None or name.lower() in KEYWORDS:
        raise PolicyError(f"{what} cannot be called {name!r}: give it a plain name")
    if name in ops.AGGREGATES or name in ops.FUNCTIONS or name == ops.MACHINE.word:
        known = "an aggregate" if name in ops.AGGREGATES else "a function"
        raise PolicyError(f"there is {known} {name} already: give yours another name")


def registered(name: str) -> OwnAggregate | None:
    """Return the aggregate with a name; None if none is registered."""
    return _registered.get(name)
