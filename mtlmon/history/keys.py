"""The numbers of keys: any hashable values, in the order of their first events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

__all__ = ["KeyNumbers", "OwnNumbers"]

_MOST_SMALL = 1 << 20
"""Integers below this are looked up in an array."""
_UNKNOWN = np.uint32(0xFFFFFFFF)


class KeyNumbers:
    """Keys, and the number of each."""

    def __init__(self, keys: Sequence[Hashable] = ()) -> None:
        self._keys: list[Hashable] = []
        self._numbers: dict[Hashable, int] = {}
        self._small = np.empty(0, np.uint32)
        for key in keys:
            self.number_of(key)

    @property
    def keys(self) -> Sequence[Hashable]:
        """The keys by number."""
        return self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def known(self, key: Hashable) -> int:
        """Return the number of a key.

        Raises:
            KeyError: there has been no event of this key.
        """
        return self._numbers[key]

    def number_of(self, key: Hashable) -> int:
        """Return the number of a key, the next one if it is new."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def numbers_of(self, keys: Sequence[Hashable] | NDArray[Any]) -> NDArray[np.uint32]:
        """Return the numbers of keys, new ones in the order in which they come."""
        if isinstance(keys, np.ndarray) and keys.ndim == 1:
            if keys.dtype.kind in "iu" and len(keys):
                least, most = int(keys.min()), int(keys.max())
                if least >= 0 and most < _MOST_SMALL:
                    return self._numbers_of_small(keys, most)
            return self._looked_up(keys.tolist())
        return self._looked_up(list(keys))

    def _numbers_of_small(self, keys: NDArray[Any], most: int) -> NDArray[np.uint32]:
        # PERF: an array takes 4 ns a key; a dictionary 60 ns with a thousand keys, and 330 ns with
        # a hundred thousand.
        if most >= len(self._small):
            grown = np.full(min(2 * most + 1, _MOST_SMALL), _UNKNOWN, np.uint32)
            grown[: len(self._small)] = self._small
            self._small = grown
        numbers: NDArray[np.uint32] = self._small[keys]
        unknown = np.flatnonzero(numbers == _UNKNOWN)
        if len(unknown):
            found = self._looked_up(keys[unknown].tolist())
            self._small[keys[unknown]] = numbers[unknown] = found
        return numbers

    def _looked_up(self, keys: Sequence[Hashable]) -> NDArray[np.uint32]:
        # PERF: a look-up for each event takes half as long as `np.unique` and one for each key
        found = list(map(self._numbers.get, keys))
        if None not in found:
            return np.array(found, np.uint32)
        return np.fromiter(map(self.number_of, keys), np.uint32, len(keys))


class OwnNumbers(KeyNumbers):
    """Keys that are numbers already, those below the largest so far."""

    def __init__(self, keys: Sequence[Hashable] = ()) -> None:
        self._count = len(keys)

    @property
    def keys(self) -> Sequence[Hashable]:
        return range(self._count)

    def __len__(self) -> int:
        return self._count

    def known(self, key: Hashable) -> int:
        if not isinstance(key, int) or not 0 <= key < self._count:
            raise KeyError(key)
        return key

    def number_of(self, key: Hashable) -> int:
        return int(self.numbers_of([key])[0])

    def numbers_of(self, keys: Sequence[Hashable] | NDArray[Any]) -> NDArray[np.uint32]:
        numbers = np.ascontiguousarray(keys, np.uint32)
        if len(numbers):
            self._count = max(self._count, int(numbers.max()) + 1)
        return numbers
