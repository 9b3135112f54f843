"""The subcommand `mtlmon latest`: collapses a changelog into the latest verdicts."""

from __future__ import annotations

import argparse

from mtlmon.changelog.loops import LatestVerdicts
from mtlmon.cli.option_groups import add_memory_option
from mtlmon.cli.parser import Parser
from mtlmon.cli.resolving import add_output_options, note_open, sole_file
from mtlmon.cli.signals import Signals
from mtlmon.cli.terminal import TERMINAL, note
from mtlmon.engine.native import MemoryLimit
from mtlmon.run.files import open_log, open_verdicts
from mtlmon.run.host import Progress
from mtlmon.run.option_values import time_stamp
from mtlmon.run.pump import Pump, TextWork
from mtlmon.run.report import plural, resolving_summary, table
from mtlmon.run.running import finished, run_to_end
from mtlmon.support.option_names import COMMAND
from mtlmon.support.table_formats import table_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from mtlmon.run.files import LogFile, VerdictFile

__all__ = ["latest"]

USAGE = "mtlmon latest [options] [CHANGELOG]"

DESCRIPTION = """\
Collapse a changelog of late or corrected events into the latest verdict of each time-point, in
order of time.

  CHANGELOG  lines of verdicts and changes; - or nothing for standard input. '!5:0 true' changes
             the verdict of 5:0, '!5:0' opens it again, '!x5:1' takes the time-point back, and
             '!@17' says that verdicts below time-stamp 17 are final: these are written at once, and
             forgotten. Lines can have fields before the time-point, each followed by a tab.
             Or revisions of records in JSON lines or CSV, as mtlmon query --lateness writes them:
             these give the records in the order of their ends
"""

EPILOG = """\
examples:
  mtlmon latest yesterday.changes
  tail -n +1 -f live.changes | mtlmon latest --final --resolve
  mtlmon --lateness 5m --arrival rules.mtl events.csv | mtlmon latest --as-of 1700000000
  mtlmon query --lateness 5m rules.mtl sessions events.csv | mtlmon latest --format jsonl

exit status: 0 no violation, 1 a violation, 2 an error in usage, changelog or writing
"""


class Options(argparse.Namespace):
    """The options of the command line."""

    changelog: str
    format: Literal["text", "jsonl", "csv"] | None
    final: bool
    as_of: int | None
    resolve: bool
    verdicts: Literal["all", "false", "none"]
    max_memory: int | None
    output: str | None
    summary: bool | None


def latest(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read or written.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        LogError: a line is invalid, or cannot come after those before it.
        MemoryLimitError: the command needs more memory than --max-memory allows.
        SystemExit: after -h and --help.
    """
    options = parse_arguments(arguments)
    source = open_log(options.changelog)
    target = open_verdicts(options.output, {source.name: source.status}, "")
    format = format_of(options)
    if format != "text":
        return latest_records(options, format, source, target)
    loop = LatestVerdicts(
        path=source.name,
        verdicts=options.verdicts,
        resolve=options.resolve,
        only_final=options.final,
        memory=MemoryLimit(options.max_memory, COMMAND),
        as_of=options.as_of,
    )
    return finished(
        run_to_end(
            Pump(TextWork(loop, source), target, Signals(target), Progress(0)),
            host=TERMINAL,
            has_violation=lambda: loop.false_count > 0,
            report=lambda _, __: report_end(loop),
            summary=lambda seconds: resolving_summary(loop, seconds),
            wants_summary=options.summary,
        )
    )


def format_of(options: Options) -> Literal["text", "jsonl", "csv"]:
    """Return the format of the changelog: that of its name, if none is given."""
    if options.format is not None:
        return options.format
    format, _ = table_format(options.changelog) or ("text", None)
    return "jsonl" if format == "jsonl" else "csv" if format == "csv" else "text"


def latest_records(
    options: Options, format: Literal["jsonl", "csv"], source: LogFile, target: VerdictFile
) -> int:
    """Collapse revisions of records; return the exit status."""
    from mtlmon.changelog.records import LatestRecords

    loop = LatestRecords(
        path=source.name,
        format=format,
        only_final=options.final,
        as_of=options.as_of,
        memory=MemoryLimit(options.max_memory, COMMAND),
    )

    def report(_status: int, _seconds: float) -> None:
        if loop.left_out:
            note(f"{plural(loop.left_out, 'record')} left out (--final): not final yet")

    return finished(
        run_to_end(
            Pump(TextWork(loop, source), target, Signals(target), Progress(0)),
            host=TERMINAL,
            has_violation=lambda: False,
            report=report,
            summary=lambda seconds: table(
                [("revisions", loop.event_count, "")], loop.event_count, "revisions", seconds
            ),
            wants_summary=options.summary,
        )
    )


def report_end(loop: LatestVerdicts) -> None:
    """Tell what the verdicts alone do not show."""
    if loop.left_out:
        note(f"{plural(loop.left_out, 'verdict')} left out (--final): not below a final bound")
    note_open(loop.open_count)


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(prog="mtlmon latest", usage=USAGE, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    add_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Parse the arguments."""
    parser = make_parser()
    options = parser.read(arguments, Options())
    options.changelog = sole_file(parser, options.files)
    if format_of(options) != "text" and (options.resolve or options.verdicts != "all"):
        given = "--resolve" if options.resolve else f"--verdicts {options.verdicts}"
        parser.error(f"{given} is for verdicts, but the changelog has records: leave it out")
    return options


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=("text", "jsonl", "csv"),
        help="lines of verdicts (text), or revisions of records (default: from the name, as in "
        "open.jsonl, else text)",
    )
    parser.add_argument(
        "--final",
        action="store_true",
        help="write only verdicts and records that no late event can change",
    )
    parser.add_argument(
        "--as-of",
        type=time_stamp,
        metavar="T",
        help="take in only the lines that were written when the log had come to time-stamp T, or "
        "before: what was known then; the changelog is one of --arrival",
    )
    parser.add_argument(
        "--resolve",
        action="store_true",
        help="write the Boolean verdict of every time-point instead of equivalences",
    )
    parser.add_argument(
        "--verdicts",
        choices=("all", "false", "none"),
        default="all",
        help="which verdicts to write (default: all); without --resolve, 'false' has no "
        "equivalences",
    )
    add_memory_option(parser, "time-points or records that are not final")
    add_output_options(parser)
