"""The interface of logs that can be checked."""

from __future__ import annotations

from collections import deque

from mtlmon.checking.row_files import RowPlace
from mtlmon.support.lean_typing import Generic, NamedTuple, Protocol, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns, KeyTable
    from mtlmon.checking.row_files import RowFile
    from mtlmon.checking.time_points import ChosenPoints
    from mtlmon.history.operations import Corrections
    from mtlmon.policy.definitions import Clock

    TimeStamps = NDArray[np.int64] | memoryview
    StreamNumbers = NDArray[np.uint32] | memoryview

__all__ = [
    "PAUSE",
    "BatchReader",
    "EventBatch",
    "EventSource",
    "LogPlaces",
    "NothingYet",
    "Origins",
    "Pause",
    "ReaderPlace",
]

_Batch = TypeVar("_Batch")


class Pause:
    """Stands for rows that have not been given yet; there is one, `PAUSE`."""


PAUSE = Pause()


class NothingYet(Exception):
    """There are no rows yet; the log has not ended, and can be asked again."""


class Origins(NamedTuple):
    """Where the events of a batch come from.

    Attributes:
        files: the files.
        file_of: for each event the index of its file, of an unsigned type; None if it is 0.
        rows: for each event the number of its row in the file, as `RowFile` says.
    """

    files: Sequence[RowFile]
    file_of: NDArray[np.unsignedinteger] | None
    rows: NDArray[np.int64]

    def place(self, event: int) -> RowPlace:
        """Return where one of the events comes from."""
        file = 0 if self.file_of is None else int(self.file_of[event])
        return RowPlace(self.files[file], int(self.rows[event]))


class EventBatch(Protocol):
    """A part of a log: consecutive events, in order."""

    @property
    def corrections(self) -> Corrections | None:
        """What the rows do; None if all insert events that have no ids."""

    @property
    def time_stamps(self) -> TimeStamps:
        """The time-stamps of the events."""

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms of letters, in the order of their bits."""

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        """Return the number of each event's trace in a partition; None if it has one trace."""

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """Return the time-points of a clock in a partition."""

    @property
    def tick_end(self) -> int:
        """A time below which all ticks have come with this batch and those before it."""

    @property
    def has_all_ticks(self) -> bool:
        """Whether no tick is left out because nothing changes there, from this batch on."""

    @property
    def instances(self) -> Sequence[Mapping[str, int]]:
        """For each partition, how many instances of streams were alive at once, if that is known.

        They are those of the log in this order, which rows that come late are not in yet.
        """

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Return the atoms of every event: one row of 64-bit words, whose bit i is atom i."""

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        """Return the events as input for a monitor with these atoms, in a partition."""

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        """Return the values to show in a partition, by their names in `PolicyFile.shown`."""

    @property
    def origins(self) -> Origins | None:
        """Where the events come from, if the log was asked for that (`track_rows`); else None."""


class EventSource(Protocol):
    """A log, whose events can be read once."""

    @property
    def key_tables(self) -> Sequence[KeyTable | None]:
        """For each partition, the keys by the number of the trace; None if it has one trace."""

    @property
    def can_forget_keys(self) -> bool:
        """Whether future batches use the numbers that keys have by then, so that keys can go."""

    def only_due_ticks(self, is_wanted: bool = True) -> None:
        """From the first batch on, leave out ticks at which no atom of their trace changes, or not.

        The first tick of a trace is never left out.
        """

    def track_rows(self) -> None:
        """From the first batch on, tell the origins of events."""

    def settled_traces(self, partition: int, count: int) -> bytes | None:
        """Return a byte for each trace, 0 if the source remembers its rows; None if it does not."""

    def keep_traces(self, partition: int, numbers: bytes) -> None:
        """Give the traces of a partition new numbers, as `KeyTable.keep` does."""

    def prepare_next(self) -> None:
        """Let another thread prepare the next batch, if that may be worth it.

        Until that batch has been asked for, `keep_traces` must not be called.
        """

    @property
    def clock(self) -> int | None:
        """The largest time-stamp so far, or None before the first event.

        The next batch may count already if it is being prepared.
        """

    def ticks_until(self, limit: int) -> Iterator[EventBatch]:
        """Yield batches without rows, with the ticks below a time that follow the last row."""

    def next_change(self, start: int, limit: int) -> int | None:
        """Return the first time from one on below another at which a relation changes, or None.

        Only the relations whose changes are time-points count. No row is below `limit` any more.
        """

    def earliest_waiting(self, partition: int, clock: Clock) -> tuple[int, int] | None:
        """Return time and trace of the earliest row that waits for later values; None without any.

        Args:
            partition: the number of the partition.
            clock: the time-points that are rows which wait.
        """

    def released(self) -> Iterator[EventBatch]:
        """Yield batches without rows, with the rows that wait for later values: none come."""

    def __iter__(self) -> Iterator[EventBatch]: ...


class ReaderPlace(NamedTuple):
    """Where another reader can go on in the file of a log.

    Attributes:
        events: the number of events before it.
        size: the number of bytes before it.
        state: what a reader has to know of them.
    """

    events: int
    size: int
    state: str


BEGINNING = ReaderPlace(0, 0, "")
"""The beginning of a log."""


class LogPlaces:
    """The places of a log from the last event on that has been checked.

    Args:
        first: where the reader begins.
    """

    def __init__(self, first: ReaderPlace = BEGINNING) -> None:
        self._places = deque([first])

    def note(self, place: ReaderPlace) -> None:
        """Add a place, which is not before the others."""
        self._places.append(place)

    def before(self, events: int) -> ReaderPlace:
        """Return the last place before some events, and forget those before.

        At least one of the events is behind the place, as columns are known once one has been read.

        Args:
            events: the number of events, which must not decrease between calls.
        """
        while len(self._places) > 1 and self._places[1].events < events:
            self._places.popleft()
        return self._places[0]


class BatchReader(Generic[_Batch]):
    """The base of logs: an iterator of batches, the first events of which can be skipped.

    Args:
        batches: yields the batches, and None for a batch all of whose events are skipped; it counts
            the events that it skips off `to_skip`. It yields a `Pause` where events are given that
            have not come yet.

    Attributes:
        to_skip: the number of events that are yet to be skipped.
    """

    def __init__(self, batches: Generator[_Batch | Pause | None, None, None]) -> None:
        self._batches = batches
        self.to_skip = 0

    def __iter__(self) -> Iterator[_Batch]:
        return self

    def __next__(self) -> _Batch:
        """Return the next batch.

        Raises:
            NothingYet: events are given as they come, and there are none at present.
        """
        while (batch := next(self._batches)) is None:
            pass
        if isinstance(batch, Pause):
            raise NothingYet
        return batch

    def prepare_next(self) -> None:
        """Do nothing: the next batch is read when it is asked for."""

    def skip(self, count: int) -> Iterator[None]:
        """Read the first events without returning them in batches; call this before iterating.

        This yields now and then, and ends early if the log has fewer events.

        Args:
            count: the number of events to skip.
        """
        self.to_skip = count
        while self.to_skip:
            try:
                next(self._batches)
            except StopIteration:
                return
            yield
