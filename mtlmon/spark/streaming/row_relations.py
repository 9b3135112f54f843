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

import numpy as np
import pyarrow as pa

from mtlmon.errors import PolicyError
from mtlmon.policy.needs import needs_of
from mtlmon.policy.predicates.hints import some
from mtlmon.policy.predicates.time_points import Changes
from mtlmon.relations.of_rows import RowRelation
from mtlmon.spark.batch.frames import plain_rows
from mtlmon.spark.common.events import HIDDEN, EventReader
from mtlmon.spark.common.frames import arrow_schema
from mtlmon.spark.common.ordering import column_named
from mtlmon.spark.streaming.packing import (
    BUCKET,
    EVENTS,
    LATEST,
    OF_RELATIONS,
    PLACE,
    TASK,
    packed_schema,
)
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
    atoms = [name for some in policies.wanted.values() for name in some]
    shown = [name for some in policies.shown.values() for name in some]
    needed = set(needs_of(policies.file, atoms, shown).relations)
    needed |= {period.relation for period in policies.wanted if isinstance(period, Changes)}
    return {
        name: one for name, one in known.items() if name in needed and isinstance(one, RowRelation)
    }


class PackRelationRows:
    """Packs rows for relations; picklable, a function for `mapInArrow`.

    The selected columns come first, in their order, then those that relations read; their names do
    not matter.

    Args:
        source: how rows become events: relations read the same ones.
        records: how they are encoded.
        clock: the clock of the query.
    """

    def __init__(self, source: EventSource, records: RelationRecords, clock: EventClock) -> None:
        # the packing of events reports the rows that are skipped
        self._source = source._replace(reporter=None)
        self._records = records
        self._clock = clock

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a packed row for each batch of a partition.

        Raises:
            TableError: a row is not an event.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        reader = EventReader(self._source)
        names = self._source.selection.names
        place = 0
        for batch in batches:
            more = [f"{HIDDEN}{number}" for number in range(batch.num_columns - len(names))]
            events = reader.read(pa.RecordBatch.from_arrays(batch.columns, [*names, *more]))
            if not events.rows.num_rows:
                continue
            columns = [events.rows.column(name) for name in more]
            block = self._records.block(events.time_stamps, columns)
            latest = self._clock.milliseconds(events.time_stamps).max() * 1000
            columns = [
                pa.array([0], pa.int32()),
                pa.array([task], pa.int32()),
                pa.array([place]),
                pa.array([block], pa.binary()),
                pa.array(np.array([latest])).view(pa.timestamp("us", "UTC")),
            ]
            place += 1
            yield pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def emitted_buckets(
    df: DataFrame,
    source: EventSource,
    settings: bytes,
    clock: EventClock,
    delay: str | None,
    buckets: int,
    lateness: int | None = None,
) -> DataFrame | None:
    """Return what relations of rows tell buckets, as packed rows; None if there are none.

    Args:
        df: the rows of the stream.
        source: how rows become events.
        settings: digests of the settings that states depend on.
        clock: the clock of the query.
        delay: that of the watermark; None if the rows have a watermark.
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
    packed = rows.mapInArrow(PackRelationRows(source, records, clock), packed_schema())
    if delay is not None:
        packed = packed.withWatermark(LATEST, delay)
    host = RelationHost(relations, records, lateness)
    emitted = hosted(packed.drop(LATEST), BUCKET, host, clock)
    return emitted.select(
        F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))).alias(BUCKET),
        F.lit(OF_RELATIONS).alias(TASK),
        F.lit(0).cast("bigint").alias(PLACE),
        EVENTS,
    )
