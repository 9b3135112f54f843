"""Sort any number of events by time in bounded memory: an external merge sort.

Events of one time-stamp keep their order. See D. E. Knuth, "The Art of Computer Programming",
volume 3, section 5.4, for sorting by runs in files that are merged.
"""

from __future__ import annotations

from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, Any, TypeAlias

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
"""Events: time_stamp, numbers of the traces, words of the letter."""


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
        # Sorting holds the events twice, plus their order.
        self._rows = max(_LEAST_ROWS, memory // (3 * self.type.itemsize))
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
    ) -> None:
        """Take events.

        Args:
            time_stamps: the time-stamps of the events.
            numbers: for each partition, the numbers of the events' traces, or None if they are 0.
            words: the letters of the events.

        Raises:
            MtlmonError: a temporary file cannot be written.
        """
        records = np.zeros(len(time_stamps), self.type)
        records["time_stamp"] = time_stamps
        for partition, column in enumerate(numbers):
            if column is not None:
                records["numbers"][:, partition] = column
        records["words"] = words
        while len(records):
            part = records[: self._rows - self._waiting_rows]
            self._waiting.append(part)
            self._waiting_rows += len(part)
            records = records[len(part) :]
            if self._waiting_rows == self._rows:
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
            merged = _merged([*self._runs, _Run.of(rest)], buffer_rows)
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
        records = self._sorted_waiting()
        first = int(records["time_stamp"][0])
        try:
            if not self._runs or self._runs[-1].last > first:
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
        last: the largest time-stamp.
        buffer: the events that have been read but not taken yet.
    """

    def __init__(self, file: IO[bytes] | None, record_type: np.dtype[np.void]) -> None:
        self._file = file
        self._type = record_type
        self._rest = 0
        self.last = 0
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
        self.last = int(records["time_stamp"][-1])

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

    def fill(self, rows: int) -> None:
        """Read more if the buffer is empty."""
        if len(self.buffer) or not self._rest:
            return
        assert self._file is not None
        buffer = np.empty(min(rows, self._rest), self._type)
        left: Any = buffer.view(np.uint8).reshape(-1).data
        while left:
            count = self._file.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise MtlmonError("a temporary file of sorting has lost its end")
            left = left[count:]
        self.buffer = buffer
        self._rest -= len(buffer)

    def take(self, count: int) -> Records:
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken


def _merged(runs: list[_Run], rows: int) -> Iterator[Records]:
    """The events of all runs in order; equal time-stamps keep the order of runs."""
    for run in runs:
        run.rewind()
    while True:
        for run in runs:
            run.fill(rows)
        runs = [run for run in runs if len(run.buffer)]
        if not runs:
            return
        # All events before this time-stamp are in buffers.
        ends = [int(run.buffer["time_stamp"][-1]) for run in runs if run.has_more]
        bound = min(ends, default=None)
        if bound is None:
            parts = [run.take(len(run.buffer)) for run in runs]
        else:
            parts = [
                run.take(int(np.searchsorted(run.buffer["time_stamp"], bound))) for run in runs
            ]
        taken = np.concatenate(parts)
        if not len(taken):
            # A buffer has only one time-stamp. The first run with it comes first, to its end.
            assert bound is not None
            run = next(run for run in runs if run.buffer["time_stamp"][0] == bound)
            taken = run.take(int(np.searchsorted(run.buffer["time_stamp"], bound, side="right")))
        yield _ordered(taken)


def _ordered(records: Records) -> Records:
    order = order_of(np.ascontiguousarray(records["time_stamp"]))
    return records if order is None else records[order]
