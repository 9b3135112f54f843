"""Reads tables and logs as time-points with rows, for policies with variables in tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import FileIO
from typing import TYPE_CHECKING, Any

from mtlmon.arrays.native import KeyTable
from mtlmon.errors import TraceError
from mtlmon.relational.atoms import require_rows_of_tables, rows_of_log, used_atoms
from mtlmon.relational.cells import from_cell
from mtlmon.relational.input.native import RowScanner
from mtlmon.relational.keyed import HERE
from mtlmon.relational.native import PointBlock
from mtlmon.support.option_names import ASSERTION
from mtlmon.syntax.printer import written_name
from mtlmon.testing.ordering import log_blocks
from mtlmon.testing.table_files import Places, in_time, numbers_of_keys
from mtlmon.text.native import LineOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.relational.plan import Plan
    from mtlmon.tables.relations import RelationRows
    from mtlmon.testing.keys import Keys
    from mtlmon.testing.ordering import EventOrder
    from mtlmon.testing.relations import Database, NumberedDatabase, RelationalRecording

__all__ = ["log_events", "table_events"]


class _Points:
    """Time-points that a source fills, with texts of its own, as an engine forgets some of its."""

    def __init__(self, made: Plan) -> None:
        from array import array

        self.block = PointBlock(array("I", made.atoms))
        self.texts = KeyTable(1)
        self._atoms = made.named_atoms

    def take(self) -> Iterator[tuple[int, Database]]:
        """Yield the time-points, which are removed."""
        for time_stamp, rows in self.block.take():
            database: Database = {}
            for number, cells in rows:
                atom = self._atoms[number]
                if written_name(atom.name) == HERE:
                    continue
                # without the key, which is no argument
                own = zip(cells, atom.kinds[: len(atom.kinds) - len(atom.key)], strict=False)
                row = tuple(from_cell(*one, self.texts) for one in own)
                database.setdefault(written_name(atom.name), []).append(row)
            yield time_stamp, database


def log_events(
    recording: RelationalRecording,
    path: str | os.PathLike[str],
    order: EventOrder[Any] | None = None,
) -> Iterator[tuple[int, Database]]:
    """Return the time-points of a text log; the arguments and errors are those of `read_events`."""
    made = recording.monitor.plan
    points = _Points(made)
    rows = RowScanner(rows_of_log(made), points.block, points.texts, path=os.fspath(path))
    if order is not None:
        rows.lines.order = LineOrder(order.wait)
    # The error for a wrong path comes now, not at the first event.
    return _scanned(FileIO(path), rows, points, 0 if order is None else order.wait)


def _scanned(
    file: FileIO, rows: RowScanner, points: _Points, wait: int
) -> Iterator[tuple[int, Database]]:
    __tracebackhide__ = True

    def read() -> Iterator[tuple[int, Database]]:
        more = True
        while more:
            more = rows.read()
            yield from points.take()

    with file:
        for block in log_blocks(file, rows.lines.order, wait):
            rows.load(block)
            yield from read()
            rows.unload()
        rows.load_end()
        yield from read()


def table_events(
    recording: RelationalRecording,
    table: Any,
    *,
    time: str | None,
    unit: str | None,
    keys: Keys | None = None,
    order: EventOrder[Any] | None = None,
) -> Iterator[NumberedDatabase]:
    """Return the time-points of a table: its rows, which conditions say are rows of atoms.

    Args:
        recording: the recording of the policy; it is told the places of the rows of a file.
        table: the table, or its path.
        time: the name of the column of time-stamps.
        unit: the unit to which dates and times are rounded down.
        keys: the keys, which are given numbers; None if the number is always 0.
        order: puts the rows into the order of time; None if they are in order.
    """
    __tracebackhide__ = True
    from mtlmon.tables.relation_traces import relation_events
    from mtlmon.testing.columns import time_column

    monitor = recording.monitor
    require_rows_of_tables(recording.file, used_atoms(recording.file))
    file = recording.keyed_file
    is_file = isinstance(table, (str, os.PathLike))
    time = time or file.time
    options: dict[str, Any] = {"option_names": ASSERTION}
    options["time"] = time if is_file else time_column(table, time)
    if recording.unit or unit:
        options["resolution"] = recording.unit or unit
    if order is not None:
        options["wait"] = order.wait
    events, traces = relation_events(_arrow(table), file, used_atoms(file), options)
    of_rows = None if keys is None or is_file else keys.of_table(table)
    places = Places(recording.pairs.maxlen)
    if is_file or keys is not None:
        events.track_rows()
    if is_file:
        recording.place = places
    # the columns are known, whatever rows there are
    recording.seen.missing.clear()
    with events:
        rows: RelationRows | None = None
        points: _Points | None = None
        for batch in in_time(events):
            if rows is None or points is None:
                monitor.start(events.schema)
                recording.schema = events.schema
                points = _Points(monitor.plan)
                rows, _ = traces.rows(
                    monitor.plan, points.block, None, by_stamp=False, texts=points.texts
                )
            rows.load(batch)
            if batch.origins is not None and is_file:
                places.add(len(batch), batch.origins)
            if of_rows is not None:
                assert batch.origins is not None
                numbers = iter([of_rows[row] for row in batch.origins.rows.tolist()])
            else:
                numbers = iter(numbers_of_keys(batch, events, keys))
            more = True
            while more:
                more = rows.read()
                for event in points.take():
                    yield next(numbers), event


def _arrow(table: Any) -> Any:
    """The table in a form that Arrow reads, or its path."""
    import pyarrow as pa

    if isinstance(table, (str, os.PathLike)):
        return os.fspath(table)
    if isinstance(table, Mapping):
        try:
            return pa.table(dict(table))
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise TraceError(f"the columns are no table: {reason}") from None
    names = getattr(getattr(table, "dtype", None), "names", None)
    if names is not None:
        return pa.table({name: table[name] for name in names})
    return table
