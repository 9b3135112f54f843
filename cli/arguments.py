"""The command's arguments."""

from __future__ import annotations

import argparse
import os
import re

from mtlmon.cli.failure import Failure, show
from mtlmon.support.table_formats import FORMAT_NAMES
from mtlmon.syntax.bounds import UNIT_WORDS, UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, NoReturn, Protocol, TypeVar

    from mtlmon.syntax.durations import Duration

    Space = TypeVar("Space", bound=argparse.Namespace)

    class FileOptions(Protocol):
        """The options of a subcommand for policy files."""

        files: list[str]
        policies: list[str]


__all__ = [
    "STANDARD_STREAM",
    "Options",
    "Parser",
    "add_memory_option",
    "parse_arguments",
    "time_stamp",
]

# the file name for standard input and output
STANDARD_STREAM = "-"
LARGEST_TIME_STAMP = (1 << 63) - 1
LARGEST_DIGITS = 40
STANDARD_OUTPUT = 1
DEFAULT_COLUMNS = 80

USAGE = """\
mtlmon [options] FORMULA_FILE [LOG ...]
       mtlmon [options] -e FORMULA [LOG ...]
       mtlmon [options] --policy FILE [--policy FILE ...] [LOG ...]
       mtlmon resolve [options] [VERDICTS]
       mtlmon check-policy [options] FILE [LOG]
       mtlmon streams [options] FILE TABLE...
       mtlmon analyze [options] FILE [TABLE]"""

DESCRIPTION = """\
Check a log against a policy in metric temporal logic: one verdict for every time-point.

  FORMULA_FILE  the policy, or a file of named policies; - for standard input
  LOG           lines of the form '@TIME-STAMP ATOM ATOM ...'; - or nothing for standard input.
                Or tables: CSV, JSON lines, Parquet, Arrow; files, patterns, directories
"""

EPILOG = """\
verdicts, one a line:
  10:0 true       the policy holds at the first time-point of time-stamp 10
  10:1 false      it is violated at the second one
  10:2 = 10:1     not known yet, but the same as that of the earlier time-point 10:1
  10:3 false (u=ann, f=report)
                  a policy with variables is violated by these values
before the time-point, each followed by a tab: the policy's name, if it has one, and the key

examples:
  mtlmon policy.mtl events.log
      check a log
  tail -f events.log | mtlmon -e 'request IMPLIES EVENTUALLY[0,5] response'
      check a live stream
  mtlmon --verdicts first --end-time last policy.mtl events.log
      only the earliest violation; the log is complete up to its last time-stamp
  mtlmon --resolve --unit s -e 'publish IMPLIES ONCE[0,7d] approve' events.log
      the Boolean value of every time-point; bounds with units
  mtlmon resolve yesterday.verdicts
      the Boolean values behind equivalences (mtlmon resolve --help)
  mtlmon --verdicts none --unit s --report report.html policy.mtl events.log
      a web page with violations over time and explanations of the first ones
  mtlmon --checkpoint state --resume -o verdicts policy.mtl events.log
      a service: the same command for its first start and for restarting after a crash
  mtlmon --key user --event action --end-time last rules.mtl 'logs/*.csv.gz'
      tables, where each user's rows are a trace, and atoms are in the column 'action'
  kafka-console-consumer ... | mtlmon --format jsonl --key id --event type rules.mtl
      a live stream of JSON objects
  mtlmon --output-format parquet -o verdicts.parquet --time when rules.mtl events.parquet
      verdicts as a table
  mtlmon --policy web.mtl --policy login.mtl access.jsonl
      several policy files, in one pass over the log
  mtlmon check-policy rules.mtl events.csv
      check whether a policy file fits the columns of a table
      (mtlmon check-policy --help)
  mtlmon streams rules.mtl events.csv
      the values of the file's streams at every row (mtlmon streams --help)
  mtlmon analyze --limit 1GiB rules.mtl
      how much memory a file needs at most (mtlmon analyze --help)
  mtlmon --signature F.sig --output-format monpoly F.mfotl F.log
      files of MonPoly, and verdicts as it writes them
  mtlmon --explain-formula -e 'p UNTIL[0,5] q'
      how a formula is parsed, and what monitoring it costs

exit status: 0 no violation, 1 a violation, 2 an error in usage, formula, log or writing
"""


