"""What streaming queries return of buckets: rows of verdicts or their changes, and late events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.changelog import OPERATION
from mtlmon.spark.common.verdicts import (
    LATE_ATOMS,
    verdict_schema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.spark.streaming.bucket_records import BucketRecords

__all__ = ["row_types", "stream_schema"]


def stream_schema(
    keys: Sequence[StructField], *, has_messages: bool = False, changes: Sequence[str] = ()
) -> StructType:
    """Return the columns of verdicts and late events, and the given ones of changes.

    Raises:
        MtlmonError: a key column has the same name as another column.
    """
    schema = verdict_schema(keys, has_messages=has_messages)
    others = {LATE_ATOMS: "verdicts"} | dict.fromkeys(changes, "changes")
    for field in keys:
        if field.name.lower() in others:
            raise MtlmonError(
                f"the key column {field.name!r} is called like a column of "
                f"{others[field.name.lower()]}: rename it first (DataFrame.withColumnRenamed)"
            )
    schema.add(StructField(LATE_ATOMS, ArrayType(StringType(), False)))
    for name in changes:
        schema.add(StructField(name, StringType() if name == OPERATION else LongType()))
    return schema


def row_types(schema: StructType, records: BucketRecords, keys: Sequence[str]) -> pa.Schema:
    """Return the types that the columns of `stream_schema` have in Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(schema)
    for field in (*(records.keys if keys else ()), pa.field(LATE_ATOMS, pa.list_(pa.string()))):
        types = types.set(types.get_field_index(field.name), field)
    return types
