"""The form of a check's snapshots: what they depend on, and what a check knows."""

from __future__ import annotations

from mtlmon.errors import SnapshotError
from mtlmon.support import snapshot_parts
from mtlmon.support.lean_typing import NamedTuple
from mtlmon.support.snapshot_parts import damaged, digest, sized, take_sized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CheckNumbers", "opened", "sealed"]

_KIND = b"mtlmon check 8\n"


class CheckNumbers(NamedTuple):
    """How far a check is.

    Attributes:
        is_stopped: whether the first violation has been found.
        position: the number of events that have been checked.
        clock: the last time-stamp, or None.
        first_time_stamp: the first time-stamp, or None.
        keys: by partition, the keys so far if the first violation is wanted, else 0.
        known_keys: by partition, those up to the first violation; 0 before it is found.
        idle_limits: by partition, the number of keys from which on idle ones are looked for.
        forgotten: by partition, the number of keys that were forgotten.
    """

    is_stopped: bool
    position: int
    clock: int | None
    first_time_stamp: int | None
    keys: list[int]
    known_keys: list[int]
    idle_limits: list[int]
    forgotten: list[int]

    def pack(self) -> bytes:
        """Return the numbers as bytes."""
        import json

        return sized(json.dumps(self).encode())

    @classmethod
    def unpack(cls, body: bytes) -> tuple[CheckNumbers, bytes]:
        """Return the numbers at the start of bytes, and the bytes behind them.

        Raises:
            SnapshotError: there are no such numbers.
        """
        import json

        text, body = take_sized(body)
        try:
            return cls(*json.loads(text)), body
        except (ValueError, TypeError):
            raise damaged() from None


def sealed(settings: Sequence[tuple[str, object]], body: bytes) -> bytes:
    """Return a snapshot.

    Args:
        settings: what the snapshot depends on, each with words for an error.
        body: the content.
    """
    return snapshot_parts.sealed(_KIND, b"".join(_digests(settings)) + body)


def opened(snapshot: bytes, settings: Sequence[tuple[str, object]]) -> bytes:
    """Return the body of a snapshot.

    Raises:
        SnapshotError: the bytes are not a snapshot, or are damaged, or belong to other settings or
            to another version.
    """
    body = snapshot_parts.unsealed(_KIND, snapshot)
    for own, (what, _) in zip(_digests(settings), settings, strict=True):
        if not body.startswith(own):
            raise SnapshotError(f"the snapshot is of {what}")
        body = body[len(own) :]
    return body


def _digests(settings: Sequence[tuple[str, object]]) -> list[bytes]:
    return [digest(repr(value).encode()) for _, value in settings]
