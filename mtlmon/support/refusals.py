"""What does not work together, why, and what to do instead: each refusal once.

Messages are made of these, and so are the tables of docs/limits.md, which `python -m
tests.docs.limits` writes. A refusal that is no law is a gap, and says "yet".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REFUSALS", "Refusal", "refused"]


class Refusal:
    """A combination that is refused.

    Texts may have names in braces, for what differs from one message to the other.

    Attributes:
        what: what does not work, as a sentence without its end.
        reason: why.
        instead: what to do instead.
        names: what stands for the names in braces where nothing particular is meant.
    """

    __slots__ = ("instead", "names", "reason", "what")

    def __init__(self, what: str, reason: str, instead: str, **names: str) -> None:
        self.what = what
        self.reason = reason
        self.instead = instead
        self.names = names

    @property
    def is_law(self) -> bool:
        """Whether it follows from what the parts mean; else it is a gap."""
        return " yet" not in self.what

    def message(self, names: Mapping[str, str]) -> str:
        """Return the message of an error."""
        return f"{self.what}: {self.reason}; {self.instead}".format(**names)


_ONE_CLOCK = "leave --clock out, and all keys share the time of the log"
_LEAVE_OUT = "leave it out"

REFUSALS: Mapping[str, Refusal] = {
    # ---- options of the command and of mtlmon.check ---------------------------------------------
    "idle, sort": Refusal(
        "--idle does not work with --sort",
        "no row is checked before all are read",
        "--wait 5s puts late rows of a pipe in order",
    ),
    "late rows, sort": Refusal(
        "{given} does not work with --sort",
        "that waits for all rows",
        "leave one out",
        given="--wait, --late or --lateness",
    ),
    "checkpoint, sort": Refusal(
        "--checkpoint does not work with --sort",
        "no row is checked before all are read, so a later run could save nothing",
        "sort the log first",
    ),
    "checkpoint, parquet": Refusal(
        "--checkpoint does not work with --output-format parquet",
        "such a file cannot be cut and continued",
        "write jsonl or csv, and convert that once the log is read",
    ),
    "idle, checkpoint, skip": Refusal(
        "--idle and --checkpoint do not work with --on-error skip",
        "a later run could not tell which rows came too late",
        "add --wait 0, which tells them apart from others",
    ),
    "follow, format": Refusal(
        "--follow does not work with {format}",
        "lines are read as they are appended, and {format} has none",
        "text logs, JSON lines, CSV and lines of a pattern can be followed",
        format="Parquet, Arrow, XES or a compressed file",
    ),
    "vacuous, first": Refusal(
        "{given} does not work with --verdicts first",
        "that stops before the end of the log",
        "use --verdicts false",
        given="--fail-on-vacuous or --vacuous",
    ),
    "next, advance": Refusal(
        "--advance-every does not work with next(...)",
        "rows wait for later ones, which advancing would not",
        _LEAVE_OUT,
    ),
    "later, over": Refusal(
        "over does not work yet with a stream that looks at later values, as `{name}`",
        "which instances are alive is known when a row comes, and no more when it has waited",
        "`s[EXPRESSION]` reads an instance of it",
        name="max(s over s)",
    ),
    # ---- late rows ------------------------------------------------------------------------------
    "lateness, advance": Refusal(
        "--lateness does not work with --advance-every",
        "all keys have the time of the log there, also those without rows",
        _LEAVE_OUT,
    ),
    "clock, idle": Refusal(
        "--clock key does not work with --idle",
        "each key has a time of its own, and the machine has one clock",
        _ONE_CLOCK,
    ),
    "clock, pass_time": Refusal(
        "pass_time does not work with clock='key'",
        "each key has a time of its own",
        "leave clock out, and all keys share the time of the log",
    ),
    "clock, complete": Refusal(
        "--clock key does not work with {given}",
        "rows are counted of all keys, which would have times of their own",
        _ONE_CLOCK,
        given="--complete",
    ),
    "clock, new-end": Refusal(
        "--clock key does not work with --new-end",
        "records of any time may still come with other keys, and their ends",
        _ONE_CLOCK,
    ),
    "clock, next": Refusal(
        "--clock key does not work where rows wait for later values, as in {name}",
        "the rows of one key are no bound for how long those of another wait",
        _ONE_CLOCK,
        name="x.next()",
    ),
    "clock, ticks": Refusal(
        "--clock key does not work with ticks, as in {name}",
        "a tick comes when the time of the whole log has passed it",
        _ONE_CLOCK,
        name="on every 10s",
    ),
    "clock, relations": Refusal(
        "--clock key does not work with relations made of rows of the log, as {name}",
        "rows of any time may still come with other keys, and change them",
        _ONE_CLOCK,
        name="relation last = rows",
    ),
    "clock, assume": Refusal(
        "--clock key does not work with assumptions about the log",
        "rates are counted in the order of time, and rows of any time may still come with other "
        "keys",
        _ONE_CLOCK,
    ),
    "clock, variables": Refusal(
        "--clock key does not work with policies with variables",
        "their values are of all keys, so the log has one time",
        _ONE_CLOCK,
    ),
    "rows, stamp, corrections": Refusal(
        "--rows does not work with --time-points stamp and {given}",
        "a verdict names the first row of its time-point, and would have to name another one if "
        "that row is taken back",
        "leave out --time-points, and each row is a time-point",
        given="--op or --id",
    ),
    # ---- files of MonPoly -----------------------------------------------------------------------
    "lateness, monpoly": Refusal(
        "--lateness does not work with --output-format monpoly",
        "that form has no line for values that do not violate a policy any more",
        "leave the format out, or let rows wait, with --wait",
    ),
    "iso, monpoly": Refusal(
        "--time-stamps iso does not work with --output-format monpoly",
        "that form has the numbers of the log",
        "leave the format out, and lines have times",
    ),
    "rows, signature": Refusal(
        "--rows does not work with --signature",
        "a time-point may have many lines",
        "verdicts have its number among all time-points",
    ),
    "context, signature": Refusal(
        "--context does not work with --signature",
        "a time-point may have many lines",
        "verdicts have its number among all time-points",
    ),
    "fail-on, signature": Refusal(
        "--fail-on does not work with --signature",
        "its policies have no severity",
        _LEAVE_OUT,
    ),
    "unit, signature": Refusal(
        "--unit does not work with --signature", "time-stamps are seconds there", _LEAVE_OUT
    ),
    "set, signature": Refusal(
        "--set does not work with --signature", "its files declare no constants", _LEAVE_OUT
    ),
    "mode, signature": Refusal(
        "--mode does not work with --signature",
        "there are no equivalences between values of variables",
        _LEAVE_OUT,
    ),
    "end-time, signature": Refusal(
        "--end-time does not work with --signature",
        "the log ends as MonPoly ends it",
        "--nonewlastts leaves its end open",
    ),
    "idle, signature": Refusal(
        "--idle does not work with --signature",
        "a time-point ends where the next one begins",
        "a line with a time-stamp alone, @TS, lets time pass",
    ),
    "pass_time, signature": Refusal(
        "pass_time does not work with signature=",
        "a time-point ends where the next one begins",
        "a line with a time-stamp alone, @TS, lets time pass",
    ),
    # ---- relations ------------------------------------------------------------------------------
    "batches, operator": Refusal(
        "{word} does not work yet in batches",
        "what it gives depends on records of later times, for which nothing waits",
        "evaluate the whole table",
        word="in look-ups, `end()` or `shift` to earlier times",
    ),
    # ---- Spark ----------------------------------------------------------------------------------
    "Spark, keys": Refusal(
        "keys of policies do not work with functions of Spark for one trace, as {name}",
        "a call has the rows of one trace",
        "mtlmon.spark.monitor and monitor_stream divide rows by keys",
        name="key user",
    ),
    "Spark, conditions of atoms": Refusal(
        "{function} does not support yet atoms with arguments whose conditions depend on other "
        "rows, as {name}",
        "all rows of a time-stamp are one time-point there, and nothing says in which order they "
        "count",
        "say it with operators of the formula, or use mtlmon.check",
        function="Spark",
        name="a window",
    ),
    "Spark, messages": Refusal(
        "Spark does not support yet messages of policies that are not decided at their own rows, "
        "as {name}",
        "rows are not kept until their verdicts are known",
        "leave the message out",
        name="one with EVENTUALLY",
    ),
    "Spark, patterns": Refusal(
        "pattern does not work in a policy file for rows of Spark",
        "these have columns already",
        "mtlmon.spark.monitor_files reads lines, and regexp_extract of Spark extracts columns",
    ),
}
"""All refusals, by the words for what is refused."""


def refused(name: str, /, **names: str) -> str:
    """Return the message that a combination is refused.

    Args:
        name: the key of the combination in `REFUSALS`.
        names: the names in its texts.
    """
    return REFUSALS[name].message(names)
