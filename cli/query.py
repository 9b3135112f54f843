"""The subcommand `mtlmon query`: writes the records of a relation that a policy file declares."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Literal

from mtlmon.cli.option_groups import (
    add_cell_options,
    add_csv_option,
    add_error_option,
    add_memory_option,
    add_pattern_option,
    add_time_options,
    add_unit_options,
)
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.cli.terminal import note
from mtlmon.run.files import open_verdicts, texts_of
from mtlmon.run.option_rules import check_csv_safe
from mtlmon.run.spec import Output
from mtlmon.run.table_output import table_output
from mtlmon.support.option_names import COMMAND
from mtlmon.support.standard_input import STANDARD_STREAM
from mtlmon.support.table_formats import FORMAT_NAMES
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

__all__ = ["query"]

USAGE = """\
mtlmon query [options] FILE RELATION [TABLE...]"""

DESCRIPTION = """\
Write the records of a relation: the time-stamps from which and up to which each is valid, then its
columns. Without an end, a record is valid for ever.

  FILE      the policy file that declares the relation; - for standard input
  RELATION  the name of the relation
  TABLE     the log, if the relation reads its rows: CSV, JSON lines, Parquet, Arrow; files,
            patterns, directories. Tables that FILE names are looked for in its folder
"""

EPILOG = """\
examples:
  mtlmon query traffic.mtl congested sensors.csv
  mtlmon query --output-format csv -o open.csv jobs.mtl open 'logs/*.csv.gz'
  mtlmon query --output-format parquet -o limits.parquet roads.mtl limits

exit status: 0 no error, 2 an error in usage, relations, tables or writing
"""


class Options(argparse.Namespace):
    """The options of the command line."""

    files: list[str]
    relation: str
    tables: list[str]
    unit: str | None
    settings: list[tuple[str, str]]
    output: str | None
    output_format: Literal["jsonl", "csv", "parquet"]
    csv_safe: bool
    format: str | None
    pattern: str | None
    null_values: list[str]
    delimiter: str
    quote: str
    decimal: str
    time: str | None
    time_unit: str | None
    time_format: str | None
    time_zone: str | None
    resolution: str | None
    on_error: str
    sort: bool
    max_memory: int | None


def query(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read or written.
        ClosedPipe: the reader of the records has closed the pipe.
        MtlmonError: the relation is invalid, or a table cannot be read.
        SystemExit: after -h and --help.
    """
    options = parse_arguments(arguments)
    from mtlmon.policy import check_files
    from mtlmon.relations.declared import declared_tables
    from mtlmon.run.policies import take_signals_from_arrow
    from mtlmon.run.policy_work import unreadable
    from mtlmon.tables.formats.files import table_files
    from mtlmon.tables.querying import ReadNotes, evaluated, path_of, require_relation

    texts = texts_of(options.files)
    declared, constants = options.unit or options.resolution, dict(options.settings)
    for unit in (declared or LATER, options.time_unit):
        file, errors = check_files(texts, unit=unit, constants=constants, needs_policy=False)
        if errors:
            raise errors[0]
        if file.unit != LATER:
            break
    require_relation(file, options.relation)
    take_signals_from_arrow()
    notes = ReadNotes()
    try:
        found = evaluated(
            file,
            options.relation,
            options.tables,
            format=options.format,
            pattern=None if options.format else options.pattern or file.pattern,
            time=options.time or file.time,
            time_unit=options.time_unit,
            time_format=options.time_format,
            time_zone=options.time_zone or file.time_zone,
            resolution=options.resolution or file.unit,
            null_values=options.null_values,
            delimiter=options.delimiter,
            quote=options.quote,
            decimal=options.decimal,
            on_error=options.on_error,
            sort=options.sort,
            max_memory=options.max_memory,
            option_names=COMMAND,
            notes=notes,
        )
        format = "lines" if options.pattern or file.pattern else options.format
        logs = [one.path for one in table_files(options.tables, format)] if options.tables else []
        read = [*logs, *(path_of(file, one) for one in declared_tables(file, options.relation))]
        known = {one: os.stat(one) for one in read}
    except OSError as error:
        raise unreadable(error) from None
    write(found, known, options)
    for sentence in notes.sentences:
        note(visible(sentence))
    return 0


class RecordTable:
    """Hands the records of a relation on as batches.

    Args:
        records: the records.
    """

    def __init__(self, records: pa.Table) -> None:
        self.schema = records.schema

    def batches(self, records: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return the records as batches."""
        yield from records.to_batches()


def write(records: pa.Table, read: Mapping[str, os.stat_result], options: Options) -> None:
    """Write the records in the format that the options name.

    Args:
        records: the records.
        read: the status of the tables that have been read, by name.
        options: the options.

    Raises:
        RunError: the file cannot be written, or the output is binary and would go to a terminal.
    """
    output = table_output(RecordTable(records), output_of(options))
    target = open_verdicts(options.output, read, options.files)
    output.put(records)
    output.close()
    target.flush(output.writer)
    target.close()


def output_of(options: Options) -> Output:
    """Return where the records go."""
    return Output(path=options.output, format=options.output_format, csv_safe=options.csv_safe)


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(prog="mtlmon query", usage=USAGE, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the records to FILE")
    parser.add_argument(
        "--output-format",
        choices=("jsonl", "csv", "parquet"),
        default="jsonl",
        help="the format of the records (default: jsonl)",
    )
    add_csv_option(parser)
    parser.add_argument(
        "--format",
        choices=FORMAT_NAMES,
        help="the format of the log (default: from the name, as in log.csv.gz)",
    )
    add_pattern_option(parser)
    add_cell_options(parser)
    add_time_options(parser)
    add_unit_options(parser)
    parser.add_argument("--sort", action="store_true", help="sort rows by time first")
    add_error_option(parser)
    add_memory_option(parser, "rows and records")
    add_help_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Parse the arguments."""
    parser = make_parser()
    options = parser.read(arguments, Options())
    check_csv_safe(parser.error, output_of(options))
    if not options.files:
        parser.error("no policy file: name one")
    if len(options.files) < 2:
        parser.error("no relation: name one after the policy file")
    file, options.relation, *options.tables = options.files
    options.files = [file]
    if STANDARD_STREAM in options.tables:
        parser.error("the log must be a file, not standard input")
    return options
