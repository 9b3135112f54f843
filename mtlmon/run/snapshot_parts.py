"""Join the parts of a snapshot to bytes, and split such bytes."""

from __future__ import annotations

from mtlmon.errors import SnapshotError
from mtlmon.support import snapshot_parts as support
from mtlmon.support.snapshot_parts import damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ASSUMING",
    "CORRECTED",
    "JUDGES",
    "POLICIES",
    "QUERY",
    "RELATIONS",
    "damaged",
    "joined_parts",
    "require_same",
    "split_parts",
]

POLICIES = b"mtlmon policies\x03"
RELATIONS = b"mtlmon relations\x04"
JUDGES = b"mtlmon judges\x01"
CORRECTED = b"mtlmon corrected\x05"
ASSUMING = b"mtlmon assuming\x01"
QUERY = b"mtlmon query\x01"
"""What snapshots begin with: of policies without variables, of those with variables, of both, of
runs whose verdicts are corrected, of one of the first three whose file has assumptions, and of
queries."""

_RUNS = {
    POLICIES: "a run without policies with variables",
    RELATIONS: "a run of policies with variables only",
    JUDGES: "a run of policies with variables and without",
    CORRECTED: "a run with --lateness",
    QUERY: "mtlmon query",
}


def joined_parts(kind: bytes, parts: Iterable[bytes]) -> bytes:
    """Return a snapshot of a kind with the parts."""
    return kind + support.joined_parts(parts)


def split_parts(snapshot: bytes, kind: bytes, least: int) -> list[bytes]:
    """Return the parts of a snapshot, of which there are at least `least`.

    Raises:
        SnapshotError: the snapshot is damaged, or was made by a run of another kind.
    """
    if not snapshot.startswith(kind):
        for other, run in _RUNS.items():
            if snapshot.startswith(other):
                raise SnapshotError(f"it was made by {run}")
            if snapshot.startswith(other[:-1]):
                raise SnapshotError("it was made by another version of mtlmon")
        raise SnapshotError("it was made by a run over a text log with a single policy")
    parts = support.split_parts(snapshot[len(kind) :])
    if len(parts) < least:
        raise damaged()
    return parts


def require_same(settings: Iterable[tuple[str, object]], kept: object) -> None:
    """Raise SnapshotError if settings, each with words for that, are not those of a snapshot."""
    wanted = list(settings)
    if not isinstance(kept, list) or len(kept) != len(wanted):
        raise damaged()
    for (what, value), before in zip(wanted, kept, strict=True):
        if value != before:
            raise SnapshotError(f"it was made {what}")