class Options(argparse.Namespace):
    """The options of the command line."""

    formula: str | None
    # the policy files: none with -e, one, or several with --policy
    formula_files: list[str]
    log: str
    logs: list[str]
    mode: Literal["local", "global", "naive"]
    given_verdicts: Literal["all", "boolean", "false", "first", "none"] | None
    # what is given, or else the default of the policies
    verdicts: Literal["all", "boolean", "false", "first", "none"]
    resolve: bool
    max_memory: int | None
    max_rows: int | None
    slices: int | None
    slice_seed: int | None
    plot: str | None
    threads: int | None
    output: str | None
    end_time: int | Literal["last", "inf"] | None
    unit: str | None
    policies: list[str]
    constants: dict[str, str]
    on_error: Literal["stop", "skip"]
    bdd: Literal["auto", "cudd", "autoref"]
    summary: bool | None
    progress: bool
    explain: bool
    explain_output: str | None
    explain_limit: int
    explain_formula: bool
    report: str | None
    checkpoint: str | None
    checkpoint_every: tuple[Literal["events", "seconds"], float] | None
    resume: bool
    format: str | None
    pattern: str | None
    time: str | None
    time_unit: str | None
    time_format: str | None
    resolution: str | None
    event: str | None
    event_separator: str | None
    keys: list[list[str]]
    time_points: Literal["row", "stamp"]
    sort: bool
    advance_every: int | None
    idle: Duration | None
    output_format: Literal["text", "jsonl", "csv", "parquet", "monpoly"]
    signature: str | None
    negate: bool
    nonewlastts: bool
    arguments: Sequence[str]

    @property
    def formula_name(self) -> str:
        """The policy files in messages."""
        return " and ".join(self.formula_files) or "the formula"

    @property
    def key_columns(self) -> list[str]:
        """The columns of keys."""
        return [name for names in self.keys for name in names]

    @property
    def is_table(self) -> bool:
        """Whether the logs are tables."""
        if self.pattern is not None:
            return True
        if self.format is not None:
            return self.format != "text"
        from mtlmon.support.table_formats import table_format

        return any(table_format(path) is not None or is_directory(path) for path in self.logs)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The formatter of argparse with the width of the terminal.

    PERF: argparse itself imports shutil and its compression modules to find the width, which takes
    4 ms even if nothing is formatted.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width() - 2)


def terminal_width() -> int:
    """Return the columns of the terminal, from $COLUMNS or the terminal, or else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(STANDARD_OUTPUT).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `Failure`, and accepts no abbreviated options."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )

    def read(self, arguments: Sequence[str], options: Space) -> Space:
        """Parse the arguments into `options`.

        Raises:
            Failure: an argument is invalid.
            SystemExit: after `--help` and `--version`.
        """
        _, unknown = self.parse_known_intermixed_args(list(arguments), options)
        if unknown:
            self.error(f"unrecognized arguments: {', '.join(map(self.with_guess, unknown))}")
        return options

    def with_guess(self, unknown: str) -> str:
        """Return an unknown option, with a guess at the one that was meant."""
        import difflib

        name = unknown.partition("=")[0]
        known = [text for action in self._actions for text in action.option_strings]
        guesses = difflib.get_close_matches(name.replace("_", "-").lower(), known, 1)
        return f"{name} (did you mean {guesses[0]}?)" if guesses else name

    def error(self, message: str) -> NoReturn:
        raise Failure(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: object = None) -> None:
        # argparse would ignore errors of writing
        show(message)


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Parse the arguments.

    Raises:
        Failure: an argument is invalid, or options contradict each other.
        SystemExit: after `--help` and `--version`.
    """
    parser = make_parser()
    options = parser.read(arguments, Options())
    options.arguments = arguments
    files: list[str] = options.files
    if options.formulas and len(options.formulas) > 1:
        parser.error(
            "-e was given more than once: join the formulas with AND, or write a policy file"
        )
    options.formula = options.formulas[0] if options.formulas else None
    options.constants = dict(options.settings)
    if options.formula is not None and options.policies:
        parser.error("-e and --policy: write the formula to a file, and name that with --policy")
    options.formula_files = []
    if options.formula is None:
        if not files and not options.policies:
            parser.error("no formula: name a FORMULA_FILE or give one with -e")
        options.formula_files = policy_files(parser, files, options.policies)
    options.logs = files or [STANDARD_STREAM]
    options.log = options.logs[0]
    check_table_options(parser, options)
    check_monpoly_options(parser, options)
    options.explain = options.explain or options.explain_output is not None
    check_checkpoint_options(parser, options)
    if (
        STANDARD_STREAM in options.formula_files
        and STANDARD_STREAM in options.logs
        and not options.explain_formula
    ):
        parser.error("formula and log cannot both come from standard input")
    return options


