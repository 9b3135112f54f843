"""Check policies with variables on tables, with valuations as batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mtlmon.analysis.antecedent import is_vacuity_wanted
from mtlmon.checking.counts import PolicyCounts
from mtlmon.checking.point_rows import PointRows
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.engine.guarding import Guard
from mtlmon.engine.memory_limit import memory_size
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError
from mtlmon.relational.analysis import valid_analysis, valid_keyed_file
from mtlmon.relational.atoms import (
    cell_word,
    refuse_points,
    refuse_traces,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.keyed import key_of_run
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.relational.running import RelationalRun
from mtlmon.relational.vacuity import uncounted
from mtlmon.tables.checking import TableCheck
from mtlmon.tables.opening import open_tables
from mtlmon.tables.relation_traces import RelationTraces
from mtlmon.tables.relations import RelationRows, shown_arguments
from mtlmon.tables.valuations import ValuationTable
from mtlmon.tables.violations import Judged

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import SupportsIndex

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.explanation.trace import EndTime
    from mtlmon.policy import PolicyFile
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.events import TableEvents
    from mtlmon.tables.formats.files import Tables
    from mtlmon.tables.valuations import KnownRows

    Wanted = Literal["all", "boolean", "false", "first", "none"]

__all__ = [
    "RelationCheck",
    "check_relations",
    "counting_plan",
    "counts_of",
    "of_run",
    "relation_events",
    "require_counted",
    "require_local",
    "require_rows_of_points",
    "valuation_table",
]


def relation_events(
    tables: Tables | Sequence[Tables],
    file: PolicyFile,
    names: Sequence[str],
    options: dict[str, Any],
) -> tuple[TableEvents, RelationTraces]:
    """Open tables for the atoms of policies with variables.

    Args:
        tables: as `open_tables` takes them.
        file: the policies.
        names: the atoms that they use.
        options: the options of `open_tables`, which take precedence over what the file says.

    Returns:
        The events, and what makes time-points of them.
    """
    shown = shown_arguments(file, names)
    traces = RelationTraces(file, shown)
    if file.time is not None:
        options.setdefault("time", file.time)
    if file.event is not None:
        options.setdefault("event", file.event)
    if file.pattern is not None:
        options.setdefault("pattern", file.pattern)
    events = open_tables(
        tables, names, policies=file, partitions=traces.columns, shown=traces.shown, **options
    )
    return events, traces


class _Found:
    """Takes answers, and makes batches of rows of them."""

    def __init__(self, rows: ValuationTable | None) -> None:
        self.rows = rows
        self._batches: list[pa.RecordBatch] = []

    def put(self, answers: AnswerBlock) -> None:
        if self.rows is None:
            answers.take()
        else:
            self._batches += self.rows.batches(answers)

    def take(self) -> list[pa.RecordBatch]:
        batches, self._batches = self._batches, []
        return batches


def counts_of(run: RelationalRun) -> dict[str | None, PolicyCounts]:
    """Return how many time-points are true, false and undecided, by the name of the policy."""
    counts: dict[str | None, PolicyCounts] = {}
    policies = run.engine.plan.named_policies
    for one, answered, found in zip(policies, run.answered_points, run.found_points, strict=True):
        others = answered - found
        true, false = (found, others) if one.is_find else (others, found)
        counts[one.name] = PolicyCounts(run.point_count, true, false)
    return counts


def valuation_table(
    made: Plan,
    times: Times | None,
    wanted: Wanted,
    point_rows: KnownRows | None = None,
    *,
    more: Sequence[str] = (),
) -> ValuationTable:
    """Return what makes batches of the answers about the policies of a plan.

    Args:
        made: the plan.
        times: the log's notation of times, or None if it has the time-stamps.
        wanted: which answers are wanted.
        point_rows: the rows of time-points, if the batches tell them.
        more: the names of columns that whoever takes the batches adds.
    """
    return ValuationTable(
        [one.name for one in made.named_policies],
        [
            tuple(zip(one.variables, map(cell_word, one.kinds), strict=True))
            for one in made.named_policies
        ],
        made.texts,
        times,
        has_true=wanted in {"all", "boolean"},
        facts=PolicyFacts(made.named_policies),
        point_rows=point_rows,
        more=more,
        key_widths=[len(one.key) for one in made.named_policies],
    )


class RelationCheck(TableCheck):
    """The violations and matches of policies with variables: an iterator of record batches.

    Args:
        file: the policies, all with variables.
        events: the rows.
        traces: makes time-points of the rows.
        end_time: what is known about the time after the last row.
        verdicts: which answers are wanted.
        memory: the memory limit.
        by_stamp: whether all rows of one time-stamp are one time-point.
        has_rows: whether the batches tell the rows of time-points.
        vacuous: what to do if the left side of an implication is never matched.
    """

    def __init__(
        self,
        file: PolicyFile,
        events: TableEvents,
        traces: RelationTraces,
        end_time: EndTime,
        *,
        verdicts: Wanted,
        memory: MemoryLimit,
        by_stamp: bool,
        has_rows: bool = False,
        vacuous: Vacuous = "ignore",
    ) -> None:
        self.events = events
        self._point_rows = PointRows(by_stamp=by_stamp) if has_rows else None
        self._file = file
        self._traces = traces
        self._verdicts_wanted: Wanted = verdicts
        self._memory = memory
        self._by_stamp = by_stamp
        self._vacuous = vacuous
        self._run: RelationalRun | None = None
        self._rows: RelationRows | None = None
        self._found = _Found(None)
        self._valuations: ValuationTable | None = None
        self._guard = Guard("check")
        self._begin(end_time)

    def _counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy.

        A time-point is false if some values violate the policy there. It is true for a `find` if
        some values fulfil it.
        """
        if self._run is None:
            return {}
        return counts_of(self._run)

    def _columns(self) -> pa.Schema:
        """The columns of the batches, once all rows have been read."""
        self._start()
        assert self._valuations is not None
        return self._valuations.schema

    @property
    def left_out(self) -> int:
        """How many rows atoms lack, as an argument is null or no number."""
        return 0 if self._rows is None else self._rows.left_out

    def _require_rows(self) -> None:
        require_rows_of_points(has_rows=self._point_rows is not None, by_stamp=self._by_stamp)
        if self._verdicts_wanted == "none":
            raise MtlmonError("violations() needs the violations: leave out verdicts='none'")

    def _judged(self) -> Judged:
        return Judged(self._file.policies, None, self._valuations)

    def _start(self) -> tuple[RelationalRun, RelationRows]:
        """Make the engine, once rows have shown the types of the columns."""
        if self._run is None or self._rows is None:
            analysis = valid_analysis(self._file, self.events.schema, self.events.looked_up)
            made = counting_plan(self._file, analysis, self._vacuous)
            self._valuations = valuation_table(
                made, self._times, self._verdicts_wanted, self._point_rows
            )
            if self._verdicts_wanted != "none":
                self._found.rows = self._valuations
            self._run = RelationalRun(
                RelationalEngine(made, made.texts),
                self._found,
                verdicts=self._verdicts_wanted,
                memory=self._memory,
            )
            points, tables = self._run.engine.points, self.events.key_tables
            self._rows, self._run.names = self._traces.rows(
                made, points, tables, by_stamp=self._by_stamp
            )
        return self._run, self._rows

    @property
    def _times(self) -> Times:
        return self.events.times

    def _read(self, end_time: EndTime) -> Generator[pa.RecordBatch, None, None]:
        try:
            for batch in self.events:
                run, rows = self._start()
                if self._point_rows is not None:
                    self._point_rows.note(batch)
                    self._memory.note("pending", self._point_rows.held_bytes)
                rows.load(batch)
                yield from self._advance()
                if self._point_rows is not None:
                    self._point_rows.forget(run.settled_points)
                if self._is_stopped:
                    return
            run, rows = self._start()
            rows.load_end()
            yield from self._advance()
            if not self._is_stopped:
                run.end(end_time)
                yield from self._found.take()
            self._tell_of_matches(self._file, run)
        except MtlmonError:
            # what was answered before the error
            yield from self._found.take()
            raise

    @property
    def _is_stopped(self) -> bool:
        return self._run is not None and self._run.is_stopped

    def _advance(self) -> Iterator[pa.RecordBatch]:
        """Take in the rows that are loaded."""
        run, rows = self._start()
        more = True
        while more and not run.is_stopped:
            more = rows.read()
            run.advance(keeps_texts=more)
            yield from self._found.take()


