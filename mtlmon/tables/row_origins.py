"""Where the rows of tables come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.checking.sources import Origins
from mtlmon.support.table_formats import LINES
from mtlmon.tables.columns.usable import PLACE_COLUMNS, SortedBlock
from mtlmon.tables.formats.files import TableFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.tables.columns.usable import UsableRows
    from mtlmon.tables.formats.files import TableObject

__all__ = ["RowOrigins"]


class RowOrigins:
    """Tells the files and rows of events.

    Args:
        sources: the files and objects that the events are read from.
    """

    def __init__(self, sources: Sequence[TableFile | TableObject]) -> None:
        # by the name in messages: the number of the source, as file names may be repeated
        self._numbers = {one.name: number for number, one in enumerate(sources)}
        self._files = [_file_of(one) for one in sources]
        self._first = np.array([0 if name is None else 1 for name in self._files], np.int64)
        # Lines with a pattern are known by their places in the file.
        self._has_lines = any(isinstance(one, TableFile) and one.format == LINES for one in sources)

    def of(self, rows: UsableRows) -> Origins:
        """Return the origins of rows of a block, whether they are sorted or not."""
        if isinstance(rows.block, SortedBlock):
            return self._of_sorted(rows.batch)
        number = self._numbers[rows.block.path]
        numbers = self._numbers_of(rows) - 1 + self._first[number]
        return Origins([self._files[number]], None, numbers)

    def _numbers_of(self, rows: UsableRows) -> NDArray[np.int64]:
        """The numbers of rows, or of their lines, from 1."""
        if not self._has_lines:
            return rows.number_array
        line_of, count = rows.block.line_of, len(rows.time_stamps)
        assert line_of is not None
        return np.fromiter((line_of(rows.place(row)) for row in range(count)), np.int64, count)

    def _of_sorted(self, batch: pa.RecordBatch) -> Origins:
        """Return the origins of rows that have columns for them."""
        path, row, line = (batch.column(name) for name in PLACE_COLUMNS)
        if self._has_lines:
            row = line
        entries = path.dictionary_encode()
        known = [self._numbers[name] for name in entries.dictionary.to_pylist()]
        file_of = np.asarray(known, np.uint32)[np.asarray(entries.indices, np.intp)]
        return Origins(self._files, file_of, np.asarray(row) - 1 + self._first[file_of])

    def words(self, rows: UsableRows) -> NDArray[np.uint64]:
        """Return two words for each of the rows of a block, for `of_words`."""
        words = np.empty((len(rows.time_stamps), 2), np.uint64)
        words[:, 0] = self._numbers[rows.block.path]
        words[:, 1] = self._numbers_of(rows)
        return words

    def of_words(self, words: NDArray[np.uint64]) -> Origins:
        """Return the origins of rows in any order."""
        file_of = words[:, 0].astype(np.uint32)
        numbers = words[:, 1].astype(np.int64) - 1 + self._first[file_of]
        return Origins(self._files, file_of, numbers)


def _file_of(source: TableFile | TableObject) -> str | None:
    """Return the name of a file; None for an object."""
    if not isinstance(source, TableFile):
        return None
    # It has the name of a file that is followed.
    return "stdin" if source.name == "<stdin>" else source.name