def policy_files(parser: Parser, files: list[str], policies: list[str]) -> list[str]:
    """Return the policy files: those of --policy, or else the first of the files, which is taken.

    Raises:
        Failure: a policy file is among the logs, or is given twice.
    """
    if not policies:
        return [files.pop(0)]
    for name in files:
        if name.endswith((".mtl", ".mfotl")):
            parser.error(f"{name} is a policy file: name each of them with --policy, or none")
    if len(policies) > 1:
        from mtlmon.policy.several import require_different

        require_different(policies)
    return policies


def take_policy_files(parser: Parser, options: FileOptions) -> None:
    """Leave the policy files in `policies`, and the logs in `files`.

    Raises:
        Failure: there is no policy file, or one is among the logs or given twice.
    """
    if not options.files and not options.policies:
        parser.error("no policy file: name one")
    options.policies = policy_files(parser, options.files, options.policies)


def is_directory(path: str) -> bool:
    return path != STANDARD_STREAM and os.path.isdir(path)


def check_table_options(parser: Parser, options: Options) -> None:
    """Raise Failure if options of tables contradict each other."""
    if options.idle is not None and options.sort:
        parser.error("--idle does not work with --sort: no row is checked before all are read")
    if options.pattern is not None and options.format is not None:
        parser.error("--pattern reads lines of text: leave out --format")
    if (
        options.is_table
        and None not in (options.unit, options.resolution)
        and options.unit != options.resolution
    ):
        parser.error(
            f"--unit {options.unit} and --resolution {options.resolution} contradict each other: "
            "both give the unit of time-stamps; the unit of the time column is --time-unit"
        )


def check_monpoly_options(parser: Parser, options: Options) -> None:
    """Raise Failure if options for MonPoly's files stand without a signature."""
    if options.signature is not None:
        if len(options.formula_files) > 1:
            parser.error("--signature is for one file of MonPoly: name one")
        return
    formulas = [name for name in options.formula_files if name.endswith(".mfotl")]
    if formulas:
        parser.error(
            f"{formulas[0]} is a formula of MonPoly: add the signature of its log with "
            "--signature FILE"
        )
    given = {
        "--negate": options.negate,
        "--nonewlastts": options.nonewlastts,
        "--output-format monpoly": options.output_format == "monpoly",
    }
    for name, is_given in given.items():
        if is_given:
            parser.error(f"{name} is for files of MonPoly: add --signature FILE")


def check_text_options(options: Options) -> None:
    """Raise Failure if options do not fit a text log.

    The policy file must have been read, as it can say that lines have a pattern.
    """
    for_tables = {
        "--time": options.time,
        "--time-unit": options.time_unit,
        "--time-format": options.time_format,
        "--resolution": options.resolution,
        "--event": options.event,
        "--event-separator": options.event_separator,
        "--key": options.keys,
        "--sort": options.sort,
        "--advance-every": options.advance_every,
        "--time-points stamp": options.time_points == "stamp",
    }
    for name, value in for_tables.items():
        if value:
            log = "standard input" if options.log == STANDARD_STREAM else options.log
            raise Failure(
                f"{name} works on tables, but {log} is read as a text log: add the format, for "
                "instance --format csv (see mtlmon --help)"
            )
    if len(options.logs) > 1:
        logs = ", ".join(options.logs)
        raise Failure(f"several text logs ({logs}): name one at a time (see mtlmon --help)")


