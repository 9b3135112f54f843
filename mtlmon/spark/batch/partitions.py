"""Partitions as traces: one monitor each, and nothing is moved."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from mtlmon.errors import MtlmonError
from mtlmon.spark.batch.traces import Columns, PartitionTrace
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import check_schema
from mtlmon.spark.common.monitoring import OrderedRows, monitors_of
from mtlmon.spark.common.ordering import column_named
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.common.row_counts import RowCounts, reporter_of
from mtlmon.spark.common.verdicts import verdict_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import RDD
    from pyspark.sql import DataFrame

    from mtlmon.spark.common.end_times import EndTimeLike
    from mtlmon.spark.common.events import OnError
    from mtlmon.spark.common.policies import Mode, PolicyLike


_Events = TypeVar("_Events", "RDD[Any]", "DataFrame")


def monitor_partitions(
    events: _Events,
    policy: PolicyLike,
    *,
    mode: Mode = "local",
    resolve: bool = True,
    end_time: EndTimeLike = None,
    time: str = "ts",
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    time_unit: str | None = None,
    resolution: str | None = None,
    on_error: OnError = "stop",
    counts: RowCounts | None = None,
) -> _Events:
    """Monitor every partition as a trace of its own, its elements in the order that they have.

    Elements of an RDD are all of one form: lines of logs, as texts or as bytes; pairs of a
    time-stamp and the atoms that hold; or rows. Verdicts of lines are lines as the command writes
    them, those of other elements `Verdict` objects. With several policies the name stands before
    each: in a line with a tab behind it, else as a pair with the verdict.

    Verdicts of a data frame are a data frame, as `monitor` gives it, without keys;
    `pyspark.sql.functions.spark_partition_id()` tells the partition that a row of it is in.

    Args:
        events: an RDD or a data frame.
        policy: as for `monitor`.
        mode: as for `monitor`.
        resolve: as for `monitor`.
        end_time: what is known about the time after a partition's last event: nothing; it is
            complete up to and including a time-stamp, or with "last" that of its last event; or no
            event ever follows, "inf".
        time: of rows, as for `monitor`.
        atoms: of rows, as for `monitor`.
        event: of rows, as for `monitor`.
        event_separator: of rows, as for `monitor`.
        time_unit: of rows, as for `monitor`.
        resolution: of rows, as for `monitor`.
        on_error: of rows, as for `monitor`. Lines and pairs are not left out.
        counts: of rows, as for `monitor`.

    Raises:
        FormulaError, PolicyError: the policy cannot be read, or does not fit the columns' types.
        TableError: a column is missing, or of a type that cannot be what it is wanted for.
        MtlmonError: an argument is wrong.
    """
    from pyspark import RDD

    policies = compile_policies(policy, mode, resolution, time_unit)
    predicates = dict(atoms) if atoms else None
    columns = Columns(time, predicates, event, event_separator, time_unit, resolution, on_error)
    source = PartitionTrace(policies, resolve, None, columns).source("DataFrame")
    if isinstance(events, RDD):
        if isinstance(end_time, date):
            raise MtlmonError(
                "end_time of an RDD is a time-stamp, 'last', 'inf' or None, as the type of its "
                f"times is not known, not {end_time}"
            )
        monitors_of(policies, resolve, end_time)
        # a session has its context, and Spark Connect no RDD
        reporter = (RowCounts() if counts is None else counts).reporter(events.ctx)
        return events.mapPartitionsWithIndex(
            PartitionTrace(policies, resolve, end_time, columns, reporter)
        )
    selection = source.selection
    selection.require(events.columns, source.place)
    rows = events.select(*map(column_named, selection.names))
    schema = rows.limit(0).toArrow().schema
    check_schema(source, schema)
    end = time_stamp_of(end_time, source, schema, events.sparkSession)
    # a wrong end time is found here rather than on executors
    monitors_of(policies, resolve, end)
    source = source._replace(reporter=reporter_of(events.sparkSession, counts))
    plain = rows.toDF(*(f"column{number}" for number in range(len(selection.names))))
    return plain.mapInArrow(OrderedRows(source, resolve, end), verdict_schema())
