"""Opens tables: what is read of them, and how."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError
from mtlmon.policy.column_types import compared_columns
from mtlmon.policy.needs import meant_equivalences, needs_of
from mtlmon.policy.predicates.expression import typed_columns
from mtlmon.policy.predicates.time_points import Changes
from mtlmon.policy.renaming import expressions_of
from mtlmon.policy.types import with_times
from mtlmon.streams.bounds import LARGEST_BATCH
from mtlmon.support.option_names import PYTHON
from mtlmon.support.table_formats import LINES
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.durations import Duration
from mtlmon.tables.arrivals import Arrivals
from mtlmon.tables.columns.letters import environment_of
from mtlmon.tables.columns.times import ANY_ORDER, Times
from mtlmon.tables.columns.wanted import Selection
from mtlmon.tables.columns.writings import Writings
from mtlmon.tables.corrections import CorrectionColumns
from mtlmon.tables.events import TableEvents
from mtlmon.tables.formats.delimited import FORMATS_WITH_DELIMITERS
from mtlmon.tables.formats.dialect import QUOTE, Dialect
from mtlmon.tables.formats.files import TableFile, table_sources
from mtlmon.tables.formats.line_patterns import line_pattern
from mtlmon.tables.late_rows import units_of
from mtlmon.tables.reordering import RowOrder
from mtlmon.tables.sorting import DEFAULT_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.policy import PolicyFile, Predicate
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relations.of_rows import LogRelation
    from mtlmon.relations.revised import RevisedRelations
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.support.option_names import OptionNames
    from mtlmon.tables.formats.files import Tables
    from mtlmon.tables.looking_up import GivenRelations
    from mtlmon.tables.row_relations import RowRelations


def open_tables(
    tables: Tables | Sequence[Tables],
    atoms: Sequence[str],
    *,
    predicates: Mapping[str, Predicate] | None = None,
    policies: PolicyFile | None = None,
    atoms_of_partitions: Sequence[Mapping[When, Sequence[str]]] | None = None,
    streams: Sequence[str] = (),
    shown: Sequence[Mapping[When, Sequence[str]]] | None = None,
    computed: Sequence[Mapping[When, Sequence[str]]] | None = None,
    format: str | None = None,
    pattern: str | None = None,
    time: str | Sequence[str] | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    time_zone: str | None = None,
    resolution: str | None = None,
    event: str | None = None,
    event_separator: str = "|",
    key: str | Sequence[str] = (),
    partitions: Sequence[Sequence[str]] | None = None,
    null_values: Sequence[str] = ("",),
    delimiter: str = ",",
    quote: str = QUOTE,
    decimal: str = ".",
    on_error: Literal["stop", "skip"] = "stop",
    sort: bool = False,
    sort_memory: int | None = None,
    wait: int | str | Duration | None = None,
    late: Callable[[bytes], None] | None = None,
    in_any_order: bool = False,
    operation: str | None = None,
    id: str | None = None,
    complete: tuple[str | None, str] | None = None,
    new_end: tuple[str, str, int | str | Duration] | None = None,
    clock: Literal["all", "key"] = "all",
    counting: NDArray[np.bool_] | None = None,
    given_relations: GivenRelations | None = None,
    memory: MemoryLimit | None = None,
    option_names: OptionNames = PYTHON,
) -> TableEvents:
    """Read tables as events, in batches.

    Each row is an event. By default, an atom holds if the Boolean column of the same name is true;
    with `event`, it holds if this column lists its name. An atom of `predicates` holds if its
    predicate is true. Null counts as false. Files are read one after the other. Each file must have
    all columns that are used, in any order. At most a few megabytes of a file are in memory at a
    time, and each row of standard input or a pipe is available as soon as it is read.

    Args:
        tables: files, patterns, directories and `-` for standard input, as for `table_files`; or an
            object with `__arrow_c_stream__`, such as a pyarrow table, a reader of record batches,
            or a data frame of pandas (from 2.2 on) or polars, or a lazy one of polars (from 1.34
            on), which is read in batches; or several of these.
        atoms: the atoms of the formula, in the order that monitors use.
        predicates: the predicates by the name of the atom that each defines, as in
            `PolicyFile.predicates`.
        policies: instead of `predicates`, the policy file that defines atoms. Only then can they
            depend on other rows.
        atoms_of_partitions: with `policies`, the atoms that each of the partitions needs: those at
            rows are under 0, those at the ticks of a period under the period, and those at changes
            of relations under these changes; by default, all are needed at rows.
        streams: with `policies`, the streams whose values batches have, as `EventBatch.values`. The
            traces are those of the first partition.
        shown: with `policies`, the names in `PolicyFile.shown` of the expressions whose values
            batches have for each partition, as `EventBatch.shown_of`: those at rows are under 0,
            and those at ticks under their period. With `in_any_order`, they depend on their row
            alone.
        computed: with `in_any_order`, the names of other such expressions. The caller computes
            their values with the atoms that depend on other rows.
        format: "csv", "tsv", "jsonl", "arrow", "parquet" or "xes", instead of the format that the
            names imply. Compression (gzip, zstd, bz2, xz) is recognised from the content.
        pattern: instead of a format, a regular expression for the lines of text files, of which
            the named groups are the columns: `(?P<user>\\S+) logged in`. It may match anywhere in
            a line. Lines that do not match are no rows. The names in
            `mtlmon.support.ready_patterns` stand for patterns for well-known logs, with
            their columns and formats of times: "nginx", "apache", "combined" and "common" (access
            logs of both), "nginx_error", "apache_error", "syslog", "sshd", "postfix", or
            "syslog:2024" and the like for a log that begins in 2024 and whose times have no year.
            "journald" is JSON of the journal, and the columns of "logfmt" are the names of pairs:
            level=info user="ann lee". If there are several patterns, each on a line of its own, a
            line of the log has the groups of the first pattern that matches it.
        time: the column of times; the default is `ts`, and `time:timestamp` of XES. For several
            columns, names with commas between them, or a sequence of names: their texts are joined
            by blanks, and expressions call the joined column as its columns, `Date,Time`.
        time_unit: as for `Times`.
        time_format: as for `Times`.
        time_zone: the time zone of times that are texts without an offset, a name of IANA such as
            "Europe/Berlin"; by default the one that `policies` declare, or else UTC. Of the hour
            that occurs twice when clocks are put back, the order of rows tells which one is meant,
            unless it is said, as in "Europe/Berlin first" or "Europe/Berlin second".
        resolution: as for `Times`.
        event: the column with the names of events: lists of texts, or texts in which
            `event_separator` separates the names.
        key: one or more columns; rows with equal values in these columns form a separate stream.
        partitions: instead of `key`, the key columns of each of several partitions into streams; no
            columns stand for a single stream.
        null_values: for CSV and patterns, the texts that mean null in cells without quotes.
        delimiter: the character between the cells of CSV.
        quote: the character around quoted cells of CSV and TSV; or "none", if quotes are characters
            as others are; or "lines", if a quote that does not end its cell on the line is a
            character, as in TSV, where this is the default. In CSV, quoted cells may span lines.
        decimal: for CSV, TSV and patterns, the decimal separator of numbers: a point or a comma. It
            does not concern the time column.
        on_error: what to do with rows that have no time or key, or whose cells cannot be read:
            "stop" raises an error after the events before them, "skip" counts them.
        sort: whether to sort the rows by time first, keeping the order of rows with equal times.
        sort_memory: how many bytes of memory sorting may use, approximately; the rest goes to
            temporary files. The default is 256 MiB, or a quarter of `memory` if that is less.
        wait: how late a row may be, as a number of time units or a length of time such as "5s":
            rows are put into the order of time if none is more than that below the largest
            time-stamp so far. Those that come later are refused, and counted as
            `TableEvents.refused`.
        late: gets the rows that are refused, as text: lines as the files have them, with the header
            of CSV, and rows of other formats as JSON lines with the columns that are read. Without
            `wait`, all rows below the largest time-stamp so far are refused.
        in_any_order: whether batches have the rows as they come, although their times may decrease.
            The caller refuses those that come too late, by `TableEvents.refuse`, and computes atoms
            that depend on other rows, by `TableEvents.streams` of `EventBatch.inputs`. Not together
            with `sort` and `wait`.
        operation: with `in_any_order`, the column that says what rows do, as for `History.push`;
            null means "insert".
        id: with `in_any_order`, the column of the ids of events, integers or texts.
        complete: with `operation`, the columns of rows with the operation "complete": a time, and
            how many events there are from it on that are below the row's time. None instead of the
            first one stands for the beginning, and so does null.
        new_end: with `operation` and `id`, the column with the ends of records, the one with the
            ends that retractions give them, and how far rows may be below the largest time-stamp so
            far, written like `wait`. These retractions become rows with other ends, in place of
            those with their ids.
        clock: with `in_any_order`, whether time passes for "all" keys, or for each "key".
        counting: with `wait`, for each usable row as it comes, whether it counts; those behind
            these do not. `operation`, `id` and `clock` are those of the log then.
        given_relations: with `policies`, what was read of their relations before; by default, their
            tables are read here.
        memory: the memory limit of the run, which also counts the memory for keys and sorting.
        option_names: how messages write the options that they recommend.

    Raises:
        MtlmonError: the arguments are contradictory or unknown.
        OSError: a file cannot be opened.

    Iterating raises:
        TableError: a file is not in its format, a column is missing or has the wrong type, or a row
            is not usable.
        PolicyError: a predicate does not fit the types of its columns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     with open(f"{directory}/log.csv", "w") as file:
    ...         _ = file.write("ts,user,what\\n1,ann,login\\n2,bob,login|admin\\n9,ann,logout\\n")
    ...     atoms = ("login", "logout")
    ...     tables = open_tables(f"{directory}/log.csv", atoms, event="what", key="user")
    ...     for batch in tables:
    ...         print(batch.time_stamps.tolist(), batch.numbers.tolist())
    [1, 2, 9] [0, 1, 0]
    >>> [tables.keys.key(number) for number in range(len(tables.keys))]
    [('ann',), ('bob',)]
    """
    if on_error not in ("stop", "skip"):
        raise MtlmonError(f"on_error must be 'stop' or 'skip', not {on_error!r}")
    if not event_separator:
        raise MtlmonError("the separator of event names is empty: it needs at least one character")
    has_corrections = in_any_order or counting is not None
    has_ticks = any(period for some in atoms_of_partitions or () for period in some)
    has_shown = any(names for some in shown or () for names in some.values())
    has_computed = any(names for some in computed or () for names in some.values())
    _require_obeyed(
        option_names,
        {
            "sort": {"sort_memory": not sort and sort_memory is not None},
            "event": {"event_separator": event is None and event_separator != "|"},
            "in_any_order": {
                "operation": not has_corrections and operation is not None,
                "id": not has_corrections and id is not None,
                "complete": not has_corrections and complete is not None,
                "new_end": not has_corrections and new_end is not None,
                "clock": not has_corrections and clock != "all",
                "computed": not in_any_order and has_computed,
            },
            "wait": {"counting": wait is None and counting is not None},
            "policies": {
                "atoms_of_partitions": policies is None and has_ticks,
                "streams": policies is None and bool(streams),
                "shown": policies is None and has_shown,
                "computed": policies is None and has_computed,
                "given_relations": policies is None and given_relations is not None,
            },
        },
    )
    if policies is not None and predicates is not None:
        raise MtlmonError("policies= defines all atoms, so predicates= would have no effect")
    if partitions is not None and key:
        raise MtlmonError("partitions= has all keys, so key= would have no effect")
    if time_zone is None and policies is not None:
        time_zone = policies.time_zone
    of_tables = {
        "time_unit": time_unit,
        "time_format": time_format,
        "time_zone": time_zone,
        "resolution": resolution,
        "option_names": option_names,
    }
    lines = None
    if pattern is not None:
        if format not in (None, LINES):
            raise MtlmonError(
                f"a pattern is for lines of text, not for {format}: leave one of them out"
            )
        lines, format = line_pattern(pattern), LINES
        time = time or lines.time
        time_format = time_format or lines.time_format
        time_unit = time_unit or lines.time_unit
    if not (time is None or isinstance(time, str)):
        time = ",".join(time)
    sources = table_sources(tables, format, option_names)
    formats = {one.format if isinstance(one, TableFile) else None for one in sources}
    if time is None and formats == {"xes"}:
        from mtlmon.tables.formats.xes import TIME

        time = TIME
    dialect = Dialect(null_values, delimiter, quote, decimal)
    dialect.check()
    dialect.check_decimal(formats, option_names.written("decimal", decimal))
    if delimiter != "," and "csv" not in formats:
        option = option_names.written("delimiter", delimiter)
        raise MtlmonError(f"{option} is for CSV, and no log is CSV")
    if quote != QUOTE and not formats & {*FORMATS_WITH_DELIMITERS}:
        option = option_names.written("quote", quote)
        raise MtlmonError(f"{option} is for CSV and TSV, and no log is one of them")
    if tuple(null_values) != ("",) and not formats & {"csv", "tsv", LINES}:
        option = option_names.written("null_values")
        raise MtlmonError(f"{option} is for cells of CSV and of patterns, and no log has these")
    atoms = list(atoms)
    if partitions is None:
        partitions = [(key,) if isinstance(key, str) else key]
    key_columns = [tuple(columns) for columns in partitions]
    for columns in key_columns:
        for name in columns:
            if columns.count(name) > 1:
                raise MtlmonError(f"the key column {name!r} is given twice: name each column once")
    keys = list(dict.fromkeys(name for columns in key_columns for name in columns))
    predicates = dict(predicates or {})
    used = list(
        typed_columns(*(predicates[name].expression for name in atoms if name in predicates))
    )
    defined = set(predicates)
    needs = None
    if policies is not None:
        at_ticks = [
            name
            for some in atoms_of_partitions or ()
            for period, names in some.items()
            for name in names
            if period
        ]
        every_shown = [
            name
            for some in (*(shown or ()), *(computed or ()))
            for names in some.values()
            for name in names
        ]
        needs = needs_of(policies, [*atoms, *at_ticks], [*streams, *every_shown])
        used = list(needs.typed_columns)
        defined = set(policies.atoms)
        atoms += [name for name in needs.log_atoms if name not in atoms]
        predicates = {
            name: policies.atoms[name]
            for name in atoms
            if name in defined and name not in needs.remembering
        }
    of_log = [name for name in atoms if name not in defined]
    disorder = ANY_ORDER if sort or has_corrections else 0
    if wait is not None and not has_corrections:
        unit = UNITS[resolution or time_unit or "s"]
        length = _length_of_time(wait)
        disorder = (length * unit if isinstance(length, int) else length.nanoseconds) // UNITS["s"]
    times = Times(time_unit, time_format, resolution, time_zone, min(disorder, ANY_ORDER))
    zone = None if policies is None else policies.zone
    environment = environment_of(Selection(time, None, (), (), ()), times, zone)
    relations: dict[str, LogRelation] = {}
    changes = {
        (when, key)
        for some, key in zip(atoms_of_partitions or (), key_columns, strict=False)
        for when in some
        if isinstance(when, Changes)
    }
    if policies is not None and needs is not None and (needs.relations or changes):
        # imported here, as they open tables themselves
        from mtlmon.tables.looking_up import columns_of_log, looked_up_relations, watch

        looked_up = looked_up_relations(
            policies,
            needs.relations,
            environment,
            {**of_tables, **dialect._asdict()},
            lambda: columns_of_log(sources[0], pattern, dialect) if sources else None,
            {when.relation for when, _ in changes},
            can_revise=in_any_order,
            given=given_relations,
            memory=memory,
        )
        watch(policies, looked_up, changes)
        used += looked_up.columns
        relations |= looked_up.of_rows
        environment = environment._replace(relations=looked_up.by_name)
    booleans = () if event is not None else of_log
    hints = None if policies is None else meant_equivalences(policies)
    moves = None
    corrections = CorrectionColumns(
        operation,
        id,
        clock,
        complete,
        None if new_end is None else new_end[1],
        times=times,
        options=option_names,
    )
    if new_end is not None:
        from mtlmon.tables.end_chains import MovedEnds

        _require_obeyed(
            option_names,
            {
                "operation": {"new_end": operation is None},
                "id": {"new_end": id is None},
            },
        )
        end, new, lateness = new_end
        used += end, new
        late_units = partial(units_of, _length_of_time(lateness), "lateness", times, option_names)
        moves = MovedEnds(end, new, corrections, late_units)
    selection = Selection(
        time,
        event,
        keys,
        booleans,
        used,
        option_names,
        hints,
        corrections.columns,
        None if policies is None else policies.column_types,
    )
    stream_atoms = values_of_rows = None
    if in_any_order and has_shown and policies is not None and needs is not None:
        # whoever puts rows in order computes what depends on others
        nothing: list[dict[When, list[str]]] = [{} for _ in shown or ()]
        from mtlmon.streams.atoms import StreamAtoms

        values_of_rows = StreamAtoms(policies, nothing, needs.log_atoms, environment, shown=shown)
        shown, has_shown = None, False
    if in_any_order and has_computed:
        shown, has_shown = computed, True
    if policies is not None and needs and (needs.remembering or streams or has_ticks or has_shown):
        # PERF: streams take 10 ms to import
        from mtlmon.streams.atoms import StreamAtoms

        wanted = [
            {
                period: [name for name in names if period or name in needs.remembering]
                for period, names in some.items()
            }
            for some in atoms_of_partitions or [{0: atoms}] * len(partitions)
        ]
        stream_atoms = StreamAtoms(policies, wanted, needs.log_atoms, environment, streams, shown)
    order: RowOrder | Arrivals | None = None
    if in_any_order:
        if sort or wait is not None:
            raise MtlmonError("rows that come in any order are not sorted")
        order = Arrivals(late, corrections if corrections.columns else None, _revised(relations))
    elif wait is not None or late is not None:
        if sort:
            raise MtlmonError(
                "rows that are sorted do not wait for late ones: leave one of them out"
            )
        order = RowOrder(
            _length_of_time(0 if wait is None else wait),
            late,
            times,
            option_names,
            len(atoms),
            columns=keys if stream_atoms is None else None,
            most_rows=None if stream_atoms is None else LARGEST_BATCH,
            memory=MemoryLimit() if memory is None else memory,
            need_no_key=corrections.need_no_key if corrections.columns else None,
            counting=counting,
        )
    events = TableEvents(
        sources,
        atoms,
        predicates,
        selection,
        times,
        event_separator,
        dialect,
        on_error,
        (sort_memory or _sort_memory(memory)) if sort else None,
        memory,
        key_columns,
        environment,
        stream_atoms,
        () if event is None else of_log,
        lines,
        None if policies is None else partial(with_times, policies, environment),
        order,
        _holding(relations, stream_atoms),
        moves,
    )
    events.values_of_rows = values_of_rows
    compared = list(keys)
    if policies is not None:
        compared += compared_columns(policies, *expressions_of(policies))
        if policies.intervals:
            from mtlmon.policy.validity.compared import columns_of_relations_compared

            compared += sorted(columns_of_relations_compared(policies))
    events.writings = Writings(
        [
            name
            for name in dict.fromkeys(compared)
            if name not in selection.time_columns and name not in selection.declared
        ]
    )
    return events


def _require_obeyed(names: OptionNames, ignored: Mapping[str, Mapping[str, bool]]) -> None:
    """Raise MtlmonError if an option needs another one.

    Args:
        names: how the caller writes options.
        ignored: by the name of the option that is needed, which are given without it.
    """
    for needed, options in ignored.items():
        for name, is_ignored in options.items():
            if is_ignored:
                other = names.written(needed) or f"{needed}="
                raise MtlmonError(f"{names.written(name) or name} needs {other}")


def _holding(
    relations: Mapping[str, LogRelation], streams: StreamAtoms | None
) -> RowRelations | None:
    """Return what holds rows back until relations are known, if there are relations of rows."""
    if not relations:
        # PERF: what relations need takes 15 ms to import
        return None
    from mtlmon.relations.of_rows import RowRelation
    from mtlmon.tables.row_relations import RowRelations

    of_rows = [one for one in relations.values() if isinstance(one, RowRelation)]
    return RowRelations(of_rows, lambda: streams.ticks_end) if of_rows and streams else None


def _revised(relations: Mapping[str, LogRelation]) -> RevisedRelations | None:
    """Return the relations of rows that come in any order, if there are any."""
    from mtlmon.relations.revised import RevisedRelation, RevisedRelations

    found = {name: one for name, one in relations.items() if isinstance(one, RevisedRelation)}
    return RevisedRelations(found) if found else None


def _length_of_time(wait: int | str | Duration) -> int | Duration:
    """Return how late a row may be.

    Raises:
        MtlmonError: it is not a length of time.
    """
    length = Duration.parse(wait) if isinstance(wait, str) else wait
    if length is None or (isinstance(length, int) and length < 0):
        raise MtlmonError(
            f"wait={wait!r} is neither a number of time units from 0 on nor a length of time, "
            "as in wait='5s'"
        )
    return length


def _sort_memory(memory: MemoryLimit | None) -> int:
    """Return how many bytes sorting may use by default."""
    if memory is None or memory.limit is None:
        return DEFAULT_MEMORY
    return min(DEFAULT_MEMORY, memory.limit // 4)
