"""Policies with variables on a log whose rows may come late."""

from __future__ import annotations

from array import array
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.checking.conditional_rows import ConditionalRows
from mtlmon.checking.late_valuations import ValuationCheck
from mtlmon.checking.text_logs import TextLog
from mtlmon.history.following import Outcome
from mtlmon.policy.needs import needs_of, remembers
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.relational.analysis import valid_analysis, valid_keyed_file
from mtlmon.relational.atoms import (
    refuse_points,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.correcting.points import PointHistory
from mtlmon.relational.keyed import has_keys, keys_of_others
from mtlmon.relational.native import PointBlock, RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.run.failure import RunError
from mtlmon.run.in_order import notes_outcome
from mtlmon.run.late_work import bounds_of
from mtlmon.run.relation_readers import computed_atoms, log_events
from mtlmon.run.relations import (
    counts_left_sides,
    engine_for,
    limit_engine,
    require_counted,
    require_no_conditions,
    require_no_key,
)
from mtlmon.support.refusals import refused
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.checking.history_check import Bounds
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.input.native import RowEvents
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


def require_correctable_atoms(
    file: PolicyFile, names: Sequence[str], shown: Mapping[str, Sequence[str]]
) -> None:
    """Raise RunError if what rows are depends on other rows in ways that cannot be corrected.

    Args:
        file: the policies.
        names: the atoms that they use.
        shown: for each atom, the names of its arguments in `PolicyFile.shown`.
    """
    from mtlmon.streams.late_support import row_relation_of

    for name in names:
        own = [name] if name in file.atoms else []
        relation = row_relation_of(file, own, shown.get(name, ()))
        if relation is not None:
            shown_names = {"relation": visible(relation), "name": visible(name)}
            raise RunError(refused("lateness, look-ups of atoms", **shown_names))


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
        partition: the partition of the log in which it does.
        inputs: returns the columns that it reads of a batch.
        marked: whether they have rows only if these are added, as in text logs.
    """

    streams: StreamAtoms
    partition: int
    inputs: Callable[[Any], pa.RecordBatch | None]
    marked: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the atoms."""
        return self.streams.names_of(self.partition)


def keyed_for_corrections(file: PolicyFile, options: RunSpec) -> PolicyFile:
    """Return the policies of a run, some of which may have a key.

    Raises:
        RunError: an option does not work with these.
        FormulaError: a policy cannot be evaluated.
    """
    if not options.log.is_table:
        require_no_key(file, options.log)
    if has_keys(file, options.log.key_columns):
        wants_all = options.judging.given_verdicts in ("all", "boolean")
        if wants_all and options.log.time_points == "stamp":
            raise RunError(refused("lateness, stamp, key, all"))
    return valid_keyed_file(file, options.log.key_columns)


class LateRelations:
    """Checks the policies with variables of a file on a log whose rows may come late.

    Whoever opens the log calls `read_text` or `add_partitions` before, and sets `source` then.

    Args:
        file: the policies.
        options: the options of the run.
        memory: how much memory may be held.

    Attributes:
        file: the policies, of which some may have a key.
        check: checks those with variables.
        names: the atoms that they use.
        source: the log.

    Raises:
        RunError: an option does not work with these policies.
        MtlmonError: a policy cannot be evaluated.
    """

    source: Source

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

    def read_text(self, name: str, marks: Sequence[str]) -> RowEvents:
        """Return what reads a text log into time-points.

        Args:
            name: the name of the log in messages.
            marks: the atoms of the log that events have for other policies.
        """
        if computed := computed_atoms(self.file, self.made):
            require_correctable_atoms(self.file, list(computed), {})
        self.points = PointBlock(array("I", self.made.atoms))
        events, streams = log_events(
            self.file, self.made, self.points, name, self.options.log, self.memory, marks
        )
        if streams is not None:
            self.conditions = Conditions(streams.atoms, 0, streams.inputs, marked=True)
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
        require_correctable_atoms(self.file, self.names, values)
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
        if self.arguments:
            names = (*self.argument_conditions.values(), *chain(*self.arguments.values()))
            computed[self.traces.whole] = {ROWS: list(dict.fromkeys(names))}

    def conditions_of(self, traces: RelationTraces) -> Conditions | None:
        """Return what computes atoms of tables that depend on other rows; None if none do.

        Raises:
            RunError: a policy has a key.
        """
        assert not isinstance(self.source, TextLog)
        streams = self.source.streams
        has_atoms = streams is not None and any(map(streams.names_of, self.own_partitions))
        if streams is None or not (has_atoms or self.arguments):
            return None
        if traces.has_keys:
            raise RunError(refused("lateness, key of atoms"))
        return Conditions(streams, traces.whole, lambda batch: batch.inputs, marked=False)

    def history_for(self, bounds: Bounds) -> PointHistory:
        """Return the history of the log, given how late events may be."""
        check, log, judging = self.check, self.options.log, self.options.judging
        made, conditions, names = self.made, self.conditions, None
        if (traces := self.traces) is not None:
            assert not isinstance(self.source, TextLog)
            self.engine = self.engine_for(self.source.schema, self.source.looked_up)
            made = self.engine.plan
            conditions = self.conditions_of(traces)
            if traces.has_keys and log.time_points == "row":
                names, check.key_tables = traces.late_names(), self.source.key_tables
        equality = log.op is not None and log.id is None
        outcome = Outcome() if notes_outcome(self.options) else None
        conditional: list[int] = []
        computed: ComputedArguments | None = None
        if self.arguments:
            from mtlmon.tables.computed_arguments import ComputedArguments

            computed = ComputedArguments(made, self.argument_conditions, self.arguments)
        if conditions is not None:
            # PERF: importing Arrow takes longer than small logs
            from mtlmon.checking.late_partitions import LatePartition

            numbers = {atom.name: number for number, atom in enumerate(made.named_atoms)}
            conditional = [numbers[name] for name in conditions.names]
            late = LatePartition(
                conditions.streams,
                conditions.partition,
                (),
                has_keys=False,
                lateness=bounds.lateness,
                wait=bounds.wait,
                clock="all",
                equality=equality,
                outcome=outcome,
                taker=None if computed is None else computed.add,
            )
            marked = conditional if conditions.marked else ()
            check.conditional = ConditionalRows(late, conditions.inputs, marked, computed)
        history = PointHistory(
            made,
            lateness=bounds.lateness,
            wait=bounds.wait,
            equality=equality,
            corrects=log.op is not None or log.id is not None,
            by_stamp=log.time_points == "stamp",
            wants_holding=judging.given_verdicts in ("all", "boolean"),
            keeps_found=judging.given_verdicts == "first",
            prepare=partial(limit_engine, self.options),
            names=names,
            rows=check.origins,
            admission=check.conditional,
            outcome=outcome,
            conditional=conditional,
            computed=() if computed is None else computed.atoms,
            slices=None if isinstance(self.engine, RelationalEngine) else self.engine,
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
