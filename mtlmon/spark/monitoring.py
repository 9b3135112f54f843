"""What executors do with sorted rows: one monitor at a time for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon._successive import SuccessiveMonitor
from mtlmon.spark.events import EventReader
from mtlmon.spark.keys import KeyRuns
from mtlmon.spark.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.spark.events import EventSource


class SortedRows(NamedTuple):
    """From sorted rows to verdicts; picklable, a function for `mapInArrow`.

    The columns are those that the source wants, in its order; what they are called is no matter.
    The rows of a key come one after the other, in the order of time. Memory does not depend on how
    many rows a key has.

    Attributes:
        source: how rows become events.
        resolve: whether every time-point gets its Boolean verdict.
        end_time: what is known about the time after a key's last event, as `SuccessiveMonitor`
            takes it.
    """

    source: EventSource
    resolve: bool
    end_time: int | Literal["inf"] | None

    def monitors(self) -> list[tuple[str | None, SuccessiveMonitor]]:
        """A monitor for each policy, with its name.

        Raises:
            MtlmonError: the end time is none.
        """
        return [
            (
                policy.name,
                SuccessiveMonitor(
                    policy.program,
                    self.source.policies.mode,
                    resolve=self.resolve,
                    end_time=self.end_time,
                ),
            )
            for policy in self.source.policies.policies
        ]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts of a partition.

        Raises:
            TableError: a row is no event.
        """
        names = self.source.selection.names
        reader = EventReader(self.source)
        runs = KeyRuns(self.source.selection.keys)
        monitors = self.monitors()
        last_keys: list[pa.Array] | None = None
        for columns in batches:
            if columns.num_rows == 0:
                continue
            batch = pa.RecordBatch.from_arrays(columns.columns, names=list(names))
            events = reader.read(batch)
            starts, keys = runs.read(batch)
            last_keys = [key.slice(len(key) - 1) for key in keys]
            for name, monitor in monitors:
                records, owners = monitor.feed(events.of(monitor.atoms), starts)
                yield from verdict_batches(name, keys, records, np.frombuffer(owners, np.uint32))
        if last_keys is None:
            return
        for name, monitor in monitors:
            records = monitor.finish()
            yield from verdict_batches(name, last_keys, records, None)
