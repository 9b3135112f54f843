"""Events in every form that `Monitor.feed` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow

from mtlmon import Monitor
from mtlmon.verdict_arrays import VerdictArray
from tests.traces import Event


def time_stamps_of(events: Sequence[Event]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([event.time_stamp for event in events], np.int64)


def matrix_of(events: Sequence[Event], atoms: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """One row for each event, one column for each atom."""
    holds = [[name in event.atoms for name in atoms] for event in events]
    return np.array(holds, np.bool_).reshape(len(events), len(atoms))


def table_of(events: Sequence[Event], atoms: Sequence[str]) -> pyarrow.Table:
    """Columns `time_stamp` and one for each atom."""
    columns = dict(zip(atoms, matrix_of(events, atoms).T, strict=True))
    return pyarrow.table(
        {
            "time_stamp": pyarrow.array(time_stamps_of(events), pyarrow.int64()),
            **{name: pyarrow.array(column, pyarrow.bool_()) for name, column in columns.items()},
        }
    )


def feed_matrix(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    return monitor.feed(time_stamps_of(events), matrix_of(events, monitor.atoms))


def feed_other_matrix(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    """Columns in another order, some of no concern, items far apart and backwards in memory."""
    names = [*reversed(monitor.atoms), "unknown"]
    spread = np.repeat(time_stamps_of(events), 3)[::-1].copy()
    columns = np.asfortranarray(matrix_of(events, names)[::-1])
    return monitor.feed(spread[::-3], columns[::-1], atoms=names)


def feed_integers(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    weights = np.array([1 << i for i in range(len(monitor.atoms))], np.uint64)
    masks = (matrix_of(events, monitor.atoms) * weights).sum(axis=1, dtype=np.uint64)
    return monitor.feed(time_stamps_of(events), masks)


def feed_other_integers(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    """Bits in another order, of another type."""
    names = ["unknown", *reversed(monitor.atoms)]
    weights = np.array([1 << i for i in range(len(names))], np.int64)
    masks = (matrix_of(events, names) * weights).sum(axis=1, dtype=np.int64)
    return monitor.feed(time_stamps_of(events), masks, atoms=names)


def feed_columns(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    names = [*monitor.atoms, "unknown"]
    columns = dict(zip(names, matrix_of(events, names).T, strict=True))
    return monitor.feed(time_stamps_of(events), columns)


def feed_lists(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    columns = {name: [name in event.atoms for event in events] for name in monitor.atoms}
    return monitor.feed([event.time_stamp for event in events], columns)


def feed_table(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    """In chunks, of which each begins within a byte of the bitmaps."""
    whole = table_of([*events[:1], *events], [*reversed(monitor.atoms), "unknown"])
    middle = 1 + len(events) // 2
    return monitor.feed(pyarrow.concat_tables([whole[1:middle], whole[middle:]]))


def feed_record_batch(monitor: Monitor, events: Sequence[Event]) -> VerdictArray:
    (batch,) = table_of(events, monitor.atoms).to_batches() or [
        pyarrow.RecordBatch.from_pylist([], table_of(events, monitor.atoms).schema)
    ]
    return monitor.feed(batch.rename_columns(["when", *monitor.atoms]), time="when")


FORMS: dict[str, Callable[[Monitor, Sequence[Event]], VerdictArray]] = {
    "matrix": feed_matrix,
    "other matrix": feed_other_matrix,
    "integers": feed_integers,
    "other integers": feed_other_integers,
    "columns": feed_columns,
    "lists": feed_lists,
    "table": feed_table,
    "record batch": feed_record_batch,
}
"""Each takes a monitor and events, and returns the verdicts."""
