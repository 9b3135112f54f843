"""Convert verdicts of policies and keys to Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.outputs import FIXED, ROW_COLUMNS, unique_key_columns
from mtlmon.checking.partitions import TraceKeys
from mtlmon.tables.columns.keys import key_texts
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.checking.row_tracking import FoundRows, RowTracker
    from mtlmon.checking.shown import Messages
    from mtlmon.drive.native import VerdictRows
    from mtlmon.tables.columns.times import Times

__all__ = ["ROW_FIELDS", "VerdictTable"]

# The number of verdicts in one batch, so that the texts of keys stay small.
_BATCH_ROWS = 1 << 16
ROW_FIELDS = [
    pa.field(name, kind) for name, kind in zip(ROW_COLUMNS, (pa.string(), pa.int64()), strict=True)
]


class VerdictTable:
    """Creates record batches of verdicts.

    The columns are `policy` (null for a policy without a name); a text column for each key column;
    `time`, the time-stamp; `time_text`, the time as the log writes it, if that is different;
    `offset`; `verdict` (null for an equivalence); and `reference`, the earlier time-point of an
    equivalence as `time:offset`. A key column with one of these names gets the prefix `key_`,
    repeated until the name is unique.

    Args:
        names: the names of the policies, in order.
        keys: the keys of the traces, or None if there is one trace. A policy whose partition lacks
            a key column has null there.
        times: the log's notation of times, or None if it has the time-stamps.
        messages: the messages of triggers, which become a column `message`; None for no such
            column. All verdicts have to come in the order in which their messages do.
        row_tracker: finds the rows of verdicts, which become columns `file` and `row`, null for
            ticks; None for no such columns.
        facts: what the file says of the policies, which becomes columns; None for no such columns.
        more: the names of columns that whoever takes the batches adds.
    """

    def __init__(
        self,
        names: Sequence[str | None],
        keys: TraceKeys | None = None,
        times: Times | None = None,
        messages: Messages | None = None,
        row_tracker: RowTracker | LateOrigins | None = None,
        facts: PolicyFacts | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self._messages = messages
        self._row_tracker = row_tracker
        self._names = pa.array(names, pa.string())
        self._times = times
        if keys is None:
            keys = TraceKeys.of_one_partition(len(names), None, ())
        self._tables = keys.tables
        self._partition_of = np.array(keys.partitions.of_policies, np.intp)
        self._places = keys.partitions.places
        self.all_key_columns = keys.partitions.all_columns
        self.key_columns = unique_key_columns(
            keys.partitions.all_columns,
            has_messages=messages is not None,
            has_rows=row_tracker is not None,
            more=more,
        )
        self.fact_columns: dict[str, str] = {}
        if facts is not None:
            others = (*FIXED, "message", *ROW_COLUMNS, *more, *self.key_columns)
            self.fact_columns = facts.columns(others)
            self._severities = pa.array(facts.severities, pa.string())
            self._texts = pa.array(facts.texts, pa.string())

    @property
    def has_messages(self) -> bool:
        """Whether there is a column of messages."""
        return self._messages is not None

    @cached_property
    def has_time_texts(self) -> bool:
        """Whether the log writes times differently from the time-stamps.

        Use this only once rows have been read, as they determine the answer.
        """
        return self._times is not None and not self._times.is_plain

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        return pa.schema(
            [
                pa.field("policy", pa.string()),
                *(pa.field(name, pa.string()) for name in self.key_columns),
                pa.field("time", pa.int64(), nullable=False),
                *([pa.field("time_text", pa.string())] if self.has_time_texts else []),
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("verdict", pa.bool_()),
                pa.field("reference", pa.string()),
                *([] if self._messages is None else [pa.field("message", pa.string())]),
                *([] if self._row_tracker is None else ROW_FIELDS),
                *(pa.field(name, pa.string()) for name in self.fact_columns.values()),
            ]
        )

    def batches(self, rows: VerdictRows) -> Iterator[pa.RecordBatch]:
        """The verdicts, which are removed from the rows."""
        found = None if self._row_tracker is None else self._row_tracker.found(rows)
        parts = rows.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32) for part in parts[1:])
        for first in range(0, len(records), _BATCH_ROWS):
            last = first + _BATCH_ROWS
            some = None if found is None else found.part(first, last)
            yield self._batch(records[first:last], numbers[first:last], policies[first:last], some)

    def _batch(
        self,
        records: NDArray[np.void],
        numbers: NDArray[np.uint32],
        policies: NDArray[np.uint32],
        found_rows: FoundRows | None,
    ) -> pa.RecordBatch:
        is_equivalent = records["kind"] == EQUIVALENT
        times = records["time_stamp"].astype(np.int64)
        # PERF: a call of Arrow takes longer than all else for a verdict that comes alone
        of_one = len(records) == 1
        names = self._names
        columns = [names.slice(policies[0], 1) if of_one else names.take(pa.array(policies))]
        partitions = self._partition_of[policies]
        columns += [
            self._key_texts(numbers, partitions, place) for place in range(len(self.key_columns))
        ]
        columns.append(pa.array(times))
        if self._times is not None and self.has_time_texts:
            columns.append(self._times.text_array(times))
        columns += [
            pa.array(records["offset"].astype(np.int64)),
            pa.array(records["kind"] == TRUE, mask=is_equivalent if is_equivalent.any() else None),
            _references(records, is_equivalent),
        ]
        if self._messages is not None:
            found: list[str | None] = [None] * len(records)
            for place in np.flatnonzero(records["kind"] == FALSE).tolist():
                name = int(times[place]), int(records["offset"][place])
                found[place] = self._messages.take(int(policies[place]), int(numbers[place]), *name)
            columns.append(pa.array(found, pa.string()))
        if found_rows is not None:
            assert self._row_tracker is not None
            is_missing = ~found_rows.has_row
            names = pa.array(self._row_tracker.files.names, pa.string())
            columns.append(names.take(pa.array(found_rows.files, mask=is_missing)))
            columns.append(pa.array(found_rows.rows, mask=is_missing))
        if "severity" in self.fact_columns:
            columns.append(self._severities.take(pa.array(policies)))
        if "text" in self.fact_columns:
            columns.append(self._texts.take(pa.array(policies, mask=records["kind"] != FALSE)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _key_texts(
        self, numbers: NDArray[np.uint32], partitions: NDArray[np.intp], place: int
    ) -> pa.Array:
        """Return one key column: the texts by partition, then brought into the order of rows."""
        if len(self._tables) == 1:
            return key_texts(self._tables[0], numbers, self._places[0].index(place))
        parts = [pa.nulls(1, pa.string())]
        # where each row finds its text; null comes first
        indices = np.zeros(len(numbers), np.int64)
        size = 1
        for partition, places in enumerate(self._places):
            rows = np.flatnonzero(partitions == partition)
            if place in places and len(rows):
                indices[rows] = np.arange(size, size + len(rows))
                size += len(rows)
                table = self._tables[partition]
                parts.append(key_texts(table, numbers[rows], places.index(place)))
        return pa.concat_arrays(parts).take(pa.array(indices))


def _references(records: NDArray[np.void], is_equivalent: NDArray[np.bool_]) -> pa.Array:
    """The names of the time-points that equivalences refer to; null for other verdicts."""
    if not is_equivalent.any():
        return pa.nulls(len(records), pa.string())
    is_other = ~is_equivalent
    parts = [
        pa.array(records[field].astype(np.int64), mask=is_other).cast(pa.string())
        for field in ("reference_time_stamp", "reference_offset")
    ]
    return pc.binary_join_element_wise(*parts, ":")
