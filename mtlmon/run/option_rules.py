"""Which options need each other, and which contradict each other."""

from __future__ import annotations

from mtlmon.run.failure import RunError
from mtlmon.run.recognition import format_advice
from mtlmon.support.standard_input import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    from mtlmon.checking.partitions import Partitions
    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula

    class Refuse(Protocol):
        """Raises the error of who has given the options."""

        def __call__(self, message: str, /) -> NoReturn: ...


def check_table_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options of tables contradict each other."""
    if options.idle is not None and options.sort:
        refuse(
            "--idle does not work with --sort: no row is checked before all are read; --wait 5s "
            "puts late rows of a pipe in order"
        )
    if options.pattern is not None and options.format is not None:
        refuse("--pattern reads lines of text: leave out --format")
    if (
        options.is_table
        and None not in (options.unit, options.resolution)
        and options.unit != options.resolution
    ):
        refuse(
            f"--unit {options.unit} and --resolution {options.resolution} contradict each other: "
            "both give the unit of time-stamps; the unit of the time column is --time-unit"
        )


def check_late_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options for late rows do not work with others."""
    settle_lateness(refuse, options)
    if options.clock is not None and options.lateness is None:
        refuse(
            "--clock says how the lateness of rows is measured: say how late, as in --lateness 5m"
        )
    if not options.reorders and options.lateness is None:
        return
    given = "--late" if options.wait is None else "--wait"
    if options.lateness is not None:
        given = "--lateness"
    if options.sort:
        refuse(f"{given} does not work with --sort, which waits for all rows: leave one out")
    if options.lateness is not None and options.signature is not None:
        refuse("--lateness does not work yet with --signature: let rows wait, with --wait")
    if options.idle is not None and options.checkpoint is not None:
        refuse(
            f"--idle and --checkpoint do not work with {given}: a later run could not tell which "
            "rows came too late"
        )


def settle_lateness(refuse: Refuse, options: RunSpec) -> None:
    """Let --lateness be --wait if no verdict is to be corrected.

    Raises:
        RunError: options for late rows contradict each other.
    """
    if options.lateness is None and (options.op or options.id):
        given = "--op" if options.op else "--id"
        refuse(
            f"{given} is about corrections of rows: say how late they may be, as in --lateness 5m"
        )
    if options.consistency is None:
        return
    if options.lateness is None:
        refuse("--consistency is about rows that come late: say how late, as in --lateness 5m")
    if options.wait is not None:
        refuse("--consistency says how long rows wait: leave it or --wait out")
    if options.consistency != "middle" and options.clock is not None:
        refuse(
            f"--clock is only for verdicts that are corrected: with --consistency "
            f"{options.consistency}, rows are late in the time of the whole log"
        )
    if options.consistency == "middle":
        return
    is_strong = options.consistency == "strong"
    if options.op or options.id:
        # Rows that are taken back while they wait have never come.
        options.lateness = options.lateness if is_strong else 0
        options.wait = options.lateness
        return
    options.wait = options.lateness if is_strong else 0
    options.lateness = None


