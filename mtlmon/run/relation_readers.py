"""Read a log once more as time-points for policies with variables, to explain violations."""

from __future__ import annotations

from array import array
from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking.text_logs import TextLog
from mtlmon.relational.atoms import rows_of_log
from mtlmon.relational.input.native import RowEvents, RowScanner
from mtlmon.relational.native import PointBlock
from mtlmon.run.files import open_text_log, rewind
from mtlmon.run.late_rows import table_order, text_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mtlmon.checking.computed_rows import ComputedEvents
    from mtlmon.checking.text_logs import LineEvents
    from mtlmon.checking.text_streams import TextStreams
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Known, Reader
    from mtlmon.run.spec import Log, RunSpec

__all__ = [
    "computed_atoms",
    "dropped_events",
    "log_events",
    "table_reader",
    "text_events",
    "text_reader",
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
    marks: Sequence[str] | None = None,
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
        marks=dict.fromkeys([*(marks or ()), *used]) if marks is not None or computed else None,
    )
    return RowEvents(rows), streams


def text_events(
    file: PolicyFile,
    made: Plan,
    points: PointBlock,
    name: str,
    options: RunSpec,
    memory: MemoryLimit,
    marks: Sequence[str] | None = None,
) -> RowEvents | ComputedEvents:
    """Return what reads the events of a text log, and their rows into time-points.

    Args:
        file: the policies.
        made: the plan of those with variables.
        points: gets the time-points.
        name: the name of the log in messages.
        options: the options of the run.
        memory: the memory limit of the run.
        marks: the atoms of the log that events have, beside those that computed ones use; None if
            nobody else reads them.
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


def text_reader(
    events_for: Callable[[Plan, PointBlock, str], LineEvents],
    options: RunSpec,
    most: int,
    start_of_input: int | None,
) -> Reader:
    """Return what reads a text log from its beginning, batch by batch.

    Args:
        events_for: returns what reads lines into the time-points of a plan, given the log's name.
        options: the options of the run.
        most: the number of time-points to read, or a few more: those that have been checked.
        start_of_input: where the log begins in standard input, if that is the log.
    """

    def read(made: Plan, points: PointBlock) -> Iterator[Known]:
        from mtlmon.checking.point_rows import PointRows
        from mtlmon.relational.reasons.evidence import Known

        rewind(options.log, start_of_input)
        file = open_text_log(options.log)
        events = events_for(made, points, file.name)
        order = text_order(options, is_again=True)
        # lines of MonPoly's logs are no time-points
        places = PointRows() if options.log.signature is None else None
        with closing(TextLog(file, events.atoms, events=events, order=order)) as source:
            before = 0
            if places is not None:
                source.track_rows()
            for batch in source:
                if places is not None:
                    # those before the batch have been taken
                    places.forget(before)
                    places.note(batch)
                yield Known(places)
                before = source.rows
                if before >= most:
                    return

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
        rewind(options.log, start_of_input)
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
                order=table_order(options, file, is_again=True),
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
