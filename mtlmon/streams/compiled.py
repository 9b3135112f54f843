"""The streams of a policy file, computed batch after batch from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.engine.guarding import Guard, guarded
from mtlmon.errors import MtlmonError, TimeStampError
from mtlmon.policy import parse_policies
from mtlmon.policy.needs import needs_of
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.environment import UTC, Environment
from mtlmon.streams.atoms import StreamAtoms
from mtlmon.support.guesses import did_you_mean
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.streams.atoms import Values

__all__ = ["CompiledStreams"]

_TIME = "time"


class CompiledStreams:
    """Streams for rows with some columns; `mtlmon.streams.compile` makes them.

    Attributes:
        names: the names of the streams.
        keys: the key columns.
        time: the column of times.
        unit: the unit of the time-stamps, or None if it is not known.
    """

    def __init__(
        self,
        text: str,
        schema: pa.Schema,
        *,
        key: str | Sequence[str] | None,
        time: str | None,
        unit: str | None,
        constants: Mapping[str, str] | None,
    ) -> None:
        self._guard = Guard("compiled streams")
        self._given = (text, schema, key, time, unit, constants)
        file = parse_policies(text, unit=unit, constants=constants, needs_policy=False)
        if not file.streams:
            raise MtlmonError("the text declares no streams: write stream NAME = EXPRESSION")
        self.names = tuple(file.streams)
        self.time = time or file.time or DEFAULT_TIME
        self.unit = file.unit
        chosen = file.key or () if key is None else key
        self.keys = (chosen,) if isinstance(chosen, str) else tuple(chosen)
        log_atoms = needs_of(file, (), self.names).log_atoms
        for name in (self.time, *self.keys, *log_atoms):
            if schema.get_field_index(name) < 0:
                guess = did_you_mean(name, schema.names) or "."
                raise MtlmonError(
                    f"there is no column {name!r}{guess} The columns are "
                    f"{', '.join(map(repr, schema.names))}"
                )
        if pa.types.is_timestamp(schema.field(self.time).type) and self.unit is None:
            self.unit = "s"
        environment = Environment(time=self.time, unit=self.unit, zone=file.zone or UTC)
        self._schema = schema
        self._atoms = StreamAtoms(file, [{}], log_atoms, environment, values=self.names)
        self._atoms.programs(schema)
        self._clock = 0
        # for each key its number, in order of first occurrence
        self._numbers: dict[tuple[object, ...], int] = {}

    @property
    @guarded
    def held_bytes(self) -> int:
        """The number of bytes that the state of the streams takes."""
        return self._atoms.held_bytes

    @guarded
    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """Compute the values at the next rows, and at the ticks before them.

        Args:
            batch: the rows, in order of time, with the columns of the schema.

        Returns:
            A row for each row and each tick: `time`, the key columns, and a column for each stream,
            null where it has no value. If a stream uses `next(...)`, a row comes once its later
            values are known.

        Raises:
            TimeStampError: a time is null, negative, or below an earlier one.
            RowError: an integer overflows. Nothing has been remembered.
            MtlmonError: a column is missing or has another type, or a key is null.
        """
        rows = self._one_batch(batch)
        stamps = self._time_stamps(rows.column(self.time))
        numbers = self._key_numbers(rows)
        held = {name: _held(rows, name) for name in self._atoms.log_atoms}
        prepared = self._atoms.prepared(rows, held)
        found = self._atoms.evaluate(prepared, stamps, [numbers])
        if len(stamps):
            self._clock = int(stamps[-1])
        assert found.values is not None
        return self._output(found.values)

    @guarded
    def finish(self) -> pa.RecordBatch:
        """Compute the values at the rows that still wait for later values: no more rows come.

        Returns:
            These rows, like `evaluate`; there are some only if a stream uses `next(...)`.

        Raises:
            MtlmonError: an integer overflows.
        """
        found = self._atoms.released()
        assert found.values is not None
        return self._output(found.values)

    @guarded
    def __reduce__(self) -> tuple[Callable[..., CompiledStreams], tuple[object, ...]]:
        return _again, (self._given, self._atoms.snapshots(), self._clock, list(self._numbers))

    def _one_batch(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        if isinstance(batch, pa.Table):
            batches = batch.combine_chunks().to_batches()
            batch = batches[0] if batches else pa.RecordBatch.from_pylist([], batch.schema)
        for field in self._schema:
            place = batch.schema.get_field_index(field.name)
            if place < 0 or batch.schema.field(place).type != field.type:
                problem = (
                    "is missing" if place < 0 else f"is of type {batch.schema.field(place).type}"
                )
                raise MtlmonError(
                    f"column {field.name!r} {problem}; the streams are compiled for {field.type}"
                )
        return batch.select(self._schema.names)

    def _time_stamps(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the time-stamps of rows, which must not decrease."""
        if column.null_count:
            raise TimeStampError(f"the time column {self.time!r} is null in a row")
        if pa.types.is_timestamp(column.type):
            assert self.unit is not None
            divisor, factor = _ratio(UNITS[column.type.unit], UNITS[self.unit])
            numbers = np.asarray(column.cast(pa.int64())) * factor // divisor
        elif pa.types.is_integer(column.type):
            numbers = np.asarray(column.cast(pa.int64()))
        else:
            raise MtlmonError(
                f"column {self.time!r} is of type {column.type}: times are integers or timestamps"
            )
        before = np.concatenate([[self._clock], numbers[:-1]])
        wrong = np.flatnonzero(numbers < before)
        if len(wrong):
            row = int(wrong[0])
            raise TimeStampError(
                f"row {row}: time-stamp {numbers[row]} comes after {before[row]}: sort rows by time"
            )
        return np.ascontiguousarray(numbers)

    def _resume(
        self, states: Sequence[bytes], clock: int, keys: Sequence[tuple[object, ...]]
    ) -> None:
        self._atoms.restore(states)
        self._clock = clock
        self._numbers = {key: number for number, key in enumerate(keys)}

    def _key_numbers(self, rows: pa.RecordBatch) -> NDArray[np.uint32] | None:
        if not self.keys:
            return None
        places = []
        for name in self.keys:
            column = rows.column(name)
            if column.null_count:
                raise MtlmonError(f"the key column {name!r} is null in a row")
            is_encoded = pa.types.is_dictionary(column.type)
            places.append(column if is_encoded else column.dictionary_encode())
        combined = np.zeros(rows.num_rows, np.int64)
        for place in places:
            codes = np.asarray(place.indices.cast(pa.int64()))
            combined = combined * max(1, len(place.dictionary)) + codes
            # small again, so that more columns do not overflow
            combined = np.unique(combined, return_inverse=True)[1].ravel()
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        values = [place.take(pa.array(first)).to_pylist() for place in places]
        of_unique = np.empty(len(first), np.uint32)
        # numbers are in the order of the rows
        for one in np.argsort(first):
            key = tuple(value[one] for value in values)
            of_unique[one] = self._numbers.setdefault(key, len(self._numbers))
        return of_unique[inverse.ravel()]

    def _output(self, values: Values) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {_TIME: pa.array(values.time_stamps)}
        keys = list(self._numbers)
        for place, name in enumerate(self.keys):
            known = pa.array([key[place] for key in keys], self._schema.field(name).type)
            columns[name] = known.take(pa.array(values.numbers))
        columns |= {name: values.columns[name] for name in self.names}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _again(
    given: tuple[Any, ...], states: list[bytes], clock: int, keys: list[tuple[object, ...]]
) -> CompiledStreams:
    """Return streams that go on from a state, for copies and pickles."""
    text, schema, key, time, unit, constants = given
    streams = CompiledStreams(text, schema, key=key, time=time, unit=unit, constants=constants)
    streams._resume(states, clock, keys)
    return streams


def _held(rows: pa.RecordBatch, name: str) -> pa.BooleanArray:
    """Where a Boolean column is true."""
    column = rows.column(name)
    if not pa.types.is_boolean(column.type):
        raise MtlmonError(f"column {name!r} is of type {column.type}, but it is used as an atom")
    return pc.fill_null(column, False)


def _ratio(unit: int, wanted: int) -> tuple[int, int]:
    """By what to divide, and by what to multiply before, to convert a unit to another."""
    return (wanted // unit, 1) if wanted >= unit else (1, unit // wanted)
