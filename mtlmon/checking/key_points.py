"""The names that time-points of policies with variables have among those of their key."""

from __future__ import annotations

import json
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.relational.cells import number_text
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.support.snapshot_parts import damaged, sized, take_sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.sources import EventBatch
    from mtlmon.relational.key_names import Key
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan

__all__ = ["KeyPoints", "keys_of_rows"]


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


class _Counts:
    """Counts the rows of each key at its last time-stamp."""

    def __init__(self) -> None:
        self.stamps = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.uint64)

    def offsets(self, numbers: NDArray[np.uint32], stamps: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return how many rows of the same key and time-stamp come before each of the next rows."""
        most = int(numbers.max()) + 1
        if most > len(self.stamps):
            room = max(most, 2 * len(self.stamps))
            more = room - len(self.stamps)
            self.stamps = np.concatenate([self.stamps, np.full(more, -1, np.int64)])
            self.counts = np.concatenate([self.counts, np.zeros(more, np.uint64)])
        order = np.argsort(numbers, kind="stable")
        own, times = numbers[order], stamps[order]
        is_first = np.ones(len(own), np.bool_)
        is_first[1:] = (own[1:] != own[:-1]) | (times[1:] != times[:-1])
        firsts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(firsts, len(own)))
        begin = np.where(
            self.stamps[own[firsts]] == times[firsts], self.counts[own[firsts]], np.uint64(0)
        )
        within = np.arange(len(own), dtype=np.uint64) - np.repeat(firsts, lengths).astype(np.uint64)
        found = np.empty(len(own), np.uint64)
        found[order] = np.repeat(begin, lengths) + within
        # of the groups of a key, the last one counts
        self.stamps[own[firsts]] = times[firsts]
        self.counts[own[firsts]] = begin + lengths.astype(np.uint64)
        return found


class _Chunk(NamedTuple):
    """What is known of the rows of a batch.

    Attributes:
        points: the number of the time-point of each.
        numbers: for each partition, the number of its key.
        offsets: for each partition, its offset among the time-points of the key.
    """

    points: NDArray[np.int64]
    numbers: list[NDArray[np.uint32]]
    offsets: list[NDArray[np.uint64]]


class KeyPoints:
    """Gives answers of policies with a key the names that time-points have in the trace of the key.

    Args:
        made: the plan of the policies.
        partitions: for each policy the partition of its key; None for one without a key.
        tables: the keys of each partition of the log by number, which are known once rows are.
        of_atoms: for each atom of policies with a key, by its name, the partition of that.
        by_stamp: whether all rows of one time-stamp are one time-point, instead of each row.
    """

    def __init__(
        self,
        made: Plan,
        partitions: Sequence[int | None],
        tables: Sequence[KeyTable | None],
        of_atoms: Mapping[str, int],
        *,
        by_stamp: bool = False,
    ) -> None:
        self._of_atoms = of_atoms
        self._made = made
        self._of_policies = list(partitions)
        self._used = sorted({one for one in partitions if one is not None})
        self._tables = tables
        self._by_stamp = by_stamp
        self._counts = [_Counts() for _ in self._used]
        self._chunks: deque[_Chunk] = deque()
        self._count = 0
        self._last: int | None = None

    @property
    def held_bytes(self) -> int:
        """The number of bytes that time-points take."""
        held = 0
        for one in self._chunks:
            held += one.points.nbytes + sum(array.nbytes for array in one.numbers)
            held += sum(array.nbytes for array in one.offsets)
        return held + sum(one.stamps.nbytes + one.counts.nbytes for one in self._counts)

    def note(self, batch: EventBatch) -> None:
        """Take the next rows of the log."""
        if not len(batch.time_stamps):
            return
        stamps = np.asarray(batch.time_stamps, np.int64)
        is_first = np.ones(len(stamps), np.bool_)
        if self._by_stamp:
            before = stamps[0] - 1 if self._last is None else self._last
            is_first = np.diff(stamps, prepend=np.int64(before)) != 0
            self._last = int(stamps[-1])
        points = self._count - 1 + np.cumsum(is_first)
        self._count = int(points[-1]) + 1
        numbers, offsets = [], []
        for counts, partition in zip(self._counts, self._used, strict=True):
            own = batch.numbers_of(partition)
            assert own is not None
            numbers.append(np.array(own, np.uint32))
            if not self._by_stamp:
                offsets.append(counts.offsets(numbers[-1], stamps))
        self._chunks.append(_Chunk(points, numbers, offsets))

    def forget(self, count: int) -> None:
        """Declare that nobody asks about the first `count` time-points of the log any more."""
        while self._chunks and int(self._chunks[0].points[-1]) < count:
            self._chunks.popleft()

    def name(self, answers: AnswerBlock, *, has_holding: bool) -> None:
        """Let answers have the names of time-points of keys.

        Args:
            answers: the answers.
            has_holding: whether the time-points are wanted that nothing violates.
        """
        if not len(answers):
            return
        if not self._by_stamp:
            self._set_offsets(answers)
        if has_holding:
            self._hold(answers)

    def _set_offsets(self, answers: AnswerBlock) -> None:
        policies, _, offsets, _ = answers.heads()
        found = np.frombuffer(offsets, np.uint64).copy()
        numbers = np.frombuffer(answers.points(), np.uint64).astype(np.int64)
        places = np.array(
            [-1 if one is None else self._used.index(one) for one in self._of_policies], np.int64
        )[np.frombuffer(policies, np.uint32)]
        firsts = np.array([one.points[0] for one in self._chunks], np.int64)
        chunks = np.searchsorted(firsts, numbers, "right") - 1
        for number in np.unique(chunks).tolist():
            chunk = self._chunks[number]
            for place, own in enumerate(chunk.offsets):
                chosen = np.flatnonzero((chunks == number) & (places == place))
                found[chosen] = own[numbers[chosen] - chunk.points[0]]
        answers.set_offsets(found)

    def _keys_at(self, point: int, place: int) -> list[int]:
        """The keys of the rows of a time-point."""
        found: dict[int, None] = {}
        for chunk in self._chunks:
            if chunk.points[0] <= point <= chunk.points[-1]:
                first, last = np.searchsorted(chunk.points, [point, point + 1])
                found |= dict.fromkeys(chunk.numbers[place][first:last].tolist())
        return list(found)

    def _cells_of(self, partition: int, number: int) -> tuple[int, ...]:
        """The values of a key, as those of its variables."""
        table = self._tables[partition]
        assert table is not None
        texts = self._made.texts
        return tuple(number_text(texts, text) for text in table.key(number))

    def _hold(self, answers: AnswerBlock) -> None:
        """Say of each key at a time-point that nothing violates a policy, if that is so."""
        known = np.frombuffer(answers.heads()[3], np.uint64).tolist()
        named = list(zip(answers.take(), known, strict=True))
        policies = self._made.named_policies
        for (number, point), group in groupby(named, lambda one: (one[0][0], one[0][4])):
            partition, policy = self._of_policies[number], policies[number]
            own = list(group)
            if partition is None or policy.is_find:
                for answer, count in own:
                    answers.add(*answer, known=count)
                continue
            first, count = own[0]
            width = len(policy.key)
            violated = {one[5][:width] for one, _ in own if one[1] != HOLDS}
            rows = [one for one, _ in own if one[1] != HOLDS]
            place = self._used.index(partition)
            for key in self._keys_at(point, place):
                cells = self._cells_of(partition, key)
                if cells not in violated:
                    offset = self._offset_of(point, place)
                    values = (*cells, *[0] * (len(policy.variables) - width))
                    answers.add(number, HOLDS_FOR, first[2], offset, point, values, known=count)
                    continue
                for row in rows:
                    if row[5][:width] == cells:
                        answers.add(*row, known=count)

    def offset_of(self, atom: str, point: int) -> int | None:
        """Return the offset of a time-point among those of the key of an atom; None without one."""
        partition = self._of_atoms.get(atom)
        if partition not in self._used:
            return None
        return self._offset_of(point, self._used.index(partition))

    def _offset_of(self, point: int, place: int) -> int:
        """The offset of a time-point among those of its key."""
        if self._by_stamp:
            return 0
        for chunk in self._chunks:
            if chunk.points[0] <= point <= chunk.points[-1]:
                return int(chunk.offsets[place][point - chunk.points[0]])
        raise IndexError(point)

    def snapshot(self) -> bytes:
        """Return what is kept as bytes for `restore`."""
        head = json.dumps(
            [
                self._count,
                self._last,
                [len(one.stamps) for one in self._counts],
                [len(one.points) for one in self._chunks],
            ]
        )
        parts: list[NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.uint32]] = []
        for counts in self._counts:
            parts += [counts.stamps, counts.counts]
        for chunk in self._chunks:
            parts += [chunk.points, *chunk.numbers, *chunk.offsets]
        return sized(head.encode()) + b"".join(one.tobytes() for one in parts)

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; this object must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        head, body = take_sized(snapshot)
        try:
            self._count, self._last, rooms, sizes = json.loads(head)
            place = 0

            def taken(count: int, kind: type[np.generic]) -> NDArray[np.generic]:
                nonlocal place
                found = np.frombuffer(body, kind, count, place).copy()
                place += found.nbytes
                return found

            for counts, room in zip(self._counts, rooms, strict=True):
                counts.stamps = taken(room, np.int64).astype(np.int64)
                counts.counts = taken(room, np.uint64).astype(np.uint64)
            for size in sizes:
                points = taken(size, np.int64).astype(np.int64)
                numbers = [taken(size, np.uint32).astype(np.uint32) for _ in self._used]
                with_offsets: Iterable[int] = () if self._by_stamp else self._used
                offsets = [taken(size, np.uint64).astype(np.uint64) for _ in with_offsets]
                self._chunks.append(_Chunk(points, numbers, offsets))
        except (ValueError, TypeError):
            raise damaged() from None
        if place != len(body):
            raise damaged()
