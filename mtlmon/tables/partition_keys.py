"""Numbers for the keys of rows, in each of the partitions of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.errors import TableError
from mtlmon.support.atom_names import listed
from mtlmon.syntax.report import visible
from mtlmon.tables.columns.arrow_text import text_array
from mtlmon.tables.columns.keys import NO_NUMBER, find_rows, key_texts, number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.engine.native import MemoryLimit
    from mtlmon.errors import TickError
    from mtlmon.tables.columns.usable import UsableRows
    from mtlmon.tables.columns.wanted import Selection

__all__ = ["OrderedNumbers", "PartitionKeys"]


class PartitionKeys:
    """Gives keys their numbers.

    Args:
        partitions: the key columns of each partition; a partition without them is one trace.
        selection: has the key columns.
        memory: notes what keys hold.

    Attributes:
        tables: for each partition, the numbers of its keys, or None without key columns.
    """

    def __init__(
        self, partitions: Sequence[tuple[str, ...]], selection: Selection, memory: MemoryLimit
    ) -> None:
        self._partitions = tuple(partitions)
        self._selection = selection
        self._memory = memory
        self.tables = self.new_tables()

    def new_tables(self) -> tuple[KeyTable | None, ...]:
        """Return an empty table for each partition that has keys."""
        return tuple(KeyTable(len(columns)) if columns else None for columns in self._partitions)

    def numbers(
        self, rows: UsableRows, tables: Sequence[KeyTable | None] | None = None
    ) -> list[NDArray[np.uint32] | None]:
        """Return the numbers of each row's keys by partition, and add new keys to the tables.

        Args:
            rows: the rows.
            tables: those to use instead of `tables`.

        Raises:
            TableError: a key cannot be written as text.
        """
        if tables is None:
            tables = self.tables
        numbers: list[NDArray[np.uint32] | None] = []
        for names, keys in zip(self._partitions, tables, strict=True):
            if keys is None:
                numbers.append(None)
                continue
            columns = [self._selection.cells(rows.batch, name) for name in names]
            try:
                if any(column.null_count for column in columns):
                    # rows that need no key are numbered like those of an empty one
                    columns = [text_array(column).fill_null("") for column in columns]
                numbers.append(number_rows(keys, columns))
            except pa.ArrowException as error:
                reason = " ".join(str(error).split())
                raise TableError(
                    f"cannot write the key of {listed(names)} as text: {reason}; convert it to "
                    "text first",
                    path=rows.block.path,
                ) from None
        self.note_memory(tables)
        return numbers

    def note_memory(self, tables: Sequence[KeyTable | None]) -> None:
        """Count what the keys of some tables hold."""
        self._memory.note("keys", sum(keys.held_bytes for keys in tables if keys is not None))

    def traces_of(self, partition: int, keys: Sequence[pa.Array]) -> NDArray[np.uint32]:
        """Return the numbers of the traces with some keys; `NO_NUMBER` if there are none."""
        table = self.tables[partition]
        assert table is not None
        return find_rows(table, keys)

    def key_of(self, refused: TickError) -> str:
        """The key of the trace that a tick belongs to, in words; empty if there is none."""
        keys = self.tables[refused.partition]
        if keys is None:
            return ""
        columns = self._partitions[refused.partition]
        cells = zip(columns, keys.key(refused.number), strict=True)
        return visible(", ".join(f"{name} {cell}" for name, cell in cells))


class OrderedNumbers:
    """Gives the keys of rows that are sorted by time the numbers that sorted rows would have.

    Numbers show in the order of verdicts that the end of the log brings.

    Args:
        keys: the keys, with their numbers in the order of the rows as they came.
        ordered: gets the keys in the order of time.
    """

    def __init__(self, keys: KeyTable, ordered: KeyTable) -> None:
        self._keys = keys
        self._ordered = ordered
        # by the number of a key, that in the order of time
        self._found = np.full(len(keys), NO_NUMBER, np.uint32)

    def of(self, numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the numbers of the keys of the next rows in the order of time."""
        found = self._found[numbers]
        unknown = numbers[found == NO_NUMBER]
        if not len(unknown):
            return found
        _, firsts = np.unique(unknown, return_index=True)
        new = np.ascontiguousarray(unknown[np.sort(firsts)])
        columns = [key_texts(self._keys, new, place) for place in range(self._keys.columns)]
        self._found[new] = number_rows(self._ordered, columns)
        return self._found[numbers]