def check_checkpoint_options(parser: Parser, options: Options) -> None:
    """Raise Failure if an option for checkpoints needs another or does not work with it."""
    if options.checkpoint is not None and options.report is not None:
        parser.error(
            "--report does not work with --checkpoint: a resumed run is only part of a whole"
        )
    if options.checkpoint is None:
        if options.resume:
            parser.error("--resume needs a checkpoint to go on from: add --checkpoint FILE")
        if options.checkpoint_every is not None:
            parser.error("--checkpoint-every needs a checkpoint: add --checkpoint FILE")
    elif options.idle is not None:
        parser.error(
            "--idle does not work with --checkpoint: a later run cannot repeat what the clock of "
            "the machine has decided"
        )
    elif options.output is None:
        parser.error("--checkpoint needs a file for the verdicts: add -o FILE")
    elif options.output_format == "parquet":
        parser.error(
            "--checkpoint does not work with --output-format parquet, as such a file cannot be cut "
            "and continued: write jsonl or csv, and convert that once the log is read"
        )
    elif options.sort:
        parser.error(
            "--checkpoint does not work with --sort: no row is checked before all are read, so a "
            "later run could save nothing; sort the log first"
        )


def make_parser() -> Parser:
    """Make the parser of the command's arguments."""
    parser = Parser(
        prog="mtlmon",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    add_formula_options(parser.add_argument_group("formula"))
    add_log_options(parser.add_argument_group("log"))
    add_table_options(parser.add_argument_group("tables"))
    add_monpoly_options(parser.add_argument_group("files of MonPoly"))
    add_verdict_options(parser.add_argument_group("verdicts"))
    add_explanation_options(parser.add_argument_group("explanations and reports"))
    add_checkpoint_options(parser.add_argument_group("checkpoints"))
    add_other_options(parser.add_argument_group("other"))
    return parser


def add_formula_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-e",
        dest="formulas",
        action="append",
        metavar="FORMULA",
        help="the policy itself, in place of FORMULA_FILE",
    )
    add_policy_option(group, "FORMULA_FILE")
    add_unit_options(group)
    group.add_argument(
        "--explain-formula",
        action="store_true",
        help="show how the formula is parsed, what monitoring it costs and which engine runs it; "
        "do not read a log",
    )


def add_policy_option(group: argparse._ActionsContainer, replaced: str) -> None:
    """Add the option for several policy files."""
    group.add_argument(
        "--policy",
        dest="policies",
        action="append",
        default=[],
        metavar="FILE",
        help=f"a policy file, in place of {replaced}; repeat it to check several files in one pass "
        "over the log",
    )


def add_unit_options(group: argparse._ActionsContainer) -> None:
    """Add the options that change what a policy file says."""
    group.add_argument(
        "--unit",
        type=unit_name,
        choices=tuple(UNITS),
        help="the unit of the log's time-stamps, so that bounds can have units: ONCE[0,7d]",
    )
    add_set_option(group)


def add_set_option(group: argparse._ActionsContainer) -> None:
    """Add the option that changes constants."""
    group.add_argument(
        "--set",
        dest="settings",
        action="append",
        type=constant_setting,
        default=[],
        metavar="NAME=CONSTANT",
        help="the value of a constant that the policy file declares: --set limit=30; if several "
        "files declare it, --set web:limit=30 sets that of web.mtl",
    )


def add_log_options(group: argparse._ArgumentGroup) -> None:
    add_end_option(group)
    add_error_option(group)


def add_end_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--end-time",
        type=end_time,
        metavar="{TS,last,inf}",
        help="what is known about the end of the log: it is complete up to and including "
        "time-stamp TS, up to its last time-stamp, or no event ever follows (default: nothing)",
    )


def add_error_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="what to do with lines or rows that are invalid (default: stop)",
    )


def add_pattern_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--pattern",
        metavar="REGEX",
        help="read lines of text: the named groups of this regular expression are the columns, as "
        "in '(?P<user>\\S+) logged in'; or one of combined (nginx, Apache), nginx_error, syslog, "
        "rfc3164:YEAR (syslog without a year), sshd, logfmt",
    )


def add_table_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        choices=("text", *FORMAT_NAMES),
        help="the format of the log (default: from the name, as in log.csv.gz, or else text)",
    )
    add_pattern_option(group)
    add_column_options(group)
    group.add_argument(
        "--time-points",
        choices=("row", "stamp"),
        default="row",
        help="for policies with variables: each row is a time-point (default), or all rows of one "
        "time-stamp are one",
    )
    group.add_argument(
        "--sort",
        action="store_true",
        help="sort rows by time first; uses temporary files if there are many",
    )
    group.add_argument(
        "--advance-every",
        type=positive,
        metavar="N",
        help="whenever N time units have passed, give the verdicts that time alone decides for all "
        "keys, not just at each key's next event",
    )
    group.add_argument(
        "--idle",
        type=idle_time,
        metavar="D",
        help="when a pipe has brought nothing for D, as in 10s, let time pass with the machine's "
        "clock, less D; rows below that time come too late",
    )


