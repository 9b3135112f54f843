"""The answers of a run: one by one for who iterates, and as tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from mtlmon.errors import RunError
from mtlmon.support.extras import load_extra

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas
    import polars
    import pyarrow as pa

__all__ = ["Answer", "Answers", "Frames", "one_table"]


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


class Frames(ABC):
    """Answers as frames, for what has them as a table."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the answers as one table."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the answers over to others, as `pa.table` and Polars ask for them."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the answers of `to_arrow` as a data frame of pandas."""
        load_extra("pandas", "pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Return the answers of `to_arrow` as a data frame of Polars."""
        frame: polars.DataFrame = load_extra("polars", "polars").from_arrow(self.to_arrow())
        return frame


class Answers(Frames, Sequence[Answer]):
    """The answers that a call of `Live` has brought: a sequence, and a table.

    Args:
        batches: the answers, as record batches.
    """

    __slots__ = ("_batches", "_rows")

    def __init__(self, batches: Sequence[pa.RecordBatch] = ()) -> None:
        self._batches = tuple(batches)
        self._rows: list[Answer] | None = None

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    @overload
    def __getitem__(self, place: int) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> list[Answer]: ...
    def __getitem__(self, place: int | slice) -> Answer | list[Answer]:
        return self._known()[place]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._known())

    def _known(self) -> list[Answer]:
        if self._rows is None:
            self._rows = [Answer(row) for batch in self._batches for row in batch.to_pylist()]
        return self._rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the answers as record batches."""
        return iter(self._batches)

    def to_arrow(self) -> pa.Table:
        """Return the answers as one table; without answers, one without columns.

        Raises:
            RunError: a column changes its type.
        """
        return one_table(self._batches)

    def __repr__(self) -> str:
        return f"Answers({self._known()!r})"


def one_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None) -> pa.Table:
    """Return answers as one table.

    Args:
        batches: the answers.
        schema: the columns, if there are no answers.

    Raises:
        RunError: a column changes its type.
    """
    import pyarrow as pa

    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if not tables:
        return pa.table({}) if schema is None else schema.empty_table()
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"a column changes its type: take batches() ({reason})") from None
