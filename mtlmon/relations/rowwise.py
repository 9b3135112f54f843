"""Operators that look at one record at a time: where, select and union."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.policy.predicates.columns import where_true
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.numbers import to_floats
from mtlmon.relations.records import Records, without_variants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.predicate import Predicate

FoundT = TypeVar("FoundT")


class Expressions:
    """What follows from the expressions of a plan, found once for columns of the same types.

    Args:
        environment: the time column, the unit and the zone, for functions of time.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}

    def once(
        self,
        use: str | tuple[str, ...],
        predicates: Sequence[Predicate],
        schemas: Sequence[pa.Schema],
        find: Callable[[], FoundT],
    ) -> FoundT:
        """Return what is found, or was found before of the same objects.

        Args:
            use: what is found.
            predicates: the expressions of which it is found.
            schemas: the columns on which it depends.
            find: finds it.
        """
        # PERF: compiling them for each batch of five rows took a fifth of the time of a query
        key = (use, *map(id, predicates))
        entry = self._known.get(key)
        if entry is not None:
            found, _, *known = entry
            if all(map(_is_same, known, schemas)):
                return cast("FoundT", found)
        found = find()
        # with the predicates, so that no other ones get their numbers
        self._known[key] = (found, predicates, *schemas)
        return found


def _is_same(one: object, other: pa.Schema) -> bool:
    return one is other or other.equals(one)


def computed(
    records: Records, values: Mapping[str, Predicate], expressions: Expressions
) -> dict[str, pa.Array]:
    """Compute expressions for all records.

    Raises:
        RowError: integers overflow; rows are those of the records.
    """
    schema = records.schema
    compiled = expressions.once(
        tuple(values),
        list(values.values()),
        [schema],
        lambda: CompiledExpressions(values, schema, expressions.environment),
    )
    found = compiled.compute(records.by_name, len(records))
    return {name: without_variants(column) for name, column in found.items()}


def is_true(
    records: Records, condition: Predicate, expressions: Expressions, *, wanted: bool = True
) -> NDArray[np.bool_]:
    """Return for which records a condition is true; or false, if that is wanted."""
    found = computed(records, {"": condition}, expressions)[""]
    if pa.types.is_null(found.type):
        return np.zeros(len(records), np.bool_)
    if not wanted:
        found = pc.invert(found)
    trues: NDArray[np.bool_] = where_true(found, len(records)).to_numpy(zero_copy_only=False)
    return trues


def where(records: Records, condition: Predicate, expressions: Expressions) -> Records:
    """Return the records for which a condition is true."""
    found = records.taken(np.flatnonzero(is_true(records, condition, expressions)))
    return replace(found, is_coalesced=records.is_coalesced)


def selected(
    records: Records, values: Mapping[str, Predicate], schema: pa.Schema, expressions: Expressions
) -> Records:
    """Return records of other columns."""
    columns = computed(records, values, expressions)
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
