"""Monitors policies with variables on data frames, in slices by the values of variables.

Python turns each batch of rows into rows of atoms, all with the same few columns (`atom_rows`), so
that conditions mean the same as elsewhere. Spark does the rest: an expression of SQL, made from the
plan of slices, computes an array of the slices of each row (`slice_columns`); `explode` copies the
rows; and one shuffle brings the rows of a slice together, sorted by time. A native monitor for each
slice answers (`slice_monitors`), and another expression keeps what the slice owns.

Marks are rows as well. There is a mark for each time-stamp if a policy needs time-points without
rows, and one for the last time-stamp of each partition, so that every slice knows where the log
ends without another pass.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_number, canonical_texts
from mtlmon.checking.outputs import unique_columns
from mtlmon.errors import MtlmonError
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.relational.slicing import MOST_SLICES, RowCounts, Slicing, Statistics
from mtlmon.spark.batch.row_relations import RowsAtRest
from mtlmon.spark.common.atom_rows import (
    ATOM,
    TIME,
    AtomRows,
    RelationSource,
    packed_names,
    relation_source,
    spark_schema,
)
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import check_schema
from mtlmon.spark.common.frames import (
    arrow_schema,
    check_keys,
    in_partitions,
    require_at_rest,
    require_columns,
)
from mtlmon.spark.common.ordering import check_order_types, column_named
from mtlmon.spark.common.policies import relational_file
from mtlmon.spark.common.slice_columns import case_of, literal, owner, slices_of_rows
from mtlmon.spark.common.slice_monitors import NUMBER, SLICE, SlicedRows, SlicePlan, SliceSource
from mtlmon.spark.session import cores_of
from mtlmon.tables.valuations import kinds_of_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from mtlmon.policy import PolicyFile
    from mtlmon.spark.common.atom_rows import AtomColumns
    from mtlmon.spark.common.end_times import EndTimeLike
    from mtlmon.spark.common.events import OnError, RowSource
    from mtlmon.spark.common.policies import PolicyLike
    from mtlmon.spark.common.row_counts import Reporter
    from mtlmon.spark.common.trace_monitors import EndTime

__all__ = ["monitor_relations", "prepared_relations", "relation_statistics"]

SLICES_PER_CORE = 4
_FIXED = ("policy", "time", "offset", "verdict")

Keys = Sequence[Mapping[str, "DataType"]]
"""The key columns of each policy, with their types."""


def prepared_relations(
    df: DataFrame,
    file: PolicyFile,
    *,
    time: str | None,
    atoms: Mapping[str, str] | None,
    event: str | None,
    event_separator: str,
    time_unit: str | None,
    resolution: str | None,
    on_error: OnError,
    function: str,
    beside: RowSource | None = None,
) -> tuple[RelationSource, DataFrame]:
    """Check the arguments; return how rows become rows of atoms, and the rows.

    Args:
        df: the rows.
        file: the policies, at least one of which has variables, as `relational_file` returns them.
        time: the column of times, and so on, as for `monitor`.
        function: the name of the function, for errors.
        beside: what else a row has to be an event for; None if there is nothing.

    Raises:
        PolicyError: a policy cannot be evaluated, or does not fit the columns.
        MtlmonError: an argument is invalid.
    """
    log = None if df.isStreaming else RowsAtRest(df, time or file.time or DEFAULT_TIME)
    source = relation_source(
        file,
        time=time,
        atoms=atoms,
        event=event,
        separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
        function=function,
        log=log,
    )
    own = source.columns_read
    if beside is not None:
        source = source._replace(source=source.source.reading_beside(beside))
    selection = source.source.selection
    require_columns(df, selection, source.source.place)
    rows = df.select(*map(column_named, selection.names))
    schema = arrow_schema(df, selection.names)
    check_schema(source.source, schema)
    check_keys(selection.keys, schema)
    check_order_types(source.source, rows.schema.fields, schema)
    # not what is read beside, so that the state of a query is the same whether rows are skipped
    own_schema = pa.schema([schema.field(name) for name in own])
    source = source._replace(schema=own_schema.serialize().to_pybytes())
    # find what does not fit the columns here rather than on executors
    source.columns()
    if log is not None:
        log.evaluate(source, on_error)
    return source, rows.toDF(*(f"column{number}" for number in range(len(selection.names))))


def monitor_relations(
    rows: DataFrame,
    source: RelationSource,
    *,
    end_time: EndTimeLike,
    reporter: Reporter | None,
    slices: int | None,
    statistics: Statistics | None,
) -> DataFrame:
    """Monitor policies with variables.

    Rows become rows of atoms, and each goes to the slices that need it: one shuffle by slice. The
    rows of a slice are sorted by time and monitored, and of what it reports, only the valuations
    that it owns are kept. Only rows of atoms are copied, and Spark itself computes slices.

    Args:
        rows: the rows, as `prepared_relations` returns them.
        source: how they become rows of atoms.
        end_time: the end time, slices and statistics are as for `monitor`.
        reporter: sends counts of rows to the driver; None if they are not needed.
    """
    spark = rows.sparkSession
    require_statistics(statistics)
    end = time_stamp_of(end_time, source.source, source.arrow_schema, spark)
    _check_end(end)
    count = slice_count(spark, slices)
    if statistics is None:
        statistics = Statistics() if count == 1 else _collected(rows, source, count)
    sliced = SliceSource(source, count, statistics)
    ordered = rows_of_slices(rows, sliced, reporter)
    planned = SlicePlan(sliced)
    found = ordered.mapInArrow(SlicedRows(sliced, end), spark_schema(planned.schema))
    return valuations(found, planned, key_types(rows, source))


def rows_of_slices(rows: DataFrame, sliced: SliceSource, reporter: Reporter | None) -> DataFrame:
    """Return the rows of atoms of each slice in one partition, by slice and time.

    Args:
        rows: the rows of a data frame, as `prepared_relations` returns them.
        sliced: how rows are sliced.
        reporter: sends counts of rows to the driver; None if they are not needed.
    """
    from pyspark.sql import functions as F

    slicing = sliced.slicing()
    given, columns = rows_of_atoms(rows, sliced.source, slicing, reporter)
    placed = given.select(
        F.explode(slices_of_rows(slicing, columns)).alias(SLICE),
        TIME,
        ATOM,
        *columns.arguments,
    )
    parts = in_partitions(placed, sliced.slices, SLICE)
    return parts.sortWithinPartitions(SLICE, TIME)


def _check_end(end_time: EndTime) -> None:
    """Raise MtlmonError if an end time is invalid."""
    from mtlmon.engine.native import clock_at_end

    clock_at_end(0, end_time)


def require_statistics(statistics: object) -> None:
    """Check that statistics are given.

    Raises:
        MtlmonError: it is something else.
    """
    if statistics is not None and not isinstance(statistics, Statistics):
        raise MtlmonError(
            "statistics are what mtlmon.spark.relation_statistics returns, not a "
            f"{type(statistics).__name__}"
        )


def slice_count(spark: SparkSession, slices: int | None) -> int:
    """Return the number of slices, by default some for each core.

    Raises:
        MtlmonError: the number that is given is not from 1 to `MOST_SLICES`.
    """
    if slices is None:
        cores = cores_of(spark)
        if cores is None:
            cores = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
        return max(1, min(SLICES_PER_CORE * cores, MOST_SLICES))
    if isinstance(slices, bool) or not isinstance(slices, int) or not 1 <= slices <= MOST_SLICES:
        raise MtlmonError(f"slices is a number from 1 to {MOST_SLICES}, not {slices!r}")
    return slices


def rows_of_atoms(
    rows: DataFrame, source: RelationSource, slicing: Slicing, reporter: Reporter | None
) -> tuple[DataFrame, AtomColumns]:
    """Return the rows of atoms, and marks, that slices get.

    Args:
        rows: the rows of a data frame, as `prepared_relations` returns them.
        source: how they become rows of atoms.
        slicing: the plan of slices.
        reporter: sends counts of rows to the driver; None if they are not needed.

    Returns:
        The rows of atoms, and their columns.
    """
    source = source._replace(source=source.source._replace(reporter=reporter))
    columns = source.columns()
    # time-points have no numbers in Spark, so PREVIOUS, for one, needs all of them
    atom_rows = AtomRows(source, has_marks=not slicing.is_of_stamps)
    return rows.mapInArrow(atom_rows, spark_schema(columns.schema)), columns


def key_types(rows: DataFrame, source: RelationSource) -> Keys:
    """Return the key columns of each policy, with their types.

    Args:
        rows: the rows, as `prepared_relations` returns them.
        source: how they become rows of atoms.
    """
    types = dict(zip(source.source.selection.names, rows.schema.fields, strict=True))
    return [{name: types[name].dataType for name in key} for key in source.keys]


def valuations(found: DataFrame, planned: SlicePlan, keys: Keys) -> DataFrame:
    """Keep of what slices report the valuations that they own, with a column for each variable.

    Args:
        found: what slices report.
        planned: what is known of the slices.
        keys: the key columns of each policy.
    """
    from pyspark.sql import functions as F

    slicing, kinds = planned.slicing, planned.kinds
    own = found.where(F.col(SLICE) == owner(slicing, kinds))
    if any(policy.exposed for policy in slicing.policies):
        # several valuations of what is not reported can say the same
        kept = reported(own, slicing, kinds, keys)
        return kept.distinct()
    return reported(own, slicing, kinds, keys)


def reported(
    own: DataFrame,
    slicing: Slicing,
    kinds: Sequence[Sequence[str]],
    keys: Keys,
    more: Mapping[str, Column] | None = None,
) -> DataFrame:
    """Return valuations as they are shown, with a column for each key column and variable.

    Args:
        own: what slices report and own.
        slicing: the plan of slices.
        kinds: for each policy the kinds of the reported and exposed variables.
        keys: the key columns of each policy, which are the first of its variables.
        more: the columns behind these, by their names, for streams; rows without a number of a
            policy or a time have no offset then.
    """
    from pyspark.sql import functions as F

    # by the name of a variable and its kind, the policies that report it with their columns
    places: dict[str, dict[str, dict[int, str]]] = {}
    # by the name of a key column, the same
    of_keys: dict[str, dict[int, str]] = {}
    types_of_keys = {name: kind for key in keys for name, kind in key.items()}
    for number, (policy, words, key) in enumerate(zip(slicing.policies, kinds, keys, strict=True)):
        packed = packed_names(words)
        for name, column in zip(key, packed, strict=False):
            of_keys.setdefault(name, {})[number] = column
        variables = list(zip(policy.reported, words, packed, strict=False))[len(key) :]
        for name, kind, column in variables:
            places.setdefault(name, {}).setdefault(kind, {})[number] = column
    types = kinds_of_columns([[(name, kind) for kind in own] for name, own in places.items()])
    fixed = (*_FIXED, *(more or ()))
    names = unique_columns(list(types), fixed, "var_", ignores_case=True)
    key_names = unique_columns(list(of_keys), (*fixed, *names), "key_", ignores_case=True)
    titles = {
        number: literal(policy.name)
        for number, policy in enumerate(slicing.policies)
        if policy.name is not None
    }
    title = F.expr(case_of(NUMBER, titles)) if titles else F.lit(None).cast("string")
    offset = F.lit(0).cast("bigint")
    is_point = F.col(NUMBER).isNotNull() & F.col(TIME).isNotNull()
    columns = [
        title.alias("policy"),
        *(
            F.expr(case_of(NUMBER, own)).cast(types_of_keys[name]).alias(shown)
            for (name, own), shown in zip(of_keys.items(), key_names, strict=True)
        ),
        F.col(TIME),
        (offset if more is None else F.when(is_point, offset)).alias("offset"),
        F.col("verdict"),
    ]
    for (name, kind), shown in zip(types.items(), names, strict=True):
        values = [
            _shown(F.expr(case_of(NUMBER, own)), one, kind) for one, own in places[name].items()
        ]
        columns.append(F.coalesce(*values).alias(shown))
    columns += [column.alias(name) for name, column in (more or {}).items()]
    return own.select(*columns)


def _shown(value: Column, kind: str, wanted: str) -> Column:
    """A value of rows of atoms as a value of Spark.

    Args:
        value: the value.
        kind: its kind.
        wanted: the kind of its column, which is another if it has values of several kinds.
    """
    from pyspark.sql import functions as F

    if kind != wanted:
        if wanted == "float":
            return value.cast("double")
        if kind in {"float", "time"}:
            # Spark writes these in other ways
            text_of = _text_of_time if kind == "time" else _text_of_float
            return F.udf(text_of, "string", useArrow=False)(value)
        return (value.cast("boolean") if kind == "boolean" else value).cast("string")
    if kind == "boolean":
        return value.cast("boolean")
    if kind == "time":
        # Spark's timestamps have microseconds, and div rounds towards zero
        whole = value - F.pmod(value, F.lit(1000).cast("bigint"))
        return F.timestamp_micros(F.call_function("div", whole, F.lit(1000)))
    return value


def _text_of_float(value: float | None) -> str | None:
    """The canonical text of a float."""
    return None if value is None else canonical_number(value)


def _text_of_time(nanoseconds: int | None) -> str | None:
    """The canonical text of a time, counted from 1970."""
    (text,) = canonical_texts(pa.array([nanoseconds], pa.timestamp("ns", "UTC"))).to_pylist()
    return None if text is None else str(text)


def relation_statistics(
    df: DataFrame,
    policy: PolicyLike,
    *,
    slices: int | None = None,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    event_separator: str = "|",
    time_unit: str | None = None,
    resolution: str | None = None,
    on_error: OnError = "stop",
) -> Statistics:
    """Count the rows of each atom, and find which values are frequent, for `monitor`.

    The arguments are those of `monitor`. Rows of an earlier day, or a part of the rows, often say
    enough. The rows are read once, and nothing is shuffled.

    Raises:
        MtlmonError: no policy has variables; or as `monitor`.
    """
    require_at_rest(df, "relation_statistics", "count the rows of a table that it is written to")
    file = relational_file(policy, resolution, time_unit, key=key)
    if file is None:
        raise MtlmonError("statistics are for policies with variables, and this has none")
    source, rows = prepared_relations(
        df,
        file,
        time=time,
        atoms=atoms,
        event=event,
        event_separator=event_separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
        function="relation_statistics",
    )
    return _collected(rows, source, slice_count(df.sparkSession, slices))


def _collected(rows: DataFrame, source: RelationSource, slices: int) -> Statistics:
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField("counts", BinaryType())])
    parts = rows.mapInArrow(CountedRows(source, slices), schema).collect()
    merged = RowCounts(slices)
    for (part,) in parts:
        merged.merge(pickle.loads(bytes(part)))
    return merged.statistics


class CountedRows:
    """Collects statistics of a partition; picklable, a function for `mapInArrow`.

    Args:
        source: how rows become rows of atoms.
        slices: the number of slices.
    """

    def __init__(self, source: RelationSource, slices: int) -> None:
        self.source = source
        self.slices = slices

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = RowCounts(self.slices)
        columns = self.source.columns()
        for batch in AtomRows(self.source, has_marks=False, has_end=False)(batches):
            if not batch.num_rows:
                continue
            number = batch.column(ATOM)[0].as_py()
            values = [_counted(batch.column(name)) for name in columns.columns_of(number)]
            kinds = columns.kinds[number]
            counts.add_counted(
                columns.names[number],
                batch.num_rows,
                [
                    {bool(one): n for one, n in own.items()} if kind == "boolean" else own
                    for own, kind in zip(values, kinds, strict=True)
                ],
            )
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(counts)])], names=["counts"])


def _counted(column: pa.Array) -> Mapping[Any, int]:
    """How often each value occurs."""
    found = pc.value_counts(column)
    return Counter(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))
