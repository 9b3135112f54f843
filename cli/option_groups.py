"""The options of the command, group by group."""

from __future__ import annotations

import argparse

from mtlmon.cli.parser import add_help_options
from mtlmon.cli.plain_arguments import LOG_FORMATS, OUTPUT_FORMATS, VERDICTS
from mtlmon.run.option_values import (
    checkpoint_interval,
    column_names,
    constant_setting,
    end_time,
    idle_time,
    machine_module,
    memory,
    natural,
    null_values,
    positive,
    start_and_count,
    unit_name,
    version_line,
    wait_time,
)
from mtlmon.support.severities import SEVERITIES
from mtlmon.syntax.bounds import UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypeVar

    Space = TypeVar("Space", bound=argparse.Namespace)


class GenerateAction(argparse.Action):
    """Writes what the options are described in, and ends the command."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        from mtlmon.cli import completion
        from mtlmon.cli.manual import manual
        from mtlmon.cli.terminal import show

        makers = {
            "man": manual,
            "complete-bash": completion.bash,
            "complete-zsh": completion.zsh,
            "complete-fish": completion.fish,
        }
        show(makers[str(values)]())
        parser.exit()


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
    add_machines_option(group)
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


def add_machines_option(group: argparse._ActionsContainer) -> None:
    """Add the option that lets policies use classes of Python."""
    group.add_argument(
        "--machines",
        action="append",
        type=machine_module,
        metavar="MODULE",
        help="import a module of Python, whose classes policies can then use as machines: "
        'stream s: int = machine("MODULE:Class", column); without this, policies run no code',
    )


def add_log_options(group: argparse._ArgumentGroup) -> None:
    add_follow_option(group)
    add_late_options(group)
    add_lateness_options(
        group, "correct verdicts: lines that begin with ! change earlier ones", "verdicts"
    )
    group.add_argument(
        "--clock",
        choices=("all", "key"),
        help="measure how late a row is by the largest time of all rows (default), or of the rows "
        "with its key",
    )
    group.add_argument(
        "--sort",
        action="store_true",
        help="sort rows by time first; for tables, it uses temporary files if there are many",
    )
    add_end_option(group)
    add_error_option(group)


def add_follow_option(group: argparse._ActionsContainer) -> None:
    """Add the option for a file that others write."""
    group.add_argument(
        "--follow",
        metavar="FILE",
        help="read FILE as the log, and then the lines that are appended to it, even if another "
        "program cuts or replaces it (as tail -F); SIGINT and SIGTERM end the log",
    )


def add_lateness_options(group: argparse._ActionsContainer, what: str, word: str) -> None:
    """Add the options for late rows that change what was told.

    Args:
        group: gets the options.
        what: what is done about such rows.
        word: what is changed.
    """
    group.add_argument(
        "--lateness",
        type=wait_time,
        metavar="D",
        help=f"accept rows that are up to D, as in 5m, below the largest time so far, and {what}",
    )
    group.add_argument(
        "--consistency",
        choices=("strong", "middle", "weak"),
        help="what to do about the rows that --lateness admits: wait for them, so that nothing "
        f"changes (strong), correct {word} (middle, the default), or leave late rows out (weak)",
    )
    group.add_argument(
        "--arrival",
        action="store_true",
        help="with --lateness: say of each change how far the log had come when it was told, for "
        "mtlmon latest --as-of T; rows are then taken in one after the other",
    )


def add_correction_options(group: argparse._ActionsContainer) -> None:
    """Add the options for rows that are taken back or replaced."""
    group.add_argument(
        "--op",
        metavar="COLUMN",
        help="with --lateness: the column that says what a row does: + (or I, insert) is the "
        "default; - (or D, retract) takes a row back; advance lets time pass; for complete, see "
        "--complete",
    )
    group.add_argument(
        "--id",
        metavar="COLUMN",
        help="with --lateness: the column with an id for each row: a later row with the same id "
        "replaces the row, or takes it back (default: a row that is taken back is found by the "
        "values that policies read)",
    )
    group.add_argument(
        "--complete",
        type=start_and_count,
        metavar="[START,]COUNT",
        help="with --op: the columns of rows whose operation is complete: exactly COUNT rows have "
        "times from START on, or from the beginning, that are below the row's own; once they are "
        "there, no verdict waits for late rows below it",
    )
    group.add_argument(
        "--new-end",
        metavar="COLUMN",
        help="with --op and --id: the column with the new end that a retraction gives its record, "
        "before the one that it has in the row's column of ends (default: it takes the row back)",
    )


def add_idle_option(group: argparse._ActionsContainer) -> None:
    """Add the option that lets time pass without rows."""
    group.add_argument(
        "--idle",
        type=idle_time,
        metavar="D",
        help="when nothing has come through a pipe for D, as in 10s, let time pass with the "
        "machine's clock, D behind it; rows below that time come too late",
    )


def add_summary_option(group: argparse._ActionsContainer) -> None:
    """Add the option for counts and speed."""
    group.add_argument(
        "--summary",
        action=argparse.BooleanOptionalAction,
        help="print counts and speed to standard error (default: only if it is a terminal)",
    )


def add_late_options(group: argparse._ActionsContainer) -> None:
    """Add the options for rows that come late."""
    group.add_argument(
        "--wait",
        type=wait_time,
        metavar="D",
        help="hold rows back for D, as in 5s, and sort them by time before they are checked; rows "
        "that are more than D below the largest time so far come too late: they are counted, but "
        "not checked",
    )
    group.add_argument(
        "--late",
        metavar="FILE",
        help="write the rows that come too late to FILE; without --wait, these are all rows below "
        "the largest time so far",
    )


def add_end_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--end-time",
        type=end_time,
        metavar="{TS,last,inf}",
        help="say how complete the log is: up to and including time-stamp TS, up to its last "
        "time-stamp, or for ever, as no event follows (default: not known)",
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
        "in '(?P<user>\\S+) logged in'; or one of nginx, apache, combined, common (access logs), "
        "nginx_error, apache_error, syslog[:YEAR], sshd[:YEAR], postfix[:YEAR], journald (JSON of "
        "journalctl), logfmt; YEAR is the year in which the log begins, if its times have none",
    )


def add_csv_option(group: argparse._ActionsContainer) -> None:
    """Add the option for CSV that spreadsheets open."""
    group.add_argument(
        "--csv-safe",
        action="store_true",
        help="with --output-format csv: put an apostrophe before texts that begin with =, +, -, @, "
        "a tab or a carriage return, which spreadsheets would take for formulas",
    )


def add_cell_options(group: argparse._ActionsContainer) -> None:
    """Add the options that say how the cells of CSV are written."""
    group.add_argument(
        "--delimiter",
        default=",",
        metavar="CHARACTER",
        help="the character between the cells of CSV (default: a comma)",
    )
    group.add_argument(
        "--quote",
        default='"',
        metavar="{CHARACTER,none,lines}",
        help="the character around quoted cells of CSV and TSV; or none; or lines: a quote that "
        'does not end its cell on the line is a character (default: "; TSV is read as with lines)',
    )
    group.add_argument(
        "--decimal",
        choices=(".", ","),
        default=".",
        help="the decimal separator of numbers in CSV, TSV and patterns (default: a point)",
    )
    group.add_argument(
        "--null-values",
        action="extend",
        type=null_values,
        default=[""],
        metavar="TEXT[,TEXT...]",
        help="cells of CSV and of patterns that are null, as NA (empty cells always are)",
    )


def add_table_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        choices=LOG_FORMATS,
        help="the format of the log (default: from the name, as in log.csv.gz, or from the first "
        "bytes of standard input; or else text)",
    )
    add_pattern_option(group)
    add_cell_options(group)
    add_column_options(group)
    group.add_argument(
        "--time-points",
        choices=("row", "stamp"),
        default="row",
        help="for policies with variables: each row is a time-point (default), or all rows of one "
        "time-stamp are one",
    )
    group.add_argument(
        "--advance-every",
        type=positive,
        metavar="N",
        help="whenever N time units have passed, give the verdicts that time alone decides, for "
        "all keys, without waiting for the next event of each key",
    )
    add_idle_option(group)


def add_column_options(group: argparse._ActionsContainer) -> None:
    """Add the options that say what the columns of a table mean."""
    add_time_options(group)
    add_event_options(group)


def add_time_options(group: argparse._ActionsContainer) -> None:
    """Add the options that say what the times of a table are."""
    group.add_argument(
        "--time",
        metavar="COLUMN[,COLUMN...]",
        help="the column of times (default: ts); the texts of several columns are joined by blanks",
    )
    group.add_argument(
        "--time-unit",
        choices=("s", "ms", "us", "ns"),
        help="the unit of numbers in the time column, which count from 1970 (default: the numbers "
        "are the time-stamps)",
    )
    group.add_argument(
        "--time-format",
        metavar="FORMAT",
        help="iso, number, or a format of strptime as '%%d/%%b/%%Y:%%H:%%M:%%S %%z' (default: from "
        "the first times)",
    )
    group.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="the time zone of times without an offset, as 'Europe/Berlin', or 'Europe/Berlin "
        "first' or 'second' for the hour that occurs twice (default: the policy file's; UTC)",
    )
    group.add_argument(
        "--resolution",
        type=unit_name,
        choices=tuple(UNITS),
        help="the unit of time-stamps (default: --unit, or the policy file's; --time-unit; s)",
    )


def add_event_options(group: argparse._ActionsContainer) -> None:
    """Add the options that say what the events and keys of a table are."""
    group.add_argument(
        "--event",
        metavar="COLUMN",
        help="the column that names events, which are the atoms: a list, or a text (default: atoms "
        "are columns of true and false)",
    )
    group.add_argument(
        "--event-separator",
        metavar="TEXT",
        help="the separator between the names of events in a text (default: |)",
    )
    add_correction_options(group)
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
        help="the log may go on, so verdicts that depend on later time-points stay undecided "
        "(default: a last time-point follows, with the largest time-stamp)",
    )


def add_verdict_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--mode",
        choices=("local", "global", "naive"),
        default="local",
        help="report equivalences between time-points of one time-stamp (local, the default), of "
        "any time-stamps (global), or none (naive: memory grows with the event rate)",
    )
    group.add_argument(
        "--verdicts",
        dest="given_verdicts",
        choices=VERDICTS,
        help="which verdicts to write (default: all, or false for policies with variables): "
        "boolean and false omit equivalences; first: the earliest violation, then stop",
    )
    group.add_argument(
        "--resolve",
        action="store_true",
        help="write the Boolean value of every time-point instead of equivalences; memory grows "
        "with the number of undecided time-points",
    )
    group.add_argument(
        "--fail-on",
        choices=SEVERITIES,
        help="exit status 1 only for violations of policies of this severity or a higher one, and "
        "of those without a severity",
    )
    group.add_argument(
        "--fail-on-vacuous",
        action="store_true",
        help="exit status 1 also if the left side of a policy 'p IMPLIES q' never holds",
    )
    group.add_argument("-o", "--output", metavar="FILE", help="write verdicts to FILE")
    group.add_argument(
        "--output-format",
        dest="given_format",
        choices=OUTPUT_FORMATS,
        help="the format of verdicts (default: text); monpoly needs --signature",
    )
    add_csv_option(group)
    group.add_argument(
        "--rows",
        action="store_true",
        help="also write the file and line that each verdict is about, as in app.log:17; for files "
        "without lines, such as Parquet, the number of the row, from 1; explanations and reports "
        "name all rows that a window has counted, not only the first five",
    )
    group.add_argument(
        "--time-stamps",
        choices=("raw", "iso"),
        help="how to write times in lines of text and explanations: as numbers (raw), or in ISO "
        "8601 (iso), which needs the unit of time-stamps (default: raw; on a terminal and in "
        "explanations, as in the log)",
    )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="use colours on a terminal, where only violations are shown unless --verdicts or "
        "--output-format is given (default: auto, which is never if $NO_COLOR is set); always: do "
        "the same for a pipe, as to less -R",
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
        help="write explanations to FILE instead, as a page if its name ends in .html, and for "
        "programs, with all rows, if it ends in .jsonl",
    )
    group.add_argument(
        "--explain-limit",
        type=positive,
        default=10,
        metavar="N",
        help="explain at most N violations (default: 10)",
    )
    group.add_argument(
        "-C",
        "--context",
        dest="context_both",
        type=natural,
        metavar="N",
        help="show the rows of the first violations (--explain-limit) on standard error, once the "
        "log is read, with N rows before and after each, as grep does; the log must be a file of "
        "text, CSV or JSON lines",
    )
    for short, long, name in (
        ("-B", "--before-context", "before"),
        ("-A", "--after-context", "after"),
    ):
        group.add_argument(
            short,
            long,
            dest=f"context_{name}",
            type=natural,
            metavar="N",
            help=f"the same with N rows {name} each only",
        )
    group.add_argument(
        "--report",
        metavar="FILE",
        help="write an HTML page about the run: counts, violations over time, explanations of the "
        "first ones if the log is a file, undecided time-points",
    )


def add_checkpoint_options(group: argparse._ActionsContainer) -> None:
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
        "valuations, or more than N joined rows on the way to them",
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
        "--statistics",
        metavar="FILE",
        help="with --slices: know from the start how many rows atoms have and which values are "
        "frequent, from FILE, as --write-statistics writes it",
    )
    group.add_argument(
        "--write-statistics",
        metavar="FILE",
        help="with --slices: write to FILE how many rows atoms have and which values are frequent, "
        "from some of the rows of each part of the log",
    )
    group.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="use at most N threads (default: as many as there are idle processors); with two, one "
        "thread scans a long text file with one policy, or prepares the next rows of a table, and "
        "the other monitors",
    )
    add_summary_option(group)
    group.add_argument(
        "--progress",
        action="store_true",
        help="show how much of the log has been read, if the log is a file and standard error is a "
        "terminal",
    )
    group.add_argument(
        "-V", "--version", action="version", version=version_line(), help="show the version"
    )
    group.add_argument(
        "--generate",
        action=GenerateAction,
        choices=("man", "complete-bash", "complete-zsh", "complete-fish"),
        help="write the manual page, or the script with which a shell completes the command",
    )
    add_help_options(group)
