"""Which options need each other, and which contradict each other."""

from __future__ import annotations

import os

from mtlmon.run.failure import RunError
from mtlmon.run.recognition import format_advice
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.refusals import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    from mtlmon.checking.partitions import Partitions
    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import Output, RunSpec, Times
    from mtlmon.syntax.formula import Formula

    class Refuse(Protocol):
        """Raises the error of who has given the options."""

        def __call__(self, message: str, /) -> NoReturn: ...


def check_table_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options of tables contradict each other."""
    if options.times.idle is not None and options.times.sort:
        refuse(refused("idle, sort"))
    if options.log.pattern is not None and options.log.format is not None:
        refuse("--pattern reads lines of text: leave out --format")
    if (
        options.log.is_table
        and None not in (options.times.unit, options.times.resolution)
        and options.times.unit != options.times.resolution
    ):
        refuse(
            f"--unit {options.times.unit} and --resolution {options.times.resolution} contradict "
            "each other: both give the unit of time-stamps; the unit of the time column is "
            "--time-unit"
        )


def check_followed(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options say what does not go with following a file."""
    path, output = options.log.follow, options.output.path
    if path is None:
        return
    from mtlmon.support.table_formats import table_format

    if STANDARD_STREAM in (path, *options.policies.files):
        refuse("--follow needs files: standard input cannot be followed")
    if output is not None and os.path.realpath(output) == os.path.realpath(path):
        refuse(f"{output} is both the log and the file for the verdicts")
    known, compression = table_format(path) or (None, None)
    what = compression or options.log.format or known
    if compression or what in ("parquet", "arrow", "xes"):
        refuse(refused("follow, format", format=str(what)))


def consistent(refuse: Refuse, options: RunSpec) -> RunSpec:
    """Return what the options ask for, where one of them means another one.

    These are the rules that can be told from the options, before anything is read; in this order.

    Args:
        refuse: is called if the options contradict each other.
        options: the options, with the names of the policies and of the log.
    """
    options = options.having(
        verdicts=options.judging.given_verdicts or "all",
        output_format=options.output.given_format or "text",
        explain=options.reporting.explain or options.reporting.explain_output is not None,
    )
    check_followed(refuse, options)
    check_csv_safe(refuse, options.output)
    check_table_options(refuse, options)
    options = with_lateness(refuse, options)
    check_monpoly_options(refuse, options)
    check_exit_options(refuse, options)
    check_time_stamps(refuse, options)
    check_checkpoint_options(refuse, options)
    return options


def consistent_query(refuse: Refuse, options: RunSpec) -> RunSpec:
    """Return what the options of a query ask for, as `consistent` does for policies."""
    check_followed(refuse, options)
    check_csv_safe(refuse, options.output)
    check_table_options(refuse, options)
    options = with_lateness(refuse, options)
    if options.output.arrival and options.times.lateness == options.times.wait:
        refuse(
            "--arrival says when records were told and revised: as rows wait for --lateness, no "
            "record is revised"
        )
    check_checkpoint_options(refuse, options)
    return options


def with_lateness(refuse: Refuse, options: RunSpec) -> RunSpec:
    """Return the options with the lateness that they mean, if they work with others."""
    options = options.replace(times=settled_lateness(refuse, options))
    if options.output.arrival and options.times.lateness is None:
        refuse(
            "--arrival says when changes were told: let late rows change what was told, with "
            "--lateness 5m"
        )
    if options.times.clock is not None and options.times.lateness is None:
        refuse(
            "--clock says how the lateness of rows is measured: say how late, as in --lateness 5m"
        )
    if not options.times.reorders and options.times.lateness is None:
        return options
    given = "--late" if options.times.wait is None else "--wait"
    if options.times.lateness is not None:
        given = "--lateness"
    if options.times.sort:
        refuse(refused("late rows, sort", given=given))
    if options.times.lateness is not None and options.output.format == "monpoly":
        refuse(refused("lateness, monpoly"))
    return options


