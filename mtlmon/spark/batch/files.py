"""Monitors files as traces; the executors read them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.spark.batch.text_traces import TextTrace
from mtlmon.spark.common.facts import with_facts
from mtlmon.spark.common.frames import in_partitions
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.common.trace_monitors import EndTime, TraceMonitors, monitors_of, tick_limit
from mtlmon.spark.common.verdicts import verdict_batches, verdict_schema
from mtlmon.spark.session import cores_of
from mtlmon.support.file_patterns import files_of
from mtlmon.support.table_formats import FORMAT_NAMES, table_format
from mtlmon.tables.formats.dialect import QUOTE
from mtlmon.tables.formats.files import ByteStream, TableFile
from mtlmon.tables.formats.line_patterns import line_pattern
from mtlmon.tables.opening import open_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from mtlmon.checking.time_points import PointBatch
    from mtlmon.spark.common.policies import Mode, Policies, PolicyLike

FILE = "file"
"""The column with the path of the file."""

LOG = "text"
"""The format of text logs: `@TS atom atom ...`."""

_NO_STARTS = np.array([], np.uint32)
_BLOCK_BYTES = 1 << 20
# The bytes that a task reads, and what opening a file costs in bytes; the same as in Spark.
_TASK_BYTES = 128 << 20
_OPENING_BYTES = 4 << 20
_TASKS_PER_CORE = 4
# used if the number of cores is not known
_MANY_CORES = 64


class FileTraces:
    """Monitors the files with given paths; picklable, a function for `mapInArrow`.

    Args:
        policies: the policies to monitor.
        resolve: as for `monitor_files`.
        end_time: as for `monitor_files`.
        format: the format of all files, or None if their names tell it.
        options: options for `mtlmon.tables.open_tables`.
    """

    def __init__(
        self,
        policies: Policies,
        resolve: bool,
        end_time: EndTime,
        format: str | None,
        options: dict[str, str | None],
    ) -> None:
        self._policies = policies
        self._resolve = resolve
        self._end_time = end_time
        self._format = format
        self._options = options
        file = policies.file
        self._pattern = options["pattern"] or (None if file is None else file.pattern)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the verdicts of files, with the columns of `verdict_schema`.

        Raises:
            LogError, TableError: a line or row of a file is not an event.
            OSError: a file cannot be read.
        """
        monitors = TraceMonitors(self._policies, self._resolve, self._end_time)
        has_messages = self._policies.has_messages
        for batch in batches:
            for path in batch.column(0).to_pylist():
                keys = {FILE: pa.array([path])}
                clock = 0
                is_log = self._pattern is None and self._format_of(path) == LOG
                read = self._log if is_log else self._table
                for part in read(path):
                    if len(part.time_stamps):
                        clock = int(part.time_stamps[-1])
                    for found in monitors.feed(part, _NO_STARTS):
                        yield from verdict_batches(found, keys, has_messages=has_messages)
                for found in monitors.finish(clock):
                    yield from verdict_batches(found, keys, has_messages=has_messages)

    def _format_of(self, path: str) -> str:
        if self._format is not None:
            return self._format
        emitted = table_format(path)
        return LOG if emitted is None else emitted[0]

    def _log(self, path: str) -> Iterator[PointBatch]:
        """Yield the events and ticks of a text log."""
        trace = TextTrace(self._policies, path)
        room = np.empty(_BLOCK_BYTES, np.uint8)
        with ByteStream(TableFile(path, path, LOG)) as stream:
            while count := stream.read_into(room):
                yield from trace.load(room.data[:count])
        yield from trace.end(self._end_time)

    def _table(self, path: str) -> Iterator[PointBatch]:
        """Yield the events and ticks of a table."""
        policies = self._policies
        time = self._options["time"] or (None if policies.file is None else policies.file.time)
        # a pattern can have a time column of its own
        if self._pattern is None:
            time = policies.time_column(time)
        options = {
            **self._options,
            "resolution": self._options["resolution"] or policies.unit,
            "time": time,
            "event": policies.event_column(self._options["event"]),
            "pattern": self._pattern,
        }
        wanted = {**policies.wanted, ROWS: policies.atoms}
        with open_tables(
            path,
            policies.atoms,
            policies=policies.file,
            atoms_of_partitions=[wanted],
            shown=[policies.shown],
            format=self._format,
            given_relations=policies.given,
            # checked when the plan was built; the values of a dictionary have a single type
            **options,  # type: ignore[arg-type]
        ) as tables:
            yield from tables
            if policies.has_ticks and tables.clock is not None:
                yield from tables.ticks_until(tick_limit(tables.clock, self._end_time))
            if policies.has_waiting and self._end_time == "inf":
                yield from tables.released()