def require_rows_of_points(*, has_rows: bool, by_stamp: bool) -> None:
    """Raise MtlmonError if time-points have no rows, or several."""
    if not has_rows:
        raise MtlmonError("violations() needs the rows of verdicts: add rows=True")
    if by_stamp:
        raise MtlmonError(
            "violations() needs time-points that are rows: leave out time_points='stamp'"
        )


def counting_plan(file: PolicyFile, analysis: Analysis, vacuous: Vacuous) -> Plan:
    """Return the plan of the policies, which counts what left sides match if that is wanted.

    Raises:
        MtlmonError: it is wanted, but a left side cannot be evaluated by itself.
    """
    if not is_vacuity_wanted(vacuous):
        return plan(file, analysis)
    made = plan(file, analysis, counts_triggered=True)
    words = uncounted(analysis, made)
    if words is not None:
        raise MtlmonError(f"vacuous={vacuous!r} {words}, or leave it out")
    return made


def require_counted(file: PolicyFile, analysis: Analysis, vacuous: Vacuous) -> None:
    """Raise MtlmonError if left sides are to be counted, but one cannot be."""
    if is_vacuity_wanted(vacuous):
        counting_plan(file, analysis, vacuous)


def of_run(file: PolicyFile, key: str | Sequence[str] | None) -> PolicyFile:
    """Return the policies of a run with this key, which those with variables have, too.

    Raises:
        FormulaError: a policy cannot be evaluated.
    """
    if key is not None:
        file = file.without_keys_of_files()
    return valid_keyed_file(file, key_of_run(file, key))


