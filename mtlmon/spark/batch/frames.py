"""Monitors data frames, and returns data frames of verdicts.

Rows are partitioned by the key and a constant. Without the constant, Spark omits the shuffle after
a join by the key, and may split the partitions of the join at run time. Sorting the rows of a
partition brings the rows of each key together. So one monitor can process the keys one after the
other, and it keeps what it has learnt about the formula. No Python code runs per row, and none per
key except in SQL's table function. Severity and text of policies are a projection of the verdicts.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from mtlmon.checking.partitions import partitions_of
from mtlmon.errors import MtlmonError
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.spark.batch.given_rows import GivenRows, has_both_kinds
from mtlmon.spark.batch.kept_columns import kept_columns, kept_fields, kept_names
from mtlmon.spark.batch.relations import monitor_relations
from mtlmon.spark.batch.row_relations import RowsAtRest
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import check_schema, key_names, sources_of
from mtlmon.spark.common.facts import with_facts
from mtlmon.spark.common.frames import check_keys, check_passable, require_at_rest
from mtlmon.spark.common.monitoring import GoodRows, OrderedRows
from mtlmon.spark.common.ordering import (
    TIME_STAMP,
    check_order_types,
    column_named,
    is_time_stamp,
    orders_of,
    with_time_stamps,
)
from mtlmon.spark.common.policies import compile_policies, relational_file
from mtlmon.spark.common.row_counts import reporter_of
from mtlmon.spark.common.trace_monitors import monitors_of
from mtlmon.spark.common.verdicts import verdict_schema, with_keys, with_valuations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from mtlmon.policy import PolicyFile
    from mtlmon.relational.slicing import Statistics
    from mtlmon.spark.batch.given_rows import PreparedRelations
    from mtlmon.spark.common.end_times import EndTimeLike
    from mtlmon.spark.common.events import EventSource, OnError
    from mtlmon.spark.common.monitoring import Ties
    from mtlmon.spark.common.ordering import OrderWithin
    from mtlmon.spark.common.policies import Mode, PolicyLike
    from mtlmon.spark.common.row_counts import Reporter, RowCounts


def monitor(
    df: DataFrame,
    policy: PolicyLike,
    *,
    time: str | None = None,
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
    slices: int | None = None,
    statistics: Statistics | None = None,
    rows: bool = False,
    keep: str | Sequence[str] | None = None,
) -> DataFrame:
    """Monitor the rows of a data frame: each row is an event, and each key is a trace.

    Rows are grouped by key, sorted and monitored in one pass; memory does not depend on how many
    rows a key has. The verdicts do not depend on partitions or batches, provided that
    `order_within` orders the rows of one time-stamp.

    An atom holds if its predicate is true, or if the column with its name is true; or, with
    `event`, if that column lists it. A null counts as false. A null in the column of times or in a
    key is an error when the row is read.

    Args:
        df: the rows, in any order.
        policy: a formula or a policy file: as text, as a path, or parsed. A list of paths is
            several policy files in one pass, as for `mtlmon.policy.load_policies`.
        time: the column of times: integers, timestamps or dates. By default, the policy file says,
            or it is `ts`.
        key: one or more columns, for the policies that name none themselves; the default is the key
            of the policy file. Without one, or with `()`, all rows are a single trace, which a
            single task monitors. For each key, the rows are read, exchanged and sorted once;
            for policies with variables, they are so once for all keys.
        atoms: predicates over the columns by the name of the atom that each defines, in addition to
            those of the policy file: `{"fast": "speed > 120"}`.
        event: the column of names of events: lists of texts, or texts with `event_separator`
            between names. By default, the policy file says whether there is one.
        event_separator: the separator of names in a text in the column `event`.
        order_within: columns or expressions that order the rows of one time-stamp. By default, rows
            from Parquet files are ordered by the path of the file and their position in it, and
            other rows by their exact times, before these are rounded to the resolution.
        ties: what to do about different events of a key and time-stamp without an order, whose
            verdicts depend on how Spark reads them. "warn": show a `TiesWarning` once, when the
            first task with ties ends. "error": raise an error. "allow": do nothing.
        mode: "local", "global" or "naive".
        resolve: give each time-point its Boolean verdict; memory then grows with the number of
            undecided time-points. Otherwise, return equivalences as such.
        end_time: what is known about the time after the last event of each key. None: nothing, so
            some time-points may have no verdict, unless a policy is on ticks or on some rows only:
            then all traces are complete up to below the last time-stamp of the whole data frame,
            which is read twice. A time-stamp, or a datetime if times are
            timestamps: every trace is complete up to and including it. "last": the same with the
            last time-stamp of the whole data frame. "inf": no event ever follows.
        time_unit: the unit of times that are integers: "ns", "us", "ms", "s", "m", "h" or "d".
        resolution: the unit of time-stamps; by default the unit of the policy file, or else the
            unit of integers, and seconds for other times.
        on_error: what to do with rows that are not events. "stop": the first one is an error.
            "skip": they are skipped and counted, and a `SkippedRowsWarning` is shown once.
        counts: an object that counts ties and skipped rows.
        slices: for policies with variables, how many monitors share the rows, from 1 to 1024; by
            default four for each core.
        statistics: for policies with variables, how many rows atoms have and which values are
            frequent, as `relation_statistics` finds them; `Statistics()` if nothing is known. By
            default, the rows are read twice, the first time for that.
        rows: add columns `file` and `row` to verdicts: the path of the Parquet file that the row of
            the time-point was read from, and its number there, from 1. Null for ticks.
        keep: columns of the data frame to add to verdicts, with the values of the row of the
            time-point, such as an identifier. Null for ticks.

    Returns:
        A row for each verdict: `policy` (null if it has no name), the key columns, `time` and
        `offset` of the time-point, and `verdict`. If that is null, the time-point is equivalent to
        the one at `reference_time` and `reference_offset`. If a trigger has a message, there is a
        column `message`. The columns of `rows` and `keep` follow, and `severity` and `text` if a
        policy has these; the text is there for violations. If policies have different keys, the
        columns of all of them are there, null where a policy has no such key.

        For policies with variables, a row for each valuation that violates a policy, or that a
        `find` matches: `policy`, the key columns, `time`, `offset`, `verdict` (false or true), and
        a column for each variable. All rows of a time-stamp, or of a key and time-stamp, are one
        time-point, as with `--time-points stamp`. A key column that is called like a variable gets
        the prefix `key_`.

        If there are policies of both kinds, a row has the columns of both, null in those of the
        other kind. The rows of the data frame are then read for each kind. If a variable is called
        `message`, the column `message` gets the prefix `trigger_`.

    Raises:
        FormulaError, PolicyError: the policy is invalid, or does not fit the types of columns.
        TableError: a column is missing, or has a type that does not fit its use.
        MtlmonError: an argument is invalid.
    """
    require_at_rest(df, "monitor", "mtlmon.spark.monitor_stream is for it")
    _check_ties(ties)
    file = relational_file(policy, resolution, time_unit, key=key, has_changes=True)
    is_mixed = has_both_kinds(file)
    kept_by_name = kept_names(keep)

    given = GivenRows(
        df,
        "mtlmon.spark.monitor",
        time=time,
        atoms=atoms,
        event=event,
        event_separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
    )

    def valuations(prepared: PreparedRelations, reporter: Reporter | None) -> DataFrame:
        relation_source, relation_rows = prepared
        return monitor_relations(
            relation_rows,
            relation_source,
            end_time=end_time,
            reporter=reporter,
            slices=slices,
            statistics=statistics,
        )

    if file is not None:
        if rows or kept_by_name:
            raise MtlmonError(
                "rows and keep are for policies without variables, as the time-points of others "
                "have many rows: leave them out"
            )
        if not is_mixed:
            refuse_options(order_within=order_within, mode=mode)
            reporter = reporter_of(df.sparkSession, counts)
            return with_facts(valuations(given.relations(file, atoms), reporter), file)
        refuse_options(order_within=None, mode=mode)
        policy = file
    elif slices is not None or statistics is not None:
        raise MtlmonError("slices and statistics are for policies with variables: leave them out")
    at_rest: list[RowsAtRest] = []

    def log(file: PolicyFile) -> RowsAtRest:
        at_rest.append(RowsAtRest(df, time or file.time or DEFAULT_TIME))
        return at_rest[0]

    policies = compile_policies(
        policy,
        mode,
        resolution,
        time_unit,
        has_keys=True,
        replaces_keys=key is not None,
        leaves_out=is_mixed,
        looks_up=True,
        log=log,
        has_changes=True,
    )
    default = key_names(policies.key if key is None else key)
    partitions = partitions_of((one.key for one in policies.policies), default)
    keys = partitions.all_columns
    source, prepared = given.sources(policies, keys, file)
    for rows_of_relations in at_rest:
        rows_of_relations.evaluate(source, on_error)
    policies.watch(default)
    wanted = source.selection.names
    selected = df.select(*map(column_named, wanted))
    check_passable(selected.schema.fields)
    schema = selected.limit(0).toArrow().schema
    check_schema(source, schema)
    check_keys(keys, schema)
    kept = kept_columns(df, keys, kept_by_name, has_rows=rows)
    kept_as = kept_fields(df, kept)
    orders = orders_of(df, order_within, source)
    check_order_types(source, df.select(*map(column_named, wanted), *orders).schema.fields, schema)
    end = time_stamp_of(end_time, source, schema, df.sparkSession)
    # find an invalid end time here rather than on executors
    monitors_of(source.policies, resolve, end)
    # count rows only in the pass that gives verdicts, not while looking for the last time-stamp
    log_clock = None
    if end == "last" or policies.has_clocks:
        log_clock = _last(selected, source) or 0
    source = source._replace(reporter=reporter_of(df.sparkSession, counts))
    if log_clock is not None and policies.has_streams:
        why = "policies on ticks or on some rows" if policies.has_clocks else "end_time='last'"
        no_skipping = source.no_skipping or _NO_SKIPPING.format(why)
        source = source._replace(no_skipping=no_skipping)
    fields = [selected.schema[name] for name in keys]
    has_messages = policies.has_messages
    verdict_schema(fields, has_messages=has_messages, kept=kept_as)
    parts = []
    for own in sources_of(source, partitions):
        function = OrderedRows(
            own, resolve, end, ties, log_clock, [field.name for field in kept_as]
        )
        ordered = sorted_rows(df, own, orders, with_places=ties != "allow", kept=kept)
        schema_of_verdicts = verdict_schema(
            [selected.schema[name] for name in own.keys], has_messages=has_messages, kept=kept_as
        )
        found = ordered.mapInArrow(function, schema_of_verdicts)
        parts.append(found if len(partitions.columns) == 1 else with_keys(found, own.keys, fields))
    verdicts = reduce(lambda one, other: one.union(other), parts)
    if prepared is not None:
        # the other plan reports the rows that are skipped
        verdicts = with_valuations(
            verdicts,
            valuations(prepared, None),
            keys=prepared[0].source.keys,
            has_messages=has_messages,
        )
    return with_facts(verdicts, policies.file)


_NO_SKIPPING = (
    "such rows cannot be skipped with {}, as the last time-stamp of all rows is found before"
)


def refuse_options(*, order_within: object, mode: str) -> None:
    """Refuse what is for policies without variables.

    Raises:
        MtlmonError: an argument is given that is.
    """
    if order_within is not None:
        raise MtlmonError(
            "order_within is for policies without variables: for others, the rows of a time-stamp "
            "are one time-point"
        )
    if mode != "local":
        raise MtlmonError(
            f"mode {mode!r} is for policies without variables: leave it out, as there are no "
            "equivalences between valuations"
        )


def _check_ties(ties: Ties) -> None:
    if ties not in ("warn", "error", "allow"):
        raise MtlmonError(f"ties is 'warn', 'error' or 'allow', not {ties!r}")


def sorted_rows(
    df: DataFrame,
    source: EventSource,
    orders: Sequence[Column],
    *,
    with_places: bool,
    kept: Sequence[Column] = (),
) -> DataFrame:
    """Select columns and sort rows by time, with all rows of a key in one partition.

    The constant among the partitioning columns keeps Spark from reusing the partitioning of an
    earlier join or aggregation. Spark would then omit this shuffle, and adaptive execution could
    split the rows of a key, which it does not do to an explicit partitioning.

    Args:
        df: the rows.
        source: how rows become events.
        orders: the columns that order the rows of one time-stamp.
        with_places: whether to add a column of numbers that are equal for rows without an order.
        kept: other columns, which come before that one.
    """
    from pyspark.sql import functions as F

    selection = source.selection
    rows, names = plain_rows(df, source, orders, kept)
    others = rows.columns[len(rows.columns) - len(kept) :]
    wanted = rows.columns[: len(selection.names)]
    plain = dict(zip(selection.names, wanted, strict=True))
    keys = [plain[name] for name in source.keys]
    is_plain = is_time_stamp(rows.schema.fields[0].dataType, source)
    rows = rows.repartition(*keys, F.lit(0)) if keys else rows.repartition(1)
    if not is_plain:
        # after the shuffle, which then has one column less to move
        rows = with_time_stamps(rows, source)
    by_time = plain[selection.time_name] if is_plain else TIME_STAMP
    ordered = rows.sortWithinPartitions(*keys, by_time, *names)
    place = place_of(names)
    return ordered.select(*wanted, *others, *([place.alias("place")] if with_places else []))


def place_of(orders: Sequence[str]) -> Column:
    """Return a number for the place of a row within its time-stamp, computed from `orders`."""
    from pyspark.sql import functions as F

    return F.xxhash64(*orders) if orders else F.lit(0).cast("bigint")


def plain_rows(
    df: DataFrame,
    source: EventSource,
    orders: Sequence[Column] = (),
    kept: Sequence[Column] = (),
) -> tuple[DataFrame, list[str]]:
    """Select columns in their order, then those that order rows, then others, under plain names.

    The original names cannot be used, because pyspark cannot look up columns whose names contain
    dots.

    Returns:
        The rows, and the names of the columns that order them.
    """
    wanted = [
        column_named(name).alias(f"column{number}")
        for number, name in enumerate(source.selection.names)
    ]
    ordering = [column.alias(f"order{number}") for number, column in enumerate(orders)]
    others = [column.alias(f"kept{number}") for number, column in enumerate(kept)]
    names = [f"order{number}" for number in range(len(orders))]
    return df.select(*wanted, *ordering, *others), names


def _last(rows: DataFrame, source: EventSource) -> int | None:
    """The last time-stamp of all rows that are events, or None."""
    from pyspark.sql import functions as F

    if source.on_error == "skip":
        rows = rows.mapInArrow(GoodRows(source), rows.schema)
    plain = rows.select(column_named(source.selection.time_name).alias("column0"))
    # an invalid time is null here, and an error when its row is read
    (row,) = with_time_stamps(plain, source).agg(F.max(TIME_STAMP)).collect()
    return None if row[0] is None else int(row[0])
