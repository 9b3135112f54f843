"""Monitors a single trace on many workers, by cutting it by time."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.cutting import VerdictPass, make_plan, verdict_passes
from mtlmon.cutting.carries import Finding
from mtlmon.errors import MtlmonError
from mtlmon.spark.batch.frames import place_of, sorted_rows
from mtlmon.spark.batch.ranges import FINDINGS, RangeFindings, RangeReader, RangeVerdicts
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import check_schema, event_source
from mtlmon.spark.common.facts import with_facts
from mtlmon.spark.common.failures import plain_errors
from mtlmon.spark.common.frames import (
    check_passable,
    in_partitions,
    require_at_rest,
    require_columns,
)
from mtlmon.spark.common.monitoring import GoodRows, OrderedRows
from mtlmon.spark.common.ordering import (
    check_order_types,
    column_named,
    orders_of,
    with_time_stamps,
)
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.common.row_counts import reporter_of
from mtlmon.spark.common.trace_monitors import monitors_of
from mtlmon.spark.common.trace_streams import stream_atoms
from mtlmon.spark.common.verdicts import verdict_schema
from mtlmon.spark.session import cores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from mtlmon.cutting import Plan, SeekingPass
    from mtlmon.spark.common.end_times import EndTimeLike
    from mtlmon.spark.common.events import EventSource, OnError
    from mtlmon.spark.common.ordering import OrderWithin
    from mtlmon.spark.common.policies import CompiledPolicy, Mode, PolicyLike
    from mtlmon.spark.common.row_counts import RowCounts
    from mtlmon.spark.common.trace_monitors import EndTime

# The numbers of rows in ranges differ by about one in this number.
_EVENNESS = 100


def monitor_trace(
    df: DataFrame,
    policy: PolicyLike,
    *,
    time: str | None = None,
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    order_within: OrderWithin = None,
    mode: Mode = "local",
    end_time: EndTimeLike = None,
    ranges: int | None = None,
    time_unit: str | None = None,
    resolution: str | None = None,
    on_error: OnError = "stop",
    counts: RowCounts | None = None,
) -> DataFrame:
    """Monitor all rows of a data frame as a single trace, on many workers.

    The trace is cut by time. Each range also gets the events beyond its ends that the policy looks
    at from there, so cutting pays if these are few compared with the range. For operators without
    an upper bound, such as `ONCE p` or `ALWAYS p`, one pass over the ranges for each level of their
    nesting computes what is beyond the cuts. The verdicts, including offsets and undecided
    time-points, are the same as those of a single monitor.

    Ranges also get the events that their windows look at. Policies that cannot be cut are monitored
    by one task, beside the ranges: those on ticks or on some rows, those with later values or
    messages, and those with streams that remember rows of any age, such as `x.last()`.

    This call reads the column of times to decide where to cut, and runs the passes. The rows are
    not kept: they are read again when the verdicts are read, and must be the same then.

    Args:
        df: the rows, in any order.
        policy: as for `monitor`.
        time: as for `monitor`.
        atoms: as for `monitor`.
        event: as for `monitor`.
        event_separator: as for `monitor`.
        mode: as for `monitor`.
        time_unit: as for `monitor`.
        resolution: as for `monitor`.
        counts: as for `monitor`.
        order_within: as for `monitor`. Rows of one time-stamp that it does not distinguish must be
            equal events; otherwise it is an error to read them.
        on_error: as for `monitor`. To skip rows, each pass has to process all rows in Python once
            more.
        end_time: what is known about the time after the last event. None: nothing. A time-stamp or
            datetime: the trace is complete up to and including it. "last": the trace is complete up
            to its last time-stamp. "inf": no event ever follows.
        ranges: the number of ranges; by default the number of Spark's cores. There are fewer if
            many rows have the same time, or if the policy requires it. With 1, rows at which
            streams overflow can be skipped.

    Returns:
        A row for each verdict, as for `monitor` with `resolve=True`: `policy` (null if it has no
        name), `time` and `offset` of the time-point, and `verdict`; and `message` if a trigger has
        one.

    Raises:
        FormulaError, PolicyError: the policy is invalid, or does not fit the types of columns.
        TableError: a column is missing, or has a type that does not fit its use.
        ExecutorError: a row is not an event.
        MtlmonError: an argument is invalid.
    """
    require_at_rest(df, "monitor_trace", "mtlmon.spark.monitor_stream is for it")
    policies = compile_policies(policy, mode, resolution, time_unit)
    source = event_source(
        policies,
        time=time,
        atoms=atoms,
        event=event,
        separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
    )
    require_columns(df, source.selection, source.place)
    wanted = [column_named(name) for name in source.selection.names]
    check_passable(df.select(*wanted).schema.fields)
    schema = df.select(*wanted).limit(0).toArrow().schema
    check_schema(source, schema)
    orders = orders_of(df, order_within, source)
    check_order_types(source, df.select(*wanted, *orders).schema.fields, schema)
    end = time_stamp_of(end_time, source, schema, df.sparkSession)
    # find an invalid end time here rather than later
    monitors_of(source.policies, True, end)
    if ranges is not None and ranges < 1:
        raise MtlmonError(f"a trace is cut into at least one range, not {ranges}")
    if ranges is None:
        ranges = cores_of(df.sparkSession)
    if ranges is None:
        raise MtlmonError(
            "a session of Spark Connect does not tell how many cores there are: say into how many "
            "ranges the trace is cut"
        )
    source = source._replace(reporter=reporter_of(df.sparkSession, counts))
    in_ranges, whole, reach = _divided(source, schema)
    if on_error == "skip" and ranges == 1 and source.has_streams:
        # One task can skip rows on which streams have no value: it finds them in order.
        in_ranges, whole = [], list(policies.policies)
    if in_ranges and on_error == "skip":
        # Each range reads rows by itself, so all of them must agree on which rows are events.
        source = source._replace(no_skipping=_NO_SKIPPING)
    parts = []
    if in_ranges:
        own = source._replace(policies=policies.chosen(in_ranges), on_error="stop")
        rows, own_orders = df, orders
        if on_error == "skip":
            # the task with all rows counts them if there is one
            counting = source._replace(reporter=None) if whole else source
            rows, own_orders = _good_rows(df, counting, orders)
        trace = _Trace(rows, own, own_orders, reach)
        with plain_errors():
            passes = trace.verdict_passes(ranges, end)
        parts = [trace.verdicts(group) for group in passes]
    if whole:
        own = source._replace(policies=policies.chosen(whole))
        rows = sorted_rows(df, own, orders, with_places=True)
        schema_of_verdicts = verdict_schema(has_messages=source.has_messages)
        parts.append(rows.mapInArrow(OrderedRows(own, True, end, "error"), schema_of_verdicts))
    return with_facts(reduce(lambda one, other: one.union(other), parts), policies.file)


_NO_SKIPPING = (
    "such rows are skipped with ranges=1 only, as each range of the trace is read by itself"
)


def _divided(
    source: EventSource, schema: pa.Schema
) -> tuple[list[CompiledPolicy], list[CompiledPolicy], int]:
    """Tell the policies for which a trace can be cut from those that need it whole.

    Whole are those on other time-points than all rows, those with messages, and those with streams
    that remember rows of any age.

    Args:
        source: how rows become events.
        schema: the selected columns.

    Returns:
        Both, and how far the streams of the first look back.
    """
    in_ranges: list[CompiledPolicy] = []
    whole: list[CompiledPolicy] = []
    furthest = 0
    for policy in source.policies.policies:
        own = source._replace(policies=source.policies.chosen([policy]))
        reach: int | None = 0
        if policy.clock is not None or policy.message is not None:
            reach = None
        elif own.has_streams:
            atoms = stream_atoms(own)
            atoms.programs(schema)
            reach = atoms.reach(0)
        (whole if reach is None else in_ranges).append(policy)
        furthest = max(furthest, reach or 0)
    return in_ranges, whole, furthest


def _good_rows(
    df: DataFrame, source: EventSource, orders: Sequence[Column]
) -> tuple[DataFrame, list[Column]]:
    """The rows that are events, and the columns that order them."""
    names = [f"mtlmon_order{number}" for number in range(len(orders))]
    named = [column.alias(name) for column, name in zip(orders, names, strict=True)]
    rows = df.select(*map(column_named, source.selection.names), *named)
    return rows.mapInArrow(GoodRows(source), rows.schema), [column_named(name) for name in names]


class _Placed(NamedTuple):
    """The rows of ranges, and what reads them."""

    rows: DataFrame
    reader: RangeReader


class _Trace:
    """The rows of a data frame as a single trace.

    Args:
        df: the rows.
        source: how rows become events.
        orders: the columns that order the rows of one time-stamp.
        reach: how far streams look back.
    """

    def __init__(
        self, df: DataFrame, source: EventSource, orders: Sequence[Column], reach: int
    ) -> None:
        self.source = source
        self._reach = reach
        self._df = df
        self._orders = orders
        # the first selected column is that of times
        times = df.select(column_named(source.selection.time_name).alias("column0"))
        self._times = with_time_stamps(times, source)

    def verdict_passes(
        self, ranges: int, end_time: EndTime
    ) -> list[list[tuple[str | None, VerdictPass]]]:
        """Return the passes that give verdicts, in groups of policies with the same ranges."""
        first, last, cuts = self._cuts(ranges)
        policies = self.source.policies
        neighbours = _Neighbours(self._times)

        def planned(policy: CompiledPolicy, cuts: Sequence[int]) -> Plan:
            return make_plan(
                policy.program,
                policies.mode,
                end_time,
                (first, last),
                cuts,
                neighbours,
                policies.atoms,
            )

        plans = [(policy, planned(policy, cuts)) for policy in policies.policies]
        # Policies share as many ranges as all of them can be cut into.
        count = min((plan.range_count for _, plan in plans if plan.range_count > 1), default=1)
        in_ranges: list[tuple[str | None, VerdictPass]] = []
        whole: list[tuple[str | None, VerdictPass]] = []
        shared = [
            (policy, planned(policy, plan.needs.starts[1:count].tolist()))
            for policy, plan in plans
            if plan.range_count > 1
        ]
        with _Kept(self, [plan for _, plan in shared]) as kept:
            passes = verdict_passes([plan for _, plan in shared], kept.run)
        for (policy, _), one in zip(shared, passes, strict=True):
            (in_ranges if one.plan.range_count > 1 else whole).append((policy.name, one))
        for policy, plan in plans:
            if plan.range_count == 1:
                whole.append((policy.name, VerdictPass(plan, {})))
        return [group for group in (in_ranges, whole) if group]

    def verdicts(self, passes: Sequence[tuple[str | None, VerdictPass]]) -> DataFrame:
        """Return the verdicts of a group of policies."""
        events, reader = self.placed([one.plan for _, one in passes])
        has_messages = self.source.has_messages
        function = RangeVerdicts(passes, reader, has_messages=has_messages)
        return events.mapInArrow(function, verdict_schema(has_messages=has_messages))

    def placed(self, plans: Sequence[Plan]) -> _Placed:
        """Return the rows of ranges, with the sorted rows of each range in one partition.

        The columns are the number of the range, a number for the place within the time-stamp, and
        the columns that the source selects.
        """

        first = np.minimum.reduce([plan.needs.first for plan in plans])
        last = np.maximum.reduce([plan.needs.last for plan in plans])
        # pyspark cannot look up columns whose names contain dots
        names = {name: f"column{k}" for k, name in enumerate(self.source.selection.names)}
        orders = {f"order{k}": column for k, column in enumerate(self._orders)}
        rows = with_time_stamps(
            self._df.select(
                *(column_named(name).alias(alias) for name, alias in names.items()),
                *(column.alias(alias) for alias, column in orders.items()),
            ),
            self.source,
        )
        rows = rows.withColumn("range", ranges_of(np.maximum(first - self._reach, 0), last))
        rows = in_partitions(rows, len(first), "range")
        place = place_of(list(orders))
        rows = rows.sortWithinPartitions("range", "time", *orders).select(
            "range", place.alias("place"), *names.values()
        )
        return _Placed(rows, RangeReader(self.source, first))

    def _cuts(self, ranges: int) -> tuple[int, int, list[int]]:
        """The first and the last time-stamp, and where ranges of equally many rows begin."""
        from pyspark.sql import functions as F

        fractions = [k / ranges for k in range(1, ranges)] or [0.5]
        (row,) = self._times.agg(
            F.min("time"), F.max("time"), F.percentile_approx("time", fractions, _EVENNESS * ranges)
        ).collect()
        first, last, quantiles = row
        if first is None:
            return 0, 0, []
        # rows with the time-stamp of a quantile belong to the range before it
        return first, last, [cut + 1 for cut in quantiles if cut < last] if ranges > 1 else []


def ranges_of(first: NDArray[np.int64], last: NDArray[np.int64]) -> Column:
    """Return an expression for the numbers of the ranges that read a row with a given time.

    Rows without a time go to the first range, which raises an error.

    Args:
        first: the time-stamp of the first event that each range reads, in increasing order.
        last: the time-stamp of the last event that each range reads, included, in increasing order.
    """
    from pyspark.sql import functions as F

    time = F.col("time")
    earliest = _place(last.tolist(), lambda one: time > one)
    if (first[1:] > last[:-1]).all():
        return F.when(time.isNull(), 0).otherwise(earliest)
    latest = _place(first.tolist()[1:], lambda one: time >= one)
    ranges = F.when(time.isNull(), F.array(F.lit(0))).otherwise(F.sequence(earliest, latest))
    return F.explode(ranges)


def _place(steps: Sequence[int], is_past: Callable[[int], Column]) -> Column:
    """An expression for the number of increasing steps that are past, by binary search."""
    from pyspark.sql import functions as F

    places = [F.lit(place) for place in range(len(steps) + 1)]
    bounds = list(steps)
    while bounds:
        # of two neighbours, take the right one if the bound between them is past
        odd = places[-1:] if len(places) % 2 else []
        places = [
            F.when(is_past(bound), right).otherwise(left)
            for left, right, bound in zip(places[::2], places[1::2], bounds[::2], strict=False)
        ] + odd
        bounds = bounds[1::2]
    return places[0]


class _Neighbours:
    """Finds neighbouring time-stamps; each call reads all rows."""

    def __init__(self, times: DataFrame) -> None:
        self._times = times
        self._known: dict[tuple[bool, int], int] = {}

    def before(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._look(False, time_stamps)

    def after(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._look(True, time_stamps)

    def _look(self, is_after: bool, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        from pyspark.sql import functions as F

        unknown = [
            time_stamp
            for time_stamp in dict.fromkeys(time_stamps.tolist())
            if (is_after, time_stamp) not in self._known
        ]
        if unknown:
            time = F.col("time")
            (row,) = self._times.agg(
                *(
                    F.min(F.when(time > one, time)) if is_after else F.max(F.when(time < one, time))
                    for one in unknown
                )
            ).collect()
            for one, found in zip(unknown, row, strict=True):
                self._known[is_after, one] = one if found is None else found
        known = [self._known[is_after, time_stamp] for time_stamp in time_stamps.tolist()]
        return np.array(known, np.int64)


class _Kept:
    """The rows of ranges, which are cached if there are several passes over them."""

    def __init__(self, trace: _Trace, plans: Sequence[Plan]) -> None:
        self._trace = trace
        self._plans = plans
        self._placed: _Placed | None = None

    def __enter__(self) -> _Kept:
        return self

    def __exit__(self, *_: object) -> None:
        if self._placed is not None:
            self._placed.rows.unpersist()

    def run(self, passes: Sequence[SeekingPass]) -> list[list[Finding]]:
        """Run passes over all ranges; return the findings of each."""
        from pyspark import StorageLevel

        if self._placed is None:
            self._placed = self._trace.placed(self._plans)
            if max(plan.levels for plan in self._plans) > 1:
                self._placed.rows.persist(StorageLevel.DISK_ONLY)
        function = RangeFindings(passes, self._placed.reader)
        table = self._placed.rows.mapInArrow(function, FINDINGS).toArrow()
        found: list[list[Finding]] = [[] for _ in passes]
        for number, *finding in zip(*table.to_pydict().values(), strict=True):
            found[number].append(Finding(*finding))
        return found
