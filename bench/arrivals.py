"""The order in which rows come when some of them are late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    Integers = np.ndarray[Any, np.dtype[np.int64]]

WAYS = ("uniform", "bursts")
"""*uniform*: each row is late by a time of its own. *bursts*: as when one of two machines holds its
rows back for some time and then writes them all."""


def arrivals(stamps: Integers, share: float, delay: int, way: str, seed: int) -> Integers:
    """Return the numbers of rows in the order in which they come.

    Args:
        stamps: the times of the rows, in order.
        share: how many of the rows are late.
        delay: by how much at most, in the unit of the times.
        way: one of `WAYS`.
        seed: of the random numbers.
    """
    source = np.random.default_rng(seed)
    come = stamps.copy()
    if way == "bursts" and share:
        # Half of the rows of such a time are late.
        period = max(1, round(delay / (2 * share)))
        within = stamps % period
        is_late = (within < delay) & (np.arange(len(stamps)) % 2 == 1)
        come[is_late] += delay - within[is_late]
    elif share:
        is_late = source.random(len(stamps)) < share
        come[is_late] += source.integers(1, delay, int(is_late.sum()))
    return np.argsort(come, kind="stable")
