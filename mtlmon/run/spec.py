"""What a run is asked to do: the policies, the log and every option, in groups.

A group is a value: what is settled later, as the format of a log that is recognised by its first
bytes, is settled by a function that returns another value.
"""

from __future__ import annotations

import os

from mtlmon.support.frozen import Frozen
from mtlmon.support.inputs import STANDARD, STANDARD_STREAM, Input
from mtlmon.support.option_names import COMMAND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, Self

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.host import Host
    from mtlmon.run.judges import Taker
    from mtlmon.support.option_names import OptionNames
    from mtlmon.syntax.durations import Duration
    from mtlmon.tables.given import GivenRows
    from mtlmon.tables.outputs import BatchOutput
    from mtlmon.text.given import GivenText

    Verdicts = Literal["all", "boolean", "false", "first", "none"]


__all__ = [
    "PLACES",
    "Checkpoint",
    "Judging",
    "Limits",
    "Log",
    "Output",
    "Policies",
    "Reporting",
    "RunSpec",
    "Times",
]


class Policies(Frozen):
    """Where the policies come from.

    Attributes:
        formula: the text of a formula or a policy file; None if it is read from files.
        files: the names of the policy files: none with a formula, one, or several.
        contents: their bytes by name, once they have been read.
        constants: the values of constants, by name.
        explain_formula: whether the policies are explained instead of checked.
    """

    formula: str | None = None
    files: Sequence[str] = ()
    contents: Mapping[str, bytes] = {}
    constants: Mapping[str, str] = {}
    explain_formula: bool = False

    @property
    def name(self) -> str:
        """The policy files in messages."""
        return " and ".join(self.files) or "the formula"


_NO_INPUTS: Mapping[str, Any] = {}


class Log(Frozen):
    """What is read, and how.

    Attributes:
        paths: the names of files, with `-` for the input.
        input: what takes the place of standard input.
        tables: instead of files, or among them, tables and data frames.
        inputs: for queries, paths or tables beside the log, by the names that relations call them.
        keys: the columns of keys, as they are given.
        given: what a program gives as it comes, instead of files and tables; None if it does not.
        counting: for each usable row of tables as it comes, whether it counts, where an earlier
            run has found that out; those behind these do not. None if it is to be found.
        knows_counts: whether an earlier run has taken in what lines say of how many there are.
    """

    given: GivenRows | GivenText | None = None
    counting: NDArray[np.bool_] | None = None
    knows_counts: bool = False
    paths: Sequence[str] = ()
    input: Input = STANDARD
    tables: Sequence[Any] = ()
    inputs: Mapping[str, Any] = _NO_INPUTS
    follow: str | None = None
    format: str | None = None
    pattern: str | None = None
    on_error: Literal["stop", "skip"] = "stop"
    delimiter: str = ","
    quote: str = '"'
    decimal: str = "."
    null_values: Sequence[str] = ("",)
    # several columns are a list of their names
    time: str | Sequence[str] | None = None
    time_unit: str | None = None
    time_format: str | None = None
    time_zone: str | None = None
    event: str | None = None
    event_separator: str | None = None
    keys: Sequence[Sequence[str]] = ()
    time_points: Literal["row", "stamp"] = "row"
    op: str | None = None
    id: str | None = None
    complete: tuple[str | None, str] | None = None
    new_end: str | None = None
    signature: str | None = None
    nonewlastts: bool = False

    @property
    def path(self) -> str:
        """The first file, or standard input."""
        return self.paths[0] if self.paths else STANDARD_STREAM

    @property
    def sources(self) -> Sequence[Any]:
        """The tables, or the paths and inputs of tables."""
        named = [self.input if one == STANDARD_STREAM else one for one in self.paths]
        return self.tables or named

    @property
    def has_pipe(self) -> bool:
        """Whether some of the files cannot be read a second time."""
        return any(self._is_pipe(path) for path in self.paths)

    def _is_pipe(self, path: str) -> bool:
        import stat

        try:
            own = path == STANDARD_STREAM
            found = os.fstat(self.input.descriptor) if own else os.stat(path)
        except OSError:
            # such as a pattern of several files
            return False
        return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))

    @property
    def key_columns(self) -> list[str]:
        """The columns of keys."""
        return [name for names in self.keys for name in names]

    @property
    def streams(self) -> list[Any]:
        """Those of the tables that can be read only once, as readers of Arrow."""
        return [one for one in self.tables if not is_kept(one)]

    @property
    def setting(self) -> tuple[str, object]:
        """What a run that goes on must not change, with the words for an error message."""
        return "from tables" if not self.is_table else "from a text log", self.is_table

    @property
    def is_table(self) -> bool:
        """Whether the logs are tables."""
        if self.tables or self.pattern is not None:
            return True
        if self.format is not None:
            return self.format != "text"
        from mtlmon.support.table_formats import table_format

        return any(table_format(path) is not None or is_directory(path) for path in self.paths)


