"""Policies with variables on a log whose rows may come late."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.checking.late_valuations import ValuationCheck
from mtlmon.checking.text_logs import TextLog
from mtlmon.history.following import LeadingHistory, Outcome
from mtlmon.policy.needs import needs_of, remembers
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.relational.analysis import valid_analysis, valid_keyed_file
from mtlmon.relational.atoms import (
    refuse_points,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.correcting.points import PointHistory
from mtlmon.relational.keyed import keys_of_others
from mtlmon.relational.native import PointBlock, RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.run.failure import RunError
from mtlmon.run.in_order import notes_outcome
from mtlmon.run.late_work import bounds_of
from mtlmon.run.relation_readers import log_events
from mtlmon.run.relations import (
    counts_left_sides,
    engine_for,
    limit_engine,
    require_counted,
    require_no_conditions,
    require_no_key,
)
from mtlmon.support.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.checking.conditional_rows import ConditionalRows
    from mtlmon.checking.history_check import Bounds
    from mtlmon.checking.revising import Revising
    from mtlmon.checking.text_logs import LineEvents
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.run.policy_work import Source
    from mtlmon.run.spec import RunSpec
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.tables.computed_arguments import ComputedArguments
    from mtlmon.tables.relation_traces import RelationTraces
    from mtlmon.tables.relations import RelationRows

__all__ = ["LateRelations", "require_correctable_relations"]


def require_correctable_relations(options: RunSpec) -> None:
    """Raise RunError if the answers of policies with variables cannot be corrected."""
    if options.times.clock == "key":
        raise RunError(refused("clock, variables"))
    if (
        options.output.rows
        and options.log.time_points == "stamp"
        and (options.log.op or options.log.id)
    ):
        given = "--op" if options.log.op else "--id"
        raise RunError(refused("rows, stamp, corrections", given=given))


def arguments_of_others(
    file: PolicyFile, shown: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return the atoms with arguments that depend on other rows, with the names of all arguments.

    Args:
        file: the policies.
        shown: for each atom, the names of its arguments in `PolicyFile.shown`.
    """
    found = {}
    for name, arguments in shown.items():
        # where later rows are read, it is an error with or without late rows
        waits = any(needs_of(file, (), [one]).later_values for one in arguments)
        if not waits and any(remembers(file, file.shown[one]) for one in arguments):
            found[name] = arguments
    return found


class Conditions(NamedTuple):
    """Atoms that depend on other rows.

    Attributes:
        streams: computes them.
        partitions: the partitions of the log in which it does.
        inputs: returns the columns that it reads of a batch.
        marked: whether they have rows only if these are added, as in text logs.
    """

    streams: StreamAtoms
    partitions: Sequence[int]
    inputs: Callable[[Any], pa.RecordBatch | None]
    marked: bool

    @property
    def names(self) -> list[str]:
        """The names of the atoms, partition by partition."""
        return [name for one in self.partitions for name in self.streams.names_of(one)]


def keyed_for_corrections(file: PolicyFile, options: RunSpec) -> PolicyFile:
    """Return the policies of a run, some of which may have a key.

    Raises:
        RunError: a text log has no keys.
        FormulaError: a policy cannot be evaluated.
    """
    if not options.log.is_table:
        require_no_key(file, options.log)
    return valid_keyed_file(file, options.log.key_columns)


