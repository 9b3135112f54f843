"""Check policies with variables and others on tables, with one table of verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mtlmon.analysis.antecedent import is_vacuity_wanted
from mtlmon.checking import LogCheck, TraceKeys
from mtlmon.checking.point_rows import PointRows
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.engine.guarding import Guard
from mtlmon.engine.memory_limit import memory_size
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.atoms import (
    refuse_points,
    refuse_traces,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.keyed import keys_of_others
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.running import RelationalRun
from mtlmon.tables.checking import TableCheck, log_check_of, shown_messages
from mtlmon.tables.first_of_both import FirstOfBoth
from mtlmon.tables.joined_verdicts import JoinedTable
from mtlmon.tables.opening import open_tables
from mtlmon.tables.relation_check import (
    counting_plan,
    counts_of,
    of_run,
    require_counted,
    require_local,
    require_rows_of_points,
    valuation_table,
)
from mtlmon.tables.relation_traces import RelationTraces
from mtlmon.tables.relations import RelationRows, shown_arguments
from mtlmon.tables.relations_ahead import RelationsAhead, atoms_of_all
from mtlmon.tables.verdicts import VerdictTable
from mtlmon.tables.violations import Judged

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import SupportsIndex

    import pyarrow as pa

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.checking import PolicyCounts
    from mtlmon.explanation.trace import EndTime
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.tables.events import TableEvents
    from mtlmon.tables.formats.files import Tables

    Wanted = Literal["all", "boolean", "false", "first", "none"]

__all__ = ["MixedCheck", "check_mixed"]


class MixedCheck(TableCheck):
    """The verdicts of policies of both kinds: an iterator of record batches.

    Args:
        file: the policies.
        check: the check of those without variables.
        events: the rows.
        traces: makes time-points of the rows for those with variables.
        end_time: what is known about the time after the last row.
        verdicts: which verdicts are wanted; None for the default of each kind.
        by_stamp: whether all rows of one time-stamp are one time-point of those with variables.
        vacuous: what to do if the left side of an implication never holds.
    """

    def __init__(
        self,
        file: PolicyFile,
        check: LogCheck,
        events: TableEvents,
        traces: RelationTraces,
        end_time: EndTime,
        verdicts: Wanted | None,
        *,
        by_stamp: bool,
        vacuous: Vacuous = "ignore",
    ) -> None:
        self.log_check = check
        self._vacuous = vacuous
        self._by_stamp = by_stamp
        self.events = events
        self._file = file
        self._traces = traces
        self._wanted = verdicts
        names = [policy.name for policy in check.policies]
        keys = TraceKeys(check.partitions, tuple(events.key_tables))
        facts = PolicyFacts(check.policies)
        verdict_table = VerdictTable(
            names, keys, events.times, check.messages, check.row_tracker, facts
        )
        self._table = JoinedTable(verdict_table)
        self._point_rows = None if check.row_tracker is None else PointRows(by_stamp=by_stamp)
        self._started: tuple[RelationalRun, RelationRows, RelationsAhead] | None = None
        self._first: FirstOfBoth | None = None
        if verdicts == "first":
            has_keys = any(table is not None for table in events.key_tables)
            self._first = FirstOfBoth(check, has_keys=has_keys, by_stamp=by_stamp)
        self._guard = Guard("check")
        self._begin(end_time)

    def _counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy.

        Those of policies with variables are known once rows have been read. If only the first
        violation is wanted, the counts of policies that have another one, or none, may include
        rows that were read with it.
        """
        found = super()._counts()
        if self._started is not None:
            found |= counts_of(self._started[0])
        names = [policy.name for policy in self._file.policies]
        return {name: found[name] for name in names if name in found}

    def _columns(self) -> pa.Schema:
        """The columns of the batches, once all rows have been read."""
        self._start()
        return self._table.schema

    def _require_rows(self) -> None:
        super()._require_rows()
        require_rows_of_points(has_rows=self._point_rows is not None, by_stamp=self._by_stamp)

    def _judged(self) -> Judged:
        return Judged(
            self._file.policies, self._table.message, self._table.valuations, self._table.keys
        )

    def _start(self) -> tuple[RelationalRun, RelationRows, RelationsAhead]:
        """Make the engine, once rows have shown the types of the columns."""
        if self._started is None:
            analysis = valid_analysis(self._file, self.events.schema, self.events.looked_up)
            made = counting_plan(self._file, analysis, self._vacuous)
            wanted: Wanted = self._wanted or "false"
            self._table.valuations = valuation_table(
                made, self.events.times, wanted, self._point_rows
            )
            ahead = RelationsAhead(made, by_stamp=self._by_stamp)
            engine = RelationalEngine(made, made.texts)
            memory = self.log_check.memory
            run = RelationalRun(
                engine, ahead.queue, verdicts=wanted, memory=memory, has_others=True
            )
            tables = self.events.key_tables
            rows, run.names = self._traces.rows(
                made, engine.points, tables, by_stamp=self._by_stamp
            )
            self._started = run, rows, ahead
        return self._started

    def _read(self, end_time: EndTime) -> Generator[pa.RecordBatch, None, None]:
        check = self.log_check
        try:
            for batch in self.events:
                run, rows, ahead = self._start()
                known: list[int] = []
                if self._point_rows is not None:
                    self._point_rows.note(batch)
                error, end = None, check.position + len(batch)
                try:
                    if not run.is_stopped:
                        known = ahead.feed(run, rows, batch, check.position)
                except MtlmonError as failed:
                    if ahead.error is None:
                        raise
                    error, end = failed, max(check.position, ahead.sound_events(run))
                    known = [*ahead.cuts(check.position), end - check.position]
                if not check.is_stopped and (error is None or end > check.position):
                    for _ in check.feed(batch, self.events, known):
                        yield from self._taken(check.position)
                        if error is not None and check.position == end:
                            break
                if self._point_rows is not None and not len(ahead.queue):
                    self._point_rows.forget(run.settled_points)
                if self._first is not None and self._first.look(run):
                    yield from self._taken()
                    return
                if error is not None:
                    raise error
            run, rows, ahead = self._start()
            if not check.is_stopped:
                for _ in check.end(self.events, end_time):
                    yield from self._taken(check.position)
            if not run.is_stopped:
                ahead.complete(run, rows)
            if not run.is_stopped:
                run.end(end_time)
            if self._first is not None:
                self._first.look(run)
            yield from self._taken()
            self._tell_of_triggers()
            self._tell_of_matches(self._file, run)
        except MtlmonError:
            # what the events before the error have decided
            yield from self._taken(check.position)
            raise
        finally:
            check.close()

    def _taken(self, position: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield what the first events have decided, or all that is known."""
        _, _, ahead = self._start()
        first = self._first
        if first is not None and not first.is_known:
            return
        found = ahead.found(position)
        if self._wanted == "none":
            found.take()
            return
        if first is None or not first.has_variables:
            yield from self._table.batches(self.log_check.verdicts)
        if first is None or first.has_variables:
            yield from self._table.batches(found)


def check_mixed(
    tables: Tables | Sequence[Tables],
    file: PolicyFile,
    *,
    verdicts: Wanted | None,
    mode: str,
    bdd: str,
    resolve: bool,
    end_time: EndTime,
    advance_every: int | None,
    max_memory: SupportsIndex | str | None,
    time_points: Literal["row", "stamp"],
    has_rows: bool,
    vacuous: Vacuous,
    options: dict[str, Any],
) -> MixedCheck:
    """Check the policies of a file, some of which have variables; the arguments as `check_tables`.

    Raises:
        MtlmonError: the arguments do not fit these policies.
        OSError: a file cannot be opened.
    """
    require_local(mode)
    if time_points not in {"row", "stamp"}:
        raise MtlmonError(f"time_points is 'row' or 'stamp', not {time_points!r}")
    refuse_traces(file)
    file = of_run(file, options.get("key"))
    require_counted(file, valid_analysis(file), vacuous)
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    if time_points == "stamp":
        refuse_points(file)
    without = [policy for policy in file.policies if not policy.is_first_order]
    check, file = log_check_of(
        file,
        without,
        options,
        mode=mode,
        bdd=bdd,
        verdicts=verdicts or "all",
        resolve=resolve,
        advance_every=advance_every,
        max_memory=MemoryLimit(None if max_memory is None else memory_size(max_memory)),
        other_keys=keys_of_others(file),
        rows=has_rows,
        counts_triggered=is_vacuity_wanted(vacuous),
    )
    columns = check.partitions.columns
    shown_of_partitions: list[dict[When, list[str]]] = [{} for _ in columns]
    for place, some in enumerate(shown_messages(check, file, verdicts or "all") or ()):
        shown_of_partitions[place] = some
    shown = shown_arguments(file, names)
    traces = RelationTraces(file, shown, columns)
    needed = atoms_of_all(check, names, traces, shown_of_partitions)
    options.setdefault("memory", check.memory)
    events = open_tables(
        tables,
        list(dict.fromkeys([*check.atoms, *names])),
        policies=file,
        partitions=columns,
        atoms_of_partitions=needed,
        shown=shown_of_partitions,
        **options,
    )
    if has_rows:
        events.track_rows()
    by_stamp = time_points == "stamp"
    return MixedCheck(
        file, check, events, traces, end_time, verdicts, by_stamp=by_stamp, vacuous=vacuous
    )
