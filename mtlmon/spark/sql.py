"""Functions for SQL: over tables by key, and over columns of arrays of events."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError, TableError
from mtlmon.event_columns import listed
from mtlmon.spark.events import event_source
from mtlmon.spark.monitoring import RowMonitors
from mtlmon.spark.policies import compile_policies
from mtlmon.spark.verdicts import COLUMNS, POLICY, verdict_batches, verdict_columns
from mtlmon.verdict_arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

    from mtlmon.spark.events import EventSource
    from mtlmon.spark.monitoring import EndTime
    from mtlmon.spark.policies import Mode

TABLE_FUNCTION = "mtlmon"
ARRAY_FUNCTION = "mtlmon_verdicts"

_PLACE = "table"

_TABLE_TYPE = (
    "policy string, key string, time bigint, offset bigint, verdict boolean, "
    "reference_time bigint, reference_offset bigint"
)
_ARRAY_TYPE = (
    "array<struct<policy: string, time: bigint, offset: bigint, verdict: boolean, "
    "reference_time: bigint, reference_offset: bigint>>"
)
_SAME = np.array([], np.uint32)


def register(spark: SparkSession) -> None:
    """Make functions of SQL known to a session: `mtlmon` and `mtlmon_verdicts`.

    `mtlmon` monitors the rows of a table, each partition as a trace:

        SELECT * FROM mtlmon(
            TABLE(logs) PARTITION BY device ORDER BY ts,
            policy => 'request IMPLIES EVENTUALLY[0,5] response', key => 'device')

    Its other arguments are named ones, constants: `time`, `event`, `separator`, `mode`, `resolve`,
    `end_time`, `time_unit` and `resolution`, as of `mtlmon.spark.monitor`, but that "last" is the
    last time-stamp of the partition; `key` names a column whose value is given with each verdict,
    as text. Over a join or an aggregation by the same key Spark does not partition again and may
    cut partitions in two: there write `PARTITION BY (device, 0)`.

    `mtlmon_verdicts(events, policy)` takes an array of structs, the events of a trace in order, and
    gives an array of verdicts. It may have as third argument the name of the field of times, as
    fourth that of the field of names of events, as fifth the end time.

    Raises:
        MtlmonError: this pyspark has no such functions; 4.1 has.
    """
    try:
        from pyspark.sql.functions import arrow_udtf
        from pyspark.sql.pandas.functions import arrow_udf
    except ImportError:
        raise MtlmonError("functions of SQL need pyspark 4.1 or later") from None
    table_function = arrow_udtf(PartitionMonitor, returnType=_TABLE_TYPE)
    spark.udtf.register(TABLE_FUNCTION, cast("UserDefinedTableFunction", table_function))
    # its types know functions of so many arguments, not of so many and more
    make_function: Any = arrow_udf
    function = make_function(verdicts_of_arrays, returnType=_ARRAY_TYPE)
    spark.udf.register(ARRAY_FUNCTION, function)


class PartitionMonitor:
    """The table function: Spark makes one for each partition of the table."""

    def __init__(self) -> None:
        self._monitors: RowMonitors | None = None
        self._key = {"key": pa.nulls(1, pa.string())}

    def eval(
        self,
        events: pa.RecordBatch,
        policy: pa.Array,
        time: pa.Array | None = None,
        key: pa.Array | None = None,
        event: pa.Array | None = None,
        separator: pa.Array | None = None,
        mode: pa.Array | None = None,
        resolve: pa.Array | None = None,
        end_time: pa.Array | None = None,
        time_unit: pa.Array | None = None,
        resolution: pa.Array | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The verdicts that rows of the partition bring; the other arguments are constants.

        Raises:
            TableError: a row is no event, a column is missing or not of a type that fits.
            FormulaError: the policy cannot be read.
        """
        if events.num_rows == 0:
            return
        if self._monitors is None:
            source = _source(
                _constant(policy),
                _constant(mode, "local"),
                _constant(time, "ts"),
                _constant(event),
                _constant(separator, "|"),
                _constant(time_unit),
                _constant(resolution),
            )
            self._set_key(events, _constant(key))
            source.selection.require(events.schema.names, source.place)
            resolves = _constant(resolve, True)
            self._monitors = RowMonitors(source, resolves, _end_time(_constant(end_time)))
        rows = events.select(list(self._monitors.columns))
        for name, records, _ in self._monitors.feed(rows, _SAME):
            yield from verdict_batches(name, self._key, records, None)

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """The verdicts that the end of the partition brings."""
        if self._monitors is not None:
            for name, records in self._monitors.finish():
                yield from verdict_batches(name, self._key, records, None)

    def _set_key(self, events: pa.RecordBatch, name: str | None) -> None:
        if name is None:
            return
        if events.schema.names.count(name) != 1:
            raise TableError(
                f"there is no column {name!r} of keys among {listed(events.schema.names)}",
                path=_PLACE,
            )
        self._key = {"key": events.column(name).slice(0, 1).cast(pa.string())}