def add_column_options(group: argparse._ActionsContainer) -> None:
    """Add the options that say what the columns of a table mean."""
    group.add_argument("--time", metavar="COLUMN", help="the column of times (default: ts)")
    group.add_argument(
        "--time-unit",
        choices=("s", "ms", "us", "ns"),
        help="the unit of numbers in it, which count from 1970 (default: they are time-stamps)",
    )
    group.add_argument(
        "--time-format",
        metavar="FORMAT",
        help="iso, number, or a format of strptime as '%%d/%%b/%%Y:%%H:%%M:%%S %%z' (default: from "
        "the first times)",
    )
    group.add_argument(
        "--resolution",
        type=unit_name,
        choices=tuple(UNITS),
        help="the unit of time-stamps (default: --unit, or the policy file's; --time-unit; s)",
    )
    group.add_argument(
        "--event",
        metavar="COLUMN",
        help="the column that names events, which are the atoms: a list, or a text (default: atoms "
        "are columns of true and false)",
    )
    group.add_argument(
        "--event-separator",
        metavar="TEXT",
        help="the separator of names in such a text (default: |)",
    )
    group.add_argument(
        "--key",
        dest="keys",
        action="append",
        type=column_names,
        default=[],
        metavar="COLUMN[,COLUMN...]",
        help="rows with equal values in these columns form a trace of their own",
    )


def add_monpoly_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--signature",
        metavar="FILE",
        help="FORMULA_FILE and LOG are in MonPoly's language, and FILE declares their relations",
    )
    group.add_argument(
        "--negate",
        action="store_true",
        help="the formula is a policy: report the valuations that violate it",
    )
    group.add_argument(
        "--nonewlastts",
        action="store_true",
        help="the log may go on: leave undecided what depends on that (default: a last time-point "
        "follows, with the largest time-stamp)",
    )


def add_verdict_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--mode",
        choices=("local", "global", "naive"),
        default="local",
        help="equivalences between time-points of one time-stamp (local, the default), also of "
        "different ones (global), or none (naive: memory grows with the event rate)",
    )
    group.add_argument(
        "--verdicts",
        dest="given_verdicts",
        choices=("all", "boolean", "false", "first", "none"),
        help="which verdicts to write (default: all, or false for policies with variables): "
        "boolean and false omit equivalences; first: the earliest violation, then stop",
    )
    group.add_argument(
        "--resolve",
        action="store_true",
        help="the Boolean value of every time-point instead of equivalences; memory grows with "
        "the undecided time-points",
    )
    group.add_argument("-o", dest="output", metavar="FILE", help="write verdicts to FILE")
    group.add_argument(
        "--output-format",
        choices=("text", "jsonl", "csv", "parquet", "monpoly"),
        default="text",
        help="the format of verdicts (default: text); monpoly needs --signature",
    )
    group.add_argument(
        "--bdd",
        choices=("auto", "cudd", "autoref"),
        default="auto",
        help="the back end for Boolean functions; the verdicts are the same (default: auto)",
    )


def add_explanation_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--explain",
        action="store_true",
        help="explain the first violations on standard error, once the log is read; the log must "
        "be a file, as it is read again",
    )
    group.add_argument(
        "--explain-output",
        metavar="FILE",
        help="write explanations to FILE instead, as a page if its name ends in .html",
    )
    group.add_argument(
        "--explain-limit",
        type=positive,
        default=10,
        metavar="N",
        help="explain at most N violations (default: 10)",
    )
    group.add_argument(
        "--report",
        metavar="FILE",
        help="write an HTML page about the run: counts, violations over time, explanations of the "
        "first ones if the log is a file, undecided time-points",
    )


def add_checkpoint_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the progress and the monitor's state to FILE from time to time; needs -o",
    )
    group.add_argument(
        "--checkpoint-every",
        type=checkpoint_interval,
        metavar="{N,SECONDSs}",
        help="save after N events, or after a number of seconds, as in 30s (default: 10s)",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue from the checkpoint, if there is one; pass the log from its beginning",
    )


