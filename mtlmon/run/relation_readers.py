"""Read a log once more as time-points for policies with variables, to explain violations."""

from __future__ import annotations

import os
from array import array
from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking.computed_rows import ComputedRows
from mtlmon.checking.text_logs import line_origins
from mtlmon.relational.atoms import rows_of_log
from mtlmon.relational.input.native import RowEvents, RowScanner
from mtlmon.relational.native import PointBlock
from mtlmon.run.files import STANDARD_INPUT, open_text_log
from mtlmon.run.late_rows import table_order, text_order
from mtlmon.run.pump import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mtlmon.checking.computed_rows import ComputedEvents
    from mtlmon.checking.sources import Origins
    from mtlmon.checking.text_streams import TextStreams
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Known, Reader
    from mtlmon.run.row_work import RowSource
    from mtlmon.run.spec import Log, RunSpec

__all__ = [
    "block_reader",
    "computed_atoms",
    "dropped_events",
    "last_origins",
    "log_events",
    "rewind",
    "table_reader",
    "text_events",
    "text_reader",
    "text_rows",
]


def computed_atoms(file: PolicyFile, made: Plan) -> dict[str, int]:
    """Return the atoms of a text log that are computed, with their numbers in the plan."""
    return {
        one.name: number for number, one in enumerate(made.named_atoms) if one.name in file.atoms
    }


def log_events(
    file: PolicyFile,
    made: Plan,
    points: PointBlock,
    name: str,
    log: Log,
    memory: MemoryLimit,
    marks: Sequence[str] = (),
) -> tuple[RowEvents, TextStreams | None]:
    """Return what reads the events of a text log, and what computes atoms; None if none is.

    The arguments are as for `text_events`.
    """
    computed = computed_atoms(file, made)
    streams = None
    if computed:
        from mtlmon.tables.text_atoms import text_streams

        streams = text_streams(file, tuple(computed), file.unit, name, memory=memory)
    used = () if streams is None else streams.atoms.log_atoms
    rows = RowScanner(
        rows_of_log(made, computed),
        points,
        made.texts,
        path=name,
        skip_errors=log.on_error == "skip",
        marks=dict.fromkeys([*marks, *used]),
    )
    return RowEvents(rows), streams


def text_events(
    file: PolicyFile,
    made: Plan,
    points: PointBlock,
    name: str,
    options: RunSpec,
    memory: MemoryLimit,
    marks: Sequence[str] = (),
) -> RowEvents | ComputedEvents:
    """Return what reads the events of a text log, and their rows into time-points.

    Args:
        file: the policies.
        made: the plan of those with variables.
        points: gets the time-points.
        name: the name of the log in messages.
        options: the options of the run.
        memory: the memory limit of the run.
        marks: the atoms of the log that events have, beside those that computed ones use.
    """
    events, streams = log_events(file, made, points, name, options.log, memory, marks)
    if streams is None:
        return events
    from mtlmon.checking.computed_rows import ComputedEvents

    return ComputedEvents(events, streams, computed_atoms(file, made))


def dropped_events(
    file: PolicyFile, made: Plan, name: str, log: Log, atoms: Sequence[str]
) -> RowEvents:
    """Return what reads the events of a text log without their rows.

    Args:
        file: the policies.
        made: the plan of those with variables: lines that cannot be read are the same ones only if
            all rows are read.
        name: the name of the log in messages.
        log: how the log is read.
        atoms: the atoms that events have.
    """
    names = rows_of_log(made, file.atoms)
    points = PointBlock(array("I", [len(kinds) for _, kinds in names]))
    skips = log.on_error == "skip"
    rows = RowScanner(names, points, made.texts, path=name, skip_errors=skips, marks=atoms)
    return RowEvents(rows, drops_points=True)


def text_rows(
    file: PolicyFile,
    made: Plan,
    points: PointBlock,
    name: str,
    options: RunSpec,
    memory: MemoryLimit,
) -> RowScanner | ComputedRows:
    """Return what reads a text log into time-points; the arguments are as for `text_events`."""
    if not computed_atoms(file, made):
        return RowScanner(
            rows_of_log(made),
            points,
            made.texts,
            path=name,
            skip_errors=options.log.on_error == "skip",
        )
    from mtlmon.checking.computed_rows import ComputedEvents

    events = text_events(file, made, points, name, options, memory)
    assert isinstance(events, ComputedEvents)
    return ComputedRows(events)


