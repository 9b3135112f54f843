"""Where the rows of tables come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.row_files import RowFile
from mtlmon.checking.sources import Origins
from mtlmon.support.table_formats import BINARY_FORMATS
from mtlmon.tables.columns.usable import PLACE_COLUMNS, SortedBlock, lines_of
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

    def of(self, rows: UsableRows) -> Origins:
        """Return the origins of rows of a block, whether they are sorted or not."""
        if isinstance(rows.block, SortedBlock):
            return self._of_sorted(rows.batch)
        file = self._files[self._numbers[rows.block.path]]
        return Origins([file], None, self._numbers_of(rows))

    def _numbers_of(self, rows: UsableRows) -> NDArray[np.int64]:
        """The numbers of rows of a block in their file, as `RowFile` says."""
        file = self._files[self._numbers[rows.block.path]]
        if file.name is None:
            return rows.number_array - 1
        return lines_of(rows) if file.has_lines else rows.number_array

    def _of_sorted(self, batch: pa.RecordBatch) -> Origins:
        """Return the origins of rows that have columns for them."""
        path, row, line = (batch.column(name) for name in PLACE_COLUMNS)
        entries = path.dictionary_encode()
        known = [self._numbers[name] for name in entries.dictionary.to_pylist()]
        file_of = np.asarray(known, np.uint32)[np.asarray(entries.indices, np.intp)]
        # lines are null where files have none
        numbers = np.array(pc.coalesce(line, row), np.int64)
        is_object = np.array([one.name is None for one in self._files], np.bool_)
        return Origins(self._files, file_of, numbers - is_object[file_of])

    def words(self, rows: UsableRows) -> NDArray[np.uint64]:
        """Return two words for each of the rows of a block, for `of_words`."""
        words = np.empty((len(rows.time_stamps), 2), np.uint64)
        words[:, 0] = self._numbers[rows.block.path]
        words[:, 1] = self._numbers_of(rows)
        return words

    def of_words(self, words: NDArray[np.uint64]) -> Origins:
        """Return the origins of rows in any order."""
        file_of = words[:, 0].astype(np.uint32)
        return Origins(self._files, file_of, words[:, 1].astype(np.int64))


def _file_of(source: TableFile | TableObject) -> RowFile:
    """Return how the rows of a file or an object are named."""
    if not isinstance(source, TableFile):
        return RowFile(None, has_lines=False)
    return RowFile(source.name, source.format not in BINARY_FORMATS)
