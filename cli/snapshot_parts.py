"""Join the parts of a snapshot to bytes, and split such bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MIXED", "POLICIES", "RELATIONS", "damaged", "joined_parts", "split_parts"]

POLICIES = b"mtlmon policies\x01"
RELATIONS = b"mtlmon relations\x01"
MIXED = b"mtlmon mixed\x01"
"""What snapshots begin with: of policies without variables, of those with variables, of both."""

_RUNS = {
    POLICIES: "a run without policies with variables",
    RELATIONS: "a run of policies with variables only",
    MIXED: "a run of policies with variables and without",
}
_SIZE_BYTES = 8
"""The width of the size that precedes each part."""


def joined_parts(kind: bytes, parts: Iterable[bytes]) -> bytes:
    """Return a snapshot of a kind with the parts."""
    return kind + b"".join(len(one).to_bytes(_SIZE_BYTES, "big") + one for one in parts)


def split_parts(snapshot: bytes, kind: bytes, least: int) -> list[bytes]:
    """Return the parts of a snapshot, of which there are at least `least`.

    Raises:
        SnapshotError: the snapshot is damaged, or was made by a run of another kind.
    """
    if not snapshot.startswith(kind):
        for other, run in _RUNS.items():
            if snapshot.startswith(other):
                raise SnapshotError(f"it was made by {run}")
        raise SnapshotError("it was made by a run over a text log with a single policy")
    parts = []
    place = len(kind)
    while place < len(snapshot):
        first = place + _SIZE_BYTES
        place = first + int.from_bytes(snapshot[place:first], "big")
        parts.append(snapshot[first:place])
    if len(parts) < least or place != len(snapshot):
        raise damaged()
    return parts


def damaged() -> SnapshotError:
    return SnapshotError("the snapshot is damaged: it does not describe a state")
