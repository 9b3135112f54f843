"""Check policies on tables, with verdicts as batches of rows."""

from __future__ import annotations

import os
import warnings
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import pyarrow as pa

from mtlmon.analysis.antecedent import antecedent_of, is_vacuity_wanted, vacuous_text
from mtlmon.checking import LogCheck, TraceKeys
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.checking.shown import Messages, shown_names
from mtlmon.engine.guarding import Guard, guarded
from mtlmon.errors import InUseError, MtlmonError, VacuousError, VacuousWarning
from mtlmon.policy import Policy, PolicyFile
from mtlmon.policy.several import given_policies
from mtlmon.support.copies import NotCopied
from mtlmon.support.extras import load_extra
from mtlmon.support.html_tables import html_table
from mtlmon.support.stack_levels import levels_inside
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.conditions import written_with_conditions
from mtlmon.syntax.formula import Formula
from mtlmon.tables.first_violations import FirstViolations
from mtlmon.tables.formats.files import TableObject
from mtlmon.tables.given_options import OF_EVENTS, require_known
from mtlmon.tables.opening import open_tables
from mtlmon.tables.verdicts import VerdictTable
from mtlmon.tables.violations import Judged, offending_rows

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import pandas
    import polars

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.checking import PolicyCounts
    from mtlmon.explanation.trace import EndTime
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.running import RelationalRun
    from mtlmon.tables.events import TableEvents
    from mtlmon.tables.formats.files import Tables

__all__ = ["TableCheck", "check_tables"]


