"""Convert the arrays of events that `Monitor.feed` accepts, and feed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mtlmon.arrays.arrow import columns_of_table
from mtlmon.arrays.native import EventColumns
from mtlmon.drive.native import feed_columns
from mtlmon.errors import EventError, EventTypeError, MtlmonError, TimeStampError
from mtlmon.support.atom_names import listed, places_of
from mtlmon.verdicts.arrays import VerdictArray, verdict_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon._core import Monitor

__all__ = ["event_columns", "feed"]

_ARROW_METHODS = ("__arrow_c_array__", "__arrow_c_stream__")


def feed(
    monitor: Monitor,
    time_stamps: object,
    letters: object = None,
    *,
    atoms: Sequence[str] | None = None,
    time: str = "time_stamp",
    unknown: Literal["ignore", "error"] = "ignore",
) -> VerdictArray:
    """Implement `Monitor.feed`."""
    if unknown not in ("ignore", "error"):
        raise MtlmonError(f"unknown is 'ignore' or 'error', not {unknown!r}")
    is_strict = unknown == "error"
    if letters is None:
        if not any(hasattr(time_stamps, name) for name in _ARROW_METHODS):
            raise EventTypeError("letters are missing; only an Arrow table has all in one argument")
        if atoms is not None:
            raise EventTypeError("the columns of a table have names: give no atoms")
        return _fed(monitor, columns_of_table(monitor.atoms, time_stamps, time, is_strict))
    return _fed(monitor, [event_columns(monitor.atoms, time_stamps, letters, atoms, is_strict)])


def _fed(monitor: Monitor, batches: list[EventColumns]) -> VerdictArray:
    try:
        return VerdictArray(np.frombuffer(feed_columns(monitor, batches), verdict_type()))
    except BaseException as error:
        if hasattr(error, "records"):
            records = error.records
            del error.records
            # the events can come from any code, which may raise any exception
            error.verdicts = VerdictArray(  # type: ignore[attr-defined]
                np.frombuffer(records, verdict_type())
            )
        raise


def event_columns(
    formula_atoms: tuple[str, ...],
    time_stamps: object,
    letters: object,
    atoms: Sequence[str] | None,
    is_strict: bool,
) -> EventColumns:
    """Convert time-stamps and letters, as `Monitor.feed` takes them, to columns of events.

    Args:
        is_strict: whether columns and bits that the formula does not name are an error.

    Raises:
        EventTypeError, EventError, TimeStampError: anything is wrong except for decreasing
            time-stamps, which are not checked here.
    """
    times = _time_stamps(time_stamps)
    columns = EventColumns(times, len(times))
    if isinstance(letters, Mapping):
        if atoms is not None:
            raise EventTypeError("the columns of a dictionary have names: give no atoms")
        places_of(formula_atoms, list(letters), is_strict)
        for number, name in enumerate(formula_atoms):
            columns.add_bytes(number, _booleans(letters[name], f"column {name!r}", len(times)))
        return columns
    array = _array(letters, "letters", np.uint64)
    names = formula_atoms if atoms is None else _names(atoms)
    place_of = places_of(formula_atoms, names, is_strict)
    if array.dtype == np.bool_ and array.ndim == 2:
        if array.shape != (len(times), len(names)):
            raise EventError(
                f"a matrix of shape {array.shape} for {len(times)} time-stamps and "
                f"{len(names)} atoms ({listed(names)})"
            )
        for number, place in enumerate(place_of):
            columns.add_bytes(number, array[:, place].view(np.uint8))
        return columns
    masks = _masks(array, len(times))
    if len(names) > 64:
        raise EventError(f"integers have 64 bits for {len(names)} atoms: use a Boolean matrix")
    if is_strict:
        _refuse_unknown_bits(masks, names)
    if place_of == list(range(len(place_of))):
        columns.add_letters(len(formula_atoms), masks)
    else:
        for number, place in enumerate(place_of):
            columns.add_bit_of_masks(number, masks, place)
    return columns


def _array(values: object, what: str, type_of_nothing: type[np.generic]) -> NDArray[Any]:
    if isinstance(values, (list, tuple)) and not values:
        # An empty list has no information about its type.
        return np.empty(0, type_of_nothing)
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise EventTypeError(f"{what} are not an array: {error}") from error


def _time_stamps(values: object) -> NDArray[np.int64]:
    array = _array(values, "time-stamps", np.int64)
    if array.ndim != 1:
        raise EventError(f"time-stamps are an array of one dimension, not {array.ndim}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        index = int(np.isnan(array).argmax())
        raise EventTypeError(
            f"time-stamps are integers, not {array.dtype}; that at index {index} is NaN",
            index=index,
        )
    if array.dtype.kind not in "iu":
        raise EventTypeError(f"time-stamps are integers, not {array.dtype}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        # Values that are too large become negative; the error shows the original number.
        too_large = array > np.uint64(2**63 - 1)
        if too_large.any():
            index = int(too_large.argmax())
            raise TimeStampError(
                f"time-stamp {array[index]} at index {index} is not between 0 and 2^63-1",
                index=index,
            )
    return array.astype(np.int64, copy=False)


def _booleans(values: object, what: str, count: int) -> NDArray[np.uint8]:
    array = _array(values, what, np.bool_)
    if array.dtype != np.bool_ or array.ndim != 1:
        raise EventTypeError(
            f"{what} is a Boolean array of one dimension, not one of {array.dtype} "
            f"and shape {array.shape}"
        )
    if len(array) != count:
        raise EventError(f"{what} has length {len(array)} for {count} time-stamps")
    return array.view(np.uint8)


def _masks(array: NDArray[Any], count: int) -> NDArray[np.uint64]:
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise EventTypeError(
            "letters are a Boolean matrix, one-dimensional integers of bits, or a dictionary of "
            f"Boolean columns, not an array of {array.dtype} and shape {array.shape}"
        )
    if len(array) != count:
        raise EventError(f"{len(array)} letters for {count} time-stamps")
    if array.dtype.kind == "i" and (array < 0).any():
        index = int((array < 0).argmax())
        raise EventError(f"letter {array[index]} at index {index} is negative", index=index)
    return array.astype(np.uint64, copy=False)


def _names(atoms: Sequence[str]) -> tuple[str, ...]:
    if isinstance(atoms, str) or not all(isinstance(name, str) for name in atoms):
        raise EventTypeError("atoms are a sequence of names")
    return tuple(atoms)


def _refuse_unknown_bits(masks: NDArray[np.uint64], names: Sequence[str]) -> None:
    if len(names) == 64:
        return
    is_unknown = (masks >> np.uint64(len(names))) != 0
    if is_unknown.any():
        index = int(is_unknown.argmax())
        raise EventError(
            f"letter {masks[index]} at index {index} has bits beyond the {len(names)} atoms; "
            "unknown='ignore' passes over them",
            index=index,
        )
