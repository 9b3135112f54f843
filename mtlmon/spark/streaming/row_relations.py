"""Relations of the rows of a stream, in which policies look values up.

Such a relation is over all keys, whose states know nothing of each other. So one state more takes
in all rows, and when the watermark moves, it tells all buckets what the relations say between the
watermark before and this one. Those are the times of the events that the buckets monitor then.

It is a stateful operator before that of the buckets, with the same watermark in a batch. A timer
wakes it whenever the watermark moves. All buckets get the same bytes, which a worker decodes once;
they keep none of it, and refuse to monitor events up to a horizon for which they have no records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates.hints import some
from mtlmon.policy.predicates.time_points import Changes
from mtlmon.relations.of_rows import RowRelation
from mtlmon.spark.batch.frames import plain_rows
from mtlmon.spark.common.frames import arrow_schema
from mtlmon.spark.common.ordering import column_named
from mtlmon.spark.streaming.exchange import (
    EVENTS,
    OF_RELATIONS,
    PLACE,
    RECORDS,
    TASK,
    Block,
    Pack,
    read_events,
)
from mtlmon.spark.streaming.packing import BUCKET
from mtlmon.spark.streaming.relation_records import RelationRecords
from mtlmon.support.guesses import did_you_mean
from mtlmon.syntax.report import formula_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.relations.of_rows import LogRelation
    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = ["PackRelationRows", "RowsToCome", "emitted_buckets", "relations_of_rows"]


class RowsToCome(NamedTuple):
    """The rows of a streaming data frame as relations read them; a `KnownLog`.

    Attributes:
        df: the data frame.
    """

    df: DataFrame

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return self.df.columns

    def known(self, relation: LogRelation, environment: Environment) -> KnownRelation:
        """Return the relation without records, which gets to know its columns.

        Raises:
            PolicyError: it does not fit the columns.
        """
        for name in relation.columns:
            if name not in self.names:
                close = did_you_mean(name, self.names) or f"the columns are {some(self.names)}"
                raise formula_error(
                    relation.file.text,
                    relation.file.intervals[relation.name].place,
                    f"relation {relation.name} reads column {name}, which the data frame lacks",
                    source=relation.file.source,
                    hint=close.removeprefix("; "),
                    kind=PolicyError,
                )
        schema = arrow_schema(self.df, relation.columns)
        relation.read(pa.RecordBatch.from_pylist([], schema))
        return relation


def relations_of_rows(policies: Policies) -> dict[str, RowRelation]:
    """Return the relations of rows that these policies need, by name."""
    known: Mapping[str, KnownRelation] = policies.looked_up or {}
    if policies.file is None or not known:
        return {}
    needed = set(policies.needs().relations)
    needed |= {period.relation for period in policies.wanted if isinstance(period, Changes)}
    return {
        name: one for name, one in known.items() if name in needed and isinstance(one, RowRelation)
    }


class PackRelationRows(Pack):
    """Packs rows for relations.

    The selected columns come first, in their order, then those that relations read; their names do
    not matter.

    Args:
        source: how rows become events: relations read the same ones.
        records: how they are encoded.
        clock: the clock of the query.
    """

    def __init__(self, source: EventSource, records: RelationRecords, clock: EventClock) -> None:
        super().__init__(BUCKET, clock)
        # the packing of events reports the rows that are skipped
        self._source = source._replace(reporter=None)
        self._records = records

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[Block]]:
        for events, columns in read_events(self._source, batches):
            latest = int(self._clock.milliseconds(events.time_stamps).max())
            yield [Block(0, self._records.block(events.time_stamps, columns), latest)]


def emitted_buckets(
    df: DataFrame,
    source: EventSource,
    settings: bytes,
    clock: EventClock,
    delay: int | None,
    buckets: int,
    lateness: int | None = None,
) -> DataFrame | None:
    """Return what relations of rows tell buckets, as packed rows; None if there are none.

    Args:
        df: the rows of the stream.
        source: how rows become events.
        settings: digests of the settings that states depend on.
        clock: the clock of the query.
        delay: that of the watermark in milliseconds; None if the rows have a watermark.
        buckets: the number of buckets.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
    """
    from pyspark.sql import functions as F

    from mtlmon.spark.streaming.processor import hosted
    from mtlmon.spark.streaming.relation_state import RelationHost

    relations = relations_of_rows(source.policies)
    if not relations:
        return None
    names = dict.fromkeys(name for one in relations.values() for name in one.columns)
    records = RelationRecords(arrow_schema(df, list(names)), settings)
    rows, _ = plain_rows(df, source, kept=[column_named(name) for name in names])
    pack = PackRelationRows(source, records, clock)
    emitted = hosted(rows, pack, RelationHost(relations, records, lateness), clock, delay)
    return emitted.select(
        F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))).alias(BUCKET),
        F.lit(OF_RELATIONS).alias(TASK),
        F.lit(0).cast("bigint").alias(PLACE),
        F.col(RECORDS).alias(EVENTS),
    )
