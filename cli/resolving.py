"""The subcommand `mtlmon resolve`: replaces equivalence verdicts by Boolean ones."""

from __future__ import annotations

import argparse

from mtlmon.cli.option_groups import add_memory_option
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.cli.signals import Signals
from mtlmon.cli.terminal import TERMINAL, note
from mtlmon.drive.native import TextResolver
from mtlmon.engine.native import MemoryLimit
from mtlmon.run.files import open_log, open_verdicts
from mtlmon.run.host import Progress
from mtlmon.run.option_values import time_stamp
from mtlmon.run.pump import Pump, TextWork
from mtlmon.run.report import plural, resolving_summary
from mtlmon.run.running import finished, run_to_end
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.option_names import COMMAND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from mtlmon.changelog.loops import ResolvedChanges

__all__ = ["resolve"]

USAGE = "mtlmon resolve [options] [VERDICTS]"

DESCRIPTION = """\
Give every time-point its Boolean verdict, as early as it is known: '5:1 = 5:0' becomes '5:1 false'
when '5:0 false' comes.

  VERDICTS  lines as mtlmon writes them; - or nothing for standard input. Lines can have fields
            before the time-point, each followed by a tab: equivalences are within equal fields.

With --changelog, lines that begin with '!' change earlier ones, and a revision of 5:0
gives lines for the time-points that are equivalent to it: '!5:1 true'.
"""

EPILOG = """\
examples:
  mtlmon resolve yesterday.verdicts
  mtlmon -e 'p IMPLIES EVENTUALLY[0,5] q' events.log | mtlmon resolve --in-order --reach 5

exit status: 0 no violation, 1 a violation, 2 an error in usage, verdicts or writing
"""


class Options(argparse.Namespace):
    """The options of the command line."""

    verdict_file: str
    changelog: bool
    in_order: bool
    reach: int | None
    verdicts: Literal["all", "false", "none"]
    max_memory: int | None
    output: str | None
    summary: bool | None


def resolve(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read or written.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        LogError: a line is invalid.
        MemoryLimitError: the command needs more memory than --max-memory allows.
        SystemExit: after -h and --help.
    """
    options = parse_arguments(arguments)
    source = open_log(options.verdict_file)
    target = open_verdicts(options.output, {source.name: source.status}, "")
    resolver = make_resolver(options, source.name)
    signals = Signals(target, resolver.writer if isinstance(resolver, TextResolver) else None)
    work = TextWork(resolver, source)
    return finished(
        run_to_end(
            Pump(work, target, signals, Progress(0)),
            host=TERMINAL,
            has_violation=lambda: resolver.false_count > 0,
            report=lambda _, __: report_end(resolver, is_complete=work.is_complete),
            summary=lambda seconds: resolving_summary(resolver, seconds),
            wants_summary=options.summary,
        )
    )


def make_resolver(options: Options, name: str) -> TextResolver | ResolvedChanges:
    """Make what reads the verdicts."""
    memory = MemoryLimit(options.max_memory, COMMAND)
    if options.changelog:
        from mtlmon.changelog.loops import ResolvedChanges

        return ResolvedChanges(path=name, verdicts=options.verdicts, memory=memory)
    return TextResolver(
        path=name,
        verdicts=options.verdicts,
        in_order=options.in_order,
        reach=options.reach,
        memory=memory,
    )


def report_end(resolver: TextResolver | ResolvedChanges, *, is_complete: bool) -> None:
    """Tell what the verdicts alone do not show."""
    note_open(resolver.open_count)
    if not is_complete and resolver.held_count:
        held = plural(resolver.held_count, "verdict")
        note(f"{held} not written: verdicts before them are missing")


def note_open(count: int) -> None:
    """Tell how many time-points stay open, if any does."""
    if count:
        stay = "stays" if count == 1 else "stay"
        points = plural(count, "time-point")
        note(f"{points} {stay} open: equivalent to ones without a Boolean verdict")


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(
        prog="mtlmon resolve",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    add_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Parse the arguments."""
    parser = make_parser()
    options = parser.read(arguments, Options())
    options.verdict_file = sole_file(parser, options.files)
    if options.reach is not None and not options.in_order:
        parser.error("--reach needs --in-order")
    if options.changelog and options.in_order:
        parser.error(
            "--changelog and --in-order exclude each other: mtlmon latest --resolve writes the "
            "latest verdicts in order"
        )
    return options


def sole_file(parser: Parser, files: Sequence[str]) -> str:
    """Return the only file that is named, or the name of standard input."""
    if len(files) > 1:
        parser.error(f"several files ({', '.join(files)}): name one at a time")
    return files[0] if files else STANDARD_STREAM


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--changelog",
        action="store_true",
        help="read the verdicts of late or corrected events: lines that begin with '!' change "
        "earlier ones",
    )
    parser.add_argument(
        "--in-order",
        action="store_true",
        help="write verdicts in the order of time-points (for each prefix); without --reach, this "
        "waits for the end",
    )
    parser.add_argument(
        "--reach",
        type=time_stamp,
        metavar="N",
        help="for --in-order: how long a verdict of the formula may wait, as mtlmon "
        "--explain-formula says; nothing is held back for longer",
    )
    parser.add_argument(
        "--verdicts",
        choices=("all", "false", "none"),
        default="all",
        help="which verdicts to write (default: all)",
    )
    add_memory_option(parser, "time-points that are open, and verdicts that wait for their turn,")
    add_output_options(parser)


def add_output_options(parser: Parser) -> None:
    """Add what commands that read verdicts have last: the output, the summary and the help."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write verdicts to FILE")
    parser.add_argument(
        "--summary",
        action=argparse.BooleanOptionalAction,
        help="print counts and speed to standard error (default: only if it is a terminal)",
    )
    add_help_options(parser)