def verdicts_of_arrays(events: pa.Array, policy: pa.Array, *more: pa.Array) -> pa.Array:
    """Arrays of events to arrays of verdicts, each of which is one trace; of null it is null.

    Args:
        events: arrays of structs.
        policy: a constant, as the others are.
        more: up to three: the fields of times and of names of events, and the end time.

    Raises:
        TableError: an event is none, or one of a time before that of the event before.
        FormulaError: the policy cannot be read.
    """
    if len(more) > 3:
        raise MtlmonError(f"{ARRAY_FUNCTION} takes up to 5 arguments, not {2 + len(more)}")
    time, event, end_time = (*more, None, None, None)[:3]
    formula = _constant(policy)
    source = _source(formula, "local", _constant(time, "ts"), _constant(event), "|", None, None)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(events), 0)).astype(np.int64)
    items = events.flatten()
    if items.null_count:
        raise TableError("an event in an array is null", path=source.place)
    batch = pa.RecordBatch.from_struct_array(items)
    source.selection.require(batch.schema.names, source.place)
    monitors = RowMonitors(source, True, _end_time(_constant(end_time)))
    # arrays without events have no trace
    rows = np.flatnonzero(lengths)
    starts = (np.cumsum(lengths) - lengths)[rows].astype(np.uint32)
    found: list[tuple[str | None, NDArray[np.void], NDArray[np.int64]]] = []
    if len(rows):
        for name, given, owners in monitors.feed(batch.select(list(monitors.columns)), starts):
            # number 0 is the trace before the first one
            places = rows[owners.astype(np.int64) - 1]
            found.append((name, np.frombuffer(given, verdict_type()), places))
        for name, given in monitors.finish():
            records = np.frombuffer(given, verdict_type())
            found.append((name, records, np.full(len(records), rows[-1])))
    return _as_lists(found, len(events), events.is_null())


def _as_lists(
    found: list[tuple[str | None, NDArray[np.void], NDArray[np.int64]]],
    count: int,
    is_null: pa.Array,
) -> pa.Array:
    """Verdicts as lists, one for each row, each in the order of policies and time-points.

    Args:
        found: names of policies, verdict records, and the rows that these belong to.
        count: how many rows there are.
        is_null: which of them have no list.
    """
    names = list(dict.fromkeys(name for name, _, _ in found))
    numbers = [np.full(len(records), names.index(name)) for name, records, _ in found]
    policy = np.concatenate([np.array([], np.int64), *numbers])
    records = np.concatenate([np.array([], verdict_type()), *(one for _, one, _ in found)])
    rows = np.concatenate([np.array([], np.int64), *(one for _, _, one in found)])
    order = np.lexsort((records["offset"], records["time_stamp"], policy, rows))
    texts = pa.array(names, pa.string()).take(pa.array(policy[order]))
    fields = [texts, *verdict_columns(records[order])]
    structs = pa.StructArray.from_arrays(fields, names=[POLICY, *COLUMNS])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, mask=is_null)


@lru_cache(maxsize=16)
def _source(
    policy: str,
    mode: Mode,
    time: str,
    event: str | None,
    separator: str,
    time_unit: str | None,
    resolution: str | None,
) -> EventSource:
    """How rows become events; remembered, as every partition asks for it."""
    return event_source(
        compile_policies(policy, mode),
        time=time,
        event=event,
        separator=separator,
        time_unit=time_unit,
        resolution=resolution,
        place=_PLACE,
    )


def _constant(argument: pa.Array | None, default: Any = None) -> Any:
    """The one value of an argument; the default if that is null."""
    if argument is None or len(argument) == 0:
        return default
    value = argument[0].as_py()
    return default if value is None else value


def _end_time(value: object) -> EndTime:
    """An end time as SQL has it: a number, or a text."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    # what else there is, its taker checks
    return value  # type: ignore[return-value]
