"""Checks data frames that callers give, before anything of Spark fails on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError, TableError
from mtlmon.support.atom_names import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from mtlmon.tables.columns.wanted import Selection

__all__ = [
    "arrow_schema",
    "check_keys",
    "check_passable",
    "in_partitions",
    "require_at_rest",
    "require_columns",
    "require_frame",
]

_CASE_SENSITIVE = "spark.sql.caseSensitive"


def require_frame(df: object, function: str) -> None:
    """Check that a data frame of Spark is given.

    Raises:
        MtlmonError: it is something else.
    """
    from pyspark.sql import DataFrame

    if isinstance(df, DataFrame):
        return
    what = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}"
    if df is None or what.startswith("builtins."):
        what = type(df).__name__
    raise MtlmonError(
        f"mtlmon.spark.{function} takes a data frame of Spark, not a {what}: "
        "spark.createDataFrame makes one"
    )


def require_at_rest(df: object, function: str, instead: str) -> None:
    """Check that a data frame of Spark is given that is not streaming.

    Args:
        df: what is given.
        function: the name of the function in `mtlmon.spark`.
        instead: what to do with a streaming one.

    Raises:
        MtlmonError: it is something else.
    """
    require_frame(df, function)
    if getattr(df, "isStreaming", False):
        raise MtlmonError(
            f"mtlmon.spark.{function} is for data frames at rest, and this one is streaming: "
            f"{instead}"
        )


def require_columns(df: DataFrame, selection: Selection, place: str) -> None:
    """Check that every wanted column occurs exactly once.

    Args:
        df: the data frame.
        selection: the wanted columns.
        place: the name of the rows in messages.

    Raises:
        TableError: a column does not, is a field of a struct, or differs from another in case only.
    """
    from pyspark.sql.types import StructType

    for name in selection.names:
        struct, _, field = name.partition(".")
        if name in df.columns or struct not in df.columns:
            continue
        if isinstance(df.schema[struct].dataType, StructType):
            raise TableError(
                f"no column {name!r}, and fields of the struct {struct!r} are no columns: make it "
                f"one first, as in df.withColumn({field!r}, pyspark.sql.functions.col({name!r}))",
                path=place,
            )
    selection.require(df.columns, place)
    for name in selection.names:
        _require_one_case(df, name, place)


def _require_one_case(df: DataFrame, name: str, place: str) -> None:
    """Check that no other column has the name in another case, where Spark takes both for one.

    Raises:
        TableError: there is one.
    """
    same = [one for one in df.columns if one.lower() == name.lower()]
    if len(same) > 1 and df.sparkSession.conf.get(_CASE_SENSITIVE, "false") != "true":
        raise TableError(
            f"the columns {listed(same)} differ in case only, and Spark takes them for one: rename "
            f"all but one, or spark.conf.set({_CASE_SENSITIVE!r}, True)",
            path=place,
        )


def check_passable(fields: Sequence[StructField]) -> None:
    """Check that Spark can pass columns to Python.

    Raises:
        MtlmonError: it cannot, because of the type of a column.
    """
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type

    for field in fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkTypeError:
            raise MtlmonError(
                f"column {field.name!r} is of type {field.dataType.simpleString()}, which Spark "
                "cannot pass to Python: cast it to a number or text first"
            ) from None


def check_keys(keys: Sequence[str], schema: pa.Schema) -> None:
    """Refuse key columns with types whose values cannot be compared.

    Raises:
        MtlmonError: a key column has such a type.
    """
    from pyarrow import types

    for name in keys:
        kind = schema.field(name).type
        if types.is_nested(kind) or types.is_interval(kind) or types.is_duration(kind):
            raise MtlmonError(
                f"the key column {name!r} is of type {kind}: cast it to a text, or take a part of "
                "it, first"
            )


def arrow_schema(df: DataFrame, names: Sequence[str]) -> pa.Schema:
    """Return the types of some columns as Arrow has them.

    Raises:
        MtlmonError: Spark cannot pass a column to Python.
    """
    from pyspark.sql.types import StructType

    fields = [df.schema[name] for name in names]
    check_passable(fields)
    # an empty data frame runs no job
    empty = df.sparkSession.createDataFrame([], StructType(fields))
    return empty.limit(0).toArrow().schema


def in_partitions(rows: DataFrame, count: int, column: str) -> DataFrame:
    """Partition rows so that those with number k in the column are in partition k.

    `repartition` hashes numbers, too: some partitions get several numbers, and others none.
    """
    from pyspark.sql import functions as F

    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(count, column)
    # before Spark 4.1, a partition can have the rows of several numbers, or no rows
    return rows.repartition(count, column, F.lit(0))
