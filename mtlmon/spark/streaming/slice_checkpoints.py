"""Reads the states of slices from the checkpoint of a streaming query, to move them to others.

Everything is read by Spark, wherever checkpoints are: its data sources show states, and the
batches that have been planned and finished are files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.relational.slicing import Statistics
from mtlmon.relational.slicing.moving import slicing_of
from mtlmon.spark.common.shared_bytes import share
from mtlmon.spark.common.slice_monitors import SliceSource
from mtlmon.spark.streaming.processor import ENTRY, PLACE_OF_ENTRY
from mtlmon.spark.streaming.slice_host import Moved, SliceHost
from mtlmon.spark.streaming.slice_moving import moved_states
from mtlmon.spark.streaming.slice_records import (
    SliceEntry,
    SliceSettings,
    check_policy,
    read_journal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from mtlmon.spark.common.atom_rows import RelationSource
    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = ["SliceCheckpoint", "checkpoint_of", "read_checkpoint"]

_WATERMARK = "batchWatermarkMs"


class SliceCheckpoint(NamedTuple):
    """What the checkpoint of a query has.

    Attributes:
        source: how rows were sliced.
        states: by the number of the slice, the journals that are in the store.
        planned: the number and the watermark in milliseconds of the batch that has been planned
            and not finished, or None.
    """

    source: SliceSource
    states: Mapping[int, Sequence[SliceEntry]]
    planned: tuple[int, int] | None

    @property
    def visited(self) -> int:
        """How many slices have to be visited for all with a state to be among them."""
        return 1 + max(self.states)

    def moved(
        self,
        spark: SparkSession,
        wanted: SliceSource,
        settings: SliceSettings,
        clock: EventClock,
        split: Callable[[pa.Table], Mapping[int, pa.Table]],
    ) -> Moved | None:
        """Move the states to other slices; None if these are the same.

        Args:
            spark: the session, which shares the states with tasks.
            wanted: how rows are sliced from now on.
            settings: those of the slices.
            clock: the clock of the query.
            split: returns the copies of rows of atoms that go to each new slice.

        Raises:
            SnapshotError: the states do not fit each other.
            LimitError: a slice would remember too much.
        """
        own = [self.states[number] for number in range(self.source.slices)]
        known = {number: one[-1].facts for number, one in self.states.items()}
        if known[0].slicing == settings.slicing and all(
            known[number].emitted is None for number in range(self.source.slices)
        ):
            return None
        found = moved_states(self.source, wanted, own, split)
        wakeups = [
            (one.next_wakeup, number)
            for number, one in known.items()
            if one.next_wakeup is not None
        ]
        first, first_woken = min(wakeups, default=(None, 0))
        planned, passed = None, 0
        if self.planned is not None:
            passed = clock.horizon(max(0, self.planned[1]))
            if first is not None and first <= passed:
                planned = self.planned[0]
        return Moved(
            found[0].facts.generation,
            [share(spark, one.entry().encoded()) for one in found],
            {number: (one.generation, one.batch, one.horizon) for number, one in known.items()},
            planned,
            passed,
            first_woken,
        )


def read_checkpoint(
    spark: SparkSession, path: str, source: RelationSource, lateness: int | None = None
) -> SliceCheckpoint | None:
    """Read the checkpoint of a query that does not run; None if no slice has a state in it.

    Args:
        spark: the session.
        path: the `checkpointLocation` of the query.
        source: how rows become rows of atoms.
        lateness: `SliceSettings.lateness`.

    Raises:
        SnapshotError: the states are of other policies, or damaged.
        MtlmonError: Spark cannot read them.
    """
    finished = _batches(spark, f"{path}/commits")
    if not finished:
        return None
    states = _states(spark, path)
    if not states:
        return None
    planned = _batches(spark, f"{path}/offsets")
    number = max(planned, default=0)
    watermark = (number, _watermark(planned[number])) if number > max(finished) else None
    return checkpoint_of(source, states, watermark, lateness)


def checkpoint_of(
    source: RelationSource,
    states: Mapping[int, Sequence[SliceEntry]],
    planned: tuple[int, int] | None,
    lateness: int | None = None,
) -> SliceCheckpoint:
    """Return the checkpoint that has some states.

    Args:
        source: how rows become rows of atoms.
        states: their journals, by the number of the slice.
        planned: `SliceCheckpoint.planned`.
        lateness: `SliceSettings.lateness`.

    Raises:
        SnapshotError: the states are of other policies, or damaged.
    """
    known = {number: one[-1].facts for number, one in states.items()}
    generation = max(one.generation for one in known.values())
    current = {number: one for number, one in known.items() if one.generation == generation}
    first = current.get(0)
    if first is None:
        raise _incomplete()
    given = SliceSource(source, first.slices, Statistics(), exposes=False)
    check_policy(first, SliceSettings.of(given, lateness))
    slicing = slicing_of(json.loads(states[0][0].record), source.file, source.analysis())
    if not all(
        number in current and current[number].slicing == first.slicing
        for number in range(slicing.slices)
    ):
        raise _incomplete()
    given = given._replace(slices=slicing.slices, statistics=slicing.statistics)
    return SliceCheckpoint(given, states, planned)


def _incomplete() -> SnapshotError:
    return SnapshotError("the checkpoint does not have the states of all slices")


def _states(spark: SparkSession, path: str) -> dict[int, list[SliceEntry]]:
    """The states of slices after the last batch that was finished."""
    from pyspark.errors import PySparkException

    try:
        return _read_states(spark, path)
    except PySparkException as error:
        blanks = "; it does not find them where a path has blanks" if " " in path else ""
        reason = str(error).splitlines()[0]
        raise MtlmonError(
            f"Spark cannot read the states of the checkpoint {path}{blanks}: {reason}"
        ) from error


def _read_states(spark: SparkSession, path: str) -> dict[int, list[SliceEntry]]:
    operators = [
        row["operatorId"]
        for row in spark.read.format("state-metadata").load(path).collect()
        if _has_slices(row["operatorProperties"])
    ]
    if len(set(operators)) > 1:
        raise SnapshotError(
            f"the query of the checkpoint {path} has the slices of several monitors, so their "
            "states cannot be moved: use a query for each"
        )
    if not operators:
        return {}
    rows = (
        spark.read.format("statestore")
        .option("path", path)
        .option("operatorId", operators[0])
        .option("stateVarName", SliceHost.state_name)
        .load()
        .selectExpr(
            "key.slice AS slice",
            f"user_map_key.{PLACE_OF_ENTRY} AS place",
            f"user_map_value.{ENTRY} AS entry",
        )
        .collect()
    )
    entries: dict[int, dict[int, bytes]] = {}
    for number, place, entry in rows:
        entries.setdefault(number, {})[place] = bytes(entry)
    return {
        number: read_journal([own[place] for place in sorted(own)])
        for number, own in entries.items()
    }


def _has_slices(properties: str | None) -> bool:
    """Whether an operator has the state of slices, by what Spark says of it."""
    try:
        names = [one["stateName"] for one in json.loads(properties or "{}")["stateVariables"]]
    except (ValueError, KeyError, TypeError):
        return False
    return SliceHost.state_name in names


def _batches(spark: SparkSession, path: str) -> dict[int, bytes]:
    """The contents of the files about batches in a directory, if there is one, by their numbers."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.format("binaryFile").load(path).select("path", "content").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return {}
    named = ((row["path"].rsplit("/", 1)[-1], bytes(row["content"])) for row in rows)
    return {int(name): content for name, content in named if name.isdigit()}


def _watermark(content: bytes) -> int:
    """The watermark of a planned batch, in milliseconds."""
    for line in content.decode().splitlines():
        try:
            return int(json.loads(line)[_WATERMARK])
        except (ValueError, KeyError, TypeError):
            continue
    raise SnapshotError("the checkpoint does not tell the watermark of the batch that it plans")
