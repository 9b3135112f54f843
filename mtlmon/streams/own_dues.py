"""The ticks at which values may change, of instances that count their ticks from their beginnings.

A row makes a difference to its instance at the first tick that is not before a delay has passed:
when it enters or leaves a window. `due_ticks` does the same where all ticks are at the multiples of
a period. Here they are not in the order of rows, so those that are to come are kept as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.streams import native
    from mtlmon.streams.delays import Delays

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

_FORGOTTEN = 2**32 - 1
_LATEST = 2**63 - 1
# what a tick that is to come takes
_TICK_BYTES = 12


class OwnDues:
    """Finds the due ticks of instances; what it remembers never changes in place.

    Args:
        period: the period of the ticks.
        delays: when rows make a difference.

    Attributes:
        period: as given.
    """

    def __init__(self, period: int, delays: Delays) -> None:
        self.period = period
        self._delays = delays
        self._times: Integers = np.empty(0, np.int64)
        self._numbers: Numbers = np.empty(0, np.uint32)
        self._marked = self._times, self._numbers

    @property
    def longest_delay(self) -> int:
        """For how long a tick that a row has made due is to come at most."""
        return max(self._delays.delays) + self.period

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        times, _ = self._marked
        return _TICK_BYTES * (len(self._times) + len(times))

    def most_bytes(self, rows: int, batch: int) -> int:
        """Return the most bytes that the state takes.

        Args:
            rows: how many rows there are at most in `longest_delay`.
            batch: the most rows of a batch.
        """
        return 2 * _TICK_BYTES * len(self._delays.delays) * (rows + batch)

    def ticks(
        self, times: Integers, numbers: Numbers, limit: int, table: native.Instances
    ) -> tuple[Integers, Numbers]:
        """Find the due ticks below a time, in order, after some rows.

        Args:
            times: the times of the rows of instances.
            numbers: the numbers of the instances.
            limit: the time.
            table: the instances.
        """
        births = np.empty(len(times), np.int64)
        table.births_of(numbers, births)
        ages = times - births
        found = [self._times]
        for delay in sorted(self._delays.delays):
            # how many periods after its birth the first tick is that is not too early
            steps = np.maximum(1, -(-(ages + delay) // self.period))
            # none is behind the latest time
            is_known = steps <= (_LATEST - births) // self.period
            found.append(np.where(is_known, births + steps * self.period, _LATEST))
        owners = np.concatenate([self._numbers, np.tile(numbers, len(found) - 1)])
        due = np.concatenate(found)
        order = np.lexsort((owners, due))
        due, owners = due[order], owners[order]
        is_new = (np.diff(due, prepend=-1) != 0) | (
            np.diff(owners.astype(np.int64), prepend=-1) != 0
        )
        due, owners = due[is_new], owners[is_new]
        count = int(np.searchsorted(due, limit))
        self._times, self._numbers = due[count:].copy(), owners[count:].copy()
        return due[:count], owners[:count]

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        self._marked = self._times, self._numbers

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        self._times, self._numbers = self._marked

    def kept(self, new_numbers: bytes) -> OwnDues:
        """Return what goes on with new numbers of instances; see `native.Instances.compact`."""
        numbers = np.frombuffer(new_numbers, np.uint32)[self._numbers]
        is_kept = numbers != _FORGOTTEN
        found = self.emptied()
        found._times, found._numbers = self._times[is_kept], numbers[is_kept]
        found.begin()
        return found

    def emptied(self) -> OwnDues:
        """Return what begins before the first row."""
        return OwnDues(self.period, self._delays)

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restored`."""
        return self._times.tobytes() + self._numbers.tobytes()

    def restored(self, snapshot: bytes, instances: int) -> OwnDues:
        """Return what a snapshot remembers.

        Args:
            snapshot: the bytes.
            instances: how many instances there are.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        count, rest = divmod(len(snapshot), _TICK_BYTES)
        if rest:
            raise ValueError("not a snapshot of ticks")
        found = self.emptied()
        found._times = np.frombuffer(snapshot, np.int64, count)
        found._numbers = np.frombuffer(snapshot, np.uint32, count, 8 * count)
        if count and (
            found._times.min() < 0
            or (np.diff(found._times) < 0).any()
            or int(found._numbers.max()) >= instances
        ):
            raise ValueError("not a snapshot of ticks")
        found.begin()
        return found
