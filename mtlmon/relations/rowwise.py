"""Operators that look at one record at a time: where, select and union."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.policy.predicates.columns import where_true
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.numbers import to_floats
from mtlmon.relations.records import Records, without_variants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.predicate import Predicate


def computed(
    records: Records, values: Mapping[str, Predicate], environment: Environment
) -> dict[str, pa.Array]:
    """Compute expressions for all records.

    Raises:
        RowError: integers overflow; rows are those of the records.
    """
    compiled = CompiledExpressions(values, records.schema, environment)
    found = compiled.compute(records.by_name, len(records))
    return {name: without_variants(column) for name, column in found.items()}


def is_true(
    records: Records, condition: Predicate, environment: Environment, *, wanted: bool = True
) -> NDArray[np.bool_]:
    """Return for which records a condition is true; or false, if that is wanted."""
    found = computed(records, {"": condition}, environment)[""]
    if pa.types.is_null(found.type):
        return np.zeros(len(records), np.bool_)
    if not wanted:
        found = pc.invert(found)
    trues: NDArray[np.bool_] = where_true(found, len(records)).to_numpy(zero_copy_only=False)
    return trues


def where(records: Records, condition: Predicate, environment: Environment) -> Records:
    """Return the records for which a condition is true."""
    found = records.taken(np.flatnonzero(is_true(records, condition, environment)))
    return replace(found, is_coalesced=records.is_coalesced)


def selected(
    records: Records, values: Mapping[str, Predicate], schema: pa.Schema, environment: Environment
) -> Records:
    """Return records of other columns."""
    columns = computed(records, values, environment)
    return Records(
        schema, tuple(columns[name] for name in schema.names), records.starts, records.ends
    )


def united(left: Records, right: Records, schema: pa.Schema) -> Records:
    """Return the records of both relations, those of the left one first."""
    return all_of([left, right], schema)


def all_of(parts: Sequence[Records], schema: pa.Schema) -> Records:
    """Return the records of all parts, one after the other, with columns of these types."""
    columns = (
        pa.concat_arrays([converted(one.columns[place], wanted) for one in parts])
        for place, wanted in enumerate(schema.types)
    )
    return Records(
        schema,
        tuple(columns),
        np.concatenate([one.starts for one in parts]),
        np.concatenate([one.ends for one in parts]),
    )


def converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert a column to the type of another that it is united with."""
    if column.type == wanted:
        return column
    if pa.types.is_floating(wanted) and not pa.types.is_null(column.type):
        return to_floats(column)
    return pc.cast(column, wanted)
