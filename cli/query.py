"""The subcommand `mtlmon query`: writes the records of a relation that a policy file declares."""

from __future__ import annotations

import argparse
import re

from mtlmon.cli.arguments import Arguments, spec_of
from mtlmon.cli.option_groups import (
    add_cell_options,
    add_checkpoint_options,
    add_correction_options,
    add_csv_option,
    add_error_option,
    add_follow_option,
    add_idle_option,
    add_late_options,
    add_lateness_options,
    add_memory_option,
    add_pattern_option,
    add_summary_option,
    add_time_options,
    add_unit_options,
)
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.run.option_rules import consistent_query
from mtlmon.run.option_values import end_time
from mtlmon.run.running import finished
from mtlmon.support.file_patterns import exists
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.table_formats import FORMAT_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.run.spec import RunSpec

__all__ = ["query"]

_INPUT = re.compile(r"([^\W\d]\w*)=(.+)")

USAGE = """\
mtlmon query [options] FILE RELATION [TABLE...] [NAME=TABLE...]"""

DESCRIPTION = """\
Write the records of a relation: the time-stamps from which and up to which each is valid, then its
columns. Without an end, a record is valid for ever.

  FILE      the policy file that declares the relation; - for standard input
  RELATION  the name of the relation
  TABLE     the log, if the relation reads its rows: CSV, JSON lines, Parquet, Arrow; files,
            patterns, directories; - for standard input, whose records come as they become final.
            Tables that FILE names are looked for in its folder
  NAME=TABLE  another table, which relations of FILE read as rows of NAME
"""

EPILOG = """\
examples:
  mtlmon query traffic.mtl congested sensors.csv
  mtlmon query --output-format csv -o open.csv jobs.mtl open 'logs/*.csv.gz'
  mtlmon query shop.mtl unpaid orders=orders.csv payments=payments.jsonl
  mtlmon query --output-format parquet -o limits.parquet roads.mtl limits
  kafka-console-consumer ... | mtlmon query --lateness 5m --format jsonl traffic.mtl congested -

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

    if options.log.follow is not None:
        from mtlmon.cli.signals import Signals
        from mtlmon.run.followed_file import following

        options, follower = following(options)
        Signals.end_log = staticmethod(follower.end)
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
    add_follow_option(parser)
    parser.add_argument("--sort", action="store_true", help="sort rows by time first")
    add_late_options(parser)
    add_lateness_options(parser, "tell records at once, and how they are revised", "records")
    add_correction_options(parser)
    add_idle_option(parser)
    parser.add_argument(
        "--end-time",
        type=end_time,
        metavar="{TS,last,inf}",
        help="up to when the log is known, including time-stamp TS or its last one: write what is "
        "valid up to there, and cut records that go on; with inf, the default, no row follows",
    )
    add_checkpoint_options(parser)
    add_summary_option(parser)
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
    inputs: dict[str, str] = {}
    logs: list[str] = []
    for table in names[2:]:
        found = _INPUT.fullmatch(table)
        if found is None or exists(table):
            logs.append(table)
        elif found[1] in inputs:
            parser.error(f"two tables are called {found[1]}: name one, or a pattern of files")
        else:
            inputs[found[1]] = found[2]
    options = spec_of(
        given, constants=dict(given.settings), formula_files=names[:1], logs=logs, inputs=inputs
    )
    if not names:
        parser.error("no policy file: name one")
    if len(names) < 2:
        parser.error("no relation: name one after the policy file")
    if STANDARD_STREAM in options.policies.files and STANDARD_STREAM in options.log.paths:
        parser.error("policies and log cannot both come from standard input")
    if options.log.follow is not None and options.log.paths:
        parser.error(f"--follow names the log: leave out {' '.join(options.log.paths)}")
    return names[1], consistent_query(parser.error, options)
