"""Finds integers that floats do not tell apart from the next ones, in columns that are floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.policy.predicates.numbers import inexact_integers
from mtlmon.policy.predicates.printer import column_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["MOST_EXACT", "RoundedIntegers", "has_long_floats", "long_integers"]

MOST_EXACT = 2**53
"""The largest integer up to which floats are all integers."""

_LONG_INTEGER = r"^[-+]?[0-9]{16,}[.,]?0*$"
# In so many blocks, texts of large floats are looked at.
_MOST_BLOCKS = 64


def has_long_floats(numbers: pa.ChunkedArray) -> bool:
    """Whether some numbers are as large as integers that floats do not tell apart."""
    ends = pc.min_max(numbers)
    found = [one.as_py() for one in (ends["min"], ends["max"])]
    return any(one is not None and not -MOST_EXACT < one < MOST_EXACT for one in found)


def long_integers(texts: pa.ChunkedArray) -> dict[int, str]:
    """Return the texts, by their places, that are integers which no float is."""
    trimmed = pc.utf8_trim_whitespace(texts)
    places = pc.indices_nonzero(pc.match_substring_regex(trimmed, _LONG_INTEGER).fill_null(False))
    found = zip(places.to_pylist(), trimmed.take(places).to_pylist(), strict=True)
    return {place: text for place, text in found if (number := _integer(text)) != float(number)}


def _integer(text: str) -> int:
    return int(text.replace(",", ".").partition(".")[0])


class RoundedIntegers:
    """Notices columns in which integers become floats, as other numbers have a point."""

    def __init__(self) -> None:
        # the columns with floats, and for each column an integer that no float is
        self._floats: set[str] = set()
        self._long: dict[str, str] = {}
        self._blocks_left = _MOST_BLOCKS

    def note(
        self, name: str, numbers: pa.ChunkedArray, texts: Callable[[], pa.ChunkedArray]
    ) -> None:
        """Look at the next values of a column that is read as numbers.

        Args:
            name: the column.
            numbers: the values.
            texts: returns these as they are written.
        """
        is_integer = pa.types.is_integer(numbers.type)
        if not is_integer:
            if not pa.types.is_floating(numbers.type):
                return
            self._floats.add(name)
        if name in self._long or not has_long_floats(numbers):
            return
        if is_integer:
            for chunk in numbers.chunks:
                for one in chunk.filter(inexact_integers(chunk)).slice(0, 1):
                    self._long[name] = str(one)
        elif self._blocks_left:
            self._blocks_left -= 1
            for text in long_integers(texts()).values():
                self._long[name] = text
                break

    def state(self) -> list[object]:
        """Return what has been noticed, for `restore`, as JSON can write it."""
        return [sorted(self._floats), dict(self._long), self._blocks_left]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        floats, self._long, self._blocks_left = state
        self._floats = set(floats)

    def remarks(self) -> Iterator[str]:
        """Yield a sentence for each column with such integers."""
        for name, text in self._long.items():
            if name in self._floats:
                yield (
                    f"column {name}: numbers have a point in some rows, so integers such as "
                    f"{text} were rounded to floats, and different ones may be equal; to keep all "
                    f"digits, write in the policy file: column {column_text(name)}: decimal"
                )
