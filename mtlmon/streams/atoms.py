"""Atoms that depend on other rows, and values of streams, computed for every batch of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError, RowError, SnapshotError
from mtlmon.policy.needs import needs_of, refuse_ticks
from mtlmon.policy.past_formulas import as_expression, future_operator
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.streams.program import Stream, StreamProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.predicate import Predicate

# No column of a table and no atom is called like this.
_LOG_ATOM = "\0atom "
_VALUES = "\0values of "


class Computed(NamedTuple):
    """What is computed for some rows.

    Attributes:
        atoms: for each partition, the rows where its atoms hold, without nulls.
        values: the values of the streams that are asked for, in the first partition.
    """

    atoms: list[dict[str, pa.BooleanArray]]
    values: dict[str, pa.Array]


class StreamAtoms:
    """Computes the atoms of a policy file that depend on other rows, and values of its streams.

    Each partition of the log into traces has a program of its own, as streams look at the rows of
    their trace.

    Args:
        file: the policy file.
        wanted: for each partition, the names of the atoms that its policies need.
        log_atoms: the atoms of the log that these atoms use.
        environment: the time column and its unit, and the zone.
        values: the names of the streams whose values are asked for.
    """

    def __init__(
        self,
        file: PolicyFile,
        wanted: Sequence[Sequence[str]],
        log_atoms: Sequence[str],
        environment: Environment,
        values: Sequence[str] = (),
    ) -> None:
        self._environment = environment
        self._file = file
        self._wanted = [tuple(names) for names in wanted]
        self._values = tuple(values)
        self.log_atoms = tuple(log_atoms)
        self._schema: pa.Schema | None = None
        self._programs: list[StreamProgram | None] = [None] * len(self._wanted)

    @property
    def names(self) -> frozenset[str]:
        """The names of all atoms that are computed."""
        return frozenset(name for names in self._wanted for name in names)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the states of all streams take."""
        return sum(program.held_bytes for program in self._programs if program is not None)

    def programs(self, schema: pa.Schema) -> list[StreamProgram | None]:
        """Return the program of each partition for rows with these columns; None if it has none.

        Raises:
            PolicyError: a column does not exist, or its type does not fit.
        """
        for name in self.log_atoms:
            schema = schema.append(pa.field(_LOG_ATOM + name, pa.bool_()))
        self._compile(schema)
        return list(self._programs)

    def settled(self, partition: int, count: int) -> bytes | None:
        """Return a byte for each of the first traces of a partition, 0 if its rows still matter."""
        program = self._programs[partition]
        return None if program is None else program.settled(count).tobytes()

    def keep(self, partition: int, numbers: bytes) -> None:
        """Give the traces of a partition new numbers; see `StreamProgram.keep`."""
        program = self._programs[partition]
        if program is not None:
            program.keep(numbers)

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        held: Mapping[str, pa.BooleanArray],
    ) -> Computed:
        """Compute where the atoms hold at the next rows of the log, and remember these rows.

        Args:
            batch: the rows.
            time_stamps: their time-stamps.
            numbers: for each partition, the number of each row's trace, or None for one trace.
            held: for each atom of the log, the rows where it holds.

        Raises:
            RowError: integers overflow in some rows. Nothing has been remembered; call this again
                without these rows.
            PolicyError: a column does not exist, or its type does not fit.
            MtlmonError: a column has another type than before.
        """
        batch = self._with_known_types(batch)
        for name in self.log_atoms:
            batch = batch.append_column(_LOG_ATOM + name, held[name])
        self._compile(batch.schema)
        results = Computed([], {})
        done: list[StreamProgram] = []
        try:
            for program, own in zip(self._programs, numbers, strict=True):
                if program is None:
                    results.atoms.append({})
                    continue
                found = program.evaluate(batch, time_stamps, own)
                done.append(program)
                for name in self._values:
                    if _VALUES + name in found:
                        results.values[name] = found.pop(_VALUES + name)
                results.atoms.append(
                    {name: pc.fill_null(one, False) for name, one in found.items()}
                )
        except RowError:
            for program in done:
                program.undo()
            raise
        return results

    def _with_known_types(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give columns without any value the types that they had before."""
        known = {} if self._schema is None else {one.name: one.type for one in self._schema}
        for place, field in enumerate(batch.schema):
            if pa.types.is_null(field.type) and field.name in known:
                nulls = pa.nulls(batch.num_rows, known[field.name])
                batch = batch.set_column(place, field.name, nulls)
        return batch

    def _compile(self, schema: pa.Schema) -> None:
        """Make programs for rows with these columns, which continue those for earlier rows."""
        if self._schema is not None and self._schema.equals(schema):
            return
        before = self._programs
        first, *others = self._wanted
        self._programs = [
            self._program(first, self._values, schema),
            *(self._program(names, (), schema) for names in others),
        ]
        for old, new in zip(before, self._programs, strict=True):
            if old is not None and new is not None:
                try:
                    new.restore(old.snapshot())
                except SnapshotError:
                    raise MtlmonError(self._changed(schema)) from None
        self._schema = schema

    def _program(
        self, names: Sequence[str], values: Sequence[str], schema: pa.Schema
    ) -> StreamProgram | None:
        if not names and not values:
            return None
        file = self._file
        refuse_ticks(file, needs_of(file, names, values).streams)
        wanted = {name: file.atoms[name] for name in names}
        for name in values:
            value = Expression(ops.STREAM, (), name, file.streams[name].expression.span)
            wanted[_VALUES + name] = file.predicate(value, name, "stream")
        streams = streams_of(file)
        definitions = {name: self._held(file.atoms[name].expression) for name in file.atoms}
        for name in self.log_atoms:
            definitions[name] = file.predicate(_column(_LOG_ATOM + name), name)
        for name, formula in file.lets.items():
            if future_operator(formula) is None:
                definitions[name] = file.predicate(as_expression(formula, _atom), name)
        return StreamProgram(wanted, streams, schema, definitions, self._environment)

    def _held(self, expression: Expression) -> Predicate:
        """The expression that is true where an atom holds, and false elsewhere."""
        false = Expression(ops.CONSTANT, (), False)
        held = Expression(ops.COALESCE, (expression, false), None, expression.span)
        return self._file.predicate(held, None)

    def _changed(self, schema: pa.Schema) -> str:
        assert self._schema is not None
        known = {field.name: field.type for field in self._schema}
        for field in schema:
            if field.name in known and known[field.name] != field.type:
                return (
                    f"column {field.name!r} changes its type from {known[field.name]} to "
                    f"{field.type}, but streams need one type: write all its numbers with a point, "
                    "or none"
                )
        return "the columns of the log change their types, but streams need one type for each"


def streams_of(file: PolicyFile) -> dict[str, Stream]:
    """Return the streams of a file as a program takes them."""

    return {
        name: Stream(
            file.predicate(stream.expression, name, "stream"),
            None
            if stream.clock is None or stream.clock.condition is None
            else file.predicate(stream.clock.condition, name, "stream"),
            None if stream.kind is None else kinds.DECLARED[stream.kind],
            per=stream.per,
            start=stream.start,
            end=stream.end,
        )
        for name, stream in file.streams.items()
    }


def _column(name: str) -> Expression:
    return Expression(ops.COLUMN, (), name)


def _atom(name: str) -> Expression:
    return Expression(ops.ATOM, (), name)
