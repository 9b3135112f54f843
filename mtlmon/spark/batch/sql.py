"""SQL functions: over the rows of a table by key, and over columns of arrays of events."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError, TableError
from mtlmon.spark.batch.sql_arguments import (
    ARRAY_ARGUMENTS,
    PLACE,
    TABLE_ARGUMENTS,
    constant_settings,
    end_time_of,
    groups_of_settings,
    named_arguments,
    source_of,
)
from mtlmon.spark.common.monitoring import RowMonitors
from mtlmon.spark.common.verdicts import (
    COLUMNS,
    MESSAGE,
    POLICY,
    message_column,
    verdict_batches,
    verdict_columns,
)
from mtlmon.support.atom_names import listed
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

    from mtlmon.spark.batch.sql_arguments import Settings
    from mtlmon.spark.common.trace_monitors import Found
    from mtlmon.spark.common.trace_streams import TracePiece

TABLE_FUNCTION = "mtlmon"
ARRAY_FUNCTION = "mtlmon_verdicts"

_TABLE_TYPE = (
    "policy string, key string, time bigint, offset bigint, verdict boolean, "
    "reference_time bigint, reference_offset bigint, message string"
)
_ARRAY_TYPE = (
    "array<struct<policy: string, time: bigint, offset: bigint, verdict: boolean, "
    "reference_time: bigint, reference_offset: bigint, message: string>>"
)
_SAME = np.array([], np.uint32)


def register(spark: SparkSession) -> None:
    """Register the SQL functions `mtlmon` and `mtlmon_verdicts` in a session.

    `mtlmon` monitors the rows of a table, with each partition as a trace:

        SELECT * FROM mtlmon(
            TABLE(logs) PARTITION BY device ORDER BY ts,
            policy => 'request IMPLIES EVENTUALLY[0,5] response', key => 'device')

    Its other arguments are named constants: `time`, `event`, `separator`, `mode`, `resolve`,
    `end_time`, `time_unit` and `resolution` mean the same as for `mtlmon.spark.monitor`, except
    that "last" is the last time-stamp of the partition; `key` names a column whose value is
    returned as text with each verdict. After a join or an aggregation by the same key, Spark does
    not partition again and can split partitions; write `PARTITION BY (device, 0)` in this case.

    `mtlmon_verdicts(events, policy)` takes an array of structs, the events of a trace in order, and
    returns an array of verdicts. Optional arguments are `time`, the name of the field of times,
    `event`, the name of the field of names of events, and `end_time`, in this order. Each row has
    its own arguments, which can be columns.

    Raises:
        MtlmonError: pyspark is older than 4.1, which introduced such functions.
    """
    try:
        from pyspark.sql.functions import arrow_udtf
        from pyspark.sql.pandas.functions import arrow_udf
    except ImportError:
        raise MtlmonError("functions of SQL need pyspark 4.1 or later") from None
    table_function = arrow_udtf(PartitionMonitor, returnType=_TABLE_TYPE)
    spark.udtf.register(TABLE_FUNCTION, cast("UserDefinedTableFunction", table_function))
    # its type stubs do not know functions with any number of arguments
    make_function: Any = arrow_udf
    function = make_function(verdicts_of_arrays, returnType=_ARRAY_TYPE)
    spark.udf.register(ARRAY_FUNCTION, function)


class PartitionMonitor:
    """The table function; Spark creates an instance for each partition of the table."""

    def __init__(self) -> None:
        self._monitors: RowMonitors | None = None
        self._settings: Settings | None = None
        self._key = {"key": pa.nulls(1, pa.string())}
        self._columns: list[str] = []

    # Check arguments here, because Spark reports invalid ones with a traceback.
    def eval(self, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        """Process rows of the partition and yield the new verdicts.

        The arguments are those of `TABLE_ARGUMENTS`; all except the first are constants.

        Raises:
            TableError: a row is not an event, or a column is missing or has a type that does not
                fit.
            FormulaError: the policy is invalid.
            MtlmonError: an argument is invalid.
        """
        given = named_arguments(TABLE_FUNCTION, TABLE_ARGUMENTS, arguments, named)
        events = given["events"]
        if not isinstance(events, pa.RecordBatch):
            raise MtlmonError(
                f"{TABLE_FUNCTION}: the first argument is a table, as in TABLE(logs) PARTITION BY "
                "user ORDER BY ts"
            )
        if events.num_rows == 0:
            return
        settings = constant_settings(TABLE_FUNCTION, given)
        if self._monitors is None:
            self._settings = settings
            source = source_of(settings)
            self._set_key(events, settings.key)
            source.selection.require(events.schema.names, source.place)
            end_time = end_time_of(settings, source, events.schema)
            self._monitors = RowMonitors(source, settings.resolve, end_time)
            # messages show the key as well as the columns of the policy
            shown = [] if settings.key is None else [settings.key]
            self._columns = list(dict.fromkeys([*shown, *self._monitors.columns]))
        elif settings != self._settings:
            raise MtlmonError(f"{TABLE_FUNCTION}: an argument differs within a partition")
        rows = self._monitors.read(events.select(self._columns))
        for piece in self._monitors.pieces(rows, _SAME):
            yield from self._verdicts(self._monitors.feed(piece, _SAME))

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """End the partition and yield the last verdicts."""
        if self._monitors is not None:
            yield from self._verdicts(_of_trace(self._monitors, iter(())))

    def _verdicts(self, verdicts: Iterator[Found]) -> Iterator[pa.RecordBatch]:
        for found in verdicts:
            yield from verdict_batches(found, self._key, has_messages=True)

    def _set_key(self, events: pa.RecordBatch, name: str | None) -> None:
        if name is None:
            return
        if events.schema.names.count(name) != 1:
            raise TableError(
                f"there is no column {name!r} of keys among {listed(events.schema.names)}",
                path=PLACE,
            )
        self._key = {"key": events.column(name).slice(0, 1).cast(pa.string())}


def verdicts_of_arrays(*arguments: pa.Array, **named: pa.Array) -> pa.Array:
    """Convert arrays of events, each of which is a trace, to arrays of verdicts; nulls stay null.

    The arguments are those of `ARRAY_ARGUMENTS`, with values for each row. Rows with equal
    arguments are monitored together.

    Raises:
        TableError: an event is invalid, or its time is before that of the previous event.
        FormulaError: a policy is invalid.
        MtlmonError: an argument is invalid.
    """
    given = named_arguments(ARRAY_FUNCTION, ARRAY_ARGUMENTS, arguments, named)
    events = given["events"]
    if not (
        pa.types.is_list(events.type) or pa.types.is_large_list(events.type)
    ) or not pa.types.is_struct(events.type.value_type):
        raise MtlmonError(
            f"{ARRAY_FUNCTION}: events are an array of structs, as in array(struct(1 AS ts, true "
            f"AS p)), not of type {events.type}"
        )
    found: list[RowVerdicts] = []
    for settings, rows in groups_of_settings(ARRAY_FUNCTION, given, len(events)):
        part = events if len(rows) == len(events) else events.take(pa.array(rows))
        found += [one._replace(rows=rows[one.rows]) for one in _monitored(part, settings)]
    return _as_lists(found, len(events), events.is_null())


class RowVerdicts(NamedTuple):
    """The verdicts of a policy.

    Attributes:
        name: the name of the policy.
        records: the verdict records.
        rows: for each verdict, the row with its events.
        messages: for each verdict its message, or null.
    """

    name: str | None
    records: NDArray[np.void]
    rows: NDArray[np.int64]
    messages: pa.Array


def _monitored(events: pa.Array, settings: Settings) -> Iterator[RowVerdicts]:
    """Yield the verdicts on arrays of events with the same settings."""
    source = source_of(settings)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(events), 0)).astype(np.int64)
    items = events.flatten()
    if items.null_count:
        raise TableError("an event in an array is null", path=source.place)
    batch = pa.RecordBatch.from_struct_array(items)
    source.selection.require(batch.schema.names, source.place)
    end_time = end_time_of(settings, source, batch.schema)
    monitors = RowMonitors(source, settings.resolve, end_time)
    # empty arrays have no trace
    rows = np.flatnonzero(lengths)
    if not len(rows):
        return
    starts = (np.cumsum(lengths) - lengths)[rows].astype(np.uint32)
    columns = batch.select(list(monitors.columns))
    if source.policies.has_clocks:
        # each array is a log with an end of its own
        for row, first, length in zip(rows, starts.tolist(), lengths[rows].tolist(), strict=True):
            read = monitors.read(columns.slice(first, length))
            for found in _of_trace(monitors, monitors.pieces(read, _SAME)):
                yield _of_rows(found, np.array([row]))
        return
    read = monitors.read(columns)
    # number 0 would be a trace before the first one
    present = 0
    for piece in monitors.pieces(read, starts):
        traces = piece.traces
        if not source.has_streams:
            traces = np.searchsorted(starts, np.arange(len(read.time_stamps)), "right")
        begun = np.flatnonzero(np.diff(traces, prepend=present)).astype(np.uint32)
        numbers = np.concatenate([[present], traces[begun]])
        for found in monitors.feed(piece, begun):
            yield _of_rows(found, rows[numbers - 1])
        present = int(traces[-1]) if len(traces) else present
    for piece in monitors.rest():
        for found in monitors.feed(piece, _SAME):
            yield _of_rows(found, rows[[-1]])
    for found in monitors.finish():
        yield _of_rows(found, rows[[-1]])


def _of_trace(monitors: RowMonitors, pieces: Iterator[TracePiece]) -> Iterator[Found]:
    """Yield the verdicts on all events of a trace."""
    for piece in chain(pieces, monitors.rest()):
        yield from monitors.feed(piece, _SAME)
    yield from monitors.finish()


def _of_rows(found: Found, rows: NDArray[np.int64]) -> RowVerdicts:
    """Return verdicts with the rows of their traces, which are given by the traces' numbers."""
    records = np.frombuffer(found.records, verdict_type())
    owners = np.zeros(len(records), np.uint32) if found.owners is None else found.owners
    return RowVerdicts(found.name, records, rows[owners], message_column(records, found.messages))


def _as_lists(
    found: Sequence[RowVerdicts],
    count: int,
    is_null: pa.Array,
) -> pa.Array:
    """Convert verdicts to a list for each row, in the order of policies and time-points.

    Args:
        found: the verdicts of each policy.
        count: the number of rows.
        is_null: the rows whose list is null.
    """
    names = list(dict.fromkeys(one.name for one in found))
    numbers = [np.full(len(one.records), names.index(one.name)) for one in found]
    policy = np.concatenate([np.array([], np.int64), *numbers])
    records = np.concatenate([np.array([], verdict_type()), *(one.records for one in found)])
    rows = np.concatenate([np.array([], np.int64), *(one.rows for one in found)])
    messages = pa.concat_arrays([pa.nulls(0, pa.string()), *(one.messages for one in found)])
    order = np.lexsort((records["offset"], records["time_stamp"], policy, rows))
    texts = pa.array(names, pa.string()).take(pa.array(policy[order]))
    fields = [texts, *verdict_columns(records[order]), messages.take(pa.array(order))]
    structs = pa.StructArray.from_arrays(fields, names=[POLICY, *COLUMNS, MESSAGE])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, mask=is_null)
