"""Rows that may come late, and the states between them, as bytes and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.streams.named_rows import Rows
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["rows_as_bytes", "rows_of_bytes"]


def rows_as_bytes(rows: Rows) -> bytes:
    """Return rows as bytes, for `rows_of_bytes`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.inputs.schema) as writer:
        writer.write_batch(rows.inputs)
    columns: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = rows[1:]
    return joined_parts([sink.getvalue().to_pybytes(), *(one.tobytes() for one in columns)])


def rows_of_bytes(data: bytes, atoms: int) -> Rows:
    """Return the rows that `rows_as_bytes` has written.

    Args:
        data: the bytes.
        atoms: how many atoms the rows have.

    Raises:
        SnapshotError: the bytes do not describe such rows.
        ValueError: likewise.
    """
    inputs, *columns = split_parts(data)
    with pa.ipc.open_stream(inputs) as reader:
        (batch,) = reader
    times, traces, offsets, held = columns
    rows = Rows(
        batch,
        np.frombuffer(times, np.int64),
        np.frombuffer(traces, np.uint32),
        np.frombuffer(offsets, np.uint64),
        np.frombuffer(held, np.bool_).reshape(batch.num_rows, atoms),
    )
    if {len(column) for column in rows[1:]} != {batch.num_rows}:
        raise damaged()
    return rows
