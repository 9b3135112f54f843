"""What a batch of events has changed: first verdicts, other verdicts, and verdicts withdrawn."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.verdicts.arrays import VerdictArray, verdict_type

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["DELETED", "INSERTED", "UPDATED", "WITHDRAWN", "Changes", "change_type"]

INSERTED, UPDATED, DELETED, WITHDRAWN = range(4)
"""What has happened to the verdict of a time-point."""

_MARKS = ("", "!", "!", "!x")


@cache
def change_type() -> np.dtype[np.void]:
    """The type of the records of changes.

    Fields: those of `verdict_type()`, where `kind` is 3 if there is no verdict any more;
    `operation`, one of INSERTED, UPDATED, DELETED and WITHDRAWN; `former`, the kind
    before the batch; and `trace`, the number of the key.
    """
    return np.dtype(
        {
            "names": [
                "time_stamp",
                "offset",
                "reference_time_stamp",
                "reference_offset",
                "kind",
                "operation",
                "former",
                "trace",
            ],
            "formats": ["i8", "u8", "i8", "u8", "u1", "u1", "u1", "u4"],
            "offsets": [0, 8, 16, 24, 32, 33, 34, 36],
            "itemsize": 40,
        }
    )


class Changes:
    """What a batch has changed, at 40 bytes for each time-point.

    Iteration gives lines: `5:0 false` for the first verdict of a time-point, `!5:0 true` for
    another one, `!5:0` if the time-point is undecided again, `!x5:0` if its event was retracted,
    and `!@17` if all verdicts below time 17 are final since this batch. With keys, the key and a
    tab come first.

    Attributes:
        records: an array of `change_type()`, trace by trace.
        final_below: all verdicts of time-points below this time-stamp are final; None if it is the
            same as before the batch, and in histories with a clock for each key.
        refused: the indices of the rows of the batch that came too late, which change nothing.
    """

    __slots__ = ("_keys", "final_below", "records", "refused")

    def __init__(
        self,
        records: NDArray[np.void],
        keys: Sequence[Hashable] | None = None,
        *,
        final_below: int | None = None,
        refused: NDArray[np.uint32] | None = None,
    ) -> None:
        self.records = records
        self._keys = keys
        self.final_below = final_below
        self.refused = np.empty(0, np.uint32) if refused is None else refused

    def __len__(self) -> int:
        return len(self.records)

    @property
    def operation(self) -> NDArray[np.uint8]:
        """INSERTED, UPDATED, DELETED or WITHDRAWN, for each record."""
        return self.records["operation"]

    @property
    def keys(self) -> list[Hashable] | None:
        """The key of each record; None in histories without keys."""
        if self._keys is None:
            return None
        return [self._keys[number] for number in self.records["trace"].tolist()]

    @property
    def inserted(self) -> VerdictArray:
        """The first verdicts of time-points."""
        return self._verdicts(INSERTED)

    @property
    def updated(self) -> VerdictArray:
        """The verdicts of time-points that had another one, or had one that was withdrawn."""
        return self._verdicts(UPDATED)

    @property
    def deleted(self) -> list[tuple[int, int]]:
        """The time-points that had a verdict and have none now: (time_stamp, offset)."""
        return self._names(DELETED)

    @property
    def withdrawn(self) -> list[tuple[int, int]]:
        """The time-points whose events were retracted: (time_stamp, offset).

        Only those that have had a verdict. Their names are never used again.
        """
        return self._names(WITHDRAWN)

    def _names(self, operation: int) -> list[tuple[int, int]]:
        chosen = self.records[self.operation == operation]
        return list(zip(chosen["time_stamp"].tolist(), chosen["offset"].tolist(), strict=True))

    def _verdicts(self, operation: int) -> VerdictArray:
        chosen = self.records[self.operation == operation]
        records = np.zeros(len(chosen), verdict_type())
        for name in verdict_type().names or ():
            records[name] = chosen[name]
        return VerdictArray(records)

    def __iter__(self) -> Iterator[str]:
        keys = self.keys
        for place, record in enumerate(self.records.tolist()):
            key = "" if keys is None else f"{keys[place]}\t"
            yield key + _line(record)
        if self.final_below is not None:
            yield f"!@{self.final_below}"

    def __repr__(self) -> str:
        counts = np.bincount(self.operation, minlength=4).tolist()
        return (
            f"<Changes: {counts[INSERTED]} inserted, {counts[UPDATED]} updated, "
            f"{counts[DELETED]} deleted, {counts[WITHDRAWN]} withdrawn>"
        )


def _line(record: tuple[Any, ...]) -> str:
    time_stamp, offset, reference_time_stamp, reference_offset, kind, operation, *_ = record
    name = f"{_MARKS[operation]}{time_stamp}:{offset}"
    if operation in (DELETED, WITHDRAWN):
        return name
    if kind == 2:
        return f"{name} = {reference_time_stamp}:{reference_offset}"
    return f"{name} {'true' if kind else 'false'}"
