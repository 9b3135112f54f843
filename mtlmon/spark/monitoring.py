"""What executors do with rows in order: one monitor at a time for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from mtlmon._successive import SuccessiveMonitor
from mtlmon.errors import TimeStampError
from mtlmon.spark.events import EventReader, row_error
from mtlmon.spark.keys import KeyRuns
from mtlmon.spark.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from mtlmon.spark.events import EventSource
    from mtlmon.spark.policies import Policies

EndTime: TypeAlias = int | Literal["last", "inf"] | None
"""What is known about the time after the last event of a trace, as `SuccessiveMonitor` takes it."""

Fed: TypeAlias = "tuple[str | None, list[pa.Array], bytes, NDArray[np.uint32] | None]"


def monitors_of(
    policies: Policies, resolve: bool, end_time: EndTime
) -> list[tuple[str | None, SuccessiveMonitor]]:
    """A monitor for each policy, with its name.

    Raises:
        MtlmonError, TimeStampError: the end time is none.
    """
    mode = policies.mode
    return [
        (policy.name, SuccessiveMonitor(policy.program, mode, resolve=resolve, end_time=end_time))
        for policy in policies.policies
    ]


def monitored(
    source: EventSource, resolve: bool, end_time: EndTime, batches: Iterable[pa.RecordBatch]
) -> Iterator[Fed]:
    """The verdicts of rows in order: those of a key one after the other, by time.

    Memory does not depend on how many rows a key has.

    Args:
        source: how rows become events.
        resolve: whether every time-point gets its Boolean verdict.
        batches: of the columns that the source wants.

    Yields:
        The name of a policy; the columns of some keys; bytes of verdict records; for each of these
        the place of its key in the columns, None if there is only one key.

    Raises:
        TableError: a row is no event, or one of a time before that of the row before.
    """
    reader = EventReader(source)
    runs = KeyRuns(source.selection.keys)
    monitors = monitors_of(source.policies, resolve, end_time)
    last: list[pa.Array] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        events = reader.read(batch)
        starts, keys = runs.read(batch)
        last = [key.slice(len(key) - 1) for key in keys]
        for name, monitor in monitors:
            try:
                records, owners = monitor.feed(events.of(monitor.atoms), starts)
            except TimeStampError as error:
                if error.index is None:
                    raise
                raise row_error(source, batch, error.index, str(error)) from None
            yield name, keys, records, np.frombuffer(owners, np.uint32)
    for name, monitor in monitors:
        yield name, last, monitor.finish(), None


class OrderedRows(NamedTuple):
    """From rows in order to rows of verdicts; picklable, a function for `mapInArrow`.

    The columns are those that the source wants, in its order; what they are called is no matter.
    The attributes are arguments of `monitored`.
    """

    source: EventSource
    resolve: bool
    end_time: EndTime

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts of a partition, with the columns of `verdict_schema`."""
        names = list(self.source.selection.names)
        renamed = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
        for fed in monitored(self.source, self.resolve, self.end_time, renamed):
            yield from verdict_batches(*fed)
