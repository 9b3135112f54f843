"""Finds integers that floats do not tell apart from the next ones, in columns that are floats."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MOST_EXACT", "has_long_floats", "long_integers"]

MOST_EXACT = 2**53
"""The largest integer up to which floats are all integers."""

_LONG_INTEGER = r"^[-+]?[0-9]{16,}[.,]?0*$"


def has_long_floats(numbers: pa.ChunkedArray) -> bool:
    """Whether numbers are beyond those whose whole neighbours floats tell apart."""
    ends = pc.min_max(numbers)
    found = [one.as_py() for one in (ends["min"], ends["max"])]
    return any(one is not None and not -MOST_EXACT <= one <= MOST_EXACT for one in found)


def long_integers(texts: pa.ChunkedArray) -> dict[int, str]:
    """Return the texts, by their places, that are integers which no float is."""
    trimmed = pc.utf8_trim_whitespace(texts)
    places = pc.indices_nonzero(pc.match_substring_regex(trimmed, _LONG_INTEGER).fill_null(False))
    found = zip(places.to_pylist(), trimmed.take(places).to_pylist(), strict=True)
    return {place: text for place, text in found if (number := _integer(text)) != float(number)}


def _integer(text: str) -> int:
    return int(text.replace(",", ".").partition(".")[0])
