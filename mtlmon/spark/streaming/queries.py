"""Monitors streaming data frames with Structured Streaming."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.checking.partitions import partitions_of
from mtlmon.errors import MtlmonError, TableError
from mtlmon.spark.batch.frames import plain_rows, refuse_options
from mtlmon.spark.batch.given_rows import GivenRows, has_both_kinds
from mtlmon.spark.common.changelog import ARRIVAL
from mtlmon.spark.common.changelog import COLUMNS as CHANGES
from mtlmon.spark.common.events import check_schema, key_names, sources_of
from mtlmon.spark.common.facts import with_facts
from mtlmon.spark.common.frames import arrow_schema, check_keys, check_passable, require_frame
from mtlmon.spark.common.ordering import check_order_types, column_named, given_orders
from mtlmon.spark.common.policies import compile_policies, relational_file
from mtlmon.spark.common.row_counts import reporter_of
from mtlmon.spark.common.verdicts import LATE_ATOMS, with_keys, with_valuations
from mtlmon.spark.streaming.bucket_host import BucketHost
from mtlmon.spark.streaming.bucket_records import BucketRecords
from mtlmon.spark.streaming.event_clock import EventClock
from mtlmon.spark.streaming.event_records import EventRecords, order_type_trouble
from mtlmon.spark.streaming.exchange import Unpack
from mtlmon.spark.streaming.lateness import (
    WATERMARK,
    lateness_beyond,
    refuse_corrections,
    waits_of,
)
from mtlmon.spark.streaming.packing import PackRows, key_types
from mtlmon.spark.streaming.row_relations import RowsToCome, emitted_buckets
from mtlmon.spark.streaming.settings import stream_settings
from mtlmon.spark.streaming.verdicts import row_types, stream_schema

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from mtlmon.relational.slicing import Statistics
    from mtlmon.spark.batch.given_rows import PreparedRelations
    from mtlmon.spark.common.events import EventSource, OnError
    from mtlmon.spark.common.ordering import OrderWithin
    from mtlmon.spark.common.policies import Mode, PolicyLike
    from mtlmon.spark.common.row_counts import Reporter, RowCounts

_PROVIDER_OPTION = "spark.sql.streaming.stateStore.providerClass"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

BUCKETS = 64
"""How many buckets keys are divided into if nothing is said."""


def monitor_stream(
    df: DataFrame,
    policy: PolicyLike,
    *,
    delay: int | str | None = None,
    lateness: int | str | None = None,
    arrival: bool = False,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    order_within: OrderWithin = None,
    mode: Mode = "local",
    time_unit: str | None = None,
    resolution: str | None = None,
    on_error: OnError = "stop",
    counts: RowCounts | None = None,
    buckets: int | None = None,
    slices: int | None = None,
    statistics: Statistics | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """Monitor the rows of a streaming data frame: each is an event, and each key is a trace.

    An event waits until the watermark has passed its time-stamp, and is then monitored. The
    watermark is the latest time of all rows in earlier batches, minus `delay`. As it advances, the
    passing of time can also decide verdicts, even for keys without new events. Rows with times
    below the watermark of their batch are late: they are not monitored, but returned as late rows.
    With `lateness`, rows that are late by no more than this are monitored, too, and correct
    verdicts: then the result is a changelog.

    The states of monitors and the waiting events are in Spark's state store, so that a query that
    is restarted from its checkpoint continues where it stopped. It must be the same query, with the
    same arguments except for `on_error`, `counts`, `arrival` and, without `lateness`, `delay`;
    otherwise it fails at its first batch with rows.

    Args:
        df: a streaming data frame.
        policy: as for `monitor`.
        delay: how far the time of a row can be behind the latest one: a number of time-stamps, or a
            text with a unit, "90s". With 0, rows with the latest time are still in time. Leave it
            out if the column of times has a watermark already, which is then used.
        lateness: rows are accepted if their time is behind the latest one of all earlier batches by
            no more than this. It is written like `delay`, and is at least `delay`. Rows that come
            later are returned as late rows. None means no more than `delay`, and no corrections.
            Policies with messages or values of later rows do not support it, nor does
            `on_error="skip"` with policies that have windows, streams or ticks.
        arrival: with `lateness`, return how far the log had come when a change was told, for
            `latest_verdicts(changelog, as_of=T)`.
        time: as for `monitor`.
        key: as for `monitor`.
        atoms: as for `monitor`.
        event: as for `monitor`.
        event_separator: as for `monitor`.
        order_within: columns or expressions that order the rows of one time-stamp; they must be
            integers, dates or timestamps. By default, rows keep the order in which they arrive:
            that of batches, and within a batch the order in which a task reads them.
        mode: as for `monitor`.
        time_unit: as for `monitor`.
        resolution: as for `monitor`.
        on_error: as for `monitor`. With "stop", a row that is not an event ends the query for good,
            because its batch is read again when the query is restarted.
        counts: as for `monitor`.
        buckets: the number of groups that keys are divided into, each of which is one state: as a
            rule, some thousand keys in each. By default, there are 64.
        slices: for policies with variables, as for `monitor`. By default, their number is that of
            the `checkpoint`, or else depends on the cores.
        statistics: for policies with variables, what is known of the rows; by default, what was
            known when the `checkpoint` was made, or else nothing.
        checkpoint: for policies with variables, the `checkpointLocation` of the query. If it has
            states of other slices or statistics, the driver moves them to the new slices; the query
            must not be running.

    Returns:
        A streaming data frame for the output mode "append". It has a row for each verdict:
        `policy`, the columns of the key, `time`, `offset`, `verdict`, `reference_time` and
        `reference_offset`, and `message` if a trigger has one, as for `monitor` with
        `resolve=False`, and `late`, which is null. It also
        has a row for each late event: the key, its `time`, and in `late` the atoms that hold; the
        other columns are null. If policies have different keys, an event that is late has such a
        row for each of them.

        With `lateness`, there is a row for each change of a verdict, and three more columns at the
        end. `op` is "insert" for a verdict of a time-point that has none, "update" for another one,
        and "delete" if there is none any more; then `verdict` is null. `revision` is the number of
        the batch in the query, which is larger in later rows about a time-point. `final` is a
        time-stamp: no row of a later batch is about the policy and a time below it; null as long as
        there is none. Whenever it moves, there is a row with the policy, `revision` and `final`
        alone. With `arrival`, a column of that name is the last one: the latest time of all rows in
        earlier batches, which rows of the batch and verdicts are measured by.

        For policies with variables, it has the columns that `monitor` returns, and `late`. All rows
        of a time-stamp are one time-point, which is monitored when the watermark has passed it. A
        late row is returned for each atom of which it is a row; and with an empty `late`, if a
        policy looks at all rows of a key. If there are policies of both kinds, a row has the
        columns of both, as for `monitor`, and `late`. With `lateness`, there
        is a row for each valuation that changes: `op` is "insert" if it violates a policy or
        matches now and did not before, and "delete" if it did before and does not any more. The
        values of key columns and variables identify a row, too, so there is no "update".

    Raises:
        FormulaError, PolicyError: the policy is invalid, or does not fit the types of columns.
        TableError: a column is missing, or has a type that does not fit its use.
        MtlmonError: an argument is invalid; the data frame is not streaming; Spark is older than
            4.1; its state store is not that of RocksDB; or protobuf is missing.
    """
    require_frame(df, "monitor_stream")
    file = relational_file(policy, resolution, time_unit, key=key, has_changes=True)
    if file is None and (slices is not None or statistics is not None):
        raise MtlmonError("slices and statistics are for policies with variables: leave them out")
    if file is None and checkpoint is not None:
        raise MtlmonError("checkpoint is for policies with variables: leave it out")
    if arrival and lateness is None:
        raise MtlmonError(
            "arrival says when changes were told: let late rows change what was told, with lateness"
        )
    changes = () if lateness is None else (*CHANGES, ARRIVAL) if arrival else CHANGES
    _check_spark(df)
    from mtlmon.spark.streaming.processor import hosted

    is_mixed = has_both_kinds(file)

    given = GivenRows(
        df,
        "mtlmon.spark.monitor_stream",
        time=time,
        atoms=atoms,
        event=event,
        event_separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
    )

    def valuations(prepared: PreparedRelations, reporter: Reporter | None) -> DataFrame:
        from mtlmon.spark.streaming.relation_queries import monitor_relation_stream

        return monitor_relation_stream(
            df,
            *prepared,
            delay=delay,
            lateness=lateness,
            reporter=reporter,
            slices=slices,
            statistics=statistics,
            checkpoint=checkpoint,
            changes=changes,
        )

    if file is not None:
        if not is_mixed:
            if buckets is not None:
                raise MtlmonError(
                    "buckets are of keys: for policies with variables, give slices instead"
                )
            refuse_options(order_within=order_within, mode=mode)
            reporter = reporter_of(df.sparkSession, counts, is_stream=True)
            return with_facts(valuations(given.relations(file, atoms), reporter), file)
        refuse_options(order_within=None, mode=mode)
    policies = compile_policies(
        policy if file is None else file,
        mode,
        resolution,
        time_unit,
        has_keys=True,
        replaces_keys=key is not None,
        leaves_out=is_mixed,
        looks_up=True,
        log=lambda _: RowsToCome(df),
        has_changes=True,
    )
    default = key_names(policies.key if key is None else key)
    count = _bucket_count(buckets)
    policies.watch(default)
    partitions = partitions_of((one.key for one in policies.policies), default)
    keys = partitions.all_columns
    source, prepared = given.sources(policies, keys, file)
    check_watermark(df, source.selection.time_name, delay)
    orders = given_orders(df, order_within)
    fields = df.select(*map(column_named, source.selection.names), *orders).schema.fields
    check_passable(fields)
    rows, _ = plain_rows(df, source, orders)
    schema = _checked_schema(rows, source)
    check_order_types(source, fields, schema)
    unit = unit_of(source, schema)
    clock = EventClock.of_unit(unit)
    beyond = None
    if lateness is not None:
        refuse_corrections(policies, on_error)
        beyond = lateness_beyond(df, lateness, delay, clock, unit)
    waits = waits_of(df, delay, clock, unit)
    marked = None if delay is None else waits
    source = source._replace(reporter=reporter_of(df.sparkSession, counts, is_stream=True))
    fields = [df.schema[name] for name in keys]
    parts = []
    for own in sources_of(source, partitions):
        own_count = count if own.keys else 1
        read = stream_columns(own, schema, is_corrected=beyond is not None)
        settings = stream_settings(own, orders, schema, own_count, beyond)
        events = EventRecords(source.policies.atoms, len(orders), read)
        records = BucketRecords(events, key_types(own.keys, schema), settings)
        own_fields = [df.schema[name] for name in own.keys]
        shown = stream_schema(own_fields, has_messages=own.has_messages, changes=changes)
        host = BucketHost(own.policies, records, own.keys, None if read is None else own, beyond)
        emitted = emitted_buckets(df, own, settings, clock, marked, own_count, beyond)
        pack = PackRows(own, records, clock, own_count)
        found = hosted(rows, pack, host, clock, marked, emitted, behind=waits)
        unpack = Unpack(row_types(shown, records, own.keys), has_arrival=arrival)
        found = found.mapInArrow(unpack, shown)
        parts.append(found if len(partitions.columns) == 1 else with_keys(found, own.keys, fields))
    verdicts = reduce(lambda one, other: one.union(other), parts)
    if prepared is not None:
        # the states of the other kind report the rows that are skipped
        verdicts = with_valuations(
            verdicts,
            valuations(prepared, None),
            keys=prepared[0].source.keys,
            has_messages=source.has_messages,
            last=(LATE_ATOMS, *changes),
        )
    return with_facts(verdicts, policies.file)


def stream_columns(
    source: EventSource, schema: pa.Schema, *, is_corrected: bool = False
) -> pa.Schema | None:
    """The columns that streams read, always with that of times; None if there are no streams.

    Where verdicts are corrected, rows are chosen as by streams, too.
    """
    policies = source.policies
    has_streams = policies.has_streams or (is_corrected and policies.has_clocks)
    if policies.file is None or not has_streams:
        return None
    names = dict.fromkeys([source.selection.time_name, *policies.needs().columns])
    return pa.schema([schema.field(name) for name in names])


def _bucket_count(buckets: int | None) -> int:
    """The number of buckets.

    Raises:
        MtlmonError: the number is not valid.
    """
    if buckets is None:
        return BUCKETS
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 0 < buckets < 2**31:
        raise MtlmonError(f"buckets is a number from 1 to {2**31 - 1}, not {buckets!r}")
    return buckets


def _check_spark(df: DataFrame) -> None:
    """Check requirements that would otherwise cause obscure errors when the query runs."""
    from pyspark.sql import GroupedData

    if not df.isStreaming:
        raise MtlmonError("the data frame is not streaming: mtlmon.spark.monitor is for it")
    if not hasattr(GroupedData, "transformWithState"):
        from pyspark import __version__

        raise MtlmonError(f"streams need Spark 4.1 or later, and this is {__version__}")
    try:
        import pyspark.sql.streaming.proto.StateMessage_pb2  # noqa: F401
    except Exception as error:
        # an ImportError, or an error of protobuf's own if it is too old
        raise MtlmonError(
            f"Spark needs protobuf for states ({error}); `pip install 'mtlmon[spark]'` installs it"
        ) from error
    provider = df.sparkSession.conf.get(_PROVIDER_OPTION, None)
    if provider != _PROVIDER:
        raise MtlmonError(
            "states of monitors need the state store of RocksDB, and the session has "
            f"{provider or 'the default one'}: spark.conf.set({_PROVIDER_OPTION!r}, {_PROVIDER!r})"
        )


def check_watermark(df: DataFrame, time: str, delay: int | str | None) -> None:
    """Check that there is exactly one watermark, on the column of times."""
    marked = [field.name for field in df.schema if WATERMARK in field.metadata]
    if delay is not None and marked:
        raise MtlmonError(
            f"the column {marked[0]!r} has a watermark already, and there can be only one: leave "
            "out delay, or the watermark"
        )
    if delay is None and not marked:
        raise MtlmonError(
            "nothing says how late rows may be: give a delay, or the column of times a watermark "
            "(DataFrame.withWatermark)"
        )
    if delay is None and time not in marked:
        raise MtlmonError(f"the watermark is on the column {marked[0]!r}, the time is in {time!r}")


def _checked_schema(rows: DataFrame, source: EventSource) -> pa.Schema:
    """The types of the columns of `plain_rows`, with the names of the selected columns.

    Raises:
        TableError, PolicyError, MtlmonError: the type of a column does not fit.
    """
    fields = list(arrow_schema(rows, rows.columns))
    names = source.selection.names
    wanted = pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=False)])
    check_schema(source, wanted)
    check_keys(source.selection.keys, wanted)
    for number, field in enumerate(fields[len(names) :], 1):
        trouble = order_type_trouble(field.type)
        if trouble is not None:
            raise TableError(f"order_within, number {number}, is {trouble}", path=source.place)
    return pa.schema([*wanted, *fields[len(names) :]])


def unit_of(source: EventSource, schema: pa.Schema) -> str | None:
    """The unit of time-stamps, or None if it is not known."""
    if source.resolution is not None:
        return source.resolution
    kind = schema.field(source.selection.time_name).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return source.time_unit if is_number else "s"
