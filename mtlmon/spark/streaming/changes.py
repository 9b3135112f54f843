"""Records of changes of verdicts: what two runs of monitors say differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.history.changes import DELETED, INSERTED, UPDATED, change_type
from mtlmon.verdicts.arrays import EQUIVALENT, verdict_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_VERDICT", "differences", "first_verdicts", "verdicts_of"]

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
    before: tuple[NDArray[np.void], NDArray[np.uint32]],
    first: NDArray[np.uint32],
    after: tuple[NDArray[np.void], NDArray[np.uint32]],
    second: NDArray[np.uint32],
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Compare the verdicts of two runs.

    Args:
        before: verdicts, no two of which are about one time-point, and the numbers of their
            streams.
        first: the numbers of all streams of this run, each of another key.
        after: likewise for the other run.
        second: the numbers of its streams, of the same keys.

    Returns:
        Records of changes, by key and in the order of time, and the indices of their keys.
    """
    owners = np.concatenate([_places(first, before[1]), _places(second, after[1])])
    changes = first_verdicts(np.concatenate([before[0], after[0]]))
    is_after = np.arange(len(changes)) >= len(before[0])
    order = np.lexsort((is_after, changes["offset"], changes["time_stamp"], owners))
    owners, changes, is_after = owners[order], changes[order], is_after[order]
    # two that stand side by side are about one time-point
    is_pair = np.zeros(len(changes), np.bool_)
    is_pair[1:] = is_after[1:] & ~is_after[:-1] & (owners[1:] == owners[:-1])
    for name in ("time_stamp", "offset"):
        is_pair[1:] &= changes[name][1:] == changes[name][:-1]
    has_pair = np.zeros(len(changes), np.bool_)
    has_pair[:-1] = is_pair[1:]
    changes["former"][is_pair] = changes["kind"][has_pair]
    changes["operation"][is_pair] = UPDATED
    is_same = np.zeros(len(changes), np.bool_)
    is_same[is_pair] = True
    for name in ("kind", *_REFERENCES):
        is_same[is_pair] &= changes[name][is_pair] == changes[name][has_pair]
    is_deleted = ~is_after & ~has_pair
    changes["former"][is_deleted] = changes["kind"][is_deleted]
    changes["kind"][is_deleted] = NO_VERDICT
    changes["operation"][is_deleted] = DELETED
    for name in _REFERENCES:
        changes[name][is_deleted] = 0
    kept = ~has_pair & ~is_same
    return changes[kept], owners[kept]


def _places(streams: NDArray[np.uint32], numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The index of each number among those of the streams."""
    order = np.argsort(streams)
    return order[np.searchsorted(streams, numbers, sorter=order)]
