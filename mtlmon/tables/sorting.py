"""Sort any number of events by time in bounded memory: an external merge sort.

Events of one time keep their order; times can be finer than time-stamps. See D. E. Knuth, "The Art
of Computer Programming", volume 3, section 5.4, for sorting by runs in files that are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from mtlmon.arrays.ordering import order_of
from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from numpy.typing import NDArray

DEFAULT_MEMORY = 1 << 28
_LEAST_ROWS = 1 << 10
_YIELDED_ROWS = 1 << 16

Records: TypeAlias = "NDArray[np.void]"
"""Events: time_stamp, numbers of the traces, words of the letter; and rest, once times have one."""

_Key: TypeAlias = tuple[int, int]
"""A time: the time-stamp, and what is left behind it."""


class EventSorter:
    """Takes events in any order and returns them in the order of time; a context manager.

    Args:
        words: the number of words of a letter.
        partitions: how many trace numbers an event has.
        memory: approximately how many bytes to use; more events go to temporary files, which are
            removed when the sorter is closed.
    """

    def __init__(self, words: int, memory: int = DEFAULT_MEMORY, partitions: int = 1) -> None:
        self.type = np.dtype(
            [
                ("time_stamp", np.int64),
                ("numbers", np.uint32, (partitions,)),
                ("words", np.uint64, (words,)),
            ]
        )
        self._memory = memory
        self._rows = self._room
        self._waiting: list[Records] = []
        self._waiting_rows = 0
        # In memory while the events are returned.
        self._merged_rows = 0
        self._runs: list[_Run] = []

    def __enter__(self) -> EventSorter:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._runs:
            run.close()

    def add(
        self,
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        words: NDArray[np.uint64],
        rests: NDArray[np.int64] | None = None,
    ) -> None:
        """Take events.

        Args:
            time_stamps: the time-stamps of the events.
            numbers: for each partition, the numbers of the events' traces, or None if they are 0.
            words: the letters of the events.
            rests: what is left of their times behind the time-stamps; None if nothing is.

        Raises:
            MtlmonError: a temporary file cannot be written.
        """
        if rests is not None and not _has_rests(self.type):
            self._widen()
        records = np.zeros(len(time_stamps), self.type)
        records["time_stamp"] = time_stamps
        for partition, column in enumerate(numbers):
            if column is not None:
                records["numbers"][:, partition] = column
        records["words"] = words
        if rests is not None:
            records["rest"] = rests
        while len(records):
            part = records[: self._rows - self._waiting_rows]
            self._waiting.append(part)
            self._waiting_rows += len(part)
            records = records[len(part) :]
            if self._waiting_rows == self._rows:
                self._spill()

    @property
    def _room(self) -> int:
        """How many events memory has room for: sorting holds them twice, plus their order."""
        return max(_LEAST_ROWS, self._memory // (3 * self.type.itemsize))

    def _widen(self) -> None:
        """From now on, events have a rest.

        PERF: most times have none, and then events take less memory.
        """
        self.type = np.dtype([*self.type.descr, ("rest", np.int64)])
        self._waiting = [_with_type(records, self.type) for records in self._waiting]
        self._rows = self._room
        if self._waiting_rows >= self._rows:
            self._spill()

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that events take."""
        return self.type.itemsize * (self._waiting_rows + self._merged_rows)

    def sorted(self) -> Iterator[Records]:
        """Return all events in the order of time, several at once."""
        rest = self._sorted_waiting()
        self._merged_rows = len(rest)
        if self._runs:
            buffer_rows = max(_LEAST_ROWS, self._rows // (2 * len(self._runs)))
            # The buffers, and the events taken from them.
            self._merged_rows += 2 * buffer_rows * len(self._runs)
            merged = _merged([*self._runs, _Run.of(rest)], buffer_rows, self.type)
        else:
            merged = iter([rest])
        for records in merged:
            for first in range(0, len(records), _YIELDED_ROWS):
                yield records[first : first + _YIELDED_ROWS]

    def _sorted_waiting(self) -> Records:
        if not self._waiting:
            return np.zeros(0, self.type)
        records = _ordered(np.concatenate(self._waiting))
        self._waiting = []
        self._waiting_rows = 0
        return records

    def _spill(self) -> None:
        """Write the events in memory to a run: to the last run, if they continue it."""
        # imported on use, as it imports all kinds of compression
        from tempfile import TemporaryFile, gettempdir

        records = self._sorted_waiting()
        first = _key(records[0])
        try:
            if not self._runs or self._runs[-1].last > first or self._runs[-1].type != self.type:
                file = TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the sorter)
                self._runs.append(_Run(file, self.type))
            self._runs[-1].append(records)
        except OSError as error:
            raise MtlmonError(
                f"sorting takes a temporary file in {gettempdir()}, which cannot be "
                f"written: {error.strerror}; TMPDIR names another directory"
            ) from error


