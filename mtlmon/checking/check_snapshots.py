"""The form of a check's snapshots: a version, a digest, its settings, its numbers, its monitors."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import SnapshotError
from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CheckNumbers", "opened", "sealed"]

_MAGIC = b"mtlmon check"
_VERSION = 7
_DIGEST_BYTES = 8
# Whether the check is stopped, its position, the clock and the first time-stamp (-1 for none).
_NUMBERS = struct.Struct("<?Qqq")
# For each partition: the number of keys, and of those up to the first violation, if that is wanted;
# when to look for idle keys, and how many were forgotten.
_KEY_NUMBERS = struct.Struct("<QQQQ")


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
        packed = _NUMBERS.pack(
            self.is_stopped,
            self.position,
            _or_minus_one(self.clock),
            _or_minus_one(self.first_time_stamp),
        )
        of_partitions = zip(
            self.keys, self.known_keys, self.idle_limits, self.forgotten, strict=True
        )
        return packed + b"".join(_KEY_NUMBERS.pack(*own) for own in of_partitions)

    @classmethod
    def unpack(cls, body: bytes, partition_count: int) -> tuple[CheckNumbers, bytes]:
        """Return the numbers at the start of bytes, and the bytes behind them.

        Raises:
            SnapshotError: the bytes end before.
        """
        end = _NUMBERS.size + _KEY_NUMBERS.size * partition_count
        if len(body) < end:
            raise damaged()
        is_stopped, position, clock, first = _NUMBERS.unpack_from(body)
        parts = _KEY_NUMBERS.iter_unpack(body[_NUMBERS.size : end])
        of_partitions = (list(one) for one in zip(*parts, strict=True))
        numbers = cls(is_stopped, position, _or_none(clock), _or_none(first), *of_partitions)
        return numbers, body[end:]


def sealed(settings: Sequence[tuple[str, object]], body: bytes) -> bytes:
    """Return a snapshot.

    Args:
        settings: what the snapshot depends on, each with words for an error.
        body: the content.
    """
    head = b"".join(_short_digest(repr(value).encode()) for _, value in settings)
    content = head + body
    return _MAGIC + bytes([_VERSION]) + _short_digest(content) + content


def opened(snapshot: bytes, settings: Sequence[tuple[str, object]]) -> bytes:
    """Return the body of a snapshot.

    Raises:
        SnapshotError: the bytes are not a snapshot, or are damaged, or belong to other settings or
            to another version.
    """
    head = len(_MAGIC) + 1
    body = snapshot[head + _DIGEST_BYTES :]
    if not snapshot.startswith(_MAGIC) or len(snapshot) < head + _DIGEST_BYTES:
        raise SnapshotError("this is not a snapshot of a check of policies")
    if snapshot[head - 1] != _VERSION:
        raise SnapshotError(
            f"the snapshot has version {snapshot[head - 1]}; this version of mtlmon reads "
            f"version {_VERSION} only"
        )
    if snapshot[head : head + _DIGEST_BYTES] != _short_digest(body):
        raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
    place = 0
    for what, value in settings:
        if body[place : place + _DIGEST_BYTES] != _short_digest(repr(value).encode()):
            raise SnapshotError(f"the snapshot is of {what}")
        place += _DIGEST_BYTES
    return body[place:]


def _short_digest(data: bytes) -> bytes:
    """Return a digest that reveals damage, but not forgery."""
    # Imported on use, as it loads OpenSSL, which takes 8 ms and 3 MB.
    from hashlib import blake2b

    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
