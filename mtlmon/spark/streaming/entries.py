"""The one format of what groups store: entries of journals, as bytes.

An entry has either what a group remembers, or what it has taken in a batch: its rows, and the
horizon. Whoever has all entries of a journal can take them again.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import SnapshotError
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DAMAGED", "Entry"]

DAMAGED = "the state of the query is damaged"

# Versions 1 to 5 are those of formats that buckets, slices and relations had of their own. In
# version 6, buckets whose verdicts late events correct had formats of their own.
_VERSION = 7
# version, whether it has a state, horizon, size of the settings
_HEAD = struct.Struct("<B?qH")


class Entry(NamedTuple):
    """An entry of a journal.

    Attributes:
        is_state: whether it has what the group remembers, and not only what it has taken.
        horizon: rows with time-stamps below it have been taken in.
        settings: what the state depends on: how the query was made.
        parts: what is remembered or has been taken.
    """

    is_state: bool
    horizon: int
    settings: bytes
    parts: Sequence[bytes]

    def encoded(self) -> bytes:
        """Return the entry as bytes."""
        head = _HEAD.pack(_VERSION, self.is_state, self.horizon, len(self.settings))
        return head + self.settings + joined_parts(self.parts)

    @classmethod
    def decoded(cls, content: bytes) -> Entry:
        """Decode an entry.

        Raises:
            SnapshotError: the bytes are something else, or of another version.
        """
        version = content[0] if content else None
        if version != _VERSION:
            raise SnapshotError(
                f"the state of the query is of version {version}, this is {_VERSION}: it was made "
                "by another version of mtlmon and needs a checkpointLocation of its own"
            )
        try:
            _, is_state, horizon, size = _HEAD.unpack_from(content)
            end = _HEAD.size + size
            parts = split_parts(content[end:])
        except (struct.error, SnapshotError):
            raise SnapshotError(DAMAGED) from None
        return cls(is_state, horizon, content[_HEAD.size : end], parts)
