"""Converts verdicts to columns: their types in Spark, and record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.checking.outputs import unique_columns
from mtlmon.errors import MtlmonError
from mtlmon.spark.common.ordering import column_named
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

    from mtlmon.spark.common.trace_monitors import Found

POLICY = "policy"
"""The column with the name of the policy; null for a formula without a name."""

COLUMNS = ("time", "offset", "verdict", "reference_time", "reference_offset")
"""The columns of a verdict: its time-point; true, false or null; and if null, the earlier
time-point that it is equivalent to."""

MESSAGE = "message"
"""The column with the message of a trigger that is violated, if any policy has messages."""

LATE_ATOMS = "late"
"""The column of streams with the atoms of a late event; null in rows of verdicts."""

# The rows of a batch: enough to make the cost of a batch negligible, few enough for the texts of
# keys to fit.
_BATCH_ROWS = 1 << 16


def verdict_schema(
    keys: Sequence[StructField] = (),
    *,
    has_messages: bool = False,
    kept: Sequence[StructField] = (),
) -> StructType:
    """Return the columns of verdicts: the policy, the keys, `COLUMNS`, perhaps `MESSAGE`, others.

    Args:
        keys: the key columns.
        has_messages: whether there is a column of messages.
        kept: the columns of rows that are kept.

    Raises:
        MtlmonError: a key column, or one that is kept, has the same name as another column.
    """
    from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

    taken = {POLICY, *COLUMNS, *([MESSAGE] if has_messages else [])}
    for what, fields in ("key ", keys), ("", kept):
        for field in fields:
            if field.name.lower() in taken:
                raise MtlmonError(
                    f"the {what}column {field.name!r} is called like a column of verdicts: rename "
                    "it first (DataFrame.withColumnRenamed)"
                )
            taken.add(field.name.lower())
    types = (LongType(), LongType(), BooleanType(), LongType(), LongType())
    fields = [StructField(name, kind) for name, kind in zip(COLUMNS, types, strict=True)]
    if has_messages:
        fields.append(StructField(MESSAGE, StringType()))
    return StructType([StructField(POLICY, StringType()), *keys, *fields, *kept])


def with_keys(verdicts: DataFrame, own: Sequence[str], keys: Sequence[StructField]) -> DataFrame:
    """Return verdicts with all key columns of a run, which are null where traces lack them.

    Args:
        verdicts: rows that begin with the policy and their own key columns.
        own: the names of these key columns.
        keys: all key columns, in their order.
    """
    from pyspark.sql import functions as F

    names = verdicts.columns
    return verdicts.select(
        column_named(POLICY),
        *(
            column_named(field.name)
            if field.name in own
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in keys
        ),
        *map(column_named, names[1 + len(own) :]),
    )


def with_valuations(
    verdicts: DataFrame,
    valuations: DataFrame,
    *,
    keys: Sequence[str] = (),
    has_messages: bool,
    last: Sequence[str] = (),
) -> DataFrame:
    """Return verdicts and valuations in one data frame, null in the columns that they lack.

    Args:
        verdicts: rows with the columns of `verdict_schema`.
        valuations: rows with a policy, key columns, a time-point and a verdict, and columns of
            variables.
        keys: the names of the key columns of valuations.
        has_messages: whether verdicts have messages.
        last: the last columns of both, such as that of the atoms of late events.
    """
    fixed = {POLICY, *COLUMNS, *last}
    values = valuations.columns[1 + len(keys) + 3 : len(valuations.columns) - len(last)]
    values = unique_columns(values, fixed, "var_", ignores_case=True)
    messages = [MESSAGE] if has_messages else []
    others = len(COLUMNS) + len(messages) + len(last)
    own = verdicts.columns[1 : len(verdicts.columns) - others]
    every = list(dict.fromkeys([*own, *keys]))
    unique = unique_columns(every, {*fixed, *values, *messages}, "key_", ignores_case=True)
    shown = dict(zip(every, unique, strict=True))
    messages = unique_columns(messages, {*values, *unique}, "trigger_", ignores_case=True)
    left = verdicts.toDF(POLICY, *map(shown.__getitem__, own), *COLUMNS, *messages, *last)
    right = valuations.toDF(POLICY, *map(shown.__getitem__, keys), *COLUMNS[:3], *values, *last)
    names = [POLICY, *unique, *COLUMNS, *values, *messages, *last]
    joined = left.unionByName(right, allowMissingColumns=True)
    return joined.select(*map(column_named, names))


def verdict_columns(records: NDArray[np.void]) -> list[pa.Array]:
    """Convert verdict records to columns of Arrow, in the order of `COLUMNS`.

    Raises:
        MtlmonError: an offset is above 2^63-1.
    """
    kind = records["kind"]
    offset = records["offset"].view(np.int64)
    if len(offset) and int(offset.min()) < 0:
        raise MtlmonError("an offset within a time-stamp is beyond 2^63-1")
    is_equivalent = kind == EQUIVALENT
    verdict = kind == TRUE
    if not is_equivalent.any():
        nothing = pa.nulls(len(records), pa.int64())
        references = [nothing, nothing]
        verdicts = pa.array(verdict)
    else:
        references = [
            pa.array(records["reference_time_stamp"], mask=~is_equivalent),
            pa.array(records["reference_offset"].view(np.int64), mask=~is_equivalent),
        ]
        verdicts = pa.array(verdict, mask=is_equivalent)
    return [pa.array(records["time_stamp"]), pa.array(offset), verdicts, *references]


def message_column(verdicts: NDArray[np.void], messages: Sequence[str | None] | None) -> pa.Array:
    """Return the messages of verdicts; null for those without one.

    Args:
        verdicts: the verdict records.
        messages: the messages of the false ones, in order; None if there are none.
    """
    is_false = verdicts["kind"] == FALSE
    if not messages:
        return pa.nulls(len(verdicts), pa.string())
    places = np.cumsum(is_false) - 1
    return pa.array(messages, pa.string()).take(pa.array(places, mask=~is_false))


def verdict_batches(
    found: Found, keys: Mapping[str, pa.Array], *, has_messages: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield record batches of verdicts, with the columns of `verdict_schema`.

    Args:
        found: the verdicts of a policy.
        keys: the keys of the traces by their numbers, with a column for each name.
        has_messages: whether there is a column of messages.
    """
    name, records, owners, messages = found[:4]
    verdicts = np.frombuffer(records, verdict_type())
    texts = message_column(verdicts, messages) if has_messages else None
    for first in range(0, len(verdicts), _BATCH_ROWS):
        part = verdicts[first : first + _BATCH_ROWS]
        places = pa.array(
            np.zeros(len(part), np.uint32)
            if owners is None
            else owners[first : first + _BATCH_ROWS]
        )
        columns = [
            pa.repeat(pa.scalar(name, pa.string()), len(part)),
            *(key.take(places) for key in keys.values()),
            *verdict_columns(part),
        ]
        names = [POLICY, *keys, *COLUMNS]
        if texts is not None:
            columns.append(texts.slice(first, len(part)))
            names.append(MESSAGE)
        if found.kept is not None:
            columns += found.kept.slice(first, len(part)).columns
            names += found.kept.schema.names
        yield pa.RecordBatch.from_arrays(columns, names=names)