def monitor_files(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    policy: PolicyLike,
    *,
    format: str | None = None,
    mode: Mode = "local",
    resolve: bool = True,
    end_time: EndTime = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Monitor every file as a trace of its own; the executors read the files natively.

    Args:
        spark: the session.
        paths: files, or patterns of names such as `logs/*.log`. Executors open the same paths.
        policy: as for `monitor`.
        format: "text" for text logs, or a format of `mtlmon.tables.open_tables`. By default the
            name of a file tells, and files without the extension of a table are text logs. Both
            can be compressed.
        mode: as for `monitor`.
        resolve: as for `monitor`.
        end_time: what is known about the time after a file's last event, as for
            `monitor_partitions`.
        options: how to read tables: the options `time`, `time_unit`, `time_format`, `time_zone`,
            `resolution`, `event`, `event_separator`, `delimiter`, `quote`, `decimal` and `pattern`
            of `mtlmon.tables.open_tables`. With a pattern, here or in the policy file, all files
            are lines of text; those that do not match it are no rows.

    Returns:
        A row for each verdict, as for `monitor`, with the path in the column `file`.

    Raises:
        FormulaError, PolicyError: the policy is invalid.
        MtlmonError: an argument is invalid, or a pattern matches nothing.
        OSError: a file does not exist.
    """
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    if format not in (None, LOG, *FORMAT_NAMES):
        known = ", ".join([LOG, *FORMAT_NAMES])
        raise MtlmonError(f"no format of files is called {format!r}; there are {known}")
    given = _table_options(options)
    policies = compile_policies(
        policy,
        mode,
        given["resolution"],
        given["time_unit"],
        has_lines=True,
        looks_up=True,
        has_changes=True,
        files=given,
    )
    pattern = given["pattern"] or (None if policies.file is None else policies.file.pattern)
    if pattern is not None:
        line_pattern(pattern)
        if format not in (None, LOG):
            raise MtlmonError(
                f"a pattern is for lines of text, not for {format}: leave one of them out"
            )
        format = None
    # find an invalid end time here rather than on executors
    monitors_of(policies, resolve, end_time)
    found = _files(paths)
    file = StructField(FILE, StringType(), False)
    task = StructField("task", IntegerType(), False)
    shares = _shares([os.stat(path).st_size for path in found], cores_of(spark) or _MANY_CORES)
    rows = spark.createDataFrame(list(zip(found, shares, strict=True)), StructType([file, task]))
    placed = in_partitions(rows, max(shares) + 1, "task").select(FILE)
    function = FileTraces(policies, resolve, end_time, format, given)
    schema = verdict_schema([file], has_messages=policies.has_messages)
    return with_facts(placed.mapInArrow(function, schema), policies.file)


def _shares(sizes: Sequence[int], cores: int) -> list[int]:
    """The number of the task that reads each file; small files share a task, large ones go first.

    Spark does the same with files that it reads itself. But here, each core gets a few tasks if
    possible, because the time that a file takes is not known in advance.
    """
    weights = [size + _OPENING_BYTES for size in sizes]
    room = min(_TASK_BYTES, sum(weights) / (_TASKS_PER_CORE * cores))
    shares = [0] * len(weights)
    task, taken = 0, 0
    for number in sorted(range(len(weights)), key=weights.__getitem__, reverse=True):
        if taken and taken + weights[number] > room:
            task, taken = task + 1, 0
        shares[number] = task
        taken += weights[number]
    return shares


def _files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files that match paths and patterns, each once, as absolute paths."""
    found: list[str] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        text = os.path.abspath(os.fspath(path))
        if os.path.isdir(text):
            raise MtlmonError(f"{text} is a directory; {text}/* stands for the files in it")
        found += files_of(text)
    if not found:
        raise MtlmonError("there is no file to monitor")
    return list(dict.fromkeys(found))


_CELLS = {"event_separator": "|", "delimiter": ",", "quote": QUOTE, "decimal": "."}
_OPTIONS = (
    "time",
    "time_unit",
    "time_format",
    "time_zone",
    "resolution",
    "event",
    *_CELLS,
    "pattern",
)


def _table_options(options: Mapping[str, str] | None) -> dict[str, str | None]:
    """The options of tables; except for those of cells, they are None by default."""
    given = dict(options or {})
    for name in given:
        if name not in _OPTIONS:
            raise MtlmonError(f"no option is called {name!r}; there are {', '.join(_OPTIONS)}")
    defaults: dict[str, str | None] = {**dict.fromkeys(_OPTIONS), **_CELLS}
    return {**defaults, **given}
