"""Converts the end times that callers give: time-stamps, or dates and times."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, TypeAlias, cast
from zoneinfo import ZoneInfo

import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.tables.columns.times import Times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.trace_monitors import EndTime

EndTimeLike: TypeAlias = "EndTime | datetime | date"
"""An end time, which can be a datetime if times are timestamps."""


def time_stamp_of(
    end_time: EndTimeLike,
    source: EventSource,
    schema: pa.Schema,
    spark: SparkSession | None = None,
) -> EndTime:
    """Convert an end time for monitors.

    Args:
        end_time: the end time as the caller gives it.
        source: how rows become events.
        schema: a schema with the column of times.
        spark: the session whose time zone applies to datetimes without one; without a session,
            they are in UTC.

    Raises:
        MtlmonError: the type of the end time does not fit the column of times.
    """
    if not isinstance(end_time, date):
        # monitors check the other values
        return end_time
    kind = schema.field(source.selection.time_name).type
    is_calendar = pa.types.is_temporal(kind)
    if not is_calendar and source.time_unit is None:
        raise MtlmonError(
            f"end_time is a {type(end_time).__name__}, and the column "
            f"{source.selection.time_name!r} has values of type {kind}: give a time-stamp, or say "
            "what these count since 1970 (time_unit)"
        )
    if not isinstance(end_time, datetime):
        if not pa.types.is_date(kind):
            raise MtlmonError(
                f"end_time is the date {end_time}, which has no time of day: give a datetime"
            )
        return _time_stamp(pa.array([end_time], pa.date32()), source, is_calendar)
    if end_time.tzinfo is None and pa.types.is_timestamp(kind) and kind.tz is not None and spark:
        zone = spark.conf.get("spark.sql.session.timeZone", "UTC")
        end_time = end_time.replace(tzinfo=_zone(cast("str", zone)))
    return _time_stamp(pa.array([end_time]), source, is_calendar)


def _time_stamp(value: pa.Array, source: EventSource, is_calendar: bool) -> int:
    resolution = source.resolution or (None if is_calendar else source.time_unit)
    times = Times(None, None, resolution)
    time_stamps, faults = times.read(value)
    if faults is not None:
        raise MtlmonError(f"end_time: {times.message(value, 0, int(faults[0]))}")
    return int(time_stamps[0])


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise MtlmonError(
            f"end_time has no time zone, and that of the session, {name!r}, is unknown to Python: "
            "give a datetime with tzinfo"
        ) from None
