"""Monitors each partition as a trace, without moving data."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from mtlmon.errors import MtlmonError
from mtlmon.spark.batch.traces import Columns, PartitionTrace
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import check_schema
from mtlmon.spark.common.facts import with_facts
from mtlmon.spark.common.frames import check_passable, require_at_rest, require_columns
from mtlmon.spark.common.monitoring import OrderedRows
from mtlmon.spark.common.ordering import column_named
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.common.row_counts import RowCounts, reporter_of
from mtlmon.spark.common.trace_monitors import monitors_of
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
    time: str | None = None,
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    time_unit: str | None = None,
    time_zone: str | None = None,
    resolution: str | None = None,
    on_error: OnError = "stop",
    counts: RowCounts | None = None,
) -> _Events:
    """Monitor every partition as a trace of its own, with its elements in their present order.

    All elements of an RDD have the same form: lines of logs, as texts or as bytes; pairs of a
    time-stamp and the atoms that hold; or rows. The verdicts on lines are lines as the command
    writes them, and the verdicts on other elements are `Verdict` objects. With several policies,
    each verdict comes with the name of its policy: a line begins with the name and a tab, and a
    `Verdict` is in a pair (name, verdict).

    The verdicts on a data frame are a data frame, as for `monitor`, without keys. Use
    `pyspark.sql.functions.spark_partition_id()` to get the partition of its rows.

    Args:
        events: an RDD or a data frame.
        policy: as for `monitor`.
        mode: as for `monitor`.
        resolve: as for `monitor`.
        end_time: what is known about the time after a partition's last event. None: nothing. A
            time-stamp: the partition is complete up to and including it. "last": the partition is
            complete up to its last time-stamp. "inf": no event ever follows.
        time: for rows, as for `monitor`.
        atoms: for rows, as for `monitor`.
        event: for rows, as for `monitor`.
        event_separator: for rows, as for `monitor`.
        time_unit: for rows, as for `monitor`.
        time_zone: for rows whose times are texts without an offset, their time zone, as for
            `mtlmon.tables.open_tables`.
        resolution: for rows, as for `monitor`.
        on_error: for rows, as for `monitor`. Lines and pairs are never skipped.
        counts: for rows, as for `monitor`.

    Raises:
        FormulaError, PolicyError: the policy is invalid, or does not fit the types of columns.
        TableError: a column is missing, or has a type that does not fit its use.
        MtlmonError: an argument is invalid.
    """
    from pyspark import RDD

    policies = compile_policies(policy, mode, resolution, time_unit)
    predicates = dict(atoms) if atoms else None
    columns = Columns(
        time, predicates, event, event_separator, time_unit, resolution, on_error, time_zone
    )
    source = PartitionTrace(policies, resolve, None, columns).source("DataFrame")
    if isinstance(events, RDD):
        if isinstance(end_time, date):
            raise MtlmonError(
                "end_time of an RDD is a time-stamp, 'last', 'inf' or None, as the type of its "
                f"times is not known, not {end_time}"
            )
        monitors_of(policies, resolve, end_time)
        # an RDD always has a context, as Spark Connect has no RDDs
        reporter = (RowCounts() if counts is None else counts).reporter(events.ctx)
        return events.mapPartitionsWithIndex(
            PartitionTrace(policies, resolve, end_time, columns, reporter)
        )
    selection = source.selection
    require_at_rest(events, "monitor_partitions", "mtlmon.spark.monitor_stream is for it")
    require_columns(events, selection, source.place)
    rows = events.select(*map(column_named, selection.names))
    check_passable(rows.schema.fields)
    schema = rows.limit(0).toArrow().schema
    check_schema(source, schema)
    end = time_stamp_of(end_time, source, schema, events.sparkSession)
    # find an invalid end time here rather than on executors
    monitors_of(policies, resolve, end)
    source = source._replace(reporter=reporter_of(events.sparkSession, counts))
    schema_of_verdicts = verdict_schema(has_messages=source.has_messages)
    plain = rows.toDF(*(f"column{number}" for number in range(len(selection.names))))
    verdicts = plain.mapInArrow(OrderedRows(source, resolve, end), schema_of_verdicts)
    return with_facts(verdicts, policies.file)
