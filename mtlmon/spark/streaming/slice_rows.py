"""What slices of a streaming query are sent, and what they report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.spark.common.atom_rows import ATOM, TIME
from mtlmon.spark.common.changelog import OPERATION
from mtlmon.spark.common.slice_monitors import SLICE
from mtlmon.spark.streaming.exchange import Block, Pack, grouped, packed_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = ["FIRST", "LATE", "PackSlices", "result_schema"]

FIRST = "first"
"""The column that is true for one of the copies of a row that go to slices."""

LATE = ATOM
"""The column with the number of the atom of a late row; null in rows of valuations."""


class PackSlices(Pack):
    """Packs rows of atoms by slice.

    Args:
        clock: the clock of the query.
    """

    def __init__(self, clock: EventClock) -> None:
        super().__init__(SLICE, clock)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[Block]]:
        for batch in batches:
            if batch.num_rows:
                times = self._clock.milliseconds(np.asarray(batch.column(TIME)))
                rows = batch.drop_columns([SLICE])
                yield [
                    Block(number, packed_rows(rows.take(pa.array(own))), latest)
                    for number, own, latest in grouped(np.asarray(batch.column(0)), times)
                ]


def result_schema(valuations: pa.Schema, *, changes: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of valuations, of late rows, and the given ones of changes."""
    schema = valuations.append(pa.field(LATE, pa.int32()))
    for name in changes:
        schema = schema.append(pa.field(name, pa.string() if name == OPERATION else pa.int64()))
    return schema
