"""The subcommand `mtlmon query`: writes the records of a relation that a policy file declares."""

from __future__ import annotations

import argparse

from mtlmon.cli.arguments import Arguments, spec_of
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
from mtlmon.run.option_rules import check_csv_safe
from mtlmon.run.running import finished
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.table_formats import FORMAT_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.run.spec import RunSpec

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


def query(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read or written.
        ClosedPipe: the reader of the records has closed the pipe.
        MtlmonError: the relation is invalid, or a table cannot be read.
        SystemExit: after -h and --help.
    """
    relation, options = parse_arguments(arguments)
    from mtlmon.run.queries import declaring, records_of, settled_for_rows

    file = declaring(None, options)
    return finished(records_of(file, relation, settled_for_rows(file, options)))


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(prog="mtlmon query", usage=USAGE, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the records to FILE")
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
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say on standard error how the relation is evaluated: the steps as declared, those "
        "that are evaluated, and the rules in between",
    )
    add_error_option(parser)
    add_memory_option(parser, "rows and records")
    add_help_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> tuple[str, RunSpec]:
    """Parse the arguments; return the name of the relation, and the options."""
    parser = make_parser()
    given = parser.read(arguments, Arguments())
    names = given.files
    options = spec_of(
        given, constants=dict(given.settings), formula_files=names[:1], logs=names[2:]
    )
    check_csv_safe(parser.error, options.output)
    if not names:
        parser.error("no policy file: name one")
    if len(names) < 2:
        parser.error("no relation: name one after the policy file")
    if STANDARD_STREAM in options.log.paths:
        parser.error("the log must be a file, not standard input")
    return names[1], options
