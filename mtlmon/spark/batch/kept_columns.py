"""The columns of rows that verdicts have: where the row comes from, and others that are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mtlmon.checking.outputs import ROW_COLUMNS
from mtlmon.errors import MtlmonError, TableError
from mtlmon.spark.common.ordering import column_named, places_in_files
from mtlmon.support.atom_names import listed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


def kept_names(keep: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that a caller wants with verdicts.

    Raises:
        MtlmonError: a column is given twice, or not by its name.
    """
    if keep is None:
        return ()
    # iterating over a Column would never end
    names = tuple(keep) if isinstance(keep, Sequence) and not isinstance(keep, str) else (keep,)
    for name in names:
        if not isinstance(name, str):
            raise MtlmonError(
                f"keep is the names of columns, and {name!r} is a {type(name).__name__}: make an "
                "expression a column of its own first (DataFrame.withColumn)"
            )
    if len(set(names)) != len(names):
        raise MtlmonError("a column of keep is given twice")
    return names


def kept_columns(
    df: DataFrame, keys: Sequence[str], names: Sequence[str], *, has_rows: bool
) -> list[Column]:
    """Return the columns of rows that are kept for verdicts, under the names that they have there.

    Args:
        df: the rows.
        keys: the key columns, which verdicts have anyway.
        names: the columns that the caller wants.
        has_rows: whether the caller wants the file and the number of each row.

    Raises:
        MtlmonError: these rows have no numbers in files, or a column is a key anyway.
        TableError: there is no such column.
    """
    if not names and not has_rows:
        return []
    found = []
    if has_rows:
        places = places_in_files(df)
        if not places:
            raise MtlmonError(
                "rows=True is for rows that are read from Parquet files, as Spark numbers no "
                "others: name the columns that tell which row it is, as in keep=['id']"
            )
        path, index = places
        file, row = ROW_COLUMNS
        found = [path.alias(file), (index + 1).alias(row)]
    for name in names:
        if name in keys:
            raise MtlmonError(f"verdicts have the key column {name!r} anyway: leave it out of keep")
        count = df.columns.count(name)
        if not count:
            known = listed(df.columns)
            raise TableError(f"no column {name!r} to keep, only {known}", path="DataFrame")
        if count > 1:
            reason = f"{count} columns are called {name!r}: rename all but one"
            raise TableError(reason, path="DataFrame")
        found.append(column_named(name).alias(name))
    return found


def kept_fields(df: DataFrame, columns: Sequence[Column]) -> list[StructField]:
    """Return the fields of verdicts with these columns, which are null at ticks.

    Raises:
        MtlmonError: the values of a column cannot be compared.
    """
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType, VariantType

    if not columns:
        return []
    fields = df.select(*columns).schema.fields
    for field in fields:
        if isinstance(field.dataType, ArrayType | MapType | StructType | VariantType):
            raise MtlmonError(
                f"the column {field.name!r} is of type {field.dataType.simpleString()}, and keep "
                "names columns with simple values: cast it to a text, or take a part of it, first"
            )
    return [StructField(field.name, field.dataType) for field in fields]