def check_exit_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options for the exit status do not work with others."""
    if options.tells_vacuous and options.given_verdicts == "first":
        given = "--fail-on-vacuous" if options.fail_on_vacuous else f"--vacuous {options.vacuous}"
        refuse(
            f"{given} does not work with --verdicts first, which stops before the end of "
            "the log: use --verdicts false"
        )
    if options.fail_on_vacuous and options.signature is not None:
        refuse("--fail-on-vacuous does not work with --signature: leave it out")
    if options.fail_on is not None and options.signature is not None:
        refuse("--fail-on does not work with --signature: its policies have no severity")


def check_monpoly_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options for MonPoly's files stand without a signature."""
    if options.signature is not None:
        if len(options.formula_files) > 1:
            refuse("--signature is for one file of MonPoly: name one")
        return
    formulas = [name for name in options.formula_files if name.endswith(".mfotl")]
    if formulas:
        refuse(
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
            refuse(f"{name} is for files of MonPoly: add --signature FILE")


def check_csv_safe(refuse: Refuse, is_safe: bool, output_format: str) -> None:
    """Raise RunError if the texts of another format than CSV are to be safe in spreadsheets."""
    if is_safe and output_format != "csv":
        refuse("--csv-safe is for CSV: add --output-format csv")


def check_time_stamps(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if --time-stamps iso stands with what has no lines for people."""
    if options.time_stamps != "iso":
        return
    if options.signature is not None:
        refuse("--time-stamps iso does not work with --signature: leave it out")
    if options.output_format != "text":
        refuse(
            "--time-stamps iso is for lines of text: JSON lines and tables have times in the "
            "column time_text"
        )
    if options.checkpoint is not None:
        refuse(
            "--time-stamps iso does not work with --checkpoint: write JSON lines or CSV, which "
            "have times, too"
        )


def check_text_options(options: RunSpec) -> None:
    """Raise RunError if options do not fit a text log.

    The policy file must have been read, as it can say that lines have a pattern.
    """
    for_tables = {
        "--time": options.time,
        "--time-unit": options.time_unit,
        "--time-format": options.time_format,
        "--time-zone": options.time_zone,
        "--null-values": options.null_values != [""],
        "--delimiter": options.delimiter != ",",
        "--quote": options.quote != '"',
        "--decimal": options.decimal != ".",
        "--resolution": options.resolution,
        "--event": options.event,
        "--event-separator": options.event_separator,
        "--op": options.op,
        "--id": options.id,
        "--key": options.key_columns,
        "--advance-every": options.advance_every,
        "--time-points stamp": options.time_points == "stamp",
    }
    for name, value in for_tables.items():
        if value:
            log = "standard input" if options.log == STANDARD_STREAM else options.log
            raise RunError(
                f"{name} works on tables, but {log} is read as a text log: "
                f"{format_advice(options)} (see mtlmon --help)"
            )
    if options.time_stamps == "iso" and options.unit is None:
        raise RunError(
            "--time-stamps iso needs the unit of the time-stamps, which count from 1970: add "
            "--unit s, for instance, or a line 'unit s' to the policy file"
        )
    if len(options.logs) > 1:
        logs = ", ".join(options.logs)
        raise RunError(f"several text logs ({logs}): name one at a time (see mtlmon --help)")


def require_no_keys(partitions: Partitions, file: Formula | PolicyFile, options: RunSpec) -> None:
    """Raise RunError if policies have keys, which a text log does not have."""
    from mtlmon.policy import PolicyFile

    if partitions.all_columns:
        column = partitions.all_columns[0]
        name = options.formula_name
        for part in file.parts if isinstance(file, PolicyFile) else ():
            if any(column in (policy.key or part.key or ()) for policy in part.policies):
                name = part.source
                break
        raise RunError(
            f"{name} divides the log by the column {column}, but the log is read as text: "
            f"{format_advice(options)}"
        )


def require_no_columns(file: PolicyFile, options: RunSpec, *, of_streams: bool = False) -> None:
    """Raise RunError if policies need columns, which a text log does not have.

    Args:
        file: the policy file.
        options: the options of the run.
        of_streams: whether all streams of the file are needed, instead of its policies.
    """
    from mtlmon.policy.needs import meant_equivalences, needs_of
    from mtlmon.policy.policy_file import DEFAULT_TIME

    for part in file.files:
        needed = needs_of(part, (), tuple(part.streams)).columns if of_streams else part.columns
        columns = [name for name in needed if name != DEFAULT_TIME]
        if not columns:
            continue
        hints = meant_equivalences(part)
        meant = next((f"; {hints[name]}" for name in columns if name in hints), "")
        source = part.source if file.parts else options.formula_name
        raise RunError(
            f"{source} uses columns of a table, but the log is read as text: "
            f"{format_advice(options)}{meant}"
        )


def check_checkpoint_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if an option for checkpoints needs another or does not work with it."""
    if options.checkpoint is not None and options.report is not None:
        refuse("--report does not work with --checkpoint: a resumed run is only part of a whole")
    if options.checkpoint is not None and options.has_context:
        refuse("--context does not work with --checkpoint: use --rows to find rows later")
    if options.checkpoint is None:
        if options.resume:
            refuse("--resume needs a checkpoint to go on from: add --checkpoint FILE")
        if options.checkpoint_every is not None:
            refuse("--checkpoint-every needs a checkpoint: add --checkpoint FILE")
    elif options.idle is not None and options.on_error == "skip":
        refuse(
            "--idle and --checkpoint do not work with --on-error skip: a later run could not tell "
            "which rows came too late"
        )
    elif options.output is None:
        refuse("--checkpoint needs a file for the verdicts: add -o FILE")
    elif options.output_format == "parquet":
        refuse(
            "--checkpoint does not work with --output-format parquet, as such a file cannot be cut "
            "and continued: write jsonl or csv, and convert that once the log is read"
        )
    elif options.sort:
        refuse(
            "--checkpoint does not work with --sort: no row is checked before all are read, so a "
            "later run could save nothing; sort the log first"
        )