def add_memory_option(group: argparse._ActionsContainer, what: str) -> None:
    group.add_argument(
        "--max-memory",
        type=memory,
        metavar="SIZE",
        help=f"stop with an error when {what} hold more memory than this, as in 500M or 2G",
    )


def add_other_options(group: argparse._ArgumentGroup) -> None:
    add_memory_option(group, "formulas, undecided time-points, keys and other data")
    group.add_argument(
        "--max-rows",
        type=positive,
        metavar="N",
        help="for policies with variables: stop with an error when a time-point has more than N "
        "valuations, or joins so many rows on the way to them",
    )
    group.add_argument(
        "--slices",
        type=positive,
        metavar="N",
        help="for policies with variables: monitor the log in N slices, which get the rows of "
        "different values, on as many threads as there are processors; the output is the same",
    )
    group.add_argument(
        "--slice-seed",
        type=positive,
        metavar="N",
        help="with --slices: spread values over slices in another way (default: 0)",
    )
    group.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="use at most N threads (default: as many as there are idle processors for); a long "
        "text file with one policy is monitored by two, one of which scans ahead, and a table by "
        "two, one of which prepares the next rows",
    )
    group.add_argument(
        "--summary",
        action=argparse.BooleanOptionalAction,
        help="print counts and speed to standard error (default: if that is a terminal)",
    )
    group.add_argument(
        "--progress",
        action="store_true",
        help="show how far the log is read, if it is a file and standard error is a terminal",
    )
    group.add_argument(
        "-V", "--version", action="version", version=version_line(), help="show the version"
    )
    group.add_argument("-h", "--help", action="help", help="show this help")


def memory(text: str) -> int:
    """Parse a size of memory."""
    from mtlmon.engine.memory_limit import memory_size
    from mtlmon.errors import MtlmonError

    try:
        return memory_size(text)
    except MtlmonError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def version_line() -> str:
    from mtlmon._version import __version__

    return f"mtlmon {__version__}"


def unit_name(text: str) -> str:
    """Parse the argument of --unit, which can be a word for minutes or seconds."""
    return UNIT_WORDS.get(text, text)


def constant_setting(text: str) -> tuple[str, str]:
    """Parse the argument of --set."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=CONSTANT")
    return name, value


def column_names(text: str) -> list[str]:
    """Parse the argument of --key."""
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"'{text}' has an empty name of a column")
    return names


def positive(text: str) -> int:
    """Parse an argument that must be a positive number."""
    if text.isascii() and text.isdigit() and len(text) <= LARGEST_DIGITS and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not an integer from 1 on")


def idle_time(text: str) -> Duration:
    """Parse the argument of --idle."""
    found = re.fullmatch(r"([0-9]{1,9})(ms|s|min|m|h|d)", text)
    if found is not None and int(found[1]):
        from mtlmon.syntax.durations import Duration

        return Duration(int(found[1]), "m" if found[2] == "min" else found[2])
    raise argparse.ArgumentTypeError(f"'{text}' is not a length of time, as 500ms, 10s or 5m")


def checkpoint_interval(text: str) -> tuple[str, float]:
    """Parse the argument of --checkpoint-every."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)s|([0-9]{1,15})", text)
    if found is not None:
        unit = "seconds" if found[1] else "events"
        number = float(found[1] or found[2])
        if number > 0:
            return (unit, number)
    raise argparse.ArgumentTypeError(
        f"'{text}' is neither a number of events, as 1000000, nor of seconds, as 30s"
    )


def end_time(text: str) -> int | str:
    """Parse the argument of --end-time."""
    return text if text in ("last", "inf") else time_stamp(text, "'last', 'inf' or ")


def time_stamp(text: str, others: str = "") -> int:
    """Parse an argument that must be a time-stamp or a length of time.

    Args:
        text: the argument.
        others: the other values that the argument can have, for errors.
    """
    if text.isascii() and text.isdigit() and len(text) <= LARGEST_DIGITS:
        value = int(text)
        if value <= LARGEST_TIME_STAMP:
            return value
    raise argparse.ArgumentTypeError(
        f"'{text}' is not {others}an integer from 0 to {LARGEST_TIME_STAMP}"
    )
