"""The order of the rows of a trace, which is the same for data frames, cut traces and streams.

Rows are ordered by time-stamp, which is the time in whole units of the resolution, as on one
machine, and within a time-stamp by `order_within`. If that is not given, rows are ordered by the
exact time in its column, and those from Parquet files then by the path of the file and their
position in it. Streams keep the order of arrival of equal times instead.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError, TableError
from mtlmon.syntax.bounds import UNITS
from mtlmon.tables.columns.arrow_text import is_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

    from mtlmon.spark.common.events import EventSource

    OrderWithin: TypeAlias = str | Column | Sequence[str | Column] | None
    """The columns or expressions that order the rows of one time-stamp, or None."""

TIME_STAMP = "time"
"""The name of the column of time-stamps that is added to rows."""

_LARGEST = 2**63 - 1
_DIRECTION = re.compile(r"\s(asc|desc)(\s+nulls\s+(first|last))?\W*$", re.IGNORECASE)
# The loggers of pyspark that log errors of analysis, including expected ones.
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def column_named(name: str) -> Column:
    """Return a column by its name, which can have any characters."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def orders_of(df: DataFrame, order_within: OrderWithin, source: EventSource) -> list[Column]:
    """Return the columns that order the rows of one time-stamp.

    Raises:
        MtlmonError: an expression is invalid.
    """
    if order_within is not None:
        return given_orders(df, order_within)
    return [*exact_times(df, source), *places_in_files(df)]


def exact_times(df: DataFrame, source: EventSource) -> list[Column]:
    """Return the column of times if these can be finer than time-stamps, else nothing."""
    time = source.selection.time_name
    scale = _scale(df.schema[time].dataType, source)
    return [] if scale is not None and scale[1] == 1 else [column_named(time)]


def given_orders(df: DataFrame, order_within: OrderWithin) -> list[Column]:
    """Return the columns that a caller names or gives as expressions.

    Raises:
        MtlmonError: an expression is invalid.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    if order_within is None:
        return []
    if isinstance(order_within, str | Column):
        order_within = [order_within]
    columns = set(df.columns)
    found = []
    for one in order_within:
        if not isinstance(one, str | Column):
            raise MtlmonError(
                "order_within is columns or expressions, as texts or Column objects, not a "
                f"{type(one).__name__}"
            )
        text = one if isinstance(one, str) else str(one)
        if text not in columns and _DIRECTION.search(text):
            raise MtlmonError(
                f"order_within is ascending, and {text!r} has a direction: negate numbers instead, "
                "as in '-n'"
            )
        try:
            with quiet_analysis():
                if isinstance(one, Column):
                    column = one
                else:
                    column = column_named(one) if one in columns else F.expr(one)
                df.select(column).schema  # noqa: B018
        except (AnalysisException, ParseException) as error:
            reason = next(line for line in str(error).splitlines() if line.strip())
            raise MtlmonError(f"order_within: {text!r} cannot be read: {reason}") from None
        found.append(column)
    return found


def places_in_files(df: DataFrame) -> list[Column]:
    """The positions of rows in Parquet files; empty if rows do not come from such files."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    columns = [F.col("_metadata.file_path"), F.col("_metadata.row_index")]
    try:
        with quiet_analysis():
            df.select(*columns).schema  # noqa: B018
    except AnalysisException:
        return []
    return columns


