"""The answers of a run, one by one for who iterates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Answer"]


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
