"""Relations of the rows of a data frame at rest, in which policies look values up.

Such a relation is evaluated first, and is then used like one of a table. A file of `monitor_files`
is a log of its own, so executors evaluate relations of its rows as the command does; the driver
reads tables (`GivenRelations`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.relations.looking_up import KnownRelation
from mtlmon.spark.batch.querying import records_of, require_rows
from mtlmon.spark.common.monitoring import GoodRows
from mtlmon.spark.common.ordering import column_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.relations.of_rows import LogRelation
    from mtlmon.spark.common.events import EventSource

__all__ = ["RowsAtRest"]

_MEND = "on_error='skip' leaves such rows out"


class _Asked(NamedTuple):
    """A relation that has no records yet.

    Attributes:
        relation: how it reads rows.
        environment: the units.
        known: what look-ups use.
    """

    relation: LogRelation
    environment: Environment
    known: KnownRelation


class RowsAtRest:
    """The rows of a data frame as relations read them; a `KnownLog`.

    Args:
        df: the rows.
        time: the column of times.
    """

    def __init__(self, df: DataFrame, time: str) -> None:
        self._df = df
        self._time = time
        self._asked: list[_Asked] = []

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return self._df.columns

    def known(self, relation: LogRelation, environment: Environment) -> KnownRelation:
        """Return the relation with its columns; `evaluate` gets its records.

        Raises:
            MtlmonError: a column is missing, or the relation does not fit.
        """
        # which rows are events is not known before relations have columns
        known = KnownRelation(self._records(self._df.limit(0), relation, environment))
        self._asked.append(_Asked(relation, environment, known))
        return known

    def evaluate(self, source: EventSource) -> None:
        """Evaluate relations in Spark; the driver has their records, in the order of time.

        Args:
            source: how rows become events; relations read the same rows.
        """
        for relation, environment, known in self._asked:
            rows = self._df
            if source.on_error == "skip":
                names = dict.fromkeys([*source.selection.names, *relation.columns])
                rows = rows.select(*map(column_named, names))
                rows = rows.mapInArrow(GoodRows(source), rows.schema)
            known.replace(self._records(rows, relation, environment))

    def _records(
        self, rows: DataFrame, relation: LogRelation, environment: Environment
    ) -> pa.Table:
        options = {
            "time": self._time,
            "time_unit": environment.time_unit,
            "resolution": environment.unit,
        }
        columns = [name for name in relation.columns if name in self.names]
        require_rows(rows, self._time, columns)
        names = dict.fromkeys([self._time, *columns])
        rows = rows.select(*map(column_named, names))
        found = records_of(rows, relation.file, relation.name, options, mend=_MEND)
        order = [("start", "ascending"), ("end", "ascending")]
        return found.toArrow().sort_by(order)
