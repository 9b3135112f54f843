"""The order of rows by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["order_of"]

# The bits of integers that are not negative.
_BITS = 63
_LARGEST = 2**_BITS - 1


def order_of(times: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the rows in order of time, or None if that is their order.

    Rows of the same time stay in their order.
    """
    if (times[1:] >= times[:-1]).all():
        return None
    bits = len(times).bit_length()
    low, high = int(times.min()), int(times.max())
    if high == _LARGEST:
        # which is the end of records without end: let it be just behind the others
        high = int(times.max(where=times != _LARGEST, initial=low)) + 1
        times = np.minimum(times, high)
    if (high - low).bit_length() + bits > _BITS:
        return np.argsort(times, kind="stable")
    # PERF: numbers of times and rows together are sorted in 18 ms for a million rows, and times by
    # `argsort` in 175, or 54 without regard to the order of rows
    order = (times - low) << bits
    order |= np.arange(len(times))
    order.sort()
    order &= (1 << bits) - 1
    return order
