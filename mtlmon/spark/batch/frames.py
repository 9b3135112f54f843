"""Data frames in, data frames of verdicts out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import check_schema, event_source, key_names
from mtlmon.spark.common.monitoring import GoodRows, OrderedRows, monitors_of
from mtlmon.spark.common.ordering import (
    TIME_STAMP,
    check_order_types,
    column_named,
    is_time_stamp,
    orders_of,
    with_time_stamps,
)
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.common.row_counts import reporter_of
from mtlmon.spark.common.verdicts import verdict_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from mtlmon.spark.common.end_times import EndTimeLike
    from mtlmon.spark.common.events import EventSource, OnError
    from mtlmon.spark.common.monitoring import Ties
    from mtlmon.spark.common.ordering import OrderWithin
    from mtlmon.spark.common.policies import Mode, PolicyLike
    from mtlmon.spark.common.row_counts import RowCounts


def monitor(
    df: DataFrame,
    policy: PolicyLike,
    *,
    time: str = "ts",
    key: str | Sequence[str] | None = None,
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    order_within: OrderWithin = None,
    ties: Ties = "warn",
    mode: Mode = "local",
    resolve: bool = True,
    end_time: EndTimeLike = None,
    time_unit: str | None = None,
    resolution: str | None = None,
    on_error: OnError = "stop",
    counts: RowCounts | None = None,
) -> DataFrame:
    """Monitor the rows of a data frame, each of which is an event; those of a key are one trace.

    Rows are brought together by key, sorted and monitored in one pass, with memory that does not
    depend on how many rows a key has. The verdicts do not depend on partitions or batches, as long
    as `order_within` orders the rows of one time-stamp.

    An atom holds where its predicate is true, or the column of its name; or with `event` if that
    column lists it. Null is false there. A null in the column of time or in a key is an error, when
    the row is read.

    Args:
        df: the rows, in any order.
        policy: a formula or a policy file, as text, as path or read already.
        time: the column of times: integers, timestamps or dates.
        key: one or more columns; None if all rows are one trace, which is then one task.
        atoms: predicates over the columns by the name of the atom that each defines, beside those
            of the policy file: `{"fast": "speed > 120"}`.
        event: the column of names of events: lists of texts, or texts with `event_separator`
            between names.
        order_within: columns or expressions that order the rows of one time-stamp. If not given,
            rows that are read from Parquet have the order of file paths and of rows in them; others
            are ordered by the time as it is before it is counted in units of the resolution.
        ties: what becomes of different events of a key and time-stamp that nothing orders, so that
            verdicts depend on how Spark reads them. "warn": there is a `TiesWarning`, once, when
            the first task that has some ends. "error", "allow": as they say.
        mode: "local", "global" or "naive".
        resolve: give each time-point its Boolean verdict; memory then grows with what is open. If
            not, equivalences are given as such.
        end_time: what is known about the time after the last event of each key. None: nothing, so
            that there may be time-points without a verdict. A time-stamp, or a datetime where times
            are timestamps: every trace is complete up to and including it. "last": the same with
            the last time-stamp of the whole data frame, which is read twice then. "inf": no event
            ever follows.
        time_unit: of times that are integers: "ns", "us", "ms", "s", "m", "h" or "d".
        resolution: of time-stamps; if not given the unit of the policy file, else the unit of
            integers, seconds for other times.
        on_error: what becomes of rows that are no events. "stop": the first one is an error.
            "skip": they are left out and counted, and there is a `SkippedRowsWarning`, once.
        counts: counts ties and rows left out.

    Returns:
        One row a verdict: `policy` (null if it has no name), the columns of the key, `time` and
        `offset` of the time-point, `verdict`, and where that is null the time-point
        `reference_time`, `reference_offset` that it is equivalent to.

    Raises:
        FormulaError, PolicyError: the policy cannot be read, or does not fit the columns' types.
        TableError: a column is missing, or of a type that cannot be what it is wanted for.
        MtlmonError: an argument is wrong.
    """
    _check_ties(ties)
    keys = key_names(key)
    source = event_source(
        compile_policies(policy, mode, resolution, time_unit),
        time=time,
        keys=keys,
        atoms=atoms,
        event=event,
        separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
    )
    source.selection.require(df.columns, source.place)
    wanted = source.selection.names
    rows = df.select(*map(column_named, wanted))
    schema = rows.limit(0).toArrow().schema
    check_schema(source, schema)
    check_keys(keys, schema)
    orders = orders_of(df, order_within, source)
    check_order_types(source, df.select(*map(column_named, wanted), *orders).schema.fields, schema)
    end = time_stamp_of(end_time, source, schema, df.sparkSession)
    # a wrong end time is found here rather than on executors
    monitors_of(source.policies, resolve, end)
    # what is counted is what the verdicts are of, not what looks for the last time-stamp
    known_end = _last(rows, source) if end == "last" else end
    source = source._replace(reporter=reporter_of(df.sparkSession, counts))
    function = OrderedRows(source, resolve, known_end, ties)
    fields = [rows.schema[name] for name in keys]
    given = sorted_rows(df, source, orders, with_places=ties != "allow")
    return given.mapInArrow(function, verdict_schema(fields))


def _check_ties(ties: Ties) -> None:
    if ties not in ("warn", "error", "allow"):
        raise MtlmonError(f"ties is 'warn', 'error' or 'allow', not {ties!r}")


def sorted_rows(
    df: DataFrame, source: EventSource, orders: Sequence[Column], *, with_places: bool
) -> DataFrame:
    """The columns wanted in their order, rows of one key in one partition, there by time.

    The constant among the columns of the partitioning is what forbids Spark to take it for that
    of a join or an aggregation before it. It would then leave this one out, and adaptive execution
    may after that cut the rows of a key in two, which it does not do where it is asked for.

    Args:
        orders: what orders the rows of one time-stamp.
        with_places: one more column has numbers, which are equal where nothing orders rows.
    """
    from pyspark.sql import functions as F

    selection = source.selection
    rows, names = plain_rows(df, source, orders)
    wanted = rows.columns[: len(selection.names)]
    plain = dict(zip(selection.names, wanted, strict=True))
    keys = [plain[name] for name in selection.keys]
    is_plain = is_time_stamp(rows.schema.fields[0].dataType, source)
    rows = rows.repartition(*keys, F.lit(0)) if keys else rows.repartition(1)
    if not is_plain:
        # behind the shuffle, which has one column less to move
        rows = with_time_stamps(rows, source)
    by_time = plain[selection.time_name] if is_plain else TIME_STAMP
    ordered = rows.sortWithinPartitions(*keys, by_time, *names)
    place = place_of(names)
    return ordered.select(*wanted, *([place.alias("place")] if with_places else []))


def place_of(orders: Sequence[str]) -> Column:
    """A number for the place of a row among those of its time-stamp, made of columns that tell."""
    from pyspark.sql import functions as F

    return F.xxhash64(*orders) if orders else F.lit(0).cast("bigint")


def in_partitions(rows: DataFrame, count: int, column: str) -> DataFrame:
    """The rows in so many partitions, those with number k in the column in partition k."""
    from pyspark.sql import functions as F

    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(count, column)
    # Spark before 4.1: a partition may have the rows of several numbers, and none then
    return rows.repartition(count, column, F.lit(0))


def plain_rows(
    df: DataFrame, source: EventSource, orders: Sequence[Column] = ()
) -> tuple[DataFrame, list[str]]:
    """The columns wanted in their order, then those that tell the order of rows, by other names.

    pyspark cannot find columns again whose names have dots in them.

    Returns:
        The rows, and the names of the columns that tell their order.
    """
    wanted = [
        column_named(name).alias(f"column{number}")
        for number, name in enumerate(source.selection.names)
    ]
    ordering = [column.alias(f"order{number}") for number, column in enumerate(orders)]
    return df.select(*wanted, *ordering), [f"order{number}" for number in range(len(orders))]


def check_keys(keys: Sequence[str], schema: pa.Schema) -> None:
    """Refuse keys of types whose values cannot be compared."""
    from pyarrow import types

    for name in keys:
        kind = schema.field(name).type
        if types.is_nested(kind) or types.is_interval(kind) or types.is_duration(kind):
            raise MtlmonError(
                f"the key column {name!r} is of type {kind}: cast it to a text, or take a part of "
                "it, before"
            )


def _last(rows: DataFrame, source: EventSource) -> int | None:
    """The last time-stamp of all rows that are events, None if there is none."""
    from pyspark.sql import functions as F

    if source.on_error == "skip":
        rows = rows.mapInArrow(GoodRows(source), rows.schema)
    plain = rows.select(column_named(source.selection.time_name).alias("column0"))
    # a time that is no time-stamp is null, and an error when its row is read
    (row,) = with_time_stamps(plain, source).agg(F.max(TIME_STAMP)).collect()
    return None if row[0] is None else int(row[0])
