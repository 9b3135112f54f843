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
    rows: Sequence[tuple[int, Row]], wait: int | None
) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """Return the rows to judge in their order, and those that come too late.

    Args:
        rows: the time-stamps of rows and the rows, as they come.
        wait: how late a row may be; None if none comes too late.
    """
    admitted: list[tuple[int, Row]] = []
    refused: list[tuple[int, Row]] = []
    for place, (time_stamp, row) in enumerate(rows):
        latest = max(stamp for stamp, _ in rows[: place + 1])
        is_late = wait is not None and latest - time_stamp > wait
        (refused if is_late else admitted).append((time_stamp, row))
    return sorted(admitted, key=lambda pair: pair[0]), refused
