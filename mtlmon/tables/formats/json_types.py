"""Infer the types of the columns of JSON lines from the values of some rows."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["EXACT", "column_names", "json_rows", "most_common", "type_of"]

Seen = TypeVar("Seen")

EXACT = pa.decimal128(38, 18)
"""The type of times with a point: 20 digits before the point, and 18 after it."""

# the deepest nesting of columns in objects
_DEEPEST = 8


def json_rows(
    lines: Iterable[bytes], look_at: Callable[[dict[str, Any]], Seen]
) -> list[Seen | None]:
    """Return what is seen in each line; None if it is no object, or too deep for Python.

    Numbers with a point or an exponent are of the type `Decimal`, so no digit is lost.
    """
    seen: list[Seen | None] = []
    for line in lines:
        try:
            row = json.loads(line, parse_float=Decimal)
            seen.append(look_at(row) if isinstance(row, dict) else None)
        except (ValueError, ArithmeticError, RecursionError):
            seen.append(None)
    return seen


def column_names(row: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, object]]:
    """The columns of a row with their values; the columns of nested objects are named `a.b`."""
    for name, value in row.items():
        yield name, value
        if isinstance(value, dict) and depth < _DEEPEST:
            for rest, inner in column_names(value, depth + 1):
                yield f"{name}.{rest}", inner


def type_of(value: object) -> pa.DataType:
    """The type of a column with this value; null if the value does not determine a type."""
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
    if isinstance(value, float | Decimal):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list):
        return pa.list_(type_of(next((item for item in value if item is not None), "")))
    if isinstance(value, dict):
        return pa.struct([])
    return pa.null()


def most_common(counter: Counter[pa.DataType]) -> pa.DataType:
    """The type of most values; numbers with a point if there are any among the numbers."""
    del counter[pa.null()]
    if not counter:
        return pa.null()
    ((found, _),) = counter.most_common(1)
    if pa.types.is_integer(found):
        return next((other for other in (EXACT, pa.float64()) if other in counter), found)
    return found
