"""Monitors policies with variables on streaming data frames, in slices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.relational.atoms import HERE
from mtlmon.relational.slicing import Statistics
from mtlmon.spark.batch.relations import (
    key_types,
    reported,
    require_statistics,
    rows_of_atoms,
    slice_count,
)
from mtlmon.spark.common.atom_rows import ATOM, TIME, spark_schema
from mtlmon.spark.common.changelog import ARRIVAL
from mtlmon.spark.common.slice_columns import owner, slices_of_rows
from mtlmon.spark.common.slice_monitors import SLICE, SlicePlan, SliceSource
from mtlmon.spark.common.verdicts import LATE_ATOMS
from mtlmon.spark.streaming import slice_checkpoints
from mtlmon.spark.streaming.event_clock import EventClock
from mtlmon.spark.streaming.exchange import Unpack
from mtlmon.spark.streaming.lateness import lateness_beyond, waits_of
from mtlmon.spark.streaming.processor import hosted
from mtlmon.spark.streaming.queries import check_watermark, unit_of
from mtlmon.spark.streaming.slice_host import SliceHost
from mtlmon.spark.streaming.slice_moving import split_copies
from mtlmon.spark.streaming.slice_records import SliceSettings
from mtlmon.spark.streaming.slice_rows import FIRST, LATE, PackSlices, result_schema
from mtlmon.syntax.printer import written_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from mtlmon.relational.slicing import Slicing
    from mtlmon.spark.common.atom_rows import AtomColumns, RelationSource
    from mtlmon.spark.common.row_counts import Reporter

__all__ = ["monitor_relation_stream"]


def monitor_relation_stream(
    df: DataFrame,
    source: RelationSource,
    rows: DataFrame,
    *,
    delay: int | str | None,
    lateness: int | str | None,
    reporter: Reporter | None,
    slices: int | None,
    statistics: Statistics | None,
    checkpoint: str | os.PathLike[str] | None,
    changes: Sequence[str],
) -> DataFrame:
    """Monitor policies with variables.

    Rows become rows of atoms, and each goes to the slices that need it, as for data at rest. Every
    partition says in a mark how far its rows go, which goes to all slices. So a slice is visited in
    each batch, and when the watermark has moved, if it waits for that.

    Args:
        df: the streaming data frame.
        source: how rows become rows of atoms, as `prepared_relations` returns it with the rows.
        rows: the rows.
        delay: it, the lateness, slices, statistics and the checkpoint are as for `monitor_stream`.
        reporter: sends counts of rows to the driver; None if they are not needed.
        changes: the columns of changes; none without a lateness.
    """
    from pyspark.sql import functions as F

    require_statistics(statistics)
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise MtlmonError(
            "checkpoint is the path of the checkpointLocation of the query, not a "
            f"{type(checkpoint).__name__}"
        )
    check_watermark(df, source.source.selection.time_name, delay)
    unit = unit_of(source.source, source.arrow_schema)
    clock = EventClock.of_unit(unit)
    beyond = None if lateness is None else lateness_beyond(df, lateness, delay, clock, unit)
    spark = df.sparkSession
    before = None
    if checkpoint is not None:
        before = slice_checkpoints.read_checkpoint(spark, str(checkpoint), source, beyond)
    if slices is None and before is not None:
        slices = before.source.slices
    if statistics is None:
        statistics = Statistics() if before is None else before.source.statistics
    count = slice_count(spark, slices)
    # a stream has no end at which equal reports of several slices could be merged
    sliced = SliceSource(source, count, statistics, exposes=False)
    planned = SlicePlan(sliced)
    slicing, kinds = planned.slicing, planned.kinds
    settings = SliceSettings.of(sliced, beyond)
    given, columns = rows_of_atoms(rows, source, slicing, reporter)

    def split(rows: pa.Table) -> dict[int, pa.Table]:
        return split_copies(_copies(spark.createDataFrame(rows), slicing, columns).toArrow())

    moved, visited = None, 0
    if before is not None:
        moved = before.moved(spark, sliced, settings, clock, split)
        visited = before.visited
    copies = _copies(given, slicing, columns, visited)
    host = SliceHost(sliced, settings, moved, is_known=checkpoint is not None)
    waits = waits_of(df, delay, clock, unit)
    results = hosted(
        copies, PackSlices(clock), host, clock, None if delay is None else waits, behind=waits
    )
    schema = result_schema(planned.schema, changes=changes)
    found = results.mapInArrow(Unpack(schema, has_arrival=ARRIVAL in changes), spark_schema(schema))
    # a late row is told once for an atom, however many policies read it differently
    written = [written_name(name) for name in columns.names]
    others = [number for number, name in enumerate(written) if name in written[:number]]
    if others:
        found = found.where(F.col(LATE).isNull() | ~F.col(LATE).isin(others))
    # late rows, and what says how far verdicts are final, are of no slice
    is_wanted = F.col(TIME).isNull() | F.col(LATE).isNotNull()
    own = found.where(is_wanted | (F.col(SLICE) == owner(slicing, kinds)))
    more = {LATE_ATOMS: _late_atoms(columns)} | {name: F.col(name) for name in changes}
    return reported(own, slicing, kinds, key_types(rows, source), more)


def _copies(rows: DataFrame, slicing: Slicing, columns: AtomColumns, visited: int = 0) -> DataFrame:
    """Return rows of atoms, once for each slice that gets them."""
    from pyspark.sql import functions as F

    placed = rows.select(
        F.posexplode(slices_of_rows(slicing, columns, visited)).alias("place", SLICE),
        TIME,
        ATOM,
        *columns.arguments,
    )
    return placed.select(SLICE, (F.col("place") == 0).alias(FIRST), TIME, ATOM, *columns.arguments)


def _late_atoms(columns: AtomColumns) -> Column:
    """The atom of a late row, in an array, which is empty for HERE; null in other rows."""
    from pyspark.sql import functions as F

    names = F.array(*map(F.lit, map(written_name, columns.names)))
    number = F.col(LATE)
    named = F.array(F.get(names, number))
    return F.when(number.isNotNull(), F.array_remove(named, HERE))
