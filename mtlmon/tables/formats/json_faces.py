"""Convert the values of a column of JSON lines, of which each has a type of its own.

Uses of a column need values of one type. Those that compare values with others only need their
canonical texts, and others numbers, Booleans or times, as the expressions say before any row is
read. So what a row says depends on its own values only.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_number, canonical_texts
from mtlmon.policy.predicates.expression import FLOATS, NUMBER, ORDERED, ORDERED_FLOATS
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.numbers import LONG_INTEGER
from mtlmon.tables.columns.arrow_text import shortened
from mtlmon.tables.formats.long_integers import has_long_floats
from mtlmon.tables.formats.schemas import (
    FALSE_TEXTS,
    TRUE_TEXTS,
    first_value,
    fixed_type,
    ordered_type,
    time_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "ANY",
    "TEXT",
    "converted",
    "has_long_numbers",
    "is_direct",
    "of_values",
]

TEXT = "text"
"""Values are read as their canonical texts."""
ANY = "any"
"""Values are read as an array of any type, whose canonical texts are theirs."""

_OF_TYPE = {name: fixed_type(name) for name in ("int", "float", FLOATS, "decimal", "bool")}
_OF_TYPE[TEXT] = pa.large_string()
# Numbers of at most 15 digits, and with small exponents, are written as they were by the shortest
# decimals that are read as the same floats.
_LONG = re.compile(rb"[0-9][0-9.]{15}|[0-9.][eE][-+]?[0-9]{3}")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][-+]?[0-9]+)?")
# types of which the values say more
_BY_VALUES = frozenset({NUMBER, ORDERED, ORDERED_FLOATS})
_BLANKS = " \t"
_LEAST, _LARGEST = -(2**63), 2**63 - 1
_NOT_FINITE = "a number that is not finite"


def has_long_numbers(text: memoryview | bytes) -> bool:
    """Whether a part of a file may have numbers that floats do not tell apart."""
    return _LONG.search(text) is not None


def is_direct(found: pa.DataType, wanted: str) -> bool:
    """Whether `converted` converts all values of a type that the library of JSON has read.

    Those of floats are taken for what was written.
    """
    if pa.types.is_null(found) or wanted in {TEXT, ANY}:
        return True
    if wanted in {NUMBER, FLOATS, ORDERED, ORDERED_FLOATS, "float"}:
        return bool(pa.types.is_integer(found) or pa.types.is_floating(found))
    return bool(found == _OF_TYPE.get(wanted))


def converted(column: pa.ChunkedArray, wanted: str, known: pa.DataType) -> pa.ChunkedArray:
    """Convert the values of a type for which this is direct.

    Args:
        column: the values.
        wanted: the type to read them as.
        known: the type of the values before these, or null.

    Raises:
        pa.ArrowInvalid: values must be converted one by one.
    """
    kind = column.type
    if wanted in {ORDERED, ORDERED_FLOATS} and _ordered_as(known) == TEXT:
        wanted = TEXT
    if wanted == ORDERED_FLOATS and not pa.types.is_null(kind):
        wanted = FLOATS
    if pa.types.is_nested(kind) or (wanted == ANY and not pa.types.is_large_string(known)):
        # objects are refused later, unless it only matters whether there is one
        return column
    if wanted in {TEXT, ANY}:
        chunks = [canonical_texts(chunk).cast(pa.large_string()) for chunk in column.chunks]
        return pa.chunked_array(chunks, pa.large_string())
    if pa.types.is_null(kind):
        return column.cast(known if wanted in _BY_VALUES else _OF_TYPE.get(wanted, known))
    if wanted == FLOATS and has_long_floats(column):
        raise pa.ArrowInvalid("there are integers that floats do not tell apart")
    if wanted in {FLOATS, "float"} or (wanted in {NUMBER, ORDERED} and pa.types.is_floating(known)):
        # numbers above 2^53 become the nearest floats
        return column if pa.types.is_floating(kind) else pc.cast(column, pa.float64(), safe=False)
    return column


def of_values(
    values: Sequence[Any], wanted: str, known: pa.DataType
) -> tuple[pa.Array, dict[int, str]]:
    """Convert values of several types.

    Args:
        values: as they are in `json_rows`.
        wanted: the type to read them as.
        known: the type of the values before these, or null.

    Returns:
        The values, and by the place of each that has no such value, where it is null, why.
    """
    if wanted in {ORDERED, ORDERED_FLOATS}:
        first = first_value(values)
        if first is None and pa.types.is_null(known):
            # later rows say the type
            return pa.nulls(len(values)), {
                place: f"{_words(value)} instead of a text or a number"
                for place, value in enumerate(values)
                if isinstance(value, list | dict)
            }
        found_type = ordered_type(first) if pa.types.is_null(known) else _ordered_as(known)
        is_float = wanted == ORDERED_FLOATS and found_type == NUMBER
        wanted = FLOATS if is_float else found_type
    if wanted == "time":
        return _times(values, known)
    convert = _CONVERSIONS[TEXT if wanted == ANY else wanted]
    found: list[Any] = []
    faults: dict[int, str] = {}
    for place, value in enumerate(values):
        try:
            found.append(None if value is None else convert(value))
        except ValueError as error:
            found.append(None)
            faults[place] = str(error)
    if wanted == NUMBER:
        kind = pa.int64()
        if pa.types.is_floating(known) or any(isinstance(one, float) for one in found):
            kind = pa.float64()
            found = [None if one is None else float(one) for one in found]
        return pa.array(found, kind), faults
    return pa.array(found, _OF_TYPE[TEXT if wanted == ANY else wanted]), faults


def _ordered_as(known: pa.DataType) -> str:
    """What the values of a column are read as of which only the order is used, by earlier ones."""
    if pa.types.is_temporal(known):
        return "time"
    return TEXT if pa.types.is_large_string(known) else NUMBER


def _text(value: Any) -> str:
    if isinstance(value, str):
        # the library refuses half a surrogate pair, too
        value.encode()
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return canonical_number(value)
    raise ValueError(f"{_words(value)} instead of a text or a number")


def _number(value: Any) -> int | float:
    found = _exact(value)
    if isinstance(found, int) and _LEAST <= found <= _LARGEST:
        return found
    return _float(found)


def _float(value: Any) -> float:
    found = _exact(value)
    try:
        number = float(found)
    except OverflowError:
        number = np.inf
    if number - number != 0 and not isinstance(found, float):
        raise ValueError(f"{_shown(value)} is beyond all floats")
    return number


def _exact_float(value: Any) -> float:
    found, number = _exact(value), _float(value)
    # in digits, not as 1e300
    is_written_out = isinstance(found, int) or (
        isinstance(found, Decimal)
        and int(found.as_tuple().exponent) <= 0
        and found == found.to_integral_value()
    )
    if is_written_out and number != found:
        raise ValueError(LONG_INTEGER.format(_shown(value)))
    return number


def _integer(value: Any) -> int:
    found = _exact(value)
    if isinstance(found, float):
        raise ValueError(_NOT_FINITE)
    if not _LEAST <= found <= _LARGEST:
        raise ValueError(f"{_shown(value)} does not fit 64 bits")
    if found != int(found):
        raise ValueError(f"{_shown(value)} is not an integer")
    return int(found)


def _decimal(value: Any) -> Decimal:
    found = _exact(value)
    if isinstance(found, float):
        raise ValueError(_NOT_FINITE)
    try:
        pa.scalar(Decimal(found), _OF_TYPE["decimal"])
    except pa.ArrowInvalid:
        raise ValueError(
            f"{_shown(value)} has more than 28 digits before the point, or 10 behind it"
        ) from None
    return Decimal(found)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = _text(value).strip(_BLANKS)
    if text in TRUE_TEXTS or text in FALSE_TEXTS:
        return text in TRUE_TEXTS
    raise ValueError(f"{_shown(value)} is neither true nor false")


def _exact(value: Any) -> int | float | Decimal:
    """The number that a value is, which is a float only if it is not finite."""
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        if _INTEGER.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return Decimal(text)
    elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    raise ValueError(f"{_words(value)} instead of a number")


def _empty_is_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: (
        None if isinstance(value, str) and not value.strip(_BLANKS) else convert(value)
    )


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    TEXT: _text,
    NUMBER: _empty_is_null(_number),
    "float": _empty_is_null(_float),
    FLOATS: _empty_is_null(_exact_float),
    "int": _empty_is_null(_integer),
    "decimal": _empty_is_null(_decimal),
    "bool": _empty_is_null(_boolean),
}


def _times(values: Sequence[Any], known: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Read texts as times: as the first one is written, with an offset or without."""
    texts = [one.strip(_BLANKS) or None if isinstance(one, str) else None for one in values]
    faults = {
        place: f"{_words(value)} instead of a time"
        for place, value in enumerate(values)
        if value is not None and not isinstance(value, str)
    }
    kind = known
    if pa.types.is_null(known):
        first = next((one for one in texts if one is not None and read_instant(one)), None)
        if first is None:
            bad = {k: _shown(one) for k, one in enumerate(values) if texts[k] is not None}
            faults |= {place: f"{shown} is not a time of ISO 8601" for place, shown in bad.items()}
            return pa.nulls(len(values)), faults
        kind = time_type(first)
        if pa.types.is_date(kind):
            kind = pa.timestamp("us")
    try:
        return pa.array(texts, pa.string()).cast(kind), faults
    except pa.ArrowInvalid:
        pass
    found: list[int | None] = []
    for place, text in enumerate(texts):
        try:
            found.append(pa.scalar(text, pa.string()).cast(kind).value)
        except pa.ArrowInvalid:
            found.append(None)
            offset = "a time with an offset" if kind.tz else "a time of ISO 8601 without an offset"
            faults[place] = f"{_shown(values[place])} is not {offset}"
    return pa.array(found, pa.int64()).view(kind), faults


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return f"the text {_shown(value)}"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else f"the number {_shown(value)}"


def _shown(value: Any) -> str:
    return shortened(repr(value) if isinstance(value, str) else str(value))
