"""Numbers for what events are, so that one can be found by what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from mtlmon.history.following import LeadingHistory

__all__ = ["Contents"]

# So many contents more than twice those that were left make it worth looking for old ones.
_SPARE_CONTENTS = 4096


class Contents:
    """Numbers for what events are, which equal events share."""

    def __init__(self) -> None:
        self._next = 0
        # for each content its number, its trace, and how late it was when it came last
        self._known: dict[str, tuple[int, int, int]] = {}
        self._swept = 0

    def parts(self) -> tuple[int, dict[str, tuple[int, int, int]], int]:
        """Return what `restore` needs."""
        return self._next, self._known, self._swept

    def restore(self, parts: Sequence[Any]) -> None:
        """Go on from what `parts` has returned.

        Raises:
            SnapshotError, ValueError, TypeError, AttributeError: it is something else.
        """
        self._next, known, self._swept = parts
        self._known = {key: (number, trace, time) for key, (number, trace, time) in known.items()}
        every = [self._next, self._swept, *(one for some in self._known.values() for one in some)]
        if not all(type(one) is int and 0 <= one < 1 << 63 for one in every):
            raise damaged()

    def new(self, count: int) -> NDArray[np.uint64]:
        """Return numbers that no other rows have."""
        self._next += count
        return np.arange(self._next - count, self._next, dtype=np.uint64)

    def numbers_of(
        self, texts: Iterable[str], traces: NDArray[np.uint32], time_stamps: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Return numbers for rows; those of equal rows of a trace and time-stamp are equal.

        Args:
            texts: for each row, a text of what is in it.
            traces: their traces.
            time_stamps: their time-stamps.
        """
        found = np.empty(len(time_stamps), np.uint64)
        names = zip(traces.tolist(), time_stamps.tolist(), strict=True)
        for place, ((trace, time_stamp), text) in enumerate(zip(names, texts, strict=True)):
            key = f"{trace} {time_stamp} {text}"
            known = self._known.get(key)
            number = int(self.new(1)[0]) if known is None else known[0]
            self._known[key] = number, trace, time_stamp
            found[place] = number
        return found

    def forget(self, leader: LeadingHistory, age: int) -> None:
        """Forget the contents of events that are older than so much, if there may be many."""
        if len(self._known) <= 2 * self._swept + _SPARE_CONTENTS:
            return
        self._known = {
            key: (number, trace, time_stamp)
            for key, (number, trace, time_stamp) in self._known.items()
            if (leader.now(trace) or 0) - time_stamp <= age
        }
        self._swept = len(self._known)
