"""Finds the rows whose look-ups find something else, as relations have changed.

The difference between what a relation said before and says now is again a relation. So `exists` on
this difference, with the keys of a look-up, tells which rows of which traces to compute again. If
keys are values of streams, all rows of those times are computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.environment import TIME_STAMPS
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.relations.looking_up import KnownRelation
from mtlmon.relations.of_rows import as_table
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment, Relation
    from mtlmon.relations.revised import Changed
    from mtlmon.streams.named_rows import Rows

__all__ = ["TouchedRows"]

# What a key may be made of, beside operators on values, so that its value is known at once.
_KNOWN = frozenset({*ops.COLUMNS, ops.CONSTANT})
_OF_OTHER_ROWS = frozenset(
    {ops.OVER, ops.INSTANCE, *ops.WINDOWS, *ops.OFFSETS.values(), *ops.LOOK_UPS}
)


class TouchedRows:
    """Which rows are concerned by changes of relations: it is a `Touching` of late rows.

    A row is concerned if the relation of what has changed has a record at its time that a look-up
    finds. Where the keys depend on streams, any record is taken for that.

    Args:
        changed: what has changed, of each relation at most some times.
        look_ups: the look-ups, also in relations that have not changed.
        environment: the time column, the units and the zone.
    """

    def __init__(
        self, changed: Sequence[Changed], look_ups: Iterable[Expression], environment: Environment
    ) -> None:
        self._starts = np.concatenate([one.records.starts for one in changed])
        self._ends = np.concatenate([one.records.ends for one in changed])
        self.first = int(self._starts.min())
        self.last = int(self._ends.max()) - 1
        tables: dict[str, list[pa.Table]] = {}
        for one in changed:
            tables.setdefault(one.relation, []).append(as_table(one.records))
        relations: dict[str, Relation] = {
            name: KnownRelation(pa.concat_tables(some)) for name, some in tables.items()
        }
        self._environment = environment._replace(relations=relations)
        asked = {_asking(node): None for node in look_ups if node.looked_up.relation in relations}
        self._asked = {
            str(number): Predicate(node, "", str(number)) for number, node in enumerate(asked)
        }
        self._compiled: tuple[pa.Schema, CompiledExpressions] | None = None

    def last_tick(self, start: int, limit: int) -> int | None:
        """Return the last time from one on below another at which ticks may be concerned, or None.

        What has changed may begin or end there, so that a relation changes, or not any more.
        """
        which = (self._starts < limit) & (self._ends >= start)
        return min(int(self._ends[which].max()), limit - 1) if which.any() else None

    def of(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which of some rows are concerned."""
        return self.of_columns(rows.inputs, rows.time_stamps)

    def of_columns(
        self, inputs: pa.RecordBatch, time_stamps: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which of the rows with some columns and times are concerned."""
        schema = inputs.schema
        if self._compiled is None or not self._compiled[0].equals(schema):
            compiled = CompiledExpressions(self._asked, schema, self._environment)
            self._compiled = schema, compiled
        columns = dict(zip(schema.names, inputs.columns, strict=True))
        columns[TIME_STAMPS] = pa.array(time_stamps)
        found = np.zeros(len(time_stamps), np.bool_)
        for column in self._compiled[1].compute(columns, len(found)).values():
            found |= column.to_numpy(zero_copy_only=False)
        return found


def _asking(node: Expression) -> Expression:
    """The question whether a look-up finds any record; with streams in keys, whether one is."""
    value, operands = node.looked_up._replace(column=None), node.operands
    for one in postorder(*operands):
        if one.operator in _OF_OTHER_ROWS or not (one.operands or one.operator in _KNOWN):
            value, operands = value._replace(names=(), keys=()), ()
            break
    return Expression(ops.EXISTS, operands, value, node.span)
