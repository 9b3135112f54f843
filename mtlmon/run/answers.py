"""The answers of a run as record batches, and one by one for who iterates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.tables.outputs import RowTable

__all__ = ["Answer", "BatchOutput"]

_Rows = TypeVar("_Rows")


class BatchOutput(Generic[_Rows]):
    """Keeps the rows of a table as record batches until they are taken.

    Args:
        table: makes the rows.

    Attributes:
        schema: the columns; known once the run has ended, or the first rows have come.
    """

    lines = None

    def __init__(self, table: RowTable[_Rows]) -> None:
        self.table = table
        # nothing is written
        self.writer = ByteWriter()
        self.schema: pa.Schema | None = None
        self._batches: list[pa.RecordBatch] = []

    def put(self, rows: _Rows) -> None:
        """Take the rows."""
        for batch in self.table.batches(rows):
            self.schema = self.schema or batch.schema
            self._batches.append(batch)

    def close(self) -> None:
        """Note the columns of a table without rows."""
        if self.schema is None:
            self.schema = self.table.schema

    def take(self) -> list[pa.RecordBatch]:
        """Return the batches, and forget them."""
        batches, self._batches = self._batches, []
        return batches


class Answer(Mapping[str, Any]):
    """What a run says of one time-point: a row of its table, by the names of the columns.

    Attributes:
        policy: the policy's name; None if it has none.
        time: the time-stamp.
        offset: the number of the time-point among those of the time-stamp, from 0.
        verdict: whether the policy holds; None for an equivalence, and where a value of variables
            is found rather than judged.
        reference: the earlier time-point that has the same verdict, as `time:offset`, or None.

    >>> answer = Answer({"policy": "p", "user": "ann", "time": 3, "offset": 0, "verdict": False})
    >>> answer.verdict, answer["user"], answer.reference
    (False, 'ann', None)
    """

    __slots__ = ("_row",)

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row

    def __getitem__(self, column: str) -> Any:
        return self._row[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    @property
    def policy(self) -> str | None:
        name: str | None = self._row.get("policy")
        return name

    @property
    def time(self) -> int:
        time_stamp: int = self._row["time"]
        return time_stamp

    @property
    def offset(self) -> int:
        offset: int = self._row["offset"]
        return offset

    @property
    def verdict(self) -> bool | None:
        verdict: bool | None = self._row.get("verdict")
        return verdict

    @property
    def reference(self) -> str | None:
        reference: str | None = self._row.get("reference")
        return reference

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.items() if value is not None)
        return f"Answer({shown})"
