"""Join the parts of a snapshot to bytes, each behind its length, and take them apart again."""

from __future__ import annotations

import struct

from mtlmon.errors import SnapshotError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "damaged",
    "digest",
    "joined_parts",
    "sealed",
    "sized",
    "split_parts",
    "take_sized",
    "unsealed",
]

_SIZE = struct.Struct("<Q")
_DIGEST_BYTES = 8


def sealed(kind: bytes, body: bytes) -> bytes:
    """Return bytes behind a line that says what they are, and their digest, for `unsealed`."""
    return kind + digest(body) + body


def unsealed(kind: bytes, snapshot: bytes) -> bytes:
    """Return the bytes that `sealed` has been given.

    Raises:
        SnapshotError: they are of another kind, or damaged.
    """
    if not snapshot.startswith(kind):
        what = kind.decode().strip()
        raise SnapshotError(f"these bytes are not a snapshot of this version: {what}")
    body = snapshot[len(kind) + _DIGEST_BYTES :]
    if snapshot[len(kind) : len(kind) + _DIGEST_BYTES] != digest(body):
        raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
    return body


def digest(body: bytes) -> bytes:
    """Return a digest that reveals damage, but not forgery."""
    # imported on use, as it loads OpenSSL, which takes 2 ms and 3 MB
    from hashlib import blake2b

    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def sized(content: bytes) -> bytes:
    """Return bytes with their number before them, for `take_sized`."""
    return _SIZE.pack(len(content)) + content


def take_sized(body: bytes) -> tuple[bytes, bytes]:
    """Return the bytes that `sized` has written, and those behind them.

    Raises:
        SnapshotError: the bytes end before.
    """
    if len(body) < _SIZE.size:
        raise damaged()
    (size,) = _SIZE.unpack_from(body)
    end = _SIZE.size + size
    if len(body) < end:
        raise damaged()
    return body[_SIZE.size : end], body[end:]


def joined_parts(parts: Iterable[bytes]) -> bytes:
    """Return parts as bytes, for `split_parts`."""
    return b"".join(map(sized, parts))


def split_parts(body: bytes) -> list[bytes]:
    """Return the parts that `joined_parts` has written.

    Raises:
        SnapshotError: the bytes end within a part.
    """
    parts = []
    place = 0
    while place < len(body):
        if len(body) - place < _SIZE.size:
            raise damaged()
        (size,) = _SIZE.unpack_from(body, place)
        place += _SIZE.size
        if len(body) - place < size:
            raise damaged()
        parts.append(body[place : place + size])
        place += size
    return parts


def damaged() -> SnapshotError:
    """Return the error for a snapshot whose content makes no sense."""
    return SnapshotError("the snapshot is damaged: it does not describe a state")
