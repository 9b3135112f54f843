"""Files of tables in which a reader can go on at a place, where another one has been.

A reader of a table that goes on first reads the header and the first rows, which tell the types of
columns and the notation of times; then comes `GoneOn`, and the states of the format's reader, of
`RowCheck` and the others are restored. Where values depend on other rows (streams, rows that wait,
times without a year), there are no places: reading the log again rebuilds all of that, so
checkpoints do not contain it.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from mtlmon.support.table_formats import COMPRESSION_BYTES, LINES, compression_of
from mtlmon.tables.formats.delimited import FORMATS_WITH_DELIMITERS
from mtlmon.tables.formats.files import TableFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.support.inputs import FollowedFile, Input
    from mtlmon.tables.formats.files import TableObject

__all__ = ["SoughtFile", "sought_file"]


class SoughtFile:
    """A file that is open beside its reader, until `close`.

    Args:
        path: the path of the file.

    Attributes:
        followed: the file that is followed, if it is read by its lines; else None.
    """

    followed: FollowedFile | None = None

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """The descriptor of the file."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FollowedInput(SoughtFile):
    """An input through which the lines of a file come that is followed."""

    def __init__(self, stream: Input) -> None:
        super().__init__(stream.name)
        self._stream = stream
        self.followed = stream.followed

    @property
    def descriptor(self) -> int:
        return self._stream.descriptor


def sought_file(sources: Sequence[TableFile | TableObject]) -> SoughtFile | None:
    """Return the only file of the sources, if a reader can go on in it; else None.

    A reader can do so in a regular file of lines that is not compressed, or one that is followed.
    """
    only = sources[0]
    if len(sources) > 1 or not isinstance(only, TableFile):
        return None
    if only.format not in (*FORMATS_WITH_DELIMITERS, "jsonl", LINES):
        return None
    if only.input is not None:
        return None if only.input.followed is None else FollowedInput(only.input)
    if not stat.S_ISREG(os.stat(only.path).st_mode):
        return None
    with open(only.path, "rb", buffering=0) as file:
        is_compressed = compression_of(file.read(COMPRESSION_BYTES)) is not None
    return None if is_compressed else SoughtFile(only.path)
