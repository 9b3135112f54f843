"""Relations over records that come in batches, in order of time but for a bounded delay.

What is valid up to a watermark does not change any more. So each batch is evaluated between the
last watermark and the next one, on records that are cut there: operators of snapshots are the same
at each instant, wherever time is cut. At last, the pieces on both sides of a cut become one record.
So batches need no operators of their own.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.canonical import is_number
from mtlmon.arrays.ordering import order_of
from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.policy.predicates.environment import NOTHING
from mtlmon.policy.predicates.numbers import to_floats
from mtlmon.relations.algebra import (
    Coalesce,
    Deletes,
    Inserts,
    Select,
    Source,
    Split,
    Union,
    ValidFor,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    Where,
    nodes,
    operands,
)
from mtlmon.relations.evaluation import apply, planned
from mtlmon.relations.looking_up import FIRST
from mtlmon.relations.multiplicity import at_times, coalesced, multiplied
from mtlmon.relations.records import (
    NO_END,
    Records,
    in_order,
    records_as_bytes,
    records_of,
    records_of_bytes,
    table_of,
)
from mtlmon.relations.rowwise import all_of, united
from mtlmon.relations.typing import Types
from mtlmon.support.refusals import refused
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.relations.algebra import Node

_HASH_BYTES = 32
# Operators that look at the times of records, and not only at snapshots.
_OF_TIMES = ValidFor | ValidUntilNext | ValidTo | ValidUntil | Split
_OF_RECORDS = Where | Select | Union | ValidFor | ValidUntilNext | ValidTo | ValidUntil


class QueryState(NamedTuple):
    """What a query remembers, which does not change while the query goes on.

    Attributes:
        watermark: as for `Query`.
        records: the records that are kept, by the names of what keeps them.
    """

    watermark: int
    records: Mapping[str, Records]

    def is_like(self, other: QueryState) -> bool:
        """Whether both remember the same, in the same order."""
        return self.watermark == other.watermark and all(
            mine is (its := other.records[name]) or mine.equals(its)
            for name, mine in self.records.items()
        )

    @property
    def record_count(self) -> int:
        """The number of records."""
        return sum(map(len, self.records.values()))


class Query:
    """Evaluates a relation over batches of records.

    Args:
        node: the relation. `valid` must come before what joins, groups or counts records.
        schemas: the columns of each table that it reads, without start and end.
        environment: as for `evaluate`.

    Raises:
        PolicyError, MtlmonError: as for `schema_of`; or the relation cannot be evaluated so.

    Attributes:
        watermark: all records up to it are known, excluding itself.
        found: the plan, and how it was found.

    >>> query = Query(ValidFor(Source("rows"), 10), {"rows": pa.schema({"user": pa.string()})})
    >>> rows = pa.table({"from": [0, 7], "to": [1, 8], "user": ["a", "a"]})
    >>> query.push({"rows": rows}, 12).to_pylist()
    [{'start': 0, 'end': 10, 'user': 'a'}]
    >>> query.finish().to_pylist()
    [{'start': 7, 'end': 17, 'user': 'a'}]
    """

    def __init__(
        self, node: Node, schemas: Mapping[str, pa.Schema], environment: Environment = NOTHING
    ) -> None:
        self._names = set(schemas)
        self._node = node
        self._types = types = Types(schemas, environment)
        types.of(node)
        self._environment = environment
        self.found = planned(node, types)
        self._plan = self.found.plan
        self._parts = list(nodes(self._plan))
        # what is evaluated on new records only: tables, and what looks at one record at a time
        self._on_records = _on_records(self._plan)
        others = [part for part in self._parts if part not in self._on_records]
        # those of them whose snapshots matter
        self._emitted = {self._plan, *(operand for one in others for operand in operands(one))}
        self.watermark = FIRST
        self._states = {name: _empty(types.of(of)) for name, of in self._stateful().items()}

    def _stateful(self) -> dict[str, Node]:
        """The relations of which records are kept, by a name."""
        kept: dict[str, Node] = {}
        for number, part in enumerate(self._parts):
            if isinstance(part, Source):
                # records behind the watermark
                kept[f"early {number}"] = part
            if isinstance(part, ValidUntil):
                # records whose end is not known
                kept[f"open {number}"] = part.of
            if isinstance(part, Inserts | Deletes):
                # records that are valid just before the watermark
                kept[f"before {number}"] = part.of
            if part in self._on_records and part in self._emitted:
                # records that are valid at the watermark
                kept[f"valid {number}"] = part
        # records that reach the watermark, and those that must not be told before them
        return kept | {"reaching": self._plan, "waiting": self._plan}

    def push(self, tables: Mapping[str, pa.Table], watermark: int) -> pa.Table:
        """Take in records, and return what has become final.

        Args:
            tables: new records, as for `evaluate`; no record of a table that is missing.
            watermark: all records that start before it have come.

        Returns:
            More records of the result, as `evaluate` has them; all that is returned is in order,
            so a record comes after all those that start before it have ended.

        Raises:
            MtlmonError: the watermark decreases, a record starts before the last watermark, or a
                table is unknown or cannot be read. Nothing has been taken in then.
            RowError: integers overflow in an expression. Nothing has been taken in then.
        """
        if watermark < self.watermark:
            raise MtlmonError(f"watermark {watermark} is below the last one, {self.watermark}")
        return self._take_in(tables, watermark)

    def finish(self) -> pa.Table:
        """Return the rest of the result; no records come any more."""
        return self._take_in({}, NO_END)

    def settle(self, tables: Mapping[str, pa.Table], watermark: int) -> Records:
        """Take in records, and return all that have become final, in the order of their ends.

        So none waits for one that begins before it and has not ended. A query has its watermark
        moved either by this, by `push` and `finish`, or by `advance`.

        Args:
            tables: as for `push`.
            watermark: likewise; `NO_END` if no records come any more.

        Raises:
            MtlmonError, RowError: as for `push`.
        """
        if watermark < self.watermark:
            raise MtlmonError(f"watermark {watermark} is below the last one, {self.watermark}")
        step = self._step(tables, watermark)
        found, reaches = self._whole(step, watermark)
        step.states["reaching"] = found.taken(np.flatnonzero(reaches))
        self._states = step.states
        self.watermark = watermark
        final = in_order(found.taken(np.flatnonzero(~reaches)))
        return final.taken(np.argsort(final.ends, kind="stable"))

    def advance(self, tables: Mapping[str, pa.Table], watermark: int) -> Records:
        """Take in records, and return what is valid from the last watermark on below the new one.

        Records are cut at both watermarks. Nothing is remembered here of what `push` and `settle`
        return later.

        Args:
            tables: as for `push`.
            watermark: likewise.

        Raises:
            MtlmonError: as for `push`.
        """
        if watermark < self.watermark:
            raise MtlmonError(f"watermark {watermark} is below the last one, {self.watermark}")
        step = self._step(tables, watermark)
        self._states = step.states
        self.watermark = watermark
        return step.results[self._plan]

    def widened(self, schemas: Mapping[str, pa.Schema]) -> Query:
        """Return a query that continues this one on tables some of whose columns have a type now.

        Args:
            schemas: as for the query; columns that had no type, as all was null, may have one, and
                columns of other numbers may be floats.

        Raises:
            MtlmonError: a column changes its type.
        """
        found = Query(self._node, schemas, self._environment)
        found.resume(self.state)
        return found

    @property
    def state(self) -> QueryState:
        """What is remembered, for `resume`."""
        return QueryState(self.watermark, self._states)

    def resume(self, state: QueryState) -> None:
        """Continue from a state of this query, or of one that was widened.

        Raises:
            MtlmonError: a column changes its type. Nothing has changed then.
        """
        states = dict(state.records)
        for name, records in self._states.items():
            before = states.get(name)
            if before is None or len(self._states) != len(states):
                raise MtlmonError("a column gets a type too late: write a value in the first rows")
            if before.schema.equals(records.schema):
                continue
            columns = []
            for column, field in zip(before.columns, records.schema, strict=True):
                is_wider = is_number(column.type) and field.type == pa.float64()
                if column.type != field.type and not (is_wider or pa.types.is_null(column.type)):
                    raise MtlmonError(
                        f"column {field.name!r} changes its type from {column.type} to {field.type}"
                    )
                columns.append(to_floats(column) if is_wider else column.cast(field.type))
            states[name] = Records(records.schema, tuple(columns), before.starts, before.ends)
        self._states = states
        self.watermark = state.watermark

    @property
    def kept(self) -> list[tuple[str, Node, pa.Schema]]:
        """What is kept between batches: its kind, the operator, and the columns of its records."""
        return [
            (name.partition(" ")[0], node, self._types.of(node))
            for name, node in self._stateful().items()
            if " " in name
        ]

    @property
    def result(self) -> tuple[Node, pa.Schema]:
        """The operator whose records are the result, and their columns."""
        return self._plan, self._types.of(self._plan)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the records take that are kept."""
        return sum(state.held_bytes for state in self._states.values())

    def _step(self, tables: Mapping[str, pa.Table], watermark: int) -> _Step:
        """Evaluate all operators between the last watermark and the next one."""
        unknown = set(tables) - self._names
        if unknown:
            raise MtlmonError(f"there is no table {min(unknown)!r}")
        step = _Step(self.watermark, watermark, self._states)
        for number, part in enumerate(self._parts):
            self._evaluate(step, number, part, tables)
        return step

    def _take_in(self, tables: Mapping[str, pa.Table], watermark: int) -> pa.Table:
        step = self._step(tables, watermark)
        found, reaches = self._whole(step, watermark)
        # what ends later comes later, if both start at the same time
        is_final = ~reaches & (found.starts <= found.starts.min(where=reaches, initial=NO_END))
        answer = table_of(found, np.flatnonzero(is_final))
        step.states["reaching"] = found.taken(np.flatnonzero(reaches))
        step.states["waiting"] = found.taken(np.flatnonzero(~reaches & ~is_final))
        self._states = step.states
        self.watermark = watermark
        return answer

    def _whole(self, step: _Step, watermark: int) -> tuple[Records, NDArray[np.bool_]]:
        """The records that have not been returned, and which of them reach the watermark."""
        # PERF: with a copy of all records for each of these choices, and for each operator, sums of
        # 2 M rows in 100 groups took 0.28 instead of 0.23 s
        touching, others = step.joined(step.results[self._plan])
        first = _together(step.states["waiting"], touching)
        order = order_of(first.starts)
        # the others follow them, and are in order already behind most operators
        found = _together(first if order is None else first.taken(order), others)
        return found, (found.ends == watermark) & (watermark != NO_END)

    def _evaluate(
        self, step: _Step, number: int, part: Node, tables: Mapping[str, pa.Table]
    ) -> None:
        schema = self._types.of(part)
        if isinstance(part, Inserts | Deletes):
            step.results[part] = self._changed(step, f"before {number}", part)
            return
        if part not in self._on_records:
            of = [step.results[operand] for operand in operands(part)]
            step.results[part] = apply(part, of, schema, self._environment)
            return
        if isinstance(part, Source):
            new = self._read(step, f"early {number}", part, tables)
            known, unknown = new, _empty(schema)
        elif isinstance(part, ValidUntil):
            known, unknown = self._close(step, f"open {number}", part)
        else:
            known, unknown = (
                apply(
                    part, [side[operand] for operand in operands(part)], schema, self._environment
                )
                for side in (step.known, step.unknown)
            )
        step.known[part], step.unknown[part] = known, unknown
        if part not in self._emitted:
            return
        held = _together(step.states[f"valid {number}"], known)
        step.states[f"valid {number}"] = held.taken(np.flatnonzero(held.ends > step.end))
        step.results[part] = step.cut(_together(held, unknown))

    def _changed(self, step: _Step, state: str, part: Inserts | Deletes) -> Records:
        """The records that begin or have ended from the last watermark on below the next one."""
        records, before = coalesced(step.results[part.of]), step.states[state]
        step.states[state] = records.taken(np.flatnonzero(records.ends == step.end))
        if step.start == step.end:
            step.states[state] = before
            return _empty(records.schema)
        # at the watermark, what was valid just before is on the other side
        at_start = records.taken(np.flatnonzero(records.starts == step.start))
        at_start = at_times(at_start, at_start.starts)
        before = at_times(before, np.full(len(before), step.start))
        if isinstance(part, Inserts):
            sides, times = (at_start, before), records.starts
        else:
            sides, times = (before, at_start), records.ends
        later = (times > step.start) & (times < step.end)
        return _together(
            multiplied("less", united(*sides, records.schema), len(sides[0])),
            at_times(records, times).kept(later),
        )

    def _read(
        self, step: _Step, state: str, source: Source, tables: Mapping[str, pa.Table]
    ) -> Records:
        """The new records before the watermark."""
        known = step.states[state]
        if source.name in tables:
            new = records_of(tables[source.name])
            if new.schema != known.schema:
                raise MtlmonError(
                    f"the columns of table {source.name!r} are {_words(new.schema)}, "
                    f"not {_words(known.schema)}"
                )
            if len(new) and new.starts.min() < step.start:
                raise MtlmonError(
                    f"a record of table {source.name!r} starts at {new.starts.min()}, "
                    f"before the last watermark {step.start}"
                )
            known = _together(known, new)
        is_early = known.starts >= step.end
        step.states[state] = known.taken(np.flatnonzero(is_early))
        return known.kept(~is_early)

    def _close(self, step: _Step, state: str, node: ValidUntil) -> tuple[Records, Records]:
        """The records whose end is known now, and those that are open still."""
        of = _together(step.states[state], step.known[node.of])
        found = apply(node, [of], self._types.of(node), self._environment)
        is_open = found.ends == NO_END
        step.states[state] = of.taken(np.flatnonzero(is_open))
        return found.kept(~is_open), found.kept(is_open)

    def snapshot(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        watermark = self.watermark.to_bytes(8, "little", signed=True)
        states = (records_as_bytes(self._states[name]) for name in sorted(self._states))
        body = joined_parts([self._digest(), watermark, *states])
        return hashlib.sha256(body).digest() + body

    def restore(self, snapshot: bytes) -> None:
        """Take over a state of a query for the same relation.

        Raises:
            SnapshotError: it is of another relation, or damaged. Nothing has changed then.
        """
        # Arrow does not find all that can be wrong with its bytes
        body = snapshot[_HASH_BYTES:]
        if snapshot[:_HASH_BYTES] != hashlib.sha256(body).digest():
            raise damaged()
        parts = split_parts(body)
        if len(parts) != 2 + len(self._states) or len(parts[1]) != 8:
            raise damaged()
        if parts[0] != self._digest():
            raise SnapshotError("the snapshot is of another relation")
        states = {
            name: records_of_bytes(content, self._states[name].schema)
            for name, content in zip(sorted(self._states), parts[2:], strict=True)
        }
        self.watermark = int.from_bytes(parts[1], "little", signed=True)
        self._states = states

    def _digest(self) -> bytes:
        schemas = [str(self._types.of(part)) for part in self._parts]
        return hashlib.sha256(repr((self._plan, schemas, self._environment)).encode()).digest()


class _Step:
    """What is known between two watermarks.

    Attributes:
        start: the watermark before the records.
        end: the watermark after them.
        states: the records that are kept.
        known: of operators on records, the results for records that are new.
        unknown: likewise, for records whose end is not known, which come again in the next step.
        results: the results of all operators between the watermarks.
    """

    def __init__(self, start: int, end: int, states: Mapping[str, Records]) -> None:
        self.start = start
        self.end = end
        self.states = dict(states)
        self.known: dict[Node, Records] = {}
        self.unknown: dict[Node, Records] = {}
        self.results: dict[Node, Records] = {}

    def cut(self, records: Records) -> Records:
        """Return records as far as they are valid between the watermarks."""
        starts = np.maximum(records.starts, self.start)
        ends = np.minimum(records.ends, self.end)
        cut = Records(records.schema, records.columns, starts, ends)
        return cut.kept(starts < ends)

    def joined(self, records: Records) -> tuple[Records, Records]:
        """Join records to those that reach the start, so that all are as few as can be.

        Returns:
            Those that may have been joined, and the others.
        """
        reaching = self.states["reaching"]
        if not records.is_coalesced:
            return coalesced(_together(reaching, records)), _empty(records.schema)
        # PERF: coalescing all of them took 0.3 of 0.9 s for counts of 2 M rows in 100 groups
        begins = records.starts == self.start
        touching = coalesced(_together(reaching, records.kept(begins)))
        return touching, records.kept(~begins)


def _on_records(plan: Node) -> set[Node]:
    """The operators that look at one record at a time, below all others.

    Raises:
        MtlmonError: others come before `valid`, or the relation is cut.
    """
    found: set[Node] = set()
    is_open: set[Node] = set()
    for part in nodes(plan):
        of = operands(part)
        if isinstance(part, Source) or (
            isinstance(part, _OF_RECORDS) and all(operand in found for operand in of)
        ):
            if isinstance(part, _OF_TIMES) and is_open.intersection(of):
                raise _in_batches("`valid` behind `valid until`")
            found.add(part)
            if isinstance(part, ValidUntil) or is_open.intersection(of):
                is_open.add(part)
        elif isinstance(part, Split) or (isinstance(part, Coalesce) and part.longest is not None):
            word = "split" if isinstance(part, Split) else "coalesce max"
            raise _in_batches(f"`{word}`")
        elif isinstance(part, _OF_TIMES):
            raise _in_batches("`valid` behind what joins, groups or counts records")
    return found


def _in_batches(word: str) -> MtlmonError:
    return MtlmonError(refused("batches, operator", word=word))


def _empty(schema: pa.Schema) -> Records:
    columns = tuple(pa.array([], data_type) for data_type in schema.types)
    return Records(schema, columns, np.empty(0, np.int64), np.empty(0, np.int64))


def _together(*parts: Records) -> Records:
    some = [one for one in parts if len(one)]
    if len(some) < 2:
        return some[0] if some else parts[0]
    return all_of(some, parts[0].schema)


def _words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
