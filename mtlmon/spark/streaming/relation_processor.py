"""The stateful processor that Spark calls for the relations of a stream's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row
from pyspark.sql.types import BinaryType, StructField, StructType

from mtlmon.spark.streaming.packing import EVENTS
from mtlmon.spark.streaming.relation_state import RelationStates
from mtlmon.spark.streaming.stateful import TimedProcessor, Visit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relations.of_rows import RowRelation
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.relation_records import RelationRecords

__all__ = ["TOLD", "RelationProcessor"]

TOLD = StructType([StructField(EVENTS, BinaryType())])
"""The columns of results."""


class RelationProcessor(TimedProcessor):
    """Lets relations take in all rows, and tells what they say when the watermark moves; picklable.

    Its timer expires whenever the watermark moves on, as buckets monitor events then.

    Args:
        relations: the relations, without records, by name.
        records: how rows and entries are encoded.
        clock: the clock of the query.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
    """

    STATE_NAME = "relations"

    def __init__(
        self,
        relations: Mapping[str, RowRelation],
        records: RelationRecords,
        clock: EventClock,
        lateness: int | None = None,
    ) -> None:
        super().__init__(clock)
        self._states = RelationStates(relations, records, lateness)
        self.held_as = records.settings

    def visit(
        self,
        key: tuple[object, ...],
        journal: Journal,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        found = self._states.visit(journal, blocks, horizon)
        rows = [] if found.told is None else [Row(**{EVENTS: found.told})]
        return Visit(found.wakeup, found.appended, found.folded, rows, found.live)
