"""Convert verdicts of policies and keys to Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.partitions import TraceKeys
from mtlmon.drive.native import VerdictRows
from mtlmon.tables.answer_table import KEY, ROW_FIELDS, AnswerTable
from mtlmon.tables.columns.keys import key_texts
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.late_messages import LateMessages
    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.checking.row_tracking import FoundRows, RowTracker
    from mtlmon.checking.shown import Messages
    from mtlmon.tables.columns.times import Times

__all__ = ["VerdictTable"]

# The number of verdicts in one batch, so that the texts of keys stay small.
_BATCH_ROWS = 1 << 16


class VerdictTable(AnswerTable):
    """Creates record batches of verdicts.

    The columns are `policy` (null for a policy without a name); a text column for each key column;
    `time`, the time-stamp; `time_text`, the time as the log writes it, if that is different;
    `offset`; `verdict` (null for an equivalence); and `reference`, the earlier time-point of an
    equivalence as `time:offset`.

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

    has_equivalences = True

    def __init__(
        self,
        names: Sequence[str | None],
        keys: TraceKeys | None = None,
        times: Times | None = None,
        messages: Messages | LateMessages | None = None,
        row_tracker: RowTracker | LateOrigins | None = None,
        facts: PolicyFacts | None = None,
        more: Sequence[str] = (),
    ) -> None:
        super().__init__(names, times, facts, more)
        self._messages = messages
        self._row_tracker = row_tracker
        if keys is None:
            keys = TraceKeys.of_one_partition(len(names), None, ())
        self._tables = keys.tables
        self._partition_of = np.array(keys.partitions.of_policies, np.intp)
        self._places = keys.partitions.places
        self._all_keys = keys.partitions.all_columns

    def takes(self, rows: Any) -> bool:
        return isinstance(rows, VerdictRows)

    def fields(self) -> list[pa.Field]:
        return [
            *(pa.field(f"{KEY}{name}", pa.string()) for name in self._all_keys),
            *([] if self._messages is None else [pa.field("message", pa.string())]),
            *([] if self._row_tracker is None else ROW_FIELDS),
        ]

    def columns(self, rows: VerdictRows) -> Iterator[dict[str, pa.Array]]:
        found = None if self._row_tracker is None else self._row_tracker.found(rows)
        parts = rows.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32) for part in parts[1:])
        for first in range(0, len(records), _BATCH_ROWS):
            last = first + _BATCH_ROWS
            some = None if found is None else found.part(first, last)
            yield self._columns(
                records[first:last], numbers[first:last], policies[first:last], some
            )

    def _columns(
        self,
        records: NDArray[np.void],
        numbers: NDArray[np.uint32],
        policies: NDArray[np.uint32],
        found_rows: FoundRows | None,
    ) -> dict[str, pa.Array]:
        kinds, is_equivalent = records["kind"], records["kind"] == EQUIVALENT
        times, offsets = records["time_stamp"].astype(np.int64), records["offset"]
        columns = self._common(policies, times, offsets, kinds == FALSE)
        partitions = self._partition_of[policies]
        for place, name in enumerate(self._all_keys):
            columns[f"{KEY}{name}"] = self._key_texts(numbers, partitions, place)
        mask = is_equivalent if is_equivalent.any() else None
        columns["verdict"] = pa.array(kinds == TRUE, mask=mask)
        columns["reference"] = _references(records, is_equivalent)
        if self._messages is not None:
            found: list[str | None] = [None] * len(records)
            arrays = policies, numbers, times, offsets
            for place in np.flatnonzero(kinds == FALSE).tolist():
                found[place] = self._messages.take(*(int(one[place]) for one in arrays))
            columns["message"] = pa.array(found, pa.string())
        if found_rows is not None:
            assert self._row_tracker is not None
            is_missing = ~found_rows.has_row
            names = pa.array(self._row_tracker.files.names, pa.string())
            columns["file"] = names.take(pa.array(found_rows.files, mask=is_missing))
            columns["row"] = pa.array(found_rows.rows, mask=is_missing)
        return columns

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