class Times(Frozen):
    """What is known of time-stamps: their unit, their order, and how time passes."""

    unit: str | None = None
    resolution: str | None = None
    sort: bool = False
    end_time: int | Literal["last", "inf"] | None = None
    advance_every: int | None = None
    idle: Duration | None = None
    wait: int | Duration | None = None
    # a path, or for tables what takes the rows
    late: str | Callable[[bytes], None] | None = None
    lateness: int | Duration | None = None
    consistency: Literal["strong", "middle", "weak"] | None = None
    clock: Literal["all", "key"] | None = None

    @property
    def time_stamp_unit(self) -> str | None:
        """The unit of time-stamps, if an option or the policies say it."""
        return self.resolution or self.unit

    @property
    def reorders(self) -> bool:
        """Whether rows that come late are put in their places, or refused if they are too late."""
        return self.wait is not None or self.late is not None


class Judging(Frozen):
    """How policies are evaluated, and which verdicts count.

    Attributes:
        given_verdicts: the verdicts that are asked for; None leaves them to the policies.
        verdicts: what is given, or else the default of the policies.
    """

    mode: Literal["local", "global", "naive"] = "local"
    bdd: Literal["auto", "cudd", "autoref"] = "auto"
    given_verdicts: Verdicts | None = None
    verdicts: Verdicts = "all"
    resolve: bool = False
    negate: bool = False
    slices: int | None = None
    slice_seed: int | None = None
    statistics: str | None = None
    write_statistics: str | None = None
    fail_on: Literal["info", "low", "medium", "high", "critical"] | None = None
    fail_on_vacuous: bool = False
    # what is done if an implication was never triggered, besides the exit status
    vacuous: Vacuous = "ignore"

    @property
    def reports_vacuous(self) -> bool:
        """Whether it is told which implications were never triggered."""
        return self.fail_on_vacuous or self.vacuous != "ignore"

    @property
    def vacuous_option(self) -> str:
        """The option that asks for that, in messages."""
        return "--fail-on-vacuous" if self.fail_on_vacuous else f"--vacuous {self.vacuous}"


class Limits(Frozen):
    """What a run may use.

    Attributes:
        sort_memory: how many bytes sorting uses, approximately, before it writes to disk.
    """

    sort_memory: int | None = None
    threads: int | None = None
    max_memory: int | None = None
    max_rows: int | None = None


class Output(Frozen):
    """What becomes of the answers.

    Attributes:
        path: the file that they are written to; None for standard output or the program.
        given_format: the format that is asked for.
        format: what is given, or else text; batches, if a program takes the answers.
        make_batches: makes what keeps answers as batches, if these are not written.
        taker: takes what is found as it is, if it is neither written nor kept.
        arrival: whether changes have how far the log had come when they were told.
        for_people: whether violations are written for a person.
    """

    path: str | None = None
    given_format: Literal["text", "jsonl", "csv", "parquet", "monpoly"] | None = None
    format: Literal["text", "jsonl", "csv", "parquet", "monpoly", "batches"] = "text"
    make_batches: Callable[[Any], BatchOutput[Any]] | None = None
    taker: Taker | None = None
    csv_safe: bool = False
    rows: bool = False
    arrival: bool = False
    time_stamps: Literal["raw", "iso"] | None = None
    color: Literal["auto", "always", "never"] = "auto"
    for_people: bool = False

    @property
    def settings(self) -> list[tuple[str, object]]:
        """What a run that goes on must not change, each with the words for an error message."""
        return [
            ("with another --output-format", self.format),
            ("with another --time-stamps", self.time_stamps == "iso"),
        ]


