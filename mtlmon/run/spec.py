"""What a run is asked to do: the policies, the log and every option, by the command's words."""

from __future__ import annotations

import os

from mtlmon.support.option_names import COMMAND
from mtlmon.support.standard_input import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.host import Host
    from mtlmon.support.option_names import OptionNames
    from mtlmon.syntax.durations import Duration
    from mtlmon.tables.outputs import BatchOutput


__all__ = ["RunSpec"]


class RunSpec:
    """The options of a run; what is not said has the default that the class has."""

    # how messages write the options that they recommend
    option_names: OptionNames = COMMAND
    # is told what happens, and can interrupt the run
    host: Host

    # ---- policies ----
    formula: str | None = None
    # the policy files: none with a formula, one, or several
    formula_files: list[str]
    # their bytes by name, once they have been read
    contents: dict[str, bytes]
    unit: str | None = None
    policies: list[str] = []  # noqa: RUF012
    constants: dict[str, str]
    explain_formula: bool = False

    # ---- the log ----
    log: str
    logs: list[str]
    # instead of files, or among them, tables and data frames
    tables: Sequence[Any] = ()
    follow: str | None = None
    format: str | None = None
    pattern: str | None = None
    on_error: Literal["stop", "skip"] = "stop"
    delimiter: str = ","
    quote: str = '"'
    decimal: str = "."
    null_values: list[str] = [""]  # noqa: RUF012
    # several columns are a list of their names
    time: str | Sequence[str] | None = None
    time_unit: str | None = None
    time_format: str | None = None
    time_zone: str | None = None
    resolution: str | None = None
    event: str | None = None
    event_separator: str | None = None
    keys: list[list[str]] = []  # noqa: RUF012
    time_points: Literal["row", "stamp"] = "row"
    signature: str | None = None
    negate: bool = False
    nonewlastts: bool = False

    # ---- the order of time ----
    sort: bool = False
    sort_memory: int | None = None
    end_time: int | Literal["last", "inf"] | None = None
    advance_every: int | None = None
    idle: Duration | None = None
    wait: int | Duration | None = None
    # a path, or for tables what takes the rows
    late: str | Callable[[bytes], None] | None = None
    lateness: int | Duration | None = None
    consistency: Literal["strong", "middle", "weak"] | None = None
    clock: Literal["all", "key"] | None = None
    op: str | None = None
    id: str | None = None

    # ---- verdicts ----
    mode: Literal["local", "global", "naive"] = "local"
    bdd: Literal["auto", "cudd", "autoref"] = "auto"
    given_verdicts: Literal["all", "boolean", "false", "first", "none"] | None = None
    # what is given, or else the default of the policies
    verdicts: Literal["all", "boolean", "false", "first", "none"]
    resolve: bool = False
    slices: int | None = None
    slice_seed: int | None = None
    threads: int | None = None
    max_memory: int | None = None
    max_rows: int | None = None

    # ---- the output ----
    output: str | None = None
    given_format: Literal["text", "jsonl", "csv", "parquet", "monpoly"] | None = None
    # what is given, or else text
    output_format: Literal["text", "jsonl", "csv", "parquet", "monpoly", "batches"]
    # makes what keeps answers as batches, if these are not written
    batch_output: Callable[[Any], BatchOutput[Any]] | None = None
    csv_safe: bool = False
    rows: bool = False
    time_stamps: Literal["raw", "iso"] | None = None
    color: Literal["auto", "always", "never"] = "auto"
    # whether violations are written for a person
    for_people: bool

    # ---- what is told beside verdicts ----
    summary: bool | None = None
    progress: bool = False
    explain: bool = False
    explain_output: str | None = None
    explain_limit: int = 10
    # the words of the command, for reports
    arguments: Sequence[str] = ()
    # takes explanations; None if they go where `explain_output` says
    explanations: Explanations | None = None
    context_both: int | None = None
    context_before: int | None = None
    context_after: int | None = None
    report: str | None = None
    fail_on: Literal["info", "low", "medium", "high", "critical"] | None = None
    fail_on_vacuous: bool = False
    # what is done if an implication was never triggered, besides the exit status
    vacuous: Vacuous = "ignore"

    # ---- checkpoints ----
    checkpoint: str | None = None
    checkpoint_every: tuple[Literal["events", "seconds"], float] | None = None
    resume: bool = False

    @property
    def formula_name(self) -> str:
        """The policy files in messages."""
        return " and ".join(self.formula_files) or "the formula"

    @property
    def key_columns(self) -> list[str]:
        """The columns of keys."""
        return [name for names in self.keys for name in names]

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
    def streams(self) -> list[Any]:
        """Those of the tables that can be read only once, as readers of Arrow."""
        return [one for one in self.tables if not is_kept(one)]

    @property
    def tells_vacuous(self) -> bool:
        """Whether it is told which implications were never triggered."""
        return self.fail_on_vacuous or self.vacuous != "ignore"

    @property
    def needs_violations(self) -> bool:
        """Whether violations are collected, for what is told at the end."""
        return self.report is not None or self.explain or self.has_context

    @property
    def tracks_rows(self) -> bool:
        """Whether the log that is read again tells its rows."""
        return self.rows or self.needs_violations

    @property
    def reorders(self) -> bool:
        """Whether rows that come late are put in their places, or refused if they are too late."""
        return self.wait is not None or self.late is not None

    @property
    def is_table(self) -> bool:
        """Whether the logs are tables."""
        if self.tables or self.pattern is not None:
            return True
        if self.format is not None:
            return self.format != "text"
        from mtlmon.support.table_formats import table_format

        return any(table_format(path) is not None or is_directory(path) for path in self.logs)


def is_kept(table: object) -> bool:
    """Whether a table can be read several times: those with a length and lazy frames can."""
    is_file = isinstance(table, str | os.PathLike)
    return is_file or hasattr(table, "__len__") or hasattr(table, "collect_batches")


def is_directory(path: str) -> bool:
    return path != STANDARD_STREAM and os.path.isdir(path)