def last_origins(rows: RowScanner | ComputedRows) -> Origins:
    """Return the lines of the time-points of a text log that have been read last."""
    return line_origins(rows.lines.path, rows.last_lines, rows.lines.order)


def text_reader(
    options: RunSpec,
    file: PolicyFile,
    memory: MemoryLimit,
    most: int,
    start_of_input: int | None,
) -> Reader:
    """Return what reads a text log from its beginning.

    Args:
        options: the options of the run.
        file: the policies.
        memory: the memory limit of the run.
        most: as for `block_reader`.
        start_of_input: as for `block_reader`.
    """

    def rows_for(made: Plan, points: PointBlock, name: str) -> RowSource:
        return text_rows(file, made, points, name, options, memory)

    return block_reader(rows_for, options, most, start_of_input)


def block_reader(
    rows_for: Callable[[Plan, PointBlock, str], RowSource],
    options: RunSpec,
    most: int,
    start_of_input: int | None,
) -> Reader:
    """Return what reads a log of rows from its beginning, block by block.

    Args:
        rows_for: returns what reads the rows of a plan into time-points, given the log's name.
        options: the options of the run.
        most: the number of time-points to read, or a few more: those that have been checked.
        start_of_input: where the log begins in standard input, if that is the log.
    """

    def read(made: Plan, points: PointBlock) -> Iterator[Known]:
        from mtlmon.checking.point_rows import PointRows
        from mtlmon.relational.reasons.evidence import Known

        rewind(start_of_input)
        order = text_order(options, is_again=True)
        log = open_text_log(options.log, order)
        rows = rows_for(made, points, log.name)
        places = None
        if isinstance(rows, RowScanner | ComputedRows):
            places = PointRows()
            rows.number_lines()
            if order is not None:
                rows.lines.order = order.lines
        block = memoryview(bytearray(BLOCK_BYTES))
        size = 1
        try:
            while size and rows.point_count < most:
                size = log.read_into(block) or log.read_rest_into(block)
                if size:
                    rows.load(block[:size])
                else:
                    rows.load_end()
                more = True
                while more and rows.point_count < most:
                    if places is not None:
                        # those that have been taken
                        places.forget(rows.point_count)
                    more = rows.read()
                    if isinstance(rows, RowScanner | ComputedRows) and places is not None:
                        places.add(None, last_origins(rows))
                    yield Known(places)
        finally:
            rows.unload()
            log.close()

    return read


def table_reader(
    options: RunSpec,
    file: PolicyFile,
    names: Sequence[str],
    shown: Mapping[str, Sequence[str]],
    memory: MemoryLimit,
    most: int,
    start_of_input: int | None,
) -> Reader:
    """Return what reads tables from their beginning; the first arguments are those of the run.

    Args:
        options: the options of the run.
        file: the policies.
        names: the atoms of the rows.
        shown: for each atom, the names that batches show the values of its arguments under.
        memory: the memory limit of the run.
        most: the number of time-points to read, or a few more: those that have been checked.
        start_of_input: where the log begins in standard input, if that is the log.
    """
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.relational.reasons.evidence import Known
    from mtlmon.run.policies import open_table_source
    from mtlmon.tables.relation_traces import RelationTraces

    traces = RelationTraces(file, shown)

    def read(made: Plan, points: PointBlock) -> Iterator[Known]:
        rewind(start_of_input)
        by_stamp = options.log.time_points == "stamp"
        # of several rows, a time-point does not tell which one a row of an atom is
        places = None if by_stamp else PointRows()
        with closing(
            open_table_source(
                options,
                names,
                file,
                traces.columns,
                memory,
                shown=traces.shown,
                order=table_order(options, is_again=True),
            )
        ) as source:
            source.track_rows()
            rows, of_keys = traces.rows(made, points, source.key_tables, by_stamp=by_stamp)
            for batch in source:
                rows.load(batch)
                if places is not None:
                    places.forget(rows.point_count)
                    places.note(batch)
                more = True
                while more and rows.point_count < most:
                    more = rows.read()
                    yield Known(places, of_keys)
                if rows.point_count >= most:
                    return
            rows.load_end()
            more = True
            while more:
                more = rows.read()
                yield Known(places, of_keys)

    return read


def rewind(start_of_input: int | None) -> None:
    """Go back to the beginning of standard input, if that is the log."""
    if start_of_input is not None:
        os.lseek(STANDARD_INPUT, start_of_input, os.SEEK_SET)
