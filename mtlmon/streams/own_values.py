"""What aggregates and machines of Python have in common: calls that may fail, and plain states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.integers import fits
from mtlmon.policy.predicates.own_functions import is_unicode
from mtlmon.syntax.report import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.policy.predicates.kinds import Kind

__all__ = [
    "OwnError",
    "call",
    "failure_of",
    "from_plain",
    "is_of_kind",
    "plain",
    "state_text",
    "wrong_answer",
]

_SHOWN_WIDTH = 240
# PERF: making one each time, as `json.dumps` does, takes as long as a state
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_TYPES: dict[str, set[type]] = {
    "boolean": {bool},
    "integer": {int},
    "float": {int, float},
    "text": {str},
}


class OwnError(MtlmonError):
    """That a function of Python has failed, or gives what it must not, and how."""


def call(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function.

    Args:
        what: which one it is, for errors.
        function: the function.
        arguments: its arguments.

    Raises:
        OwnError: it has raised an exception, which is the cause.
    """
    try:
        return function(*arguments)
    except Exception as error:
        raise failure_of(what, error) from error


def failure_of(what: str, error: Exception) -> OwnError:
    """Return the error that a function has raised an exception; `what` is as for `call`."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return OwnError(shorten(" ".join(f"{what} has failed with {reason}".split()), _SHOWN_WIDTH))


def is_of_kind(value: Any, kind: Kind) -> bool:
    """Whether a value of Python can be one of a kind, or null."""
    if value is None:
        return True
    if type(value) is str:
        return kind.name == "text" and is_unicode(value)
    return type(value) in _TYPES[kind.name] and (type(value) is not int or fits(value))


def wrong_answer(values: Sequence[Any], kind: Kind) -> int | None:
    """Return the index of the first value that is neither of a kind nor null, or None."""
    if kind.name not in {"integer", "text"} and set(map(type, values)) <= _TYPES[kind.name]:
        return None
    return next((k for k, value in enumerate(values) if not is_of_kind(value, kind)), None)


def plain(state: Any, whose: str) -> Any:
    """Return a state as JSON has it.

    Args:
        state: the state.
        whose: what it is a state of, for errors.

    Raises:
        OwnError: it has a value that is not plain.
    """
    if state is None or type(state) in {bool, int, float, str}:
        return state
    if type(state) in {tuple, list}:
        return {type(state).__name__: [plain(one, whose) for one in state]}
    if type(state) is dict and all(type(key) is str for key in state):
        return {"dict": [[key, plain(one, whose)] for key, one in state.items()]}
    raise OwnError(
        f"a state of {whose} has {shorten(repr(state), _SHOWN_WIDTH)} of type "
        f"{type(state).__name__}, but states are plain values: None, True, False, numbers, texts, "
        "and tuples, lists and dictionaries (by texts) of these"
    )


def from_plain(written: Any) -> Any:
    """Return the state that JSON stands for.

    Raises:
        ValueError, TypeError: it stands for none.
    """
    if not isinstance(written, dict | list):
        return written
    if not isinstance(written, dict):
        raise ValueError("a list without a kind")
    ((kind, items),) = written.items()
    if kind == "dict":
        return {key: from_plain(one) for key, one in items}
    found = [from_plain(one) for one in items]
    return tuple(found) if kind == "tuple" else found


def state_text(state: Any, whose: str) -> bytes:
    """Return a state as bytes of JSON; equal states, in the same order, have equal bytes."""
    return _ENCODER.encode(plain(state, whose)).encode()
