"""The names of time-points among those of their key, where events may come late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.relational.cells import number_text
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.sources import EventBatch
    from mtlmon.relational.correcting.points import ChangedAnswer, NameListener
    from mtlmon.relational.plan import Plan

__all__ = ["LateKeyPoints"]

_Key = tuple[str, ...]


class _Named(NamedTuple):
    """A time-point in the trace of a key: the key, and the offset there."""

    key: _Key
    offset: int


class LateKeyPoints:
    """Names time-points among those of their key, as these come: the next free offset is theirs.

    A `PointHistory` tells which names they get in the log.

    Args:
        made: the plan of the policies.
        partitions: for each policy the partition of its key; None for one without a key.
        tables: the keys of each partition of the log, by number.
        listener: is told what the history tells, too; None if nobody asks.
    """

    def __init__(
        self,
        made: Plan,
        partitions: Sequence[int | None],
        tables: Sequence[KeyTable | None],
        listener: NameListener | None = None,
    ) -> None:
        self._made = made
        self._of_policies = list(partitions)
        self._used = sorted({one for one in partitions if one is not None})
        self._tables = tables
        self._listener = listener
        # the keys of the rows that have no names yet, by their numbers
        self._waiting: dict[int, list[_Key]] = {}
        self._next: list[list[_Key]] = []
        # for each name in the log, that in the trace of each key
        self._names: dict[tuple[int, int], list[_Named]] = {}
        self._counts: dict[tuple[int, int, _Key], int] = {}

    def note(self, batch: EventBatch) -> None:
        """Take the keys of the next events."""
        columns = []
        for partition in self._used:
            numbers, table = batch.numbers_of(partition), self._tables[partition]
            assert numbers is not None
            assert table is not None
            known = {number: tuple(table.key(number)) for number in np.unique(numbers).tolist()}
            columns.append([known[number] for number in numbers.tolist()])
        self._next = [list(keys) for keys in zip(*columns, strict=True)]

    # ---- what the history tells ------------------------------------------------------------

    def come(self, numbers: NDArray[np.uint64]) -> None:
        """Take the numbers of the next rows."""
        self._waiting |= dict(zip(numbers.tolist(), self._next, strict=True))
        if self._listener is not None:
            self._listener.come(numbers)

    def named(self, placed: NDArray[np.void]) -> None:
        """Take events that have their names now."""
        names = zip(
            placed["number"].tolist(),
            placed["time_stamp"].tolist(),
            placed["offset"].tolist(),
            strict=True,
        )
        for number, time_stamp, offset in names:
            own = []
            for place, key in enumerate(self._waiting[number]):
                count = self._counts.get((time_stamp, place, key), 0)
                self._counts[time_stamp, place, key] = count + 1
                own.append(_Named(key, count))
            self._names[time_stamp, offset] = own
        if self._listener is not None:
            self._listener.named(placed)

    def keep(self, numbers: NDArray[np.uint64]) -> None:
        """Forget rows without names, but those with some numbers."""
        self._waiting = {one: self._waiting[one] for one in numbers.tolist()}
        if self._listener is not None:
            self._listener.keep(numbers)

    # ---- names of answers ------------------------------------------------------------------

    def renamed(self, changes: Iterable[ChangedAnswer]) -> list[ChangedAnswer]:
        """Return answers with the names of time-points among those of the policy's key."""
        found = []
        for one in changes:
            partition = self._of_policies[one.policy]
            if partition is None:
                found.append(one)
                continue
            key, offset = self._names[one.time_stamp, one.offset][self._used.index(partition)]
            answer = one._replace(offset=offset)
            if one.kind == HOLDS:
                width = len(self._made.named_policies[one.policy].variables)
                cells = [number_text(self._made.texts, text) for text in key]
                cells += [0] * (width - len(cells))
                answer = answer._replace(kind=HOLDS_FOR, cells=tuple(cells))
            found.append(answer)
        return found

    def forget(self, final_below: int) -> None:
        """Forget names below a time, if there may be many."""
        if self._names and min(self._names)[0] < final_below:
            self._names = {name: own for name, own in self._names.items() if name[0] >= final_below}
            self._counts = {
                name: count for name, count in self._counts.items() if name[0] >= final_below
            }

    @property
    def held_bytes(self) -> int:
        """The number of bytes that names take, about."""
        return 300 * (len(self._names) + len(self._waiting))

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        parts = [
            list(self._waiting.items()),
            list(self._names.items()),
            list(self._counts.items()),
        ]
        return json.dumps(parts).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            waiting, names, counts = json.loads(snapshot)
            self._waiting = {number: list(map(tuple, keys)) for number, keys in waiting}
            self._names = {
                (time_stamp, offset): [_Named(tuple(key), count) for key, count in own]
                for (time_stamp, offset), own in names
            }
            self._counts = {
                (time_stamp, place, tuple(key)): count for (time_stamp, place, key), count in counts
            }
        except (ValueError, TypeError):
            raise damaged() from None
