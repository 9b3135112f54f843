"""What `--wait` and `--late` mean: which rows are refused, and the order of the others.

Lateness is the largest time-stamp so far less that of the row. A row is admitted up to and
including the time to wait; admitted rows are sorted by time, and rows of one time-stamp keep their
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = TypeVar("Row")


def judged_and_refused(
    rows: Sequence[tuple[int, Row]], wait: int | None, passed: Sequence[int] | None = None
) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """Return the rows to judge in their order, and those that come too late.

    Args:
        rows: the time-stamps of rows and the rows, as they come.
        wait: how late a row may be; None if none comes too late.
        passed: for each row, the time up to which time had passed when it came: rows below that
            come too late; None if time has not passed without rows.
    """
    admitted: list[tuple[int, Row]] = []
    refused: list[tuple[int, Row]] = []
    for place, (time_stamp, row) in enumerate(rows):
        latest = max(stamp for stamp, _ in rows[: place + 1])
        is_late = wait is not None and latest - time_stamp > wait
        if passed is not None:
            is_late = is_late or time_stamp < passed[place]
        (refused if is_late else admitted).append((time_stamp, row))
    return sorted(admitted, key=lambda pair: pair[0]), refused


def judged_and_refused_quickly(
    rows: Sequence[tuple[int, Row]], wait: int
) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """Return what `judged_and_refused` does, for long logs."""
    latest = 0
    judged: list[tuple[int, Row]] = []
    refused: list[tuple[int, Row]] = []
    for stamp, row in rows:
        latest = max(latest, stamp)
        (refused if latest - stamp > wait else judged).append((stamp, row))
    return sorted(judged, key=lambda pair: pair[0]), refused
