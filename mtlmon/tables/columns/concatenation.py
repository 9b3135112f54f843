"""Rows of several blocks as one table, where columns can have other types in some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts, is_number, is_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["concatenated"]


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with the same columns, one table after the other.

    Where the types of a column differ, its values are numbers of one type if all of them are
    integers and floats, or integers and decimals; and texts if some of them are.

    Raises:
        pa.ArrowException: the types differ in other ways.
    """
    types: dict[str, set[pa.DataType]] = {}
    for table in tables:
        for field in table.schema:
            if not pa.types.is_null(field.type):
                types.setdefault(field.name, set()).add(field.type)
    common = {
        name: kind
        for name, found in types.items()
        if len(found) > 1 and (kind := _common(found)) is not None
    }
    tables = [_converted(table, common) for table in tables]
    return pa.concat_tables(tables, promote_options="default")


def _common(types: set[pa.DataType]) -> pa.DataType | None:
    """The type that values of some types are converted to, if there is one."""
    if all(map(is_number, types)):
        decimals = {one for one in types if pa.types.is_decimal(one)}
        if not decimals:
            return pa.float64()
        is_whole = all(pa.types.is_integer(one) for one in types - decimals)
        return decimals.pop() if is_whole and len(decimals) == 1 else None
    is_known = all(is_number(one) or is_text(one) or pa.types.is_boolean(one) for one in types)
    return pa.large_string() if is_known else None


def _converted(table: pa.Table, common: dict[str, pa.DataType]) -> pa.Table:
    for name, kind in common.items():
        place = table.schema.get_field_index(name)
        column = table.column(place)
        if kind == pa.large_string() and not pa.types.is_null(column.type):
            chunks = [canonical_texts(chunk).cast(kind) for chunk in column.chunks]
            column = pa.chunked_array(chunks, kind)
        else:
            # integers above 2^53 become the nearest floats
            column = pc.cast(column, kind, safe=not pa.types.is_floating(kind))
        table = table.set_column(place, name, column)
    return table
