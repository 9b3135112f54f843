"""Relations of the rows of a data frame at rest, in which policies look values up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError
from mtlmon.relations.looking_up import KnownRelation
from mtlmon.spark.batch.querying import query
from mtlmon.spark.common.ordering import column_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.relations.of_rows import LogRelation

__all__ = ["RowsAtRest"]


class RowsAtRest(NamedTuple):
    """The rows of a data frame as relations read them; a `KnownLog`.

    Attributes:
        df: the rows.
        time: the column of times.
        on_error: what to do with rows that are not events.
    """

    df: DataFrame
    time: str
    on_error: str

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return self.df.columns

    def known(self, relation: LogRelation, environment: Environment) -> KnownRelation:
        """Evaluate a relation in Spark; the driver has its records, in the order of time.

        Raises:
            MtlmonError: rows are skipped, a column is missing, or the relation does not fit.
        """
        if self.on_error == "skip":
            raise MtlmonError(
                f"relation {relation.name} reads the rows of the data frame, of which none can be "
                "skipped then: remove rows that are not events before, or leave out on_error"
            )
        columns = dict.fromkeys(
            name for name in (self.time, *relation.columns) if name in self.df.columns
        )
        found = query(
            self.df.select(*map(column_named, columns)),
            relation.file,
            relation.name,
            time=self.time,
            time_unit=environment.time_unit,
            resolution=environment.unit,
        )
        order = [("start", "ascending"), ("end", "ascending")]
        return KnownRelation(found.toArrow().sort_by(order))
