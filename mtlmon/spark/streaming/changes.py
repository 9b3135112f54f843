"""Changes of verdicts: what two runs of monitors say differently, and rows that tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.history.changes import DELETED, INSERTED, UPDATED, change_type
from mtlmon.spark.common.changelog import FINAL, OPERATION, OPERATIONS, REVISION
from mtlmon.verdicts.arrays import EQUIVALENT, verdict_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.spark.streaming.live_bucket import KeyVerdicts

__all__ = ["NO_VERDICT", "differences", "first_verdicts", "verdicts_of", "with_changes"]

NO_VERDICT = 3
"""The kind of a time-point without a verdict, in records of changes."""

_FIELDS = verdict_type().names or ()
_REFERENCES = ("reference_time_stamp", "reference_offset")


def first_verdicts(verdicts: NDArray[np.void]) -> NDArray[np.void]:
    """Return records of changes for verdicts of time-points that have had none."""
    changes = np.zeros(len(verdicts), change_type())
    for name in _FIELDS:
        changes[name] = verdicts[name]
    for name in _REFERENCES:
        changes[name][verdicts["kind"] != EQUIVALENT] = 0
    changes["operation"] = INSERTED
    changes["former"] = NO_VERDICT
    return changes


def verdicts_of(changes: NDArray[np.void]) -> NDArray[np.void]:
    """Return the verdicts that records of changes tell."""
    verdicts = np.zeros(len(changes), verdict_type())
    for name in _FIELDS:
        verdicts[name] = changes[name]
    return verdicts


def differences(
    before: KeyVerdicts, after: KeyVerdicts
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Compare the verdicts of two runs, no two of which are about one time-point.

    Returns:
        Records of changes, by key and in the order of time, and the numbers of their keys.
    """
    before, after = before.by_key(), after.by_key()
    if np.array_equal(before.keys, after.keys) and all(
        np.array_equal(before.records[name], after.records[name]) for name in _FIELDS
    ):
        return first_verdicts(before.records[:0]), before.keys[:0]
    every = before.together([before, after])
    # stable, so what was before comes first
    order = np.lexsort((every.records["offset"], every.records["time_stamp"], every.keys))
    (records, owners), is_after = every.take(order), order >= len(before.keys)
    # two that stand side by side are about one time-point
    is_pair = is_after[1:] & ~is_after[:-1] & (owners[1:] == owners[:-1])
    for name in ("time_stamp", "offset"):
        is_pair &= records[name][1:] == records[name][:-1]
    has_former, is_former, is_same = np.zeros((3, len(owners)), np.bool_)
    has_former[1:], is_former[:-1] = is_pair, is_pair
    for name in ("kind", *_REFERENCES):
        is_pair &= records[name][1:] == records[name][:-1]
    is_same[1:] = is_pair
    kept = np.flatnonzero(~is_former & ~is_same)
    changes = first_verdicts(records.take(kept))
    is_updated, is_deleted = has_former[kept], ~is_after[kept]
    changes["former"][is_updated] = records["kind"][kept[is_updated] - 1]
    changes["operation"][is_updated] = UPDATED
    changes["former"][is_deleted] = changes["kind"][is_deleted]
    changes["kind"][is_deleted] = NO_VERDICT
    changes["operation"][is_deleted] = DELETED
    for name in _REFERENCES:
        changes[name][is_deleted] = 0
    return changes, owners[kept]


def with_changes(
    verdicts: pa.RecordBatch, operations: NDArray[np.integer], finals: pa.Array, revision: int
) -> pa.RecordBatch:
    """Return verdicts with what has happened to them: null where they are deleted.

    Args:
        verdicts: the verdicts, in a column of this name.
        operations: what has happened to each, as in records of changes.
        finals: the time-stamps below which verdicts of their policies are final.
        revision: the number of the batch.
    """
    columns = dict(zip(verdicts.schema.names, verdicts.columns, strict=True))
    is_deleted = pa.array(operations == DELETED)
    columns["verdict"] = pc.if_else(is_deleted, pa.scalar(None, pa.bool_()), columns["verdict"])
    columns[OPERATION] = pa.array(OPERATIONS, pa.string()).take(pa.array(operations))
    columns[REVISION] = pa.repeat(pa.scalar(revision, pa.int64()), verdicts.num_rows)
    columns[FINAL] = finals
    return pa.RecordBatch.from_pydict(columns)
