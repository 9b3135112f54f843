"""Evaluates relations over validity intervals on tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.ordering import order_of
from mtlmon.engine.memory_limit import memory_size
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError, PolicyError, RowError, TableError
from mtlmon.policy import PolicyFile, load_policies, parse_policies
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.environment import UTC
from mtlmon.policy.predicates.expression import Expression, TypedColumn
from mtlmon.policy.predicates.kinds import kind_of
from mtlmon.policy.validity.building import Relation
from mtlmon.policy.validity.compared import columns_of_relations_compared
from mtlmon.relations.algebra import Aggregation, Group, Source
from mtlmon.relations.declared import ROWS, Plans, columns_of_rows, declared_tables, table_name
from mtlmon.relations.evaluation import FoundPlan, evaluate, planned
from mtlmon.relations.lookup import has_overlaps
from mtlmon.relations.records import NO_END, after, records_of, whole
from mtlmon.relations.typing import Types
from mtlmon.support.guesses import did_you_mean
from mtlmon.support.option_names import PYTHON
from mtlmon.support.table_formats import table_format
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.formula import Span
from mtlmon.syntax.report import formula_error
from mtlmon.tables.columns.concatenation import concatenated
from mtlmon.tables.columns.times import ANY_ORDER, MISSING, Times
from mtlmon.tables.columns.writings import Writings
from mtlmon.tables.formats.dialect import Dialect
from mtlmon.tables.formats.files import TableFile, table_sources
from mtlmon.tables.formats.schemas import read_line_schema, read_schema, records_as_read
from mtlmon.tables.opening import open_tables
from mtlmon.tables.read_notes import ReadNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mtlmon.checking.clocks import EndTime
    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.validity.declared import TableOf
    from mtlmon.tables.formats.files import Tables

__all__ = [
    "ReadNotes",
    "declared_plans",
    "declared_records",
    "environment_of",
    "evaluated",
    "file_of",
    "last_time",
    "path_of",
    "require_relation",
    "shown_columns",
]

_NO_INPUTS: Mapping[str, Tables] = {}
# The options of the log that say how times are written, and so hold for all tables.
_OF_TIMES = ("time_unit", "time_format", "time_zone", "resolution", "option_names")


def file_of(
    policies: PolicyFile | str | os.PathLike[str] | Relation, options: dict[str, Any]
) -> PolicyFile:
    """Return the policy file, as for `mtlmon.query`; add to the options what it says of the log."""
    declared = options.get("resolution")
    time_unit = options.get("time_unit")
    if isinstance(policies, Relation):
        file = policies.file(declared or LATER)
        if file.unit == LATER:
            file = policies.file(time_unit)
    elif isinstance(policies, os.PathLike):
        file = load_policies([policies], unit=declared or LATER, needs_policy=False)
        if file.unit == LATER:
            file = load_policies([policies], unit=time_unit, needs_policy=False)
    elif isinstance(policies, str):
        file = parse_policies(policies, unit=declared or LATER, needs_policy=False)
        if file.unit == LATER:
            file = parse_policies(policies, unit=time_unit, needs_policy=False)
    else:
        file = policies
    options["resolution"] = declared or file.unit
    options["pattern"] = options.get("pattern") or file.pattern
    if options.get("format") is not None:
        options["pattern"] = None
    options["time"] = options.get("time") or file.time
    options["time_zone"] = options.get("time_zone") or file.time_zone
    return file


def require_relation(file: PolicyFile, name: str) -> None:
    """Require that a file declares a relation.

    Raises:
        MtlmonError: it does not.
    """
    if file.parts:
        raise MtlmonError("relations of several policy files are not evaluated: name one file")
    if not file.intervals:
        raise MtlmonError(
            f"{file.source} declares no relations: write relation NAME = rows valid 15m"
        )
    if name not in file.intervals:
        known = ", ".join(file.intervals)
        guess = did_you_mean(name, file.intervals)
        raise MtlmonError(f"there is no relation {name}{guess or f'; the relations are {known}'}")


def evaluated(
    file: PolicyFile,
    name: str,
    tables: Tables | Sequence[Tables],
    known: Mapping[str, pa.Table] | None = None,
    *,
    notes: ReadNotes | None = None,
    tell: Callable[[FoundPlan], object] | None = None,
    inputs: Mapping[str, Tables] = _NO_INPUTS,
    end_time: EndTime = None,
    **options: Any,
) -> pa.Table:
    """Evaluate a relation of a file whose unit is known; see `mtlmon.query`.

    Args:
        file: the policy file.
        name: the relation.
        tables: the log.
        known: the tables that the file names, if they have been read, as `declared_records` does.
        notes: gets what there is to say of the rows.
        tell: gets the plan before it is evaluated.
        inputs: the tables that are given beside the log, by name.
        end_time: up to when the log is known.
        options: those of `open_tables`, where `resolution` is the unit of the file, and
            `max_memory`.
    """
    require_relation(file, name)
    max_memory = options.pop("max_memory", None)
    memory = MemoryLimit(
        None if max_memory is None else memory_size(max_memory),
        options.get("option_names", PYTHON),
    )
    wanted = columns_of_rows(file, name)
    found: dict[str, pa.Table] = {}
    usable: list[pa.Field] = []
    environment = environment_of(file, options)
    if wanted is not None:
        names, has_all = wanted
        schema = _schema(tables, options)
        columns = [one for one in schema.names if has_all or one in names]
        usable = [one for one in schema if kind_of(one.type).name != "other"]
        for one in columns:
            if schema.field(one) not in usable:
                raise MtlmonError(
                    f"column {one} of the log is of type {schema.field(one).type}, which relations "
                    f"do not have: select other columns in relation {name}"
                )
        found[ROWS] = _rows(file, tables, columns, options, memory, notes)
    if known is None:
        held = bytes_of(found.values())
        known = declared_records(
            file, name, options, memory, beside=held, notes=notes, inputs=inputs
        )
    found |= known
    schemas = {one: pa.schema(list(table.schema)[2:]) for one, table in found.items()}
    try:
        plan = Plans(file, schemas, environment).of(name)
    except PolicyError:
        if ROWS in schemas:
            # columns that are not read may be meant by those that there are not
            read = {one.name: one for one in schemas[ROWS]}
            schemas[ROWS] = pa.schema([read.get(one.name, one) for one in usable])
            Plans(file, schemas, environment).of(name)
        raise
    try:
        last = pc.max(found[ROWS].column(0)).as_py() if ROWS in found else None
        result = evaluate(plan, found, environment, tell, last_time(end_time, last))
    except RowError as error:
        raise of_relation(error) from None
    except PolicyError:
        raise
    except MtlmonError as error:
        raise MtlmonError(f"relation {name}: {error}") from None
    require_room(memory, bytes_of([result, *found.values()]))
    return result


def last_time(end_time: EndTime, last: int | None) -> int:
    """Return up to when a log is known; `NO_END` if that is said to be for ever, or not at all.

    Args:
        end_time: what is said of it, as for policies.
        last: the time-stamp of the last row; None if there is none.
    """
    if end_time is None or end_time == "inf":
        return NO_END
    if end_time == "last":
        return NO_END if last is None else last
    return end_time if last is None else max(end_time, last)


def declared_plans(file: PolicyFile, schema: pa.Schema, format: str | None) -> dict[str, FoundPlan]:
    """Find how the relations of a file are evaluated on a log, as far as its columns tell.

    Args:
        file: the policy file, whose unit is known.
        schema: the columns of the log with the types that their cells have.
        format: the format of the log.

    Returns:
        The plans of those whose tables can be read, by name. How many rows there are is not known.
    """
    found: dict[str, FoundPlan] = {}
    rows = records_as_read(schema, file.row_types, format)
    rows = pa.schema([one for one in rows if kind_of(one.type).name != "other"])
    for name in file.intervals:
        schemas = {ROWS: rows}
        try:
            for source in declared_tables(file, name):
                path = path_of(file, source)
                own, _ = table_format(path) or (None, None)
                types = file.table_types.get(source.shown, {})
                columns = records_as_read(read_schema(path), types, own)
                times = {source.start, source.end} if source.end is not None else set()
                kept = [one for one in columns if one.name not in times]
                schemas[table_name(file, source)] = pa.schema(kept)
            plan = Plans(file, schemas, file.environment).of(name)
            found[name] = planned(plan, Types(schemas, file.environment))
        except (MtlmonError, OSError):
            continue
    return found


def of_relation(error: RowError) -> MtlmonError:
    """Say of an error of a record in which relation it is, as records have no numbers."""
    return MtlmonError(f"relation {error.atom}: {error.reason}")


def environment_of(file: PolicyFile, options: Mapping[str, Any]) -> Environment:
    """Return what functions of time need."""
    return file.environment._replace(
        time=options.get("time") or file.environment.time,
        unit=options.get("resolution") or options.get("time_unit"),
        time_unit=options.get("time_unit"),
        zone=file.zone or UTC,
    )


def declared_records(
    file: PolicyFile,
    name: str,
    options: dict[str, Any],
    memory: MemoryLimit | None = None,
    known: Mapping[str, pa.Table] | None = None,
    beside: int = 0,
    notes: ReadNotes | None = None,
    inputs: Mapping[str, Tables] | None = None,
) -> dict[str, pa.Table]:
    """Read the tables that a relation of a file is made of.

    Args:
        file: the policy file.
        name: the name of the relation.
        options: how times and cells are written, as for `open_tables`.
        memory: the memory limit, which counts the records; None for no limit.
        known: the tables that have been read for other relations of the file.
        beside: how many bytes other rows and records hold.
        notes: gets what there is to say of the rows.
        inputs: the tables that are given beside the log, by name; None where none can be.

    Returns:
        Their records, as for `mtlmon.relations.evaluation.evaluate`, as `table_name` says.

    Raises:
        MtlmonError: one cannot be read, or has no valid records.
        MemoryLimitError: they do not fit the memory limit.
    """
    limit = MemoryLimit() if memory is None else memory
    read = dict({} if known is None else known)
    found: dict[str, pa.Table] = {}
    for source in declared_tables(file, name):
        shown = table_name(file, source)
        if shown not in read:
            held = beside + bytes_of(read.values())
            read[shown] = _table(file, source, options, limit, held, notes, inputs)
        found[shown] = read[shown]
        if source.key:
            require_one_record(found[shown], source.key, path_of(file, source))
    return found


def bytes_of(tables: Iterable[pa.Table]) -> int:
    """Return how many bytes tables take."""
    return sum(one.nbytes for one in tables)


def require_room(memory: MemoryLimit, held: int) -> None:
    """Count the bytes that all rows and records of relations hold.

    Raises:
        MemoryLimitError: they are more than the memory limit allows.
    """
    memory.note("relations", held)
    memory.check()


def _schema(tables: Tables | Sequence[Tables], options: dict[str, Any]) -> pa.Schema:
    """The columns of the log, by its beginning."""
    pattern = options.get("pattern")
    format = "lines" if pattern is not None else options.get("format")
    given = {name: options[name] for name in Dialect._fields if name in options}
    dialect = Dialect(**given)
    sources = table_sources(tables, format, options.get("option_names", PYTHON))
    if not sources:
        raise MtlmonError("the relation reads the rows of a log: give a table")
    first = sources[0]
    if not isinstance(first, TableFile):
        return pa.RecordBatchReader.from_stream(first.table).schema
    if first.input is not None:
        raise MtlmonError("relations are not evaluated on standard input: write the rows to a file")
    if pattern is not None:
        return read_line_schema(first.path, pattern, dialect)
    return read_schema(first.path, dialect, first.format)


def _read(
    file: PolicyFile,
    tables: Tables | Sequence[Tables],
    columns: Sequence[str],
    types: Mapping[str, str],
    options: dict[str, Any],
    memory: MemoryLimit,
    beside: int = 0,
    notes: ReadNotes | None = None,
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[str, pa.ChunkedArray]]:
    """Read the time-stamps and some columns of all rows, some of them as values of types.

    `beside` is how many bytes others hold; `notes` gets what there is to say of the rows.
    """
    reader, shown = shown_columns(file, columns, types)
    names = list(shown.values())
    parts: list[dict[str, pa.Array]] = []
    stamps = [np.zeros(0, np.int64)]
    held = beside
    given = {key: value for key, value in options.items() if value is not None}
    with open_tables(
        tables, (), policies=reader, atoms_of_partitions=[{0: ()}], shown=[{0: names}], **given
    ) as batches:
        compared = columns_of_relations_compared(file)
        batches.writings = Writings([one for one in columns if one in compared - types.keys()])
        for batch in batches:
            if not len(batch.time_stamps):
                continue
            stamps.append(np.array(batch.time_stamps, np.int64))
            parts.append(dict(batch.shown_of(0)))
            held += stamps[-1].nbytes + sum(one.nbytes for one in parts[-1].values())
            require_room(memory, held)
        if notes is not None:
            notes.add(batches)
    found = {}
    for one, name in shown.items():
        pieces = [pa.table({one: part[name]}) for part in parts]
        table = concatenated(pieces) if pieces else None
        found[one] = pa.chunked_array([], pa.null()) if table is None else table.column(0)
    return np.concatenate(stamps), found


def shown_columns(
    file: PolicyFile, columns: Sequence[str], types: Mapping[str, str]
) -> tuple[PolicyFile, dict[str, str]]:
    """Return a policy file that only shows columns of rows, and what it calls these.

    Args:
        file: the policy file with the relations.
        columns: the columns.
        types: the types that some of them are read as.
    """
    reader = PolicyFile("", file.source, file.unit)
    reader.zone = file.zone
    typed = {one: TypedColumn(one, types[one]) if one in types else one for one in columns}
    return reader, {
        one: reader.show(Expression(ops.COLUMN, (), name, Span(0, 0)))
        for one, name in typed.items()
    }


def _rows(
    file: PolicyFile,
    tables: Tables | Sequence[Tables],
    columns: Sequence[str],
    options: dict[str, Any],
    memory: MemoryLimit,
    notes: ReadNotes | None,
) -> pa.Table:
    """The rows of the log, each valid at its time-stamp alone."""
    stamps, found = _read(file, tables, columns, file.row_types, options, memory, notes=notes)
    return pa.table([stamps, after(stamps), *found.values()], names=["", " ", *found])


def path_of(file: PolicyFile, source: TableOf) -> str:
    """The path of a table that a policy file names: in the folder of the file, if it has one.

    For a table that is given beside the log, it is its name.
    """
    if source.is_named or file.source.startswith("<"):
        return source.path
    return str(Path(file.source).parent / source.path)


def _table(
    file: PolicyFile,
    source: TableOf,
    options: dict[str, Any],
    memory: MemoryLimit,
    beside: int,
    notes: ReadNotes | None,
    inputs: Mapping[str, Tables] | None,
) -> pa.Table:
    """The records of a table that the file names, while others hold some bytes.

    Raises:
        MtlmonError: it cannot be read, or a record ends before it starts.
    """

    def refuse(message: str, hint: str | None = None) -> FormulaError:
        return formula_error(
            file.text, source.place, message, source=file.source, hint=hint, kind=PolicyError
        )

    path = path_of(file, source)
    table: Tables = path
    if source.is_named:
        option_names = options.get("option_names", PYTHON)
        if inputs is None:
            raise refuse(
                f"{path} is a name, and only mtlmon query and mtlmon.query have tables by names",
                f'name a file, as in rows of "{path}.csv"',
            )
        if path not in inputs:
            how = f"{path}={path}.csv" if option_names is not PYTHON else f'{{"{path}": table}}'
            raise refuse(f"there is no table {path}", f"give it beside the log: {how}")
        table = inputs[path]
        path = os.fspath(table) if isinstance(table, str | os.PathLike) else path
    try:
        cells = _cells_of(path, options)
        names = _schema(table, cells).names
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise refuse(f"cannot read {path}: {reason}") from None
    times_of_rows = [one for one in (source.start, source.end) if one is not None]
    for column in (*times_of_rows, *source.key):
        if column not in names:
            guess = did_you_mean(column, names)
            hint = f"its columns are {', '.join(names)}"
            raise refuse(f"{path} has no column {column}{guess}", hint)
        if column in source.key and column in times_of_rows:
            raise refuse(f"{column} says when records are valid, so it cannot be their key")
    own = {key: options[key] for key in _OF_TIMES if key in options}
    of_table = None if notes is None else notes.of_table(path)
    time = source.start
    if source.end is None:
        # rows have all columns, as those of the log
        columns = names
        declared = options.get("time")
        if time is None and isinstance(declared, str) and declared in names:
            time = declared
    else:
        columns = [one for one in names if one != time]
    any_order = {**own, **cells, "time": time, "in_any_order": True}
    types = file.table_types.get(source.shown, {})
    stamps, read = _read(file, table, columns, types, any_order, memory, beside, of_table)
    order = order_of(stamps)
    found = {name: whole(column) for name, column in read.items()}
    if order is not None:
        stamps = stamps[order]
        found = {name: column.take(pa.array(order)) for name, column in found.items()}
    if len(stamps) and stamps.max() == NO_END:
        raise TableError(
            f"a record begins at {NO_END}, the largest time, after which it cannot end",
            path=path,
            column=time,
        )
    if source.end is None:
        return pa.table([stamps, after(stamps), *found.values()], names=["", " ", *found])
    times = Times(
        own.get("time_unit"),
        own.get("time_format"),
        own.get("resolution"),
        own.get("time_zone"),
        ANY_ORDER,
    )
    written = found.pop(source.end)
    values, faults = times.read(written)
    wrong = np.zeros(len(values), np.bool_) if faults is None else faults != 0
    if faults is not None:
        for row in np.flatnonzero(wrong & (faults != MISSING)).tolist():
            message = times.message(written, row, int(faults[row]))
            raise TableError(message, path=path, column=source.end)
    for row in np.flatnonzero(~wrong & (values <= stamps)).tolist():
        raise TableError(
            f"a record from {stamps[row]} on ends at {values[row]}: a record ends after its start",
            path=path,
            column=source.end,
        )
    return pa.table(
        [stamps, pa.array(values, mask=wrong), *found.values()], names=["", " ", *found]
    )


def _cells_of(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """How the cells of a table are written that a policy file names: as those of the log.

    Formats whose cells have types have no such options.
    """
    found = table_format(path)
    if found is None or found[0] not in {"csv", "tsv"}:
        return {}
    cells = {name: options[name] for name in Dialect._fields if options.get(name) is not None}
    if found[0] == "csv" and cells.get("decimal") == cells.get("delimiter", ","):
        # a log of TSV can have a decimal comma
        del cells["decimal"]
    return cells


def require_one_record(records: pa.Table, key: Sequence[str], path: str) -> None:
    """Require that at no time two records with the same key are valid.

    Raises:
        TableError: two are.
    """
    # PERF: for a million limits, this takes 4 ms, and the groups below 55
    if not has_overlaps(records_of(records), key):
        return
    count = "\0count"
    groups = Group(Source(path), tuple(key), (Aggregation(count, "count"),))
    found = evaluate(groups, {path: records})
    first = found.filter(pc.greater(found.column(count), 1)).slice(0, 1).to_pylist()[0]
    values = ((name, first[name]) for name in key)
    shown = ", ".join(f"{name} {'null' if one is None else one}" for name, one in values)
    raise TableError(
        f"{first[count]} records with {shown} are valid at {first['start']}: the key says that "
        "there is at most one",
        path=path,
    )
