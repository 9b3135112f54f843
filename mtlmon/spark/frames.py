"""Data frames in, data frames of verdicts out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mtlmon.errors import MtlmonError
from mtlmon.spark.events import check_schema, event_source
from mtlmon.spark.monitoring import OrderedRows, monitors_of
from mtlmon.spark.policies import compile_policies
from mtlmon.spark.verdicts import verdict_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from mtlmon.spark.events import EventSource
    from mtlmon.spark.policies import Mode, PolicyLike


def monitor(
    df: DataFrame,
    policy: PolicyLike,
    *,
    time: str = "ts",
    key: str | Sequence[str] = (),
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    order_within: str | Column | Sequence[str | Column] = (),
    mode: Mode = "local",
    resolve: bool = True,
    end_time: int | Literal["last", "inf"] | None = None,
    time_unit: str | None = None,
    resolution: str | None = None,
) -> DataFrame:
    """Monitor the rows of a data frame, each of which is an event; those of a key are one trace.

    Rows are brought together by key, sorted and monitored in one pass, with memory that does not
    depend on how many rows a key has. The verdicts do not depend on partitions or batches.

    An atom holds where its predicate is true, or the column of its name; or with `event` if that
    column lists it. Null is false there. A null in the column of time or in a key is an error, when
    the row is read.

    Args:
        df: the rows, in any order.
        policy: a formula or a policy file, as text, as path or read already.
        time: the column of times: integers, timestamps or dates.
        key: one or more columns; none if all rows are one trace, which is then one task.
        atoms: predicates over the columns by the name of the atom that each defines, beside those
            of the policy file: `{"fast": "speed > 120"}`.
        event: the column of names of events: lists of texts, or texts with `event_separator`
            between names.
        order_within: what tells the order of rows of one time: columns or expressions. Without it
            that order is only kept where all rows of a key come from one file, read in one task.
        mode: "local", "global" or "naive".
        resolve: give each time-point its Boolean verdict; memory then grows with what is open. If
            not, equivalences are given as such.
        end_time: what is known about the time after the last event of each key. None: nothing, so
            that there may be time-points without a verdict. A time-stamp: every trace is complete
            up to and including it. "last": the same with the last time-stamp of the whole data
            frame, which is read twice then. "inf": no event ever follows.
        time_unit: of times that are integers: "ns", "us", "ms", "s", "m", "h" or "d".
        resolution: of time-stamps; if not given the unit of the policy file, else the unit of
            integers, seconds for other times.

    Returns:
        One row a verdict: `policy` (null if it has no name), the columns of the key, `time` and
        `offset` of the time-point, `verdict`, and where that is null the time-point
        `reference_time`, `reference_offset` that it is equivalent to.

    Raises:
        FormulaError, PolicyError: the policy cannot be read, or does not fit the columns' types.
        TableError: a column is missing, or of a type that cannot be what it is wanted for.
        MtlmonError: an argument is wrong.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    source = event_source(
        compile_policies(policy, mode),
        time=time,
        keys=keys,
        atoms=atoms,
        event=event,
        separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
    )
    source.selection.require(df.columns, source.place)
    wanted = source.selection.names
    rows = df.select(*map(column_named, wanted))
    schema = rows.limit(0).toArrow().schema
    check_schema(source, schema)
    check_keys(keys, schema)
    known_end = _last(rows, source) if end_time == "last" else end_time
    # a wrong end time is found here rather than on executors
    monitors_of(source.policies, resolve, known_end)
    function = OrderedRows(source, resolve, known_end)
    fields = [rows.schema[name] for name in keys]
    return sorted_rows(df, source, order_within).mapInArrow(function, verdict_schema(fields))


def sorted_rows(
    df: DataFrame, source: EventSource, order_within: str | Column | Sequence[str | Column] = ()
) -> DataFrame:
    """The columns wanted in their order, rows of one key in one partition, there by time.

    The constant among the columns of the partitioning is what forbids Spark to take it for that
    of a join or an aggregation before it. It would then leave this one out, and adaptive execution
    may after that cut the rows of a key in two, which it does not do where it is asked for.
    """
    from pyspark.sql import functions as F

    selection = source.selection
    rows, orders = plain_rows(df, source, order_within)
    plain = dict(zip(selection.names, rows.columns, strict=False))
    keys = [plain[name] for name in selection.keys]
    rows = rows.repartition(*keys, F.lit(0)) if keys else rows.repartition(1)
    ordered = rows.sortWithinPartitions(*keys, plain[selection.time_name], *orders)
    return ordered.select(*plain.values()) if orders else ordered


def in_partitions(rows: DataFrame, count: int, column: str) -> DataFrame:
    """The rows in so many partitions, those with number k in the column in partition k."""
    from pyspark.sql import functions as F

    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(count, column)
    # Spark before 4.1: a partition may have the rows of several numbers, and none then
    return rows.repartition(count, column, F.lit(0))


def plain_rows(
    df: DataFrame, source: EventSource, order_within: str | Column | Sequence[str | Column] = ()
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
    orders = [
        column.alias(f"order{number}") for number, column in enumerate(orders_of(df, order_within))
    ]
    return df.select(*wanted, *orders), [f"order{number}" for number in range(len(orders))]


def column_named(name: str) -> Column:
    """A column by its name, whatever characters that has."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def orders_of(df: DataFrame, order_within: str | Column | Sequence[str | Column]) -> list[Column]:
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    if isinstance(order_within, str | Column):
        order_within = [order_within]
    columns = set(df.columns)
    return [
        one if isinstance(one, Column) else column_named(one) if one in columns else F.col(one)
        for one in order_within
    ]


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
    """The last time-stamp of all rows, None if there is no row."""
    from pyspark.sql import functions as F

    latest = rows.agg(F.max(column_named(source.selection.time_name)).alias("time")).toArrow()
    (chunk,) = latest.column(0).chunks
    if chunk.null_count:
        return None
    time_stamps, faults = source.times().read(chunk)
    # a time that is no time-stamp is an error when its row is read
    return None if faults is not None else int(time_stamps[0])
