"""The names of time-points among those of their key, where events may come late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.relational.cells import number_text
from mtlmon.relational.key_names import read_key
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.support.snapshot_parts import damaged, sized, take_sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.sources import EventBatch
    from mtlmon.relational.correcting.points import ChangedAnswer, NameListener
    from mtlmon.relational.key_names import Key, KeyNames
    from mtlmon.relational.plan import Plan

__all__ = ["LateKeyPoints", "keys_of_rows"]

_WAITING_BYTES = 300


def keys_of_rows(
    batch: EventBatch, partitions: Sequence[int], tables: Sequence[KeyTable | None]
) -> Sequence[tuple[Key, ...]]:
    """Return the keys of each row of a batch, in some partitions of the log.

    Args:
        batch: the rows.
        partitions: the partitions.
        tables: the keys of each partition, by number.
    """
    columns = []
    for partition in partitions:
        numbers, table = batch.numbers_of(partition), tables[partition]
        assert numbers is not None
        assert table is not None
        # PERF: rows of a key have the same object
        known = {number: (table.key(number),) for number in np.unique(numbers).tolist()}
        columns.append([known[number] for number in numbers.tolist()])
    if len(columns) == 1:
        return columns[0]
    return [tuple(key for (key,) in row) for row in zip(*columns, strict=True)]


class LateKeyPoints:
    """Names time-points among those of their key, as these come: the next free offset is theirs.

    A `PointHistory` tells which names they get in the log.

    Args:
        made: the plan of the policies.
        names: gives the names. If keys come with batches, it tells them apart by the partitions of
            the log.
        tables: the keys of each partition, by number; None if keys do not come with batches.
        listener: is told what the history tells, too; None if nobody asks.

    Attributes:
        names: as given.
        next: the keys of the next events, which have not come yet or came last.
    """

    def __init__(
        self,
        made: Plan,
        names: KeyNames[Any],
        tables: Sequence[KeyTable | None] | None = None,
        listener: NameListener | None = None,
    ) -> None:
        self._made = made
        self.names = names
        self._tables = tables
        self._listener = listener
        # the keys of the rows that have no names yet, by their numbers
        self._waiting: dict[int, Sequence[Key]] = {}
        self.next: Sequence[Sequence[Key]] = ()

    def note(self, batch: EventBatch) -> None:
        """Take the keys of the next events, which are a batch."""
        assert self._tables is not None
        self.take(keys_of_rows(batch, self.names.used, self._tables))

    def take(self, keys: Sequence[Sequence[Key]]) -> None:
        """Take the keys of the next events."""
        self.next = keys

    # ---- what the history tells ------------------------------------------------------------

    def come(self, numbers: NDArray[np.uint64]) -> None:
        """Take the numbers of the next rows."""
        self._waiting |= dict(zip(numbers.tolist(), self.next, strict=True))
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
            keys = self._waiting.get(number)
            if not keys:
                # it is behind a forged snapshot
                raise damaged()
            self.names.add(time_stamp, offset, keys)
        if self._listener is not None:
            self._listener.named(placed)

    def keep(self, numbers: NDArray[np.uint64]) -> None:
        """Forget rows without names, but those with some numbers."""
        self._waiting = {one: self._waiting.get(one, ()) for one in numbers.tolist()}
        if self._listener is not None:
            self._listener.keep(numbers)

    # ---- names of answers ------------------------------------------------------------------

    def renamed(self, changes: Iterable[ChangedAnswer]) -> list[ChangedAnswer]:
        """Return answers with the names of time-points among those of the policy's key."""
        found = []
        for one in changes:
            keys = self.names.at(one.policy, one.time_stamp, one.offset)
            if keys is None:
                found.append(one)
                continue
            policy = self._made.named_policies[one.policy]
            if len(keys) != 1 or any(len(key) != len(policy.key) for key in keys):
                # it is behind a forged snapshot
                raise damaged()
            ((key, offset),) = keys.items()
            answer = one._replace(offset=offset)
            if one.kind == HOLDS:
                width = len(policy.variables)
                cells = [number_text(self._made.texts, text) for text in key]
                cells += [0] * (width - len(cells))
                answer = answer._replace(kind=HOLDS_FOR, cells=tuple(cells))
            found.append(answer)
        return found

    def forget(self, final_below: int) -> None:
        """Forget names below a time."""
        self.names.forget(final_below)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that names take, about."""
        return self.names.held_bytes + _WAITING_BYTES * len(self._waiting)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        waiting = json.dumps(list(self._waiting.items())).encode()
        return sized(waiting) + self.names.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        waiting, names = take_sized(snapshot)
        try:
            for number, keys in json.loads(waiting):
                self._waiting[number] = [read_key(key) for key in keys]
                if len(keys) not in (0, len(self.names.used)):
                    raise damaged()
        except (ValueError, TypeError):
            raise damaged() from None
        self.names.restore(names)
