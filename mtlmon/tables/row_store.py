"""Keeps the rows of a table until they are wanted in another order.

Without streams, sorting keeps a record for each event: its time, its keys and its letter. Streams
need columns, so with them the rows themselves are kept here, in memory or in a file, and the
records have their numbers only. All else is done as for a log in order. Hidden columns say where a
row comes from, for errors.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.tables.columns.concatenation import concatenated

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RowStore"]


class RowStore:
    """Rows that are taken out by their numbers, which count them from 0 as they come.

    Args:
        memory: how many bytes of rows to keep in memory; when there are more, they go to a file.

    Attributes:
        held_bytes: the number of bytes in memory.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self.held_bytes = 0
        self._starts = [0]
        # Each batch, or where it is in the file and how long its bytes are, with its schema.
        self._batches: list[pa.RecordBatch | tuple[int, int, pa.Schema]] = []
        self._in_memory: list[int] = []
        self._file: IO[bytes] | None = None
        self._end = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @property
    def count(self) -> int:
        """The number of rows so far."""
        return self._starts[-1]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            MtlmonError: a temporary file cannot be written.
        """
        if not batch.num_rows:
            return
        for place, field in enumerate(batch.schema):
            if pa.types.is_dictionary(field.type):
                # batches in the file have no dictionaries
                decoded = batch.column(place).dictionary_decode()
                batch = batch.set_column(place, field.name, decoded)
        self._in_memory.append(len(self._batches))
        self._batches.append(batch)
        self._starts.append(self._starts[-1] + batch.num_rows)
        self.held_bytes += batch.get_total_buffer_size()
        if self.held_bytes > self._memory:
            self._spill()

    def _spill(self) -> None:
        """Write the batches in memory to the file."""
        # imported on use, as it imports all kinds of compression
        from tempfile import TemporaryFile, gettempdir

        try:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 (closed with the store)
            for number in self._in_memory:
                batch = self._batches[number]
                assert isinstance(batch, pa.RecordBatch)
                data = batch.serialize()
                self._file.write(data)
                self._batches[number] = self._end, data.size, batch.schema
                self._end += data.size
            self._file.flush()
        except OSError as error:
            raise MtlmonError(
                f"sorting takes a temporary file in {gettempdir()}, which cannot be "
                f"written: {error.strerror}; TMPDIR names another directory"
            ) from error
        self._in_memory = []
        self.held_bytes = 0

    def take(self, numbers: NDArray[np.int64]) -> pa.RecordBatch:
        """Return rows by their numbers, at least one, in this order.

        Raises:
            MtlmonError: a column has values of different types in them.
        """
        of_batch = np.searchsorted(self._starts, numbers, "right") - 1
        order = np.argsort(of_batch, kind="stable")
        tables = []
        for batch in np.unique(of_batch).tolist():
            own = numbers[order][of_batch[order] == batch] - self._starts[batch]
            tables.append(pa.Table.from_batches([self._batch(batch).take(pa.array(own))]))
        try:
            table = concatenated(tables)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise MtlmonError(
                f"columns change their types, but streams need one type for each: {error}"
            ) from None
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        (found,) = table.combine_chunks().take(pa.array(back)).combine_chunks().to_batches()
        return found

    def _batch(self, number: int) -> pa.RecordBatch:
        batch = self._batches[number]
        if isinstance(batch, pa.RecordBatch):
            return batch
        assert self._file is not None
        start, size, schema = batch
        self._file.seek(start)
        return pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), schema)
