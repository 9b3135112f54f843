"""Join the parts of a snapshot to bytes, each behind its length, and take them apart again."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mtlmon.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["damaged", "joined_parts", "sized", "split_parts", "take_sized"]

_SIZE = struct.Struct("<Q")


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