class LateRelations:
    """Checks the policies with variables of a file on a log whose rows may come late.

    Whoever opens the log calls `read_text` or `add_partitions` before, and sets `source` then, and
    `revising` if relations read its rows.

    Args:
        file: the policies.
        options: the options of the run.
        memory: how much memory may be held.

    Attributes:
        file: the policies, of which some may have a key.
        check: checks those with variables.
        names: the atoms that they use.
        source: the log.
        revising: keeps relations of its rows up to date; None if there are none.
        ends_with_point: whether the log ends with one more time-point, without rows.

    Raises:
        RunError: an option does not work with these policies.
        MtlmonError: a policy cannot be evaluated.
    """

    source: Source
    revising: Revising | None = None
    ends_with_point = False

    def __init__(self, file: PolicyFile, options: RunSpec, memory: MemoryLimit) -> None:
        self.file = keyed_for_corrections(file, options)
        self.options = options
        self.memory = memory
        self.counts = counts_left_sides(self.file, options)
        # what is wrong whatever the log is, is said before it is opened
        self.engine: Engine | None = None
        if options.log.is_table:
            self.made = self.plan_for()
        else:
            self.engine = self.engine_for()
            self.made = self.engine.plan
        if options.log.time_points == "stamp":
            refuse_points(self.file)
        if not options.log.is_table:
            require_no_conditions(self.file, options)
        self.names = used_atoms(self.file)
        self.traces: RelationTraces | None = None
        self.own_partitions = range(0)
        # the atoms with arguments that depend on other rows, and the names of their conditions
        self.arguments: Mapping[str, Sequence[str]] = {}
        self.argument_conditions: Mapping[str, str] = {}
        # the atoms of a text log that depend on other rows
        self.conditions: Conditions | None = None
        self.check = ValuationCheck(
            self.file,
            lambda: bounds_of(options, self.source),
            self.history_for,
            self.rows_of if options.log.is_table else None,
            memory=memory,
            tracks_rows=options.output.rows,
        )

    def plan_for(
        self, schema: pa.Schema | None = None, looked_up: Mapping[str, Relation] | None = None
    ) -> Plan:
        """Return the plan of the policies, for tables once the types of columns are known."""
        analysis = valid_analysis(self.file, schema, looked_up)
        made = plan(self.file, analysis, counts_triggered=self.counts)
        require_counted(analysis, made, self.options)
        return made

    def engine_for(
        self, schema: pa.Schema | None = None, looked_up: Mapping[str, Relation] | None = None
    ) -> Engine:
        """Return an engine for the policies, as `plan_for` returns their plan."""
        analysis = valid_analysis(self.file, schema, looked_up)
        return engine_for(self.file, analysis, self.options)

    def read_text(self, name: str, marks: Sequence[str]) -> LineEvents:
        """Return what reads a text log into time-points.

        Args:
            name: the name of the log in messages.
            marks: the atoms of the log that events have for other policies.
        """
        self.points = PointBlock(array("I", self.made.atoms))
        events, streams = log_events(
            self.file, self.made, self.points, name, self.options.log, self.memory, marks
        )
        if streams is not None:
            self.conditions = Conditions(streams.atoms, [0], streams.inputs, marked=True)
        return events

    def add_partitions(
        self,
        columns: list[tuple[str, ...]],
        needed: list[dict[When, list[str]]],
        shown: list[dict[When, list[str]]],
        computed: list[dict[When, list[str]]],
    ) -> None:
        """Add the partitions of these policies to those of others, of which they share none.

        So what their atoms remember of other rows is computed again by itself.

        Args:
            columns: the columns of the key of each partition.
            needed: the atoms that are needed of each.
            shown: the names of the values that batches show for each.
            computed: the names of those that are computed with the atoms of other rows.
        """
        from mtlmon.tables.relation_traces import RelationTraces
        from mtlmon.tables.relations import shown_arguments

        require_rows_of_tables(self.file, self.names)
        values = shown_arguments(self.file, self.names)
        self.arguments = arguments_of_others(self.file, values)
        self.argument_conditions = {
            name: self.file.show(self.file.atoms[name].expression) for name in self.arguments
        }
        values = {name: own for name, own in values.items() if name not in self.arguments}
        keys = dict.fromkeys(keys_of_others(self.file))
        self.own_partitions = range(len(columns), len(columns) + len(keys))
        self.traces = RelationTraces(self.file, values, [*(None for _ in columns), *keys])
        columns += keys
        for own in (needed, shown, computed):
            own.extend({} for _ in keys)
        self.traces.add_atoms(needed, [name for name in self.names if name not in self.arguments])
        self.traces.add_shown(shown)
        for name, arguments in self.arguments.items():
            known = computed[self.traces.partition_of(name)].setdefault(ROWS, [])
            names = (self.argument_conditions[name], *arguments)
            known += [one for one in dict.fromkeys(names) if one not in known]

    def conditions_of(self, traces: RelationTraces) -> Conditions | None:
        """Return what computes atoms of tables that depend on other rows; None if none do."""
        assert not isinstance(self.source, TextLog)
        streams = self.source.streams
        if streams is None:
            return None
        with_arguments = set(map(traces.partition_of, self.arguments))
        found = [
            one for one in self.own_partitions if streams.names_of(one) or one in with_arguments
        ]
        return Conditions(streams, found, lambda batch: batch.inputs, False) if found else None

    def conditional_rows(
        self, made: Plan, conditions: Conditions, bounds: Bounds, leader: LeadingHistory
    ) -> ConditionalRows:
        """Return what finds where atoms hold that depend on other rows.

        Args:
            made: the plan of the policies.
            conditions: what computes these atoms.
            bounds: how late events may be.
            leader: the history that admits events.
        """
        # PERF: importing Arrow takes longer than small logs
        from mtlmon.checking.conditional_rows import ConditionalRows, Part
        from mtlmon.checking.late_partitions import LatePartition

        relations = frozenset[str]()
        if (revising := self.revising) is not None:
            relations = relations.union(
                *map(conditions.streams.relations_of, conditions.partitions)
            )
            relations &= revising.relations.names
        parts = []
        for partition in conditions.partitions:
            computed = self.computed_arguments(made, partition)
            late = LatePartition(
                conditions.streams,
                partition,
                (),
                has_keys=False,
                lateness=bounds.lateness,
                wait=bounds.wait,
                clock="all",
                equality=False,
                # all wait for the same relations
                relations=relations,
                columns=lambda: () if revising is None else revising.relations.columns,
                taker=None if computed is None else computed.add,
                leader=leader,
            )
            parts.append(Part(late, computed))
        numbers = {atom.name: number for number, atom in enumerate(made.named_atoms)}
        marked = [numbers[name] for name in conditions.names] if conditions.marked else ()
        return ConditionalRows(leader, parts, conditions.inputs, marked, revising)

    def computed_arguments(self, made: Plan, partition: int) -> ComputedArguments | None:
        """Return what makes the rows of atoms with computed arguments in a partition, if any."""
        if self.traces is None:
            return None
        own = [name for name in self.arguments if self.traces.partition_of(name) == partition]
        if not own:
            return None
        from mtlmon.tables.computed_arguments import ComputedArguments

        conditions = {name: self.argument_conditions[name] for name in own}
        return ComputedArguments(made, conditions, {name: self.arguments[name] for name in own})

    def history_for(self, bounds: Bounds) -> PointHistory:
        """Return the history of the log, given how late events may be."""
        check, log, judging = self.check, self.options.log, self.options.judging
        made, conditions, names = self.made, self.conditions, None
        wants_holding = judging.given_verdicts in ("all", "boolean")
        if (traces := self.traces) is not None:
            assert not isinstance(self.source, TextLog)
            self.engine = self.engine_for(self.source.schema, self.source.looked_up)
            made = self.engine.plan
            conditions = self.conditions_of(traces)
            if traces.has_keys and (log.time_points == "row" or wants_holding):
                names, check.key_tables = traces.late_names(), self.source.key_tables
        equality = log.op is not None and log.id is None
        outcome = Outcome() if notes_outcome(self.options) else None
        conditional: list[int] = []
        if conditions is not None:
            numbers = {atom.name: number for number, atom in enumerate(made.named_atoms)}
            conditional = [numbers[name] for name in conditions.names]
            leader = LeadingHistory(**bounds._asdict(), equality=equality, outcome=outcome)
            check.conditional = self.conditional_rows(made, conditions, bounds, leader)
        history = PointHistory(
            made,
            lateness=bounds.lateness,
            wait=bounds.wait,
            equality=equality,
            corrects=log.op is not None or log.id is not None,
            by_stamp=log.time_points == "stamp",
            wants_holding=wants_holding,
            keeps_found=judging.given_verdicts == "first",
            prepare=partial(limit_engine, self.options),
            names=names,
            rows=check.origins,
            admission=check.conditional,
            outcome=outcome,
            conditional=conditional,
            slices=None if isinstance(self.engine, RelationalEngine) else self.engine,
            ends_with_point=self.ends_with_point,
        )
        if traces is None:
            history.arrivals = self.points
        return history

    def rows_of(self, history: PointHistory) -> RelationRows:
        """Return what makes time-points of the rows of tables."""
        assert self.traces is not None
        conditional = [history.plan.named_atoms[one].name for one in history.conditional]
        rows, _ = self.traces.rows(
            history.plan,
            history.arrivals,
            None,
            by_stamp=False,
            conditional=conditional,
            computed=list(self.arguments),
        )
        return rows