@contextmanager
def quiet_analysis() -> Iterator[None]:
    """Keep pyspark from logging errors that are raised and caught."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def check_order_types(
    source: EventSource, fields: Sequence[StructField], schema: pa.Schema
) -> None:
    """Refuse times and keys that Spark and Python would order or compare differently.

    Args:
        source: how rows become events.
        fields: the selected columns, then those that order the rows of one time-stamp.
        schema: the selected columns.

    Raises:
        TableError: times are texts.
        MtlmonError: a key or an order has a collation, or the values of an order have no order.
    """
    name = source.selection.time_name
    if is_text(schema.field(name).type):
        raise TableError(
            "times are texts, which would be sorted as such, 9 after 10: cast them first "
            f"(.cast('bigint') or pyspark.sql.functions.to_timestamp({name!r}))",
            path=source.place,
            column=name,
        )
    check_collations([one for one in fields if one.name in source.selection.keys])
    for number, field in enumerate(fields[len(source.selection.names) :], 1):
        kind = field.dataType.simpleString()
        if "map<" in kind or "variant" in kind:
            raise MtlmonError(
                f"order_within, number {number}, is of type {kind}, whose values have no order"
            )
        if (collation := _collation(field.dataType)) is not None:
            raise MtlmonError(
                f"order_within, number {number}, has the collation {collation}: take "
                "pyspark.sql.functions.collate(..., 'UTF8_BINARY') of it"
            )


def check_collations(fields: Sequence[StructField]) -> None:
    """Refuse keys for which different texts are equal.

    Raises:
        MtlmonError: a key has such a collation.
    """
    for field in fields:
        collation = _collation(field.dataType)
        if collation is not None:
            changed = "F.lower" if "LCASE" in collation or "_CI" in collation else "F.rtrim"
            raise MtlmonError(
                f"the key column {field.name!r} has the collation {collation}, by which different "
                "texts are equal: give it one spelling of each key first, as in "
                f"df.withColumn({field.name!r}, {changed}(F.collate({field.name!r}, "
                "'UTF8_BINARY')))"
            )


def _collation(kind: DataType) -> str | None:
    """The collation of a text type, or None if equal texts have the same characters."""
    name = getattr(kind, "collation", None)
    return None if name in (None, "UTF8_BINARY") else str(name)


def is_time_stamp(kind: DataType, source: EventSource) -> bool:
    """Whether values of a column of this type are time-stamps already."""
    from pyspark.sql.types import IntegralType

    return isinstance(kind, IntegralType) and _scale(kind, source) == (1, 1)


def with_time_stamps(rows: DataFrame, source: EventSource) -> DataFrame:
    """Add a column of time-stamps to rows whose first column is that of times.

    The time-stamp is null if the time is invalid, which is an error when the row is read.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType, StructField, StructType

    field = rows.schema.fields[0]
    scale = _scale(field.dataType, source)
    if scale is None:
        schema = StructType([*rows.schema.fields, StructField(TIME_STAMP, LongType())])
        return rows.mapInArrow(WithTimeStamps(source), schema)
    multiply, divide = scale
    number = _number(column_named(field.name), field.dataType)
    is_valid = (number >= 0) & (number <= _LARGEST // multiply)
    count: Column = number * multiply if multiply > 1 else number
    if divide > 1:
        count = F.call_function("div", number, F.lit(divide))
    return rows.withColumn(TIME_STAMP, F.when(is_valid, count).cast("bigint"))


def _number(column: Column, kind: DataType) -> Column:
    """Convert times of a type that `_scale` knows to integers."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, TimestampNTZType):
        # functions that count microseconds would use the session's time zone, in which some hours
        # do not exist
        length = column - F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        seconds = length.cast("interval second").cast("decimal(38,6)")
        return (seconds * 1_000_000).cast("bigint")
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("bigint")
    return column.cast("bigint")


def _scale(kind: DataType, source: EventSource) -> tuple[int, int] | None:
    """The factor and the divisor to convert integers to time-stamps; None if Python has to."""
    from pyspark.sql.types import DateType, IntegralType, TimestampNTZType, TimestampType

    if isinstance(kind, TimestampType | TimestampNTZType):
        unit, default = UNITS["us"], UNITS["s"]
    elif isinstance(kind, DateType):
        unit, default = UNITS["d"], UNITS["s"]
    elif not isinstance(kind, IntegralType):
        return None
    elif source.time_unit is None:
        return 1, 1
    else:
        unit = default = UNITS[source.time_unit]
    resolution = default if source.resolution is None else UNITS[source.resolution]
    return max(1, unit // resolution), max(1, resolution // unit)


class WithTimeStamps:
    """Adds a column of time-stamps to rows; picklable, a function for `mapInArrow`.

    The first column is that of times. If a time is invalid, the time-stamp is null.

    Args:
        source: how rows become events.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        times = self._source.times()
        for batch in batches:
            column = batch.column(0)
            time_stamps, faults = times.read(column)
            is_none = np.zeros(len(column), np.bool_) if faults is None else faults != 0
            found = pa.array(time_stamps, mask=is_none | np.asarray(column.is_null()))
            columns = [*batch.columns, found]
            yield pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