class Reporting(Frozen):
    """What is told beside the answers.

    Attributes:
        arguments: the words of the command, for reports.
        explanations: takes explanations; None if they go where `explain_output` says.
    """

    summary: bool | None = None
    progress: bool = False
    explain: bool = False
    explain_output: str | None = None
    explain_limit: int = 10
    arguments: Sequence[str] = ()
    explanations: Explanations | None = None
    context_both: int | None = None
    context_before: int | None = None
    context_after: int | None = None
    report: str | None = None

    @property
    def has_context(self) -> bool:
        """Whether the rows around violations are shown."""
        given = self.context_both, self.context_before, self.context_after
        return any(number is not None for number in given)

    @property
    def context(self) -> tuple[int, int]:
        """How many rows are shown before and behind those of violations."""
        both = self.context_both or 0
        before, after = self.context_before, self.context_after
        return both if before is None else before, both if after is None else after

    @property
    def needs_violations(self) -> bool:
        """Whether violations are collected, for what is told at the end."""
        return self.report is not None or self.explain or self.has_context

    @property
    def settings(self) -> list[tuple[str, object]]:
        """What a run that goes on must not change, each with the words for an error message."""
        shows, reports = self.explain or self.has_context, self.report is not None
        return [
            (f"with{'out' if shows else ''} --explain or --context", shows),
            (f"with{'out' if reports else ''} --report", reports),
        ]


class Checkpoint(Frozen):
    """Where a run saves its progress, how often, and whether it goes on from there."""

    path: str | None = None
    every: tuple[Literal["events", "seconds"], float] | None = None
    resume: bool = False


class RunSpec(Frozen):
    """All that a run is asked to do.

    Attributes:
        host: is told what happens, and can interrupt the run.
        option_names: how messages write the options that they recommend.
    """

    host: Host
    option_names: OptionNames = COMMAND
    policies: Policies = Policies()
    log: Log = Log()
    times: Times = Times()
    judging: Judging = Judging()
    limits: Limits = Limits()
    output: Output = Output()
    reporting: Reporting = Reporting()
    checkpoint: Checkpoint = Checkpoint()

    @property
    def passes_time(self) -> bool:
        """Whether time can pass without rows."""
        return self.times.idle is not None or self.log.given is not None

    @property
    def tracks_rows(self) -> bool:
        """Whether the log that is read again tells its rows."""
        return self.output.rows or self.reporting.needs_violations

    def having(self, **options: Any) -> Self:
        """Return what is asked for with other values of some options, by their words.

        The words are those of the command, as `PLACES` has them: `having(output=None)`.
        """
        changes: dict[str, dict[str, Any]] = {}
        for word, value in options.items():
            if word not in PLACES:
                raise TypeError(f"there is no option {word}")
            group, field = PLACES[word]
            changes.setdefault(group, {})[field] = value
        return self.replace(
            **{group: getattr(self, group).replace(**some) for group, some in changes.items()}
        )


_WORDS = {
    ("policies", "files"): "formula_files",
    ("log", "paths"): "logs",
    ("output", "path"): "output",
    ("output", "format"): "output_format",
    ("output", "make_batches"): "batch_output",
    ("checkpoint", "path"): "checkpoint",
    ("checkpoint", "every"): "checkpoint_every",
}
"""What fields are called outside their groups, where that differs from their names."""


def _places() -> dict[str, tuple[str, str]]:
    groups = ((name, getattr(RunSpec, name, None)) for name in RunSpec.fields())
    return {
        _WORDS.get((name, field), field): (name, field)
        for name, group in groups
        if isinstance(group, Frozen)
        for field in group.fields()
    }


PLACES = _places()
"""The group and the field of every option, by its word."""


def is_kept(table: object) -> bool:
    """Whether a table can be read several times: those with a length and lazy frames can."""
    is_file = isinstance(table, str | os.PathLike)
    return is_file or hasattr(table, "__len__") or hasattr(table, "collect_batches")


def is_directory(path: str) -> bool:
    return path != STANDARD_STREAM and os.path.isdir(path)