def require_local(mode: str) -> None:
    """Raise MtlmonError if a mode is given that policies with variables do not have."""
    if mode != "local":
        raise MtlmonError(
            f"mode {mode!r} is for policies without variables: leave it out, as there are no "
            "equivalences between valuations"
        )


def check_relations(
    tables: Tables | Sequence[Tables],
    file: PolicyFile,
    *,
    verdicts: Wanted | None,
    mode: str,
    end_time: EndTime,
    max_memory: SupportsIndex | str | None,
    time_points: Literal["row", "stamp"],
    has_rows: bool,
    vacuous: Vacuous,
    options: dict[str, Any],
) -> RelationCheck:
    """Check the policies with variables of a file; the arguments are those of `check_tables`.

    Raises:
        MtlmonError: the arguments do not fit these policies.
        OSError: a file cannot be opened.
    """
    require_local(mode)
    if time_points not in {"row", "stamp"}:
        raise MtlmonError(f"time_points is 'row' or 'stamp', not {time_points!r}")
    refuse_traces(file)
    file = of_run(file, options.pop("key", None))
    require_counted(file, valid_analysis(file), vacuous)
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    if time_points == "stamp":
        refuse_points(file)
    memory = MemoryLimit(None if max_memory is None else memory_size(max_memory))
    options.setdefault("memory", memory)
    events, traces = relation_events(tables, file, names, options)
    if has_rows:
        events.track_rows()
    return RelationCheck(
        file,
        events,
        traces,
        end_time,
        verdicts=verdicts or "false",
        memory=memory,
        by_stamp=time_points == "stamp",
        has_rows=has_rows,
        vacuous=vacuous,
    )