def settled_lateness(refuse: Refuse, options: RunSpec) -> Times:
    """Let --lateness be --wait if no verdict is to be corrected.

    Raises:
        RunError: options for late rows contradict each other.
    """
    times = options.times
    if times.lateness is None and (options.log.op or options.log.id):
        given = "--op" if options.log.op else "--id"
        refuse(
            f"{given} is about corrections of rows: say how late they may be, as in --lateness 5m"
        )
    if options.log.complete is not None:
        if options.log.op is None:
            refuse("--complete is about rows that count others: say what rows do with --op COLUMN")
        if times.clock == "key":
            refuse(refused("clock, complete", given="--complete"))
    if options.log.new_end is not None:
        if not (options.log.op and options.log.id):
            refuse(
                "--new-end is about the ends that retractions move: say what rows do with "
                "--op COLUMN, and which row is meant with --id COLUMN"
            )
        if times.clock == "key":
            refuse(refused("clock, new-end"))
    if times.consistency is None:
        return times
    if times.lateness is None:
        refuse("--consistency is about rows that come late: say how late, as in --lateness 5m")
    if times.wait is not None:
        refuse("--consistency says how long rows wait: leave it or --wait out")
    if times.consistency != "middle" and times.clock is not None:
        refuse(
            f"--clock is only for verdicts that are corrected: with --consistency "
            f"{times.consistency}, rows are late in the time of the whole log"
        )
    if times.consistency == "middle":
        return times
    lateness = times.lateness if times.consistency == "strong" else 0
    if options.log.op or options.log.id:
        # Rows that are taken back while they wait have never come.
        return times.replace(lateness=lateness, wait=lateness)
    return times.replace(lateness=None, wait=lateness)


def check_exit_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options for the exit status do not work with others."""
    if options.judging.reports_vacuous and options.judging.given_verdicts == "first":
        given = options.judging.vacuous_option
        refuse(refused("vacuous, first", given=given))
    if options.judging.fail_on is not None and options.log.signature is not None:
        refuse(refused("fail-on, signature"))


def check_monpoly_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if options for MonPoly's files stand without a signature."""
    if options.log.signature is not None:
        if len(options.policies.files) > 1:
            refuse("--signature is for one file of MonPoly: name one")
        return
    formulas = [name for name in options.policies.files if name.endswith(".mfotl")]
    if formulas:
        refuse(
            f"{formulas[0]} is a formula of MonPoly: add the signature of its log with "
            "--signature FILE"
        )
    given = {
        "--negate": options.judging.negate,
        "--nonewlastts": options.log.nonewlastts,
        "--output-format monpoly": options.output.format == "monpoly",
    }
    for name, is_given in given.items():
        if is_given:
            refuse(f"{name} is for files of MonPoly: add --signature FILE")


def check_csv_safe(refuse: Refuse, output: Output) -> None:
    """Raise RunError if the texts of another format than CSV are to be safe in spreadsheets."""
    if output.csv_safe and output.format != "csv":
        refuse("--csv-safe is for CSV: add --output-format csv")


