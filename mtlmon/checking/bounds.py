"""Upper bounds on the memory that the policies and streams of a file need.

The bound of a stream's kernels follows from how their arrays grow (`most_bytes` in
`streams/native`). That of a policy's monitors is the number of things that a state can have, as in
`analysis/state`, times the bytes that one of them can take at most, with room for growth. Random
formulas on random logs test that no state exceeds it by far.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.analysis.desugar import desugar
from mtlmon.analysis.state import state_bound
from mtlmon.checking.late_bounds import (
    changes_of_rows,
    changes_of_table,
    history_kept,
    ids_kept,
    late_rows_kept,
    query_kept,
    relation_kept,
)
from mtlmon.checking.partitions import partitions_of
from mtlmon.engine.choice import network_variables
from mtlmon.policy.needs import needs_of
from mtlmon.policy.predicates.expression import TypedColumn
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import ROWS, Changes, FromBeginning, when_in_units
from mtlmon.policy.types import errors_with_columns
from mtlmon.relations.looking_up import FIRST
from mtlmon.relations.records import NO_END
from mtlmon.streams.atoms import MOST_TICKS, StreamAtoms
from mtlmon.streams.bounds import (
    Kept,
    Load,
    instances_of,
    kept_answer_bytes,
    kept_by,
    kept_changes_bytes,
    kept_instances,
    kept_records_bytes,
    kept_ticks,
    kept_waiting,
    key_bytes,
    records_within,
)
from mtlmon.syntax import operators as formula_ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Protocol

    import pyarrow as pa

    from mtlmon.analysis.state import StateBound
    from mtlmon.checking.late_bounds import Counted, OfRows
    from mtlmon.errors import FormulaError
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.policy.definitions import Assumption, Clock
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.streams.delays import Obstacle
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

    class LookedUp(Protocol):
        """Relations in which values are looked up, by name."""

        @property
        def by_name(self) -> Mapping[str, Relation]:
            """All of them."""

        @property
        def of_tables(self) -> Mapping[str, KnownRelation]:
            """Those of tables alone."""

        @property
        def of_rows(self) -> Mapping[str, OfRows]:
            """The others."""


__all__ = ["Bound", "FileBounds", "bounds_of", "guessed_schema", "monitors_kept"]

# The bytes of the state of a key without anything to remember, at rest: twice its place in the
# array of states, and its configuration in the transition table.
_KEY_BYTES = 1_024
# The bytes of a witness, obligation or pending time-point: in the state of a key or in its
# configuration, with room for growth, with its node among expressions and its verdict.
_ITEM_BYTES = 512
# What is kept for a key while it is not at rest between ticks, besides its letter.
_TICK_BYTES = 128
_ATOM_BYTES = 1
# The bytes of each literal of an expression of a pending time-point.
_LITERAL_BYTES = 64
_MOST_LITERALS = 64
# The least bytes of a function of the queue network, a truth table.
_FUNCTION_BYTES = 32
# How many functions of so many variables are not constant and monotone in each of them. Those of
# the queue network are, or in its negation, if no operator is used both as it is and negated.
_MONOTONE = (0, 1, 4, 18, 166, 7_579)
# How many are not constant.
_FUNCTIONS = (0, 2, 14, 254, 65_534)
# What a policy takes besides: the transition table, memo tables and buffers.
_POLICY_BYTES = 6 << 20
# The same for a policy that remembers nothing and waits for nothing, and for each of its atoms.
_LEAST_POLICY_BYTES = 1 << 19
_BYTES_OF_ATOM = 4_096
# Verdicts of one slice of events; see `LogCheck.slice_events`.
_SLICE_BYTES = 100 << 16
_NO_RATE = "nothing limits the rows of a window: add assume rate per key <= N/s"
_NO_KEYS = "nothing limits the keys: add assume keys <= N"


class Bound(NamedTuple):
    """How much a stream or policy needs at most.

    Attributes:
        kind: "relation", "stream", "policy", "trigger" or "keys".
        name: its name; for keys the columns, and None for a policy without a name.
        key: the columns that divide the log into its traces.
        clock: its time-points, in words.
        kept: its aggregates and offsets, and for policies what their monitors keep.
    """

    kind: str
    name: str | None
    key: tuple[str, ...]
    clock: str
    kept: tuple[Kept, ...]

    @property
    def per_key(self) -> int | None:
        """The most bytes for each key; None if there is no limit."""
        return _sum(one.per_key for one in self.kept)

    @property
    def total(self) -> int | None:
        """The most bytes for all keys; None if there is no limit."""
        return _sum(one.total for one in self.kept)


class FileBounds(NamedTuple):
    """The bounds of a policy file.

    Attributes:
        bounds: those of relations, streams, policies and keys, in this order.
        assumptions: what the file assumes.
        restless: why the values of keys are computed at every tick, a line for each reason.
    """

    bounds: tuple[Bound, ...]
    assumptions: tuple[Assumption, ...]
    restless: tuple[str, ...] = ()

    @property
    def total(self) -> int | None:
        """The most bytes of everything; None if there is no limit."""
        return _sum(one.total for one in self.bounds)


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def bounds_of(
    file: PolicyFile,
    schema: pa.Schema,
    looked_up: LookedUp | None = None,
    lateness: int | None = None,
    *,
    has_ids: bool = False,
) -> FileBounds:
    """Find the bounds of a policy file.

    The bounds are those of mode `local`, for a run with verdicts that are not resolved.

    Args:
        file: the policy file.
        schema: the columns of the log.
        looked_up: the relations in which values are looked up, if there are any.
        lateness: how late rows may be, in time units, if late ones correct verdicts.
        has_ids: whether rows have ids then, by which they are taken back.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.
    """
    relations = {} if looked_up is None else looked_up.by_name
    environment = file.environment._replace(streams={}, relations=relations)
    errors = errors_with_columns(file, environment, schema)
    if errors:
        raise errors[0]
    partitions = partitions_of((policy.key for policy in file.policies), file.key or ())
    streams: list[Bound] = []
    of_policies: dict[int, list[Kept]] = {}
    restless: dict[str, None] = {}
    for partition, columns in enumerate(partitions.columns):
        own = [number for number, one in enumerate(partitions.of_policies) if one == partition]
        atoms = _atoms_of(file, [file.policies[number] for number in own])
        needs = needs_of(file, [name for some in atoms.values() for name in some])
        names = [name for name in file.streams if name in needs.streams]
        kept, obstacles, by_trace = _kept(file, atoms, (), columns, schema, relations)
        restless |= dict.fromkeys(obstacles)
        if lateness is not None:
            states = [one for some in kept.values() for one in some]
            late = _of_late_rows(
                file,
                own,
                columns,
                schema,
                lateness,
                states,
                looked_up,
                has_ids=has_ids,
                by_trace=by_trace,
            )
            of_policies.setdefault(own[0], []).extend(late)
        streams += (_of_stream(file, name, columns, kept) for name in names)
        for number in own:
            for name in file.policies[number].formula.atoms:
                of_policies.setdefault(number, []).extend(kept.pop(("atom", name), ()))
            waits = "waits", _clock(file.policies[number].clock, file.unit)
            of_policies.setdefault(number, []).extend(kept.pop(waits, ()))
        # what lets and atoms that no formula names have in common
        of_policies.setdefault(own[0], []).extend(
            one for owner, some in kept.items() if owner[0] != "stream" for one in some
        )
    used = needs_of(file, file.atoms_needed).streams
    columns = file.key or ()
    # which key they would have is not known if files have several, and no run computes them
    unused = [name for name in file.streams if name not in used and file.has_one_key]
    if unused:
        kept, *_ = _kept(file, {}, unused, columns, schema, relations)
        streams += (_of_stream(file, name, columns, kept) for name in unused)
    policies = [
        _of_policy(
            file,
            policy,
            partitions.columns[partition],
            of_policies.get(number, []),
            lateness,
            looked_up,
        )
        for number, (policy, partition) in enumerate(
            zip(file.policies, partitions.of_policies, strict=True)
        )
    ]
    keys = [
        _of_keys(file, columns)
        for columns in dict.fromkeys(bound.key for bound in [*streams, *policies])
        if columns
    ]
    order = list(file.streams)
    streams.sort(key=lambda bound: order.index(bound.name or ""))
    of_relations = [] if looked_up is None else _of_relations(file, looked_up, lateness)
    return FileBounds(
        (*of_relations, *streams, *policies, *keys), file.assumptions, tuple(restless)
    )


def _of_late_rows(
    file: PolicyFile,
    own: Sequence[int],
    columns: tuple[str, ...],
    schema: pa.Schema,
    lateness: int,
    states: Sequence[Kept],
    looked_up: LookedUp | None,
    *,
    has_ids: bool,
    by_trace: bool,
) -> list[Kept]:
    """What late rows need in a partition, beside the histories of its policies."""
    load = _load(file, columns)
    policies = [file.policies[number] for number in own]
    by_relation = {
        str(policy.clock.period): counted
        for policy in policies
        if policy.clock is not None
        and (counted := _changes_of(file, policy, columns, looked_up)) is not None
    }
    changes = [counted(lateness) for counted in by_relation.values()]
    rows = late_rows_kept(
        file, policies, schema, load, lateness, states, changes, by_trace=by_trace
    )
    found = [] if rows is None else [rows]
    if has_ids:
        found.append(ids_kept(load, lateness, depends=rows is not None))
    return found


def _of_relations(file: PolicyFile, looked_up: LookedUp, lateness: int | None) -> list[Bound]:
    """The bounds of the relations in which values are looked up."""
    found = []
    for name, relation in looked_up.of_tables.items():
        words = f"{relation.count:,} record{'' if relation.count == 1 else 's'}"
        held = relation.held_bytes
        found.append(Bound("relation", name, (), "", (Kept("tables", words, held, held),)))
    load = _load(file, ())
    parts = [one for of_rows in looked_up.of_rows.values() for one in of_rows.kept]
    remembered = _sum(records_within(one, load) for one in parts)
    for name, of_rows in looked_up.of_rows.items():
        kept = [kept_records_bytes(one, load) for one in of_rows.kept]
        kept += [kept_changes_bytes(one, load) for one in of_rows.kept_changes]
        if not file.policies:
            # it is what a query asks for
            kept.append(kept_answer_bytes(of_rows.kept_answer, load))
        if lateness is not None and not file.policies:
            kept.append(query_kept(of_rows, load, lateness))
        elif lateness is not None:
            kept.append(relation_kept(of_rows, load, lateness, remembered))
        found.append(Bound("relation", name, (), "", tuple(kept)))
    return found


def _atoms_of(file: PolicyFile, policies: Iterable[Policy]) -> dict[When, list[str]]:
    """The atoms that policies need, at rows under `ROWS` and at ticks under their period."""
    found: dict[When, dict[str, None]] = {}
    for policy in policies:
        clock = policy.clock
        period: When = ROWS
        if clock is not None and clock.period is not None:
            period = when_in_units(clock.period, file.environment.unit)
        names = found.setdefault(period, {})
        names |= dict.fromkeys(name for name in policy.formula.atoms if name in file.atoms)
        if clock is not None and clock.atom in file.atoms:
            names[clock.atom] = None
    return {period: list(names) for period, names in found.items()}


def _load(file: PolicyFile, columns: Sequence[str]) -> Load:
    assumptions = [one for one in file.assumptions if one.is_about(columns)]
    return Load(assumptions, file.environment.unit, has_keys=bool(columns))


def _kept(
    file: PolicyFile,
    atoms: Mapping[When, Sequence[str]],
    streams: Sequence[str],
    columns: tuple[str, ...],
    schema: pa.Schema,
    relations: Mapping[str, Relation],
) -> tuple[dict[tuple[str, str], list[Kept]], list[str], bool]:
    """Return what the program for some atoms and streams keeps, by what it is for.

    The keys are "stream" or "atom", and a name. With it come why all ticks of keys are computed,
    and whether the state of each trace can be by itself.
    """
    needs = needs_of(file, [name for some in atoms.values() for name in some], streams)
    wanted = {
        period: [name for name in some if period != ROWS or name in needs.remembering]
        for period, some in atoms.items()
    }
    environment = file.environment._replace(relations=relations)
    stream_atoms = StreamAtoms(file, [wanted], needs.log_atoms, environment, streams)
    stream_atoms.only_due = True
    stream_atoms.know_traces([columns], lambda _, keys: np.zeros(len(keys[0]), np.uint32))
    programs = stream_atoms.programs(schema)
    owners: dict[int, tuple[str, str]] = {}
    for name, predicate in file.atoms.items():
        owners |= {id(node): ("atom", name) for node in postorder(predicate.expression)}
    for name, stream in file.streams.items():
        for expression in stream.expressions:
            owners |= {id(node): ("stream", name) for node in postorder(expression)}
    found: dict[tuple[str, str], list[Kept]] = {}
    restless: list[str] = []
    load = _load(file, columns)
    unit = file.environment.unit
    for program in programs:
        if program is None:
            continue
        has_ticks = program.has_ticks
        families = program.families
        family_of = {id(kernel): one for one in families for kernel in one.kernels}
        periods = {ticks.frame: ticks.period for ticks in program.instance_ticks}
        periods |= {family.frame: family.lifetime.clock for family in families}
        calls = {one.frame: one for family in families for one in family.calls}
        if columns:
            restless += [_restless(one, columns, owners) for one in program.obstacles]
        for kernel, period in program.kernels:
            # offsets beside those that are written have operands that are
            nodes = [kernel.node, *kernel.node.operands]
            owner = next((owners[id(one)] for one in nodes if id(one) in owners), ("atom", ""))
            family = family_of.get(id(kernel))
            if family is None:
                kept = kept_by(kernel, load, unit, period, has_ticks=has_ticks)
            else:
                kept = kept_by(
                    kernel,
                    load.of_instances(family),
                    unit,
                    periods.get(period, ROWS),
                    has_ticks=has_ticks,
                    of_instances=instances_of(family, load, calls.get(period)),
                )
            found.setdefault(owner, []).append(kept)
        if program.due_ticks is not None:
            ticks = kept_ticks(program.due_ticks, load, unit, MOST_TICKS)
            found.setdefault(("atom", ""), []).append(ticks)
        for when, holding in program.holdings.items():
            kept = kept_waiting(holding, load, has_ticks=has_ticks)
            found.setdefault(("waits", str(when)), []).append(kept)
        for family in families:
            owner = owners.get(id(family.lifetime.keys[0]), ("atom", ""))
            kept = kept_instances(family, load, unit, MOST_TICKS, has_ticks=has_ticks)
            found.setdefault(owner, []).append(kept)
    by_trace = all(program is None or program.can_be_by_trace for program in programs)
    return found, restless, by_trace


def _restless(
    obstacle: Obstacle, columns: Sequence[str], owners: Mapping[int, tuple[str, str]]
) -> str:
    """Say in a line what lets every tick of every key be computed."""
    role, name = owners.get(id(obstacle.node), ("stream", obstacle.stream))
    whose = f" because of stream {name}" if role == "stream" and name else ""
    key = ", ".join(map(column_text, columns))
    return f"every tick of each {key} is computed{whose}: {obstacle.reason}"


def _of_stream(
    file: PolicyFile,
    name: str,
    columns: tuple[str, ...],
    kept: dict[tuple[str, str], list[Kept]],
) -> Bound:
    clock = _clock(file.streams[name].clock, file.unit)
    return Bound("stream", name, columns, clock, tuple(kept.get(("stream", name), ())))


def _clock(clock: Clock | None, unit: str | None) -> str:
    if clock is None:
        return "rows"
    words = clock.in_words(unit)
    return f"{words}, in instances" if isinstance(clock.period, FromBeginning) else words


def _of_policy(
    file: PolicyFile,
    policy: Policy,
    columns: tuple[str, ...],
    kept: Sequence[Kept],
    lateness: int | None,
    looked_up: LookedUp | None,
) -> Bound:
    has_ticks = policy.clock is not None and policy.clock.has_ticks
    load = _load(file, columns)
    monitors = monitors_kept(policy.formula, load, has_ticks=has_ticks)
    verdicts = _SLICE_BYTES // len(file.policies)
    if monitors.total is not None:
        monitors = monitors._replace(total=monitors.total + verdicts)
    kind = "trigger" if policy.is_trigger else "policy"
    if lateness is not None:
        pending = pending_of(policy.formula, load)
        changes = _changes_of(file, policy, columns, looked_up)
        kept = [*kept, history_kept(file, policy, load, lateness, pending, changes)]
    return Bound(kind, policy.name, columns, _clock(policy.clock, file.unit), (*kept, monitors))


def _changes_of(
    file: PolicyFile, policy: Policy, columns: tuple[str, ...], looked_up: LookedUp | None
) -> Callable[[int], Counted] | None:
    """Return what counts the changes that are time-points of a policy; None if none are."""
    changes = None if policy.clock is None else policy.clock.period
    if looked_up is None or not isinstance(changes, Changes):
        return None
    of_rows = looked_up.of_rows.get(changes.relation)
    if of_rows is not None:
        return partial(changes_of_rows, of_rows.extent, _load(file, ()))
    known = looked_up.of_tables[changes.relation].changes(columns)
    times, _ = known.between(FIRST, NO_END)
    return partial(changes_of_table, times)


def monitors_kept(formula: Formula, load: Load, *, has_ticks: bool = False) -> Kept:
    """Return what the monitors of a formula keep at most, in mode `local`.

    Args:
        formula: the formula.
        load: the rows of the log.
        has_ticks: whether the formula is checked at ticks.
    """
    kernel = desugar(formula)
    memories = waiting = 0
    for node in postorder(kernel):
        if node.interval is None:
            continue
        items = 1
        if node.operator not in {formula_ops.PREVIOUS, formula_ops.NEXT}:
            items = _positions(node.interval, load)
        if node.operator.is_past:
            memories += items
        else:
            waiting += items
    state = state_bound(kernel)
    functions = network_variables(formula)
    pending = pending_of(formula, load)
    text = "monitor"
    if pending is None:
        words = "time-points that wait, without a limit"
        return Kept(text, words, None, None, _NO_RATE)
    words = _formula_words(memories, waiting, pending)
    items = memories + waiting + pending
    if functions is not None:
        of_functions = max(_FUNCTION_BYTES, 2 ** functions[0] // 8) * items
    else:
        literals = min(state.choices, _MOST_LITERALS)
        of_functions = _LITERAL_BYTES * literals * (memories + pending)
    per_key = (
        _KEY_BYTES
        + has_ticks * (_TICK_BYTES + _ATOM_BYTES * len(formula.atoms))
        + _ITEM_BYTES * items
        + of_functions
    )
    if load.traces is None:
        return Kept(text, words, per_key, None, _NO_KEYS)
    shared = _POLICY_BYTES
    if not items:
        shared = _LEAST_POLICY_BYTES + _BYTES_OF_ATOM * len(formula.atoms)
    return Kept(text, words, per_key, shared + load.traces * per_key)


def pending_of(formula: Formula, load: Load) -> int | None:
    """Return how many time-points of a trace are pending at once; None if nothing limits them."""
    kernel = desugar(formula)
    state = state_bound(kernel)
    functions = network_variables(formula)
    entries = state.entries
    if functions is not None:
        variables, is_monotone = functions
        numbers = _MONOTONE if is_monotone else _FUNCTIONS
        entries = numbers[variables] if variables < len(numbers) else None
    return _pending(kernel, state, entries, load)


def _positions(interval: Interval, load: Load) -> int:
    """At how many time-stamps an operator remembers or waits for something."""
    length = interval.lower if interval.upper is None else interval.upper
    rows = load.rows_of_trace(length)
    return 1 + (length if rows is None else min(length, rows))


def _pending(kernel: Formula, state: StateBound, entries: int | None, load: Load) -> int | None:
    """How many time-points of a trace are pending at once; None if nothing limits them.

    entries: as `StateBound.entries`, but as few as the engine can have.
    """
    if not state.choices:
        return 0
    if not state.is_bounded:
        return entries
    # A NEXT waits for one event, however late.
    steps = sum(node.operator is formula_ops.NEXT for node in postorder(kernel))
    length = _waiting_time(kernel)
    rows = load.rows_of_trace(length)
    found = [] if rows is None else [rows + steps]
    if entries is not None:
        found.append(entries * (1 + length + steps))
    return min(found, default=None)


def _waiting_time(formula: Formula) -> int:
    """For how long time-points wait, besides for the next events."""
    lengths: dict[int, int] = {}
    for node in postorder(formula):
        length = max((lengths[id(operand)] for operand in node.operands), default=0)
        upper = None if node.interval is None else node.interval.upper
        if node.operator.is_future and upper is not None:
            length += upper
        lengths[id(node)] = length
    return lengths[id(formula)]


def _formula_words(memories: int, waiting: int, pending: int) -> str:
    found = []
    if memories:
        found.append(f"{memories:,} past value{'' if memories == 1 else 's'}")
    if waiting:
        found.append(f"{waiting:,} obligation{'' if waiting == 1 else 's'}")
    if pending:
        found.append(f"{pending:,} time-point{'' if pending == 1 else 's'} that wait")
    return ", ".join(found) or "nothing"


def _of_keys(file: PolicyFile, columns: tuple[str, ...]) -> Bound:
    keys = _load(file, columns).traces
    total = None if keys is None else key_bytes(len(columns), keys)
    per_key = key_bytes(len(columns), 1) - key_bytes(len(columns), 0)
    words = "the texts of the key"
    kept = Kept("keys", words, per_key, total, _NO_KEYS if keys is None else "")
    return Bound("keys", ", ".join(columns), columns, "rows", (kept,))


def guessed_schema(file: PolicyFile) -> pa.Schema:
    """Return columns with types that fit the expressions of a file, for want of a table.

    Raises:
        PolicyError: no types fit, or they cannot be found.
    """
    import pyarrow as pa

    environment = file.environment
    columns = needs_of(file, file.atoms, tuple(file.streams)).typed_columns
    known = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "time": pa.timestamp("us")}
    types: dict[str, pa.DataType] = {}
    for one in columns:
        if isinstance(one, TypedColumn):
            types[one.read_as] = known.get(one.type, pa.float64())
        else:
            types[one] = pa.int64() if one == environment.time else pa.float64()

    def errors() -> list[FormulaError]:
        schema = pa.schema(list(types.items()))
        return errors_with_columns(file, environment._replace(streams={}, is_open=True), schema)

    found = errors()
    for name in list(types):
        for guess in (pa.string(), pa.bool_(), pa.int64(), pa.timestamp("us")):
            if not found:
                break
            before = types[name]
            types[name] = guess
            after = errors()
            if len(after) < len(found):
                found = after
            else:
                types[name] = before
    if found:
        raise found[0]
    return pa.schema(list(types.items()))