class TableCheck(NotCopied):
    """The verdicts of a check of tables: an iterator of record batches, which can be read once.

    It is a context manager; leaving it closes the files.

    Attributes:
        log_check: the monitors, if policies have no variables.
        events: the events that the rows are read as.
    """

    log_check: LogCheck
    events: TableEvents

    def __init__(
        self,
        check: LogCheck,
        events: TableEvents,
        end_time: EndTime,
        vacuous: Vacuous = "ignore",
    ) -> None:
        self._guard = Guard("check")
        self.log_check = check
        self.events = events
        self._vacuous = vacuous
        names = [policy.name for policy in check.policies]
        keys = TraceKeys(check.partitions, events.key_tables)
        rows = check.row_tracker
        facts = PolicyFacts(check.policies)
        self._verdicts = VerdictTable(names, keys, events.times, check.messages, rows, facts)
        self._begin(end_time)

    def _begin(self, end_time: EndTime) -> None:
        """Let batches be read once they are asked for, and keep the first violations."""
        self._first_violations = FirstViolations()
        self._batches = self._noted(self._read(end_time))

    def _noted(
        self, batches: Generator[pa.RecordBatch, None, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        with closing(batches):
            for batch in batches:
                self._first_violations.note(batch)
                yield batch

    def __iter__(self) -> TableCheck:
        return self

    @guarded
    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __enter__(self) -> TableCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @guarded
    def close(self) -> None:
        """Close all files; no more verdicts come."""
        self._batches.close()
        self.events.close()

    @property
    @guarded
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy.

        Equivalents count like the time-point that they are equivalent to.
        """
        return self._counts()

    def _counts(self) -> dict[str | None, PolicyCounts]:
        names = (policy.name for policy in self.log_check.policies)
        return dict(zip(names, self.log_check.counts, strict=True))

    @property
    @guarded
    def remarks(self) -> list[str]:
        """Remarks about values that may be meant differently, by the rows so far, a sentence each.

        For keys and other values that are compared as texts, but look like the same number, the
        remark names the declaration that makes them equal.
        """
        return list(self.events.remarks)

    @property
    @guarded
    def schema(self) -> pa.Schema:
        """The columns of the batches, once all rows have been read."""
        return self._columns()

    def _columns(self) -> pa.Schema:
        return self._verdicts.schema

    @guarded
    def to_arrow(self) -> pa.Table:
        """Return all remaining verdicts as one table."""
        batches = list(self._batches)
        return pa.Table.from_batches(batches, self._columns())

    @guarded
    def violations(self, frame: Any) -> Any:
        """Return the rows of a table that violate policies, in the order of the verdicts.

        This reads all remaining verdicts. A row that violates several policies, or one policy for
        several valuations, appears once for each.

        Args:
            frame: the only table that was checked: a data frame of pandas or polars, or a table or
                record batch of pyarrow.

        Returns:
            A table of the same kind, with the columns of the rows and three more: `policy`; `time`,
            the time-stamp; and `reason`, a text: the message of a trigger, or what the policy
            means, or its formula; for policies with variables, with the values that violate it.
            Names that are taken get the prefix `violation_`.

        Raises:
            MtlmonError: the check does not tell the rows of violations, or the table is another
                one.
        """
        self._require_rows()
        sources = self.events.sources
        if len(sources) != 1 or not (
            isinstance(sources[0], TableObject) and sources[0].table is frame
        ):
            raise MtlmonError("violations() takes the table that was checked, and only one")
        return offending_rows(frame, self._batches, self._judged)

    def _require_rows(self) -> None:
        """Raise MtlmonError if the batches do not tell the row of every violation."""
        check = self.log_check
        if check.row_tracker is None:
            raise MtlmonError("violations() needs the rows of verdicts: add rows=True")
        if not check.has_all_violations:
            raise MtlmonError(
                "violations() needs the verdict of every row, also where it follows from an "
                "equivalence: add resolve=True, or mode='naive', and leave out verdicts='none'"
            )

    def _judged(self) -> Judged:
        """Return what `offending_rows` needs to know of the batches."""
        return Judged(self.log_check.policies, "message", keys=self._verdicts.key_columns)

    def to_pandas(self) -> pandas.DataFrame:
        """Return all remaining verdicts as a data frame of pandas.

        Raises:
            MtlmonError: pandas is not installed.
        """
        load_extra("pandas", "pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Return all remaining verdicts as a data frame of Polars.

        Raises:
            MtlmonError: polars is not installed.
        """
        frame: polars.DataFrame = load_extra("polars", "polars").from_arrow(self.to_arrow())
        return frame

    def __repr__(self) -> str:
        try:
            counts = self.counts.values()
        except InUseError:
            return f"<{type(self).__name__}, in use>"
        events, false = (sum(one[place] for one in counts) for place in (0, 2))
        return f"<{type(self).__name__}: {events:,} time-points, {false:,} violations so far>"

    def _repr_html_(self) -> str:
        """The counts of each policy so far and its first violations, which notebooks show."""
        counts = self.counts
        rows = [
            (
                name or "",
                f"{one.events:,}",
                f"{one.false:,}",
                f"{one.false / one.events:.1%}" if one.events else "",
                f"{one.undecided:,}",
            )
            for name, one in counts.items()
        ]
        table = html_table(("policy", "time-points", "violations", "part", "undecided"), rows)
        false = sum(one.false for one in counts.values())
        return table + self._first_violations.to_html(self._judged, false)

    def _read(self, end_time: EndTime) -> Generator[pa.RecordBatch, None, None]:
        try:
            for _ in self.log_check.run(self.events, end_time):
                yield from self._verdicts.batches(self.log_check.verdicts)
        except MtlmonError:
            # the verdicts that were decided by the events before the error
            yield from self._verdicts.batches(self.log_check.verdicts)
            raise
        # The first violation ends the check before the log. This is no `finally`: the garbage
        # collector may end generators anywhere, also where a thread cannot be waited for.
        self.events.close()
        self._tell_of_triggers()

    def _tell_of_triggers(self) -> None:
        """Warn of policies that were never triggered, or raise an error."""
        check = self.log_check
        for policy, triggered, counts in zip(
            check.policies, check.triggered, check.counts, strict=True
        ):
            antecedent = antecedent_of(policy.formula)
            if triggered is None or triggered.times or antecedent is None:
                continue
            self._tell_of_trigger(policy, antecedent.formula, counts.events)

    def _tell_of_matches(self, file: PolicyFile, run: RelationalRun) -> None:
        """Likewise, of policies with variables."""
        if self._vacuous == "ignore":
            return
        from mtlmon.relational.analysis import valid_analysis
        from mtlmon.relational.vacuity import unmatched

        analysis = valid_analysis(file, self.events.schema, self.events.looked_up)
        for one in unmatched(analysis, run.engine):
            self._tell_of_trigger(one.policy, one.left, run.point_count)

    def _tell_of_trigger(self, policy: Policy, left: Formula | str, events: int) -> None:
        """Warn of a policy that was never triggered, or raise an error."""
        name = f"policy {policy.name}" if policy.name else str(policy.formula)
        message = vacuous_text(name, left, events)
        if self._vacuous == "error":
            raise VacuousError(message, formula=policy.formula)
        warnings.warn(message, VacuousWarning, stacklevel=levels_inside())


def check_tables(
    tables: Tables | Sequence[Tables],
    policies: PolicyFile | Formula | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mode: Literal["local", "global", "naive"] = "local",
    bdd: Literal["auto", "cudd", "autoref"] = "auto",
    verdicts: Literal["all", "boolean", "false", "first", "none"] | None = None,
    resolve: bool = False,
    end_time: EndTime = None,
    advance_every: int | None = None,
    max_memory: SupportsIndex | str | None = None,
    time_points: Literal["row", "stamp"] = "row",
    rows: bool = False,
    vacuous: Vacuous = "ignore",
    **options: Any,
) -> TableCheck:
    """Check policies on tables in one pass.

    The tables are read as `open_tables` does, and the result is that of the command: a row for each
    verdict, with the columns of `mtlmon --output-format`. For policies with variables, that is a
    row for each valuation, with a column for each variable; if the file has other policies, too,
    the rows of both come event by event in one table.

    Args:
        tables: as `open_tables` takes them.
        policies: a policy file as `parse_policies` returns it, the text of one, its path as a
            `pathlib.Path`, a list of the paths of several, or a formula. It
            also determines the unit of time-stamps, unless `resolution` is given.
        mode: as for `Monitor`.
        bdd: as for `Monitor`.
        verdicts: which verdicts are wanted, by default "all", or "false" for policies with
            variables; "first" is the earliest violation, after which nothing is read.
        resolve: whether to report the Boolean verdict of every time-point instead of equivalences.
        end_time: what is known about the time after the last row, as for `Monitor.finish`; "last"
            means that no later event has the last row's time.
        advance_every: whenever this much time has passed, advance all keys.
        max_memory: how much memory mtlmon's own structures may hold, in bytes or as a text such as
            "500M"; Arrow's memory for the rows being read is not included.
        time_points: for policies with variables, "row" if each row is a time-point, "stamp" if all
            rows of one time-stamp are.
        rows: whether batches have columns `file` and `row`: the name of the file that the
            time-point comes from, and the number of its row there, from 1, without a header. For
            tables and data frames, `file` is null, and `row` is the index of the row, from 0. Both
            are null for ticks. With `time_points="stamp"`, answers of policies with variables have
            the first row of the time-stamp.
        vacuous: what to do at the end if a policy is an implication whose left side has held
            nowhere, so that the tables say nothing about it: "warn" (`VacuousWarning`), "error"
            (`VacuousError`, after all verdicts) or "ignore".
        options: of `open_tables`, those that say how rows become events in the order of time:
            `format`, `pattern`, `time`, `time_unit`, `time_format`, `time_zone`, `resolution`,
            `event`, `event_separator`, `null_values`, `delimiter`, `quote`, `decimal`, `on_error`,
            `sort`, `sort_memory`, `wait` and `late`. They take precedence over what the policy file
            says. `key` is the key of the policies that name none themselves.

    Raises:
        MtlmonError: the arguments are contradictory or unknown, or a formula is not valid.
        OSError: a file cannot be opened.

    Iterating raises the errors of iterating over `open_tables`, LimitError, MemoryLimitError and
    VacuousError; the verdicts of the rows before the error come first.

    >>> import pyarrow as pa
    >>> users, names = ["ann", "bob", "ann"], ["in", "in", "out"]
    >>> rows = pa.table({"ts": [1, 2, 9], "user": users, "what": names})
    >>> check = check_tables(
    ...     rows, "policy leave: in IMPLIES EVENTUALLY[0,5] out", event="what", key="user",
    ...     end_time="inf",
    ... )
    >>> for row in check.to_arrow().to_pylist():
    ...     print(row["policy"], row["user"], row["time"], row["verdict"])
    leave ann 1 False
    leave ann 9 True
    leave bob 2 False
    >>> check.counts["leave"].false
    2
    """
    require_known("check_tables", options, (*OF_EVENTS, "key"))
    declared = options.get("resolution")
    file = _policy_file(policies, declared, options.get("time_unit"))
    if declared is None and file.unit not in (None, LATER):
        options["resolution"] = file.unit
    if file.time is not None:
        options.setdefault("time", file.time)
    if file.event is not None:
        options.setdefault("event", file.event)
    if file.pattern is not None:
        options.setdefault("pattern", file.pattern)
    having = [one.is_first_order for one in file.policies]
    counts_triggered = is_vacuity_wanted(vacuous)
    if counts_triggered and verdicts == "first":
        raise MtlmonError(
            f"vacuous={vacuous!r} needs all rows, but verdicts='first' stops at a violation: leave "
            "one of them out"
        )
    if any(having) and not all(having):
        from mtlmon.tables.mixed_check import check_mixed

        return check_mixed(
            tables,
            file,
            verdicts=verdicts,
            mode=mode,
            bdd=bdd,
            resolve=resolve,
            end_time=end_time,
            advance_every=advance_every,
            max_memory=max_memory,
            time_points=time_points,
            has_rows=rows,
            vacuous=vacuous,
            options=options,
        )
    if any(having):
        from mtlmon.tables.relation_check import check_relations

        # time passes with each row, as all of them are of one trace
        return check_relations(
            tables,
            file,
            verdicts=verdicts,
            mode=mode,
            end_time=end_time,
            max_memory=max_memory,
            time_points=time_points,
            has_rows=rows,
            vacuous=vacuous,
            options=options,
        )
    if time_points != "row":
        raise MtlmonError("time_points is for policies with variables: leave it out")
    verdicts = verdicts or "all"
    check, file = log_check_of(
        file,
        file.policies,
        options,
        mode=mode,
        bdd=bdd,
        verdicts=verdicts,
        resolve=resolve,
        advance_every=advance_every,
        max_memory=max_memory,
        rows=rows,
        counts_triggered=counts_triggered,
    )
    shown = shown_messages(check, file, verdicts)
    options.setdefault("memory", check.memory)
    events = open_tables(
        tables,
        check.atoms,
        policies=file,
        partitions=check.partitions.columns,
        atoms_of_partitions=check.atoms_of_partitions,
        shown=shown,
        **options,
    )
    if check.repeats_ticks:
        events.only_due_ticks()
    if rows:
        events.track_rows()
    return TableCheck(check, events, end_time, vacuous)


def log_check_of(
    file: PolicyFile,
    policies: Sequence[Policy],
    options: dict[str, Any],
    **settings: Any,
) -> tuple[LogCheck, PolicyFile]:
    """Return the check of policies, and the file with the key that the options give, if any.

    Args:
        file: the file.
        policies: those of its policies that have no variables.
        options: the options of `check_tables`, from which the key is taken.
        settings: further arguments of `LogCheck`.
    """
    key = options.pop("key", None)
    if key is None:
        key = file.key or ()
    else:
        names = {policy.name for policy in policies}
        file = file.without_keys_of_files()
        policies = [policy for policy in file.policies if policy.name in names]
    return LogCheck(policies, key=(key,) if isinstance(key, str) else key, **settings), file


def shown_messages(
    check: LogCheck, file: PolicyFile, verdicts: str
) -> list[dict[When, list[str]]] | None:
    """Let a check make the messages of triggers; return the names of the values that they need.

    Args:
        check: the check.
        file: its policies.
        verdicts: which verdicts are wanted.

    Returns:
        For each partition the names in `PolicyFile.shown`; None if there are no messages.
    """
    if verdicts == "none" or all(policy.message is None for policy in check.policies):
        return None
    of_policies, clocks = check.partitions.of_policies, check.clocks
    check.messages = Messages(
        check.policies,
        of_policies,
        clocks,
        keeps_first=verdicts == "first",
        repeats_ticks=check.repeats_ticks,
    )
    return shown_names(file, check.policies, of_policies, clocks, has_values=False)


def _policy_file(
    policies: PolicyFile | Formula | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    declared: str | None,
    time_unit: str | None,
) -> PolicyFile:
    """Read the policies with the unit of time-stamps, which by default is the unit of times."""
    if isinstance(policies, PolicyFile):
        return policies
    if isinstance(policies, Formula) and (text := written_with_conditions(policies)):
        policies = text
    if isinstance(policies, Formula):
        file = PolicyFile("", "<formula>", declared)
        file.policies = (Policy(None, policies, policies),)
        return file
    file = given_policies(policies, "<policies>", unit=declared or LATER)
    if file.unit != LATER:
        return file
    return given_policies(policies, "<policies>", unit=time_unit)