class _Run:
    """Sorted events in a file.

    Attributes:
        type: the type of the events.
        last: the largest time.
        buffer: the events that have been read but not taken yet.
    """

    def __init__(self, file: IO[bytes] | None, record_type: np.dtype[np.void]) -> None:
        self._file = file
        self.type = record_type
        self._rest = 0
        self.last: _Key = (0, 0)
        self.buffer: Records = np.zeros(0, record_type)

    @classmethod
    def of(cls, records: Records) -> _Run:
        """A run that is in memory."""
        run = cls(None, records.dtype)
        run.buffer = records
        return run

    def append(self, records: Records) -> None:
        assert self._file is not None
        left = records.view(np.uint8).reshape(-1).data
        while left:
            left = left[self._file.write(left) :]
        self._rest += len(records)
        self.last = _key(records[-1])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def rewind(self) -> None:
        if self._file is not None:
            self._file.seek(0)

    @property
    def has_more(self) -> bool:
        """Whether there are events after those in the buffer."""
        return self._rest > 0

    def fill(self, rows: int, record_type: np.dtype[np.void]) -> None:
        """Read more if the buffer is empty; events get a type that may have a rest."""
        if len(self.buffer) or not self._rest:
            return
        assert self._file is not None
        buffer = np.empty(min(rows, self._rest), self.type)
        left: Any = buffer.view(np.uint8).reshape(-1).data
        while left:
            count = self._file.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise MtlmonError("a temporary file for sorting has been cut off")
            left = left[count:]
        self._rest -= len(buffer)
        self.buffer = _with_type(buffer, record_type)

    def take(self, count: int) -> Records:
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken


def _merged(runs: list[_Run], rows: int, record_type: np.dtype[np.void]) -> Iterator[Records]:
    """The events of all runs in order; equal times keep the order of runs."""
    for run in runs:
        run.rewind()
    while True:
        for run in runs:
            run.fill(rows, record_type)
        runs = [run for run in runs if len(run.buffer)]
        if not runs:
            return
        # All events before this time are in buffers.
        ends = [_key(run.buffer[-1]) for run in runs if run.has_more]
        bound = min(ends, default=None)
        if bound is None:
            parts = [run.take(len(run.buffer)) for run in runs]
        else:
            parts = [run.take(_place(run.buffer, bound, "left")) for run in runs]
        taken = np.concatenate(parts)
        if not len(taken):
            # A buffer has only one time. The first run with it comes first, to its end.
            assert bound is not None
            run = next(run for run in runs if _key(run.buffer[0]) == bound)
            taken = run.take(_place(run.buffer, bound, "right"))
        yield _ordered(taken)


def _has_rests(record_type: np.dtype[np.void]) -> bool:
    return "rest" in (record_type.names or ())


def _with_type(records: Records, record_type: np.dtype[np.void]) -> Records:
    """Give events a rest of 0 if they have none and the type has one."""
    if records.dtype == record_type:
        return records
    found = np.zeros(len(records), record_type)
    for name in records.dtype.names or ():
        found[name] = records[name]
    return found


def _key(record: np.void) -> _Key:
    return int(record["time_stamp"]), int(record["rest"]) if _has_rests(record.dtype) else 0


def _place(records: Records, key: _Key, side: Literal["left", "right"]) -> int:
    """The place of a time among sorted events, before or behind those of this time."""
    stamps = records["time_stamp"]
    if not _has_rests(records.dtype):
        return int(np.searchsorted(stamps, key[0], side))
    first, last = (int(np.searchsorted(stamps, key[0], one)) for one in ("left", "right"))
    return first + int(np.searchsorted(records["rest"][first:last], key[1], side))


def _ordered(records: Records) -> Records:
    if _has_rests(records.dtype):
        return records[np.lexsort((records["rest"], records["time_stamp"]))]
    order = order_of(np.ascontiguousarray(records["time_stamp"]))
    return records if order is None else records[order]
