"""The monitors of a worker, which the live buckets of all queries with the same policies share.

A worker has one `KeyedMonitors` for each policy, in which each key of each of its live buckets has
a stream. So what has been found out about states is there for all of them, and for later batches,
even for a bucket that comes from another worker.
"""

from __future__ import annotations

import pickle
from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from mtlmon.drive.native import KeyedMonitors
from mtlmon.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.policies import Policies

__all__ = ["SharedMonitors", "digest_of", "monitors_of"]

_DIGEST_BYTES = 16


def digest_of(policies: Policies) -> bytes:
    """Return a digest of what the monitors of policies depend on."""
    made = pickle.dumps((policies.mode, [one.program for one in policies.policies]))
    return blake2b(made, digest_size=_DIGEST_BYTES).digest()


class SharedMonitors:
    """A monitor for each policy; all have the same streams, each of one key of one bucket.

    Args:
        policies: the policies.

    Attributes:
        monitors: the monitors, in the order of the policies.
        key_of: by the number of a stream, the number of its key in the bucket that it is of.
        is_broken: whether there was an error, after which they must not be used.
    """

    def __init__(self, policies: Policies) -> None:
        self.monitors = [
            KeyedMonitors(policy.program, policies.mode, own_clocks=True)
            for policy in policies.policies
        ]
        self.key_of = np.empty(0, np.int64)
        self.is_broken = False

    def add(self, count: int) -> NDArray[np.uint32]:
        """Add streams that have no event yet; return their numbers."""
        return self._numbered([one.add(count) for one in self.monitors])

    def restore(self, snapshots: Sequence[bytes]) -> NDArray[np.uint32]:
        """Add the streams of snapshots, one for each policy; return their numbers.

        Raises:
            SnapshotError: the snapshots are damaged, or belong to other policies.
        """
        if len(snapshots) != len(self.monitors):
            trouble = f"there are {len(snapshots)} policies in it"
        else:
            try:
                pairs = zip(self.monitors, snapshots, strict=True)
                return self._numbered([one.restore(snapshot) for one, snapshot in pairs])
            except SnapshotError as error:
                self.is_broken = True
                trouble = str(error)
        raise SnapshotError(
            f"the state of the query does not fit the policies: {trouble}; other policies "
            "or another mode need a checkpointLocation of their own"
        )

    def snapshot(self, streams: NDArray[np.uint32]) -> list[bytes]:
        """Return snapshots of some streams, one for each policy."""
        return [one.snapshot(streams) for one in self.monitors]

    def drop(self, streams: NDArray[np.uint32]) -> None:
        """Forget some streams."""
        for one in self.monitors:
            one.drop(streams)

    def held_bytes_of(self, count: int) -> int:
        """How many bytes so many streams take, about."""
        held = sum(one.held_bytes for one in self.monitors)
        return held * count // max(1, len(self.monitors[0]))

    def _numbered(self, found: Sequence[bytes]) -> NDArray[np.uint32]:
        first = found[0]
        if any(one != first for one in found):
            self.is_broken = True
            raise SnapshotError("the state of the query is damaged")
        numbers = np.frombuffer(first, np.uint32)
        missing = int(numbers.max(initial=0)) + 1 - len(self.key_of)
        if missing > 0:
            room = np.zeros(missing + len(self.key_of) // 2, np.int64)
            self.key_of = np.append(self.key_of, room)
        return numbers


_SHARED: WeakValueDictionary[bytes, SharedMonitors] = WeakValueDictionary()


def monitors_of(policies: Policies, digest: bytes) -> SharedMonitors:
    """Return the monitors for policies with a digest; live buckets keep them between batches."""
    found = _SHARED.get(digest)
    if found is None or found.is_broken:
        found = _SHARED[digest] = SharedMonitors(policies)
    return found