def check_time_stamps(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if --time-stamps iso stands with what has no lines for people."""
    if options.output.time_stamps != "iso":
        return
    if options.output.format == "monpoly":
        refuse(refused("iso, monpoly"))
    if options.output.format != "text":
        refuse(
            "--time-stamps iso is for lines of text: JSON lines and tables have times in the "
            "column time_text"
        )


def check_text_options(options: RunSpec) -> None:
    """Raise RunError if options do not fit a text log.

    The policy file must have been read, as it can say that lines have a pattern.
    """
    for_tables = {
        "--time": options.log.time,
        "--time-unit": options.log.time_unit,
        "--time-format": options.log.time_format,
        "--time-zone": options.log.time_zone,
        "--null-values": list(options.log.null_values) != [""],
        "--delimiter": options.log.delimiter != ",",
        "--quote": options.log.quote != '"',
        "--decimal": options.log.decimal != ".",
        "--resolution": options.times.resolution,
        "--event": options.log.event,
        "--event-separator": options.log.event_separator,
        "--op": options.log.op,
        "--id": options.log.id,
        "--complete": options.log.complete,
        "--new-end": options.log.new_end,
        "--key": options.log.key_columns,
        "--advance-every": options.times.advance_every,
        "--time-points stamp": options.log.time_points == "stamp",
    }
    for name, value in for_tables.items():
        if value:
            log = "standard input" if options.log.path == STANDARD_STREAM else options.log.path
            raise RunError(
                f"{name} works on tables, but {log} is read as a text log: "
                f"{format_advice(options.log)} (see mtlmon --help)"
            )
    if options.output.time_stamps == "iso" and options.times.unit is None:
        raise RunError(
            "--time-stamps iso needs the unit of the time-stamps, which count from 1970: add "
            "--unit s, for instance, or a line 'unit s' to the policy file"
        )
    if len(options.log.paths) > 1:
        logs = ", ".join(options.log.paths)
        raise RunError(f"several text logs ({logs}): name one at a time (see mtlmon --help)")


def require_no_keys(partitions: Partitions, file: Formula | PolicyFile, options: RunSpec) -> None:
    """Raise RunError if policies have keys, which a text log does not have."""
    from mtlmon.policy import PolicyFile

    if partitions.all_columns:
        column = partitions.all_columns[0]
        name = options.policies.name
        for part in file.parts if isinstance(file, PolicyFile) else ():
            if any(column in (policy.key or part.key or ()) for policy in part.policies):
                name = part.source
                break
        raise RunError(
            f"{name} divides the log by the column {column}, but the log is read as text: "
            f"{format_advice(options.log)}"
        )


def require_no_columns(file: PolicyFile, options: RunSpec, *, of_streams: bool = False) -> None:
    """Raise RunError if policies need columns, which a text log does not have.

    Args:
        file: the policy file.
        options: the options of the run.
        of_streams: whether all streams of the file are needed, instead of its policies.
    """
    from mtlmon.policy.policy_file import DEFAULT_TIME

    for part in file.files:
        # PERF: of a start with policies over atoms alone, the language of expressions is a tenth
        if not (part.atoms or (of_streams and part.streams)):
            continue
        from mtlmon.policy.needs import meant_equivalences, needs_of

        needed = needs_of(part, (), tuple(part.streams)).columns if of_streams else part.columns
        columns = [name for name in needed if name != DEFAULT_TIME]
        if not columns:
            continue
        hints = meant_equivalences(part)
        meant = next((f"; {hints[name]}" for name in columns if name in hints), "")
        source = part.source if file.parts else options.policies.name
        raise RunError(
            f"{source} uses columns of a table, but the log is read as text: "
            f"{format_advice(options.log)}{meant}"
        )


def check_checkpoint_options(refuse: Refuse, options: RunSpec) -> None:
    """Raise RunError if an option for checkpoints needs another or does not work with it."""
    if options.checkpoint.path is None:
        if options.checkpoint.resume:
            refuse("--resume needs a checkpoint to go on from: add --checkpoint FILE")
        if options.checkpoint.every is not None:
            refuse("--checkpoint-every needs a checkpoint: add --checkpoint FILE")
    elif (
        options.times.idle is not None
        and options.log.on_error == "skip"
        and not options.times.reorders
        and options.times.lateness is None
    ):
        refuse(refused("idle, checkpoint, skip"))
    elif options.output.path is None:
        refuse("--checkpoint needs a file for the verdicts: add -o FILE")
    elif options.output.format == "parquet":
        refuse(refused("checkpoint, parquet"))
    elif options.times.sort:
        refuse(refused("checkpoint, sort"))
