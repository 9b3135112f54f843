"""The time-points of each policy that come with a batch of rows."""

from __future__ import annotations

from mtlmon.support.lean_typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns
    from mtlmon.checking.row_offsets import RowOffsets
    from mtlmon.checking.sources import EventBatch
    from mtlmon.checking.time_points import ChosenPoints
    from mtlmon.drive.native import KeyedMonitors
    from mtlmon.policy.definitions import Clock

__all__ = ["BatchPoints", "points_of"]


class BatchPoints(NamedTuple):
    """The time-points of policies that come with a batch.

    Attributes:
        events: for each policy its events.
        numbers: for each policy the numbers of their traces; None if they are all rows.
        places: likewise, the rows that they come with.
        offsets: likewise, their offsets within their time-stamps; None if these are consecutive.
        rows: for each partition whose policies choose rows, the time-stamps, traces and offsets of
            all rows.
        tick_times: for each policy on ticks, the times of these.
    """

    events: list[EventColumns]
    numbers: list[NDArray[np.uint32] | None]
    places: list[NDArray[np.uint32] | None]
    offsets: list[NDArray[np.uint32] | None]
    rows: list[tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]] | None]
    tick_times: list[NDArray[np.int64]]


def _rows_of(
    batch: EventBatch, partition: int, offsets: RowOffsets
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    """The time-stamps, traces and offsets of the rows of a batch."""
    import numpy as np

    time_stamps = np.asarray(batch.time_stamps)
    own = batch.numbers_of(partition)
    numbers = np.zeros(len(time_stamps), np.uint32) if own is None else own
    return time_stamps, numbers, offsets.offsets(time_stamps, numbers)


def points_of(
    batch: EventBatch,
    monitors: Sequence[KeyedMonitors],
    partitions: Sequence[int],
    clocks: Sequence[Clock | None],
    row_offsets: Sequence[RowOffsets | None],
) -> BatchPoints:
    """Return the time-points of each policy that come with a batch.

    Args:
        batch: the batch.
        monitors: the monitors by policy.
        partitions: likewise, the partitions.
        clocks: likewise, the time-points, with periods in units of time; None for all rows.
        row_offsets: for each partition whose policies choose rows, the offsets of its rows.
    """
    found = BatchPoints([], [], [], [], [], [])
    for partition, offsets in enumerate(row_offsets):
        found.rows.append(None if offsets is None else _rows_of(batch, partition, offsets))
    chosen: dict[tuple[int, Clock], ChosenPoints] = {}
    for one, partition, clock in zip(monitors, partitions, clocks, strict=True):
        if clock is None:
            found.events.append(batch.events_of(one.atoms, partition))
            found.numbers.append(None)
            found.places.append(None)
            found.offsets.append(None)
            continue
        if (partition, clock) not in chosen:
            chosen[partition, clock] = batch.chosen(partition, clock)
        points = chosen[partition, clock]
        if clock.has_ticks:
            found.tick_times.append(points.time_stamps)
        found.events.append(points.events_of(one.atoms))
        found.numbers.append(points.numbers)
        found.places.append(points.places)
        rows = found.rows[partition]
        is_of_rows = clock.atom is not None and rows is not None
        found.offsets.append(rows[2][points.places] if is_of_rows and rows else None)
    return found
