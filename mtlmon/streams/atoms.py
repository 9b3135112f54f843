"""Atoms that depend on other rows, and values of streams, computed for every batch of a log."""

from __future__ import annotations

from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.ordering import order_of
from mtlmon.errors import MtlmonError, RowError, SnapshotError, TickError
from mtlmon.policy.clock_errors import refused_changes
from mtlmon.policy.messages import with_held_columns
from mtlmon.policy.needs import needs_of, remembers
from mtlmon.policy.past_formulas import as_expression, future_operator
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.numbers import as_before
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import ROWS, Changes, Waiting, period_in_units
from mtlmon.policy.types import guessed_streams
from mtlmon.streams.change_ticks import TraceChanges
from mtlmon.streams.declarations import Declarations, Stream
from mtlmon.streams.program import StreamProgram
from mtlmon.streams.ticking import Ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.definitions import Stream as DeclaredStream
    from mtlmon.policy.needs import Needs
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.predicates.time_points import When

# No column of a table and no atom is called like this.
_LOG_ATOM = "\0atom "
_VALUES = "\0values of "

MOST_TICKS = 1 << 17
"""About how many ticks are computed at once."""
# As many after one at which integers overflow, since others near it probably do so, too, and all
# of them are computed again for each of these.
_FEW_TICKS = 1 << 8


class TickAtoms(NamedTuple):
    """Where atoms hold at the ticks of a period.

    Attributes:
        ticks: the ticks.
        atoms: for each atom where it holds, without nulls.
        shown: the values to show.
    """

    ticks: Ticks
    atoms: dict[str, pa.BooleanArray]
    shown: dict[str, pa.Array]

    def behind(self, count: int) -> TickAtoms:
        """Return the ticks that do not come before the first `count` rows."""
        first = int(np.searchsorted(self.ticks.places, count))
        ticks = self.ticks.chosen(slice(first, None))
        ticks = Ticks(ticks.time_stamps, ticks.numbers, ticks.places - count)
        atoms = {name: one.slice(first) for name, one in self.atoms.items()}
        shown = {name: one.slice(first) for name, one in self.shown.items()}
        return TickAtoms(ticks, atoms, shown)


class Values(NamedTuple):
    """Values of streams.

    Attributes:
        time_stamps: the times of all rows and ticks.
        numbers: the numbers of their traces.
        columns: for each stream its values there; null where it has none.
    """

    time_stamps: NDArray[np.int64]
    numbers: NDArray[np.uint32]
    columns: dict[str, pa.Array]


class Computed(NamedTuple):
    """What is computed for some rows, and for the ticks before them.

    Attributes:
        atoms: for each partition, the rows where its atoms hold, without nulls.
        ticks: for each partition, where its atoms hold at the ticks of each period.
        values: the values of the streams that are asked for, in the first partition; None if none
            are asked for.
        shown: for each partition, the values to show at rows.
        ticks_done: a time below which all ticks have been computed.
        has_all_ticks: whether all ticks from the last ones on have been computed, after one was
            left out; otherwise, only those where values may change, if only these are asked for.
        instances: for each partition, how many instances of streams were alive at once.
    """

    atoms: list[dict[str, pa.BooleanArray]]
    ticks: list[dict[When, TickAtoms]]
    values: Values | None
    shown: list[dict[str, pa.Array]]
    ticks_done: int = 0
    has_all_ticks: bool = False
    instances: Sequence[Mapping[str, int]] = ()


class HeldAtoms(NamedTuple):
    """Where the atoms of a partition hold.

    Attributes:
        rows: the atoms at rows, in the order of `StreamAtoms.names_of`.
        ticks: for each kind of `StreamAtoms.tick_names_of`, the ticks with the atoms there.
        shown: the values to show, at rows under `ROWS`, and at ticks under their kind.
    """

    rows: list[NDArray[np.bool_]]
    ticks: dict[When, tuple[Ticks, list[NDArray[np.bool_]]]]
    shown: dict[When, dict[str, pa.Array]]


class StreamAtoms:
    """Computes the atoms of a policy file that depend on other rows, and values of its streams.

    Each partition of the log into traces has a program of its own, as streams look at the rows of
    their trace.

    Args:
        file: the policy file.
        wanted: for each partition, the names of the atoms that its policies need: at rows under
            `ROWS`, and at ticks under their period, or the changes that they are.
        log_atoms: the atoms of the log that these atoms use.
        environment: the time column and its unit, and the zone.
        values: the names of the streams whose values are asked for.
        shown: for each partition, the names of expressions in `PolicyFile.shown` to compute: at
            rows under `ROWS`, and at ticks under their period.

    Attributes:
        log_atoms: as given.
        depends_on_rows: whether anything depends on other rows, and not only on its own.
        has_ticks: whether anything has values at ticks, or at rows that wait.
        points_left_out: how many ticks, and rows that have waited, have been left out, as
            integers overflow there.
        only_due: set this before the first rows to compute only the ticks of each trace at which
            values may change, as far as it is known which these are.
        can_leave_out: set this, too, if ticks may be left out then. All ticks are computed from the
            first one on that is.
        tracks_rows: set this before the first rows if rows are known by their places. Rows that
            have waited cannot be left out then.
    """

    def __init__(
        self,
        file: PolicyFile,
        wanted: Sequence[Mapping[When, Sequence[str]]],
        log_atoms: Sequence[str],
        environment: Environment,
        values: Sequence[str] = (),
        shown: Sequence[Mapping[When, Sequence[str]]] | None = None,
    ) -> None:
        self._shown = [dict(some) for some in shown or [{}] * len(wanted)]
        self._environment = environment
        self._file = file
        self._wanted = [{period: tuple(names) for period, names in some.items()} for some in wanted]
        self._values = tuple(values)
        names = [name for some in wanted for one in some.values() for name in one]
        every_shown = [name for some in self._shown for one in some.values() for name in one]
        streams = needs_of(file, names, [*values, *every_shown]).streams
        self.has_ticks = any(period for some in wanted for period in some) or any(
            (clock := file.streams[name].clock) is not None and clock.period is not None
            for name in streams
        )
        self.depends_on_rows = bool(names or values or self.has_ticks) or any(
            name not in file.shown or remembers(file, file.shown[name])
            for name in dict.fromkeys([*streams, *every_shown])
        )
        self.only_due = False
        self.can_leave_out = False
        self.tracks_rows = False
        self._has_all_ticks = False
        later = needs_of(file, (), values).later_values
        self._values_wait = Waiting(later) if later else None
        self.log_atoms = tuple(log_atoms)
        self.points_left_out = 0
        self._most_ticks = MOST_TICKS
        self._schema: pa.Schema | None = None
        self._programs: list[StreamProgram | None] = [None] * len(self._wanted)
        # for changes of relations: the key columns of each partition, and what finds its traces
        self._keys: list[tuple[str, ...]] = [()] * len(self._wanted)
        self._find_traces: Callable[[int, Sequence[pa.Array]], NDArray[np.uint32]] | None = None
        self._numbers_of: Callable[[NDArray[np.uint32]], NDArray[np.uint32]] | None = None

    def know_traces(
        self,
        keys: Sequence[tuple[str, ...]],
        find: Callable[[int, Sequence[pa.Array]], NDArray[np.uint32]],
    ) -> None:
        """Get to know the traces, before the first rows; needed for changes of relations.

        Args:
            keys: the key columns of each partition; none for one trace.
            find: returns the numbers of the traces of a partition with some keys, and one that is
                above all numbers for unknown keys.
        """
        self._keys = list(keys)
        self._find_traces = find

    @property
    def names(self) -> frozenset[str]:
        """The names of all atoms that are computed at rows."""
        return frozenset(name for some in self._wanted for name in some.get(ROWS, ()))

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

    @property
    def programs_now(self) -> Sequence[StreamProgram | None]:
        """The program of each partition, for the columns that were seen last."""
        return self._programs

    @property
    def schema(self) -> pa.Schema | None:
        """The columns that were seen last, with the atoms of the log, for `compile_for`."""
        return self._schema

    @property
    def guessed(self) -> frozenset[str]:
        """The streams that have integers or floats by the rows that were seen last.

        They are known once there were rows.
        """
        if self._schema is None:
            return frozenset()
        return guessed_streams(self._file, self._environment, self._schema)

    def compile_for(self, schema: pa.Schema) -> None:
        """Make programs for rows with these columns."""
        self._compile(schema)

    def renew(self, partition: int) -> None:
        """Let the program of a partition be one that has computed nothing yet."""
        assert self._schema is not None
        values = () if partition else self._values
        self._programs[partition] = self._program(
            partition, self._wanted[partition], values, self._shown[partition], self._schema
        )

    def names_of(self, partition: int) -> tuple[str, ...]:
        """Return the names of the atoms that are computed at the rows of a partition."""
        return self._wanted[partition].get(ROWS, ())

    def tick_names_of(self, partition: int) -> dict[When, tuple[str, ...]]:
        """Return the names of the atoms at ticks of each kind, and at rows that wait."""
        wanted = self._wanted[partition].items()
        return {when: names for when, names in wanted if when != ROWS}

    def look_ups(self, partition: int) -> tuple[Expression, ...]:
        """Return the look-ups in relations that the atoms and values of a partition have.

        Those at ticks are among them, as windows there have values of rows.
        """
        return self._needs_of(partition).look_ups

    def relations_of(self, partition: int) -> frozenset[str]:
        """Return the relations that the rows and ticks of a partition depend on.

        Their atoms and values look values up there, or their time-points are its changes.
        """
        wanted = self._wanted[partition]
        changing = {when.relation for when in wanted if isinstance(when, Changes)}
        return frozenset({*self._needs_of(partition).relations, *changing})

    def _needs_of(self, partition: int) -> Needs:
        names, shown = (
            [name for some in own[partition].values() for name in some]
            for own in (self._wanted, self._shown)
        )
        return needs_of(self._file, names, shown)

    @property
    def environment(self) -> Environment:
        """The time column and its unit, the zone, and the relations."""
        return self._environment

    def held_at_rows(
        self,
        partition: int,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32],
        until: int | None = None,
        *,
        is_end: bool = False,
        numbers_of: Callable[[NDArray[np.uint32]], NDArray[np.uint32]] | None = None,
    ) -> HeldAtoms:
        """Compute where the atoms of one partition hold at the next rows, and remember these.

        Args:
            partition: its number.
            batch: the rows, with the columns that its program reads.
            time_stamps: their time-stamps.
            numbers: the numbers of their traces.
            until: as for `StreamProgram.evaluate`.
            is_end: likewise.
            numbers_of: returns the numbers that traces have here, of those that `know_traces` is
                about; None if they are the same.

        Raises:
            RowError: integers overflow in some rows.
            TickError: integers overflow at a tick.
        """
        program = self._programs[partition]
        assert program is not None
        self._numbers_of = numbers_of
        found = program.evaluate(batch, time_stamps, numbers, until, is_end=is_end)

        def held(name: str) -> NDArray[np.bool_]:
            return np.asarray(pc.fill_null(found[name], False))

        at_ticks = {
            period: (program.ticks_of(period), [held(_at_ticks(name, period)) for name in names])
            for period, names in self.tick_names_of(partition).items()
        }
        shown = {
            when: {name: found[name if when == ROWS else _at_ticks(name, when)] for name in names}
            for when, names in self._shown[partition].items()
        }
        return HeldAtoms([held(name) for name in self.names_of(partition)], at_ticks, shown)

    def shown_of_rows(
        self, batch: pa.RecordBatch, time_stamps: NDArray[np.int64]
    ) -> list[dict[str, pa.Array]]:
        """Compute the values to show at rows in any order, which depend on their row alone.

        Args:
            batch: the rows, as returned by `prepared`.
            time_stamps: their time-stamps.

        Returns:
            The values of each partition.

        Raises:
            RowError: integers overflow in some rows.
        """
        found = []
        order = order_of(time_stamps)
        back = None
        if order is not None:
            places = np.empty(len(order), np.int64)
            places[order] = np.arange(len(order))
            back = pa.array(places)
            batch, time_stamps = batch.take(pa.array(order)), time_stamps[order]
        times = np.ascontiguousarray(time_stamps)
        self.forget_all()
        for program, shown in zip(self._programs, self._shown, strict=True):
            values = {} if program is None else program.evaluate(batch, times, None)
            own = {name: values[name] for name in shown.get(ROWS, ())}
            if back is not None:
                own = {name: column.take(back) for name, column in own.items()}
            found.append(own)
        return found

    def settled(self, partition: int, count: int) -> bytes | None:
        """Return a byte for each of the first traces of a partition, 0 if its rows still matter."""
        program = self._programs[partition]
        return None if program is None else program.settled(count).tobytes()

    def keep(self, partition: int, numbers: bytes) -> None:
        """Give the traces of a partition new numbers; see `StreamProgram.keep`."""
        program = self._programs[partition]
        if program is not None:
            program.keep(numbers)

    def forget_all(self) -> None:
        """Return to the state before the first row; time-stamps may be smaller from now on."""
        for program in self._programs:
            if program is not None:
                program.forget_all()

    def snapshots(self) -> list[bytes]:
        """Return the state of each partition as bytes for `restore`; empty if it has none."""
        return [b"" if one is None else one.snapshot() for one in self._programs]

    def restore(self, snapshots: Sequence[bytes]) -> None:
        """Continue from snapshots, one for each partition; there must be programs.

        Raises:
            SnapshotError: a snapshot is damaged or of other streams. This object must not be used
                after that.
        """
        for program, snapshot in zip(self._programs, snapshots, strict=True):
            if program is not None:
                program.restore(snapshot)

    def reach(self, partition: int) -> int | None:
        """Return how far the rows of a partition look back; see `StreamProgram.reach`."""
        program = self._programs[partition]
        return 0 if program is None else program.reach

    def settled_from(self, partition: int) -> int | None:
        """Return when the traces of a partition are settled; see `StreamProgram.settled_from`."""
        program = self._programs[partition]
        return 0 if program is None else program.settled_from

    def prepared(
        self, batch: pa.RecordBatch, held: Mapping[str, pa.BooleanArray]
    ) -> pa.RecordBatch:
        """Return rows in the form that the other methods take.

        Args:
            batch: the rows.
            held: for each atom of the log, the rows where it holds.

        Raises:
            PolicyError: a column does not exist, or its type does not fit.
            MtlmonError: a column has another type than before.
        """
        batch = self._with_known_types(batch)
        for name in self.log_atoms:
            batch = batch.append_column(_LOG_ATOM + name, held[name])
        self._compile(batch.schema)
        return batch

    def piece(
        self,
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        batch: pa.RecordBatch,
    ) -> int:
        """Return how many of the next rows to evaluate at once, so that ticks stay few.

        `batch` has these rows, as returned by `prepared`. If this is 0, there are too many ticks
        before the first row: `some_ticks` computes some.
        """
        programs = self._ticking_programs(numbers)
        if not programs or not len(time_stamps):
            return len(time_stamps)
        counts = sum(program.tick_count(time_stamps, own, batch) for program, own in programs)
        return int(np.searchsorted(counts, self._most_ticks, "right"))

    def tick_counts(self, begins: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
        """Return how many ticks a trace has at most below a time, for each time of a first row."""
        counts = np.zeros(len(begins), np.int64)
        for program in self._programs:
            for period in () if program is None else program.periods:
                counts += np.maximum(0, -(-limit // period) - -(-begins // period))
        return counts

    @property
    def has_many_points(self) -> bool:
        """Whether there may be many more time-points than rows, so that `piece` matters."""
        return any(one is not None and one.has_many_points for one in self._programs)

    @property
    def next_tick(self) -> int | None:
        """The time of the next tick of any trace; None if there is none yet."""
        known = [one.next_tick for one in self._programs if one is not None]
        return min((time for time in known if time is not None), default=None)

    @property
    def ticks_end(self) -> float:
        """A time below which all ticks have been computed; infinity if there are no ticks."""
        ends = [one.ticks_end for one in self._programs if one is not None]
        return min(ends, default=inf)

    def next_change(self, start: int, limit: int) -> int | None:
        """Return the first time from one on below another at which a relation changes, or None.

        Only the relations whose changes are time-points count.
        """
        known = [one.next_change(start, limit) for one in self._programs if one is not None]
        return min((time for time in known if time is not None), default=None)

    def some_ticks(self, limit: int) -> Computed:
        """Compute the next ticks below a time; no further row is below it.

        Raises:
            TickError: integers overflow at a tick.
        """
        times = [
            time
            for program in self._programs
            if program is not None and (time := program.time_behind(self._most_ticks)) is not None
        ]
        return self._without_rows(min([limit, *times]))

    def _without_rows(self, until: int | None, *, is_end: bool = False) -> Computed:
        """Compute what comes without a row."""
        assert self._schema is not None
        rows = self._schema.empty_table().to_batches()
        nothing = rows[0] if rows else pa.RecordBatch.from_pylist([], self._schema)
        none = [np.empty(0, np.uint32)] * len(self._programs)
        return self.evaluate(nothing, np.empty(0, np.int64), none, until, is_end=is_end)

    @property
    def waiting_rows(self) -> int:
        """The number of rows that wait for later values."""
        return max((one.waiting_rows for one in self._programs if one is not None), default=0)

    def earliest_waiting(self, partition: int, period: Waiting) -> tuple[int, int] | None:
        """Return time and trace of the earliest of some rows that wait; None if none does."""
        program = self._programs[partition]
        return None if program is None else program.holdings[period].native.earliest

    def released(self) -> Computed:
        """Compute what is left of the rows that wait: no more rows come at all.

        Raises:
            TickError: integers overflow at some of them; see `evaluate`.
        """
        return self._without_rows(None, is_end=True)

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        until: int | None = None,
        *,
        is_end: bool = False,
    ) -> Computed:
        """Compute where the atoms hold at the next rows of the log, and remember these rows.

        Args:
            batch: the rows, as returned by `prepared`.
            time_stamps: their time-stamps.
            numbers: for each partition, the number of each row's trace, or None for one trace.
            until: as for `StreamProgram.evaluate`.
            is_end: likewise.

        Raises:
            RowError: integers overflow in some rows. Nothing has been remembered; call this again
                without these rows.
            TickError: integers overflow at a tick. Nothing has been remembered; call `leave_out` to
                go on without the tick.
        """
        results = Computed([], [], None, [])
        done: list[StreamProgram] = []
        try:
            for program, own, wanted, shown in zip(
                self._programs, numbers, self._wanted, self._shown, strict=True
            ):
                if program is None:
                    results.atoms.append({})
                    results.ticks.append({})
                    results.shown.append({})
                    continue
                found = program.evaluate(batch, time_stamps, own, until, is_end=is_end)
                done.append(program)
                if self._values and len(done) == 1:
                    results = results._replace(values=self._values_of(program, found))
                results.shown.append({name: found[name] for name in shown.get(ROWS, ())})
                results.atoms.append(
                    {name: pc.fill_null(found[name], False) for name in wanted.get(ROWS, ())}
                )
                results.ticks.append(
                    {
                        period: TickAtoms(
                            program.ticks_of(period),
                            {
                                name: pc.fill_null(found[_at_ticks(name, period)], False)
                                for name in names
                            },
                            {
                                name: found[_at_ticks(name, period)]
                                for name in shown.get(period, ())
                            },
                        )
                        for period, names in wanted.items()
                        if period != ROWS
                    }
                )
        except RowError:
            _undo(done)
            # without the row, integers may no longer overflow at ticks behind it
            for program in self._programs:
                if program is not None:
                    program.keep_points()
            raise
        except TickError as error:
            _undo(done)
            error.partition = len(results.atoms)
            raise
        self.points_left_out += sum(program.forget_left_out() for program in done)
        self._most_ticks = min(MOST_TICKS, 2 * self._most_ticks)
        ends = [program.ticks_done for program in done if program.has_ticks]
        return results._replace(
            ticks_done=max(ends, default=0),
            has_all_ticks=self._has_all_ticks,
            instances=[{} if one is None else one.most_instances for one in self._programs],
        )

    def leave_out(self, error: TickError) -> None:
        """Leave out the tick or rows of an error: they are no time-points of their trace.

        The rows are to be evaluated again, from `piece` on, as fewer ticks go at once now.

        Raises:
            MtlmonError: rows are known by their places, which those behind would change.
        """
        if error.rows and self.tracks_rows:
            raise MtlmonError(
                f"at {error.where}: {error.reason}; such rows cannot be left out where the rows of "
                "verdicts are wanted"
            )
        program = self._programs[error.partition]
        assert program is not None
        program.leave_out(error)
        if not error.rows:
            self._has_all_ticks = True
            for one in self._programs:
                if one is not None:
                    one.compute_all_ticks()
        self._most_ticks = min(self._most_ticks, _FEW_TICKS)

    def _values_of(self, program: StreamProgram, found: Mapping[str, pa.Array]) -> Values:
        """The values of the streams that are asked for."""
        points = program.points
        if not any(self._period(name) for name in self._values):
            # there may be ticks of instances
            points = points.without_ticks()
        if self._values_wait is not None:
            removed = program.ticks_of(self._values_wait)
            points = points.with_rows(removed)
        columns = {
            name: points.spread(self._period(name), found[_VALUES + name]) for name in self._values
        }
        return Values(*points.all_points, columns)

    def _ticking_programs(
        self, numbers: Sequence[NDArray[np.uint32] | None]
    ) -> list[tuple[StreamProgram, NDArray[np.uint32] | None]]:
        return [
            (program, own)
            for program, own in zip(self._programs, numbers, strict=True)
            if program is not None and program.has_many_points
        ]

    def _period(self, name: str) -> int:
        """Where values of a stream are shown: `ROWS`, or the period of its ticks.

        Those of instances are shown at rows, which belong to one, or at ticks that do.
        """
        if self._file.streams[name].per:
            return self._declared.clock_of(name)
        return _period_of(self._file.streams[name], self._environment.unit)

    @cached_property
    def _declared(self) -> Declarations:
        streams = streams_of(self._file, self._environment.unit)
        return Declarations(streams, self._definitions, self._environment)

    @property
    def _definitions(self) -> dict[str, Predicate]:
        """What atoms and lets stand for."""
        file = self._file
        found = {name: self._held(file.atoms[name].expression) for name in file.atoms}
        for name in self.log_atoms:
            found[name] = file.predicate(_column(_LOG_ATOM + name), name)
        for name, formula in file.lets.items():
            if not formula.is_first_order and future_operator(formula) is None:
                found[name] = file.predicate(as_expression(formula, _atom), name)
        return found

    def _with_known_types(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give columns the types that they had before."""
        known = {} if self._schema is None else {one.name: one.type for one in self._schema}
        for place, field in enumerate(batch.schema):
            before = known.get(field.name, field.type)
            if field.type != before:
                column = as_before(batch.column(place), before)
                batch = batch.set_column(place, field.name, column)
        return batch

    def _compile(self, schema: pa.Schema) -> None:
        """Make programs for rows with these columns, which continue those for earlier rows.

        A column of integers may have become one of floats.
        """
        if self._schema is not None and self._schema.equals(schema):
            return
        before = self._programs
        nothing: tuple[str, ...] = ()
        values = [self._values, *([nothing] * (len(self._wanted) - 1))]
        self._programs = [
            self._program(partition, names, own, shown, schema)
            for partition, (names, own, shown) in enumerate(
                zip(self._wanted, values, self._shown, strict=True)
            )
        ]
        for old, new in zip(before, self._programs, strict=True):
            if old is not None and new is not None:
                if old.is_by_trace:
                    new.be_by_trace()
                try:
                    new.restore(old.snapshot())
                except SnapshotError:
                    raise MtlmonError(self._changed(schema)) from None
        self._schema = schema

    def _changes(self, partition: int, changes: Changes) -> TraceChanges:
        """Return the changes of a relation as time-points of the traces of a partition."""
        relation = self._environment.relations.get(changes.relation)
        if relation is None:
            raise refused_changes(self._file, changes)
        keys = self._keys[partition]
        has_keys = bool(keys) and self._find_traces is not None
        find = partial(self._traces_of, partition) if has_keys else None
        return TraceChanges(relation.changes(keys), find)

    def _traces_of(self, partition: int, keys: Sequence[pa.Array]) -> NDArray[np.uint32]:
        """Return the numbers of the traces with some keys, as the rows have them now."""
        assert self._find_traces is not None
        traces = self._find_traces(partition, keys)
        return traces if self._numbers_of is None else self._numbers_of(traces)

    def _program(
        self,
        partition: int,
        names: Mapping[When, Sequence[str]],
        values: Sequence[str],
        shown: Mapping[When, Sequence[str]],
        schema: pa.Schema,
    ) -> StreamProgram | None:
        is_needed = any(names.values()) or any(shown.values()) or set(names) - {ROWS}
        if not is_needed and not values:
            return None
        file = self._file
        wanted = {name: file.atoms[name] for name in names.get(ROWS, ())}
        periods: dict[str, When] = {}
        for period, some in names.items():
            for name in some if period != ROWS else ():
                atom = file.atoms.get(name) or file.predicate(_atom(name), None)
                wanted[_at_ticks(name, period)] = atom
                periods[_at_ticks(name, period)] = period
            if period != ROWS:
                # a policy without atoms has time-points, too
                true = file.predicate(Expression(ops.CONSTANT, (), True), None)
                wanted[_at_ticks("", period)] = true
                periods[_at_ticks("", period)] = period
        later = self._values_wait
        for name in values:
            value = Expression(ops.STREAM, (), name, file.streams[name].expression.span)
            wanted[_VALUES + name] = file.predicate(value, name, "stream")
            period = self._period(name)
            periods[_VALUES + name] = later if later is not None and period == ROWS else period
        for period, some in shown.items():
            for name in some:
                place = name if period == ROWS else _at_ticks(name, period)
                value = file.shown[name]
                if period != ROWS:
                    periods[place] = period
                    if not isinstance(period, Waiting):
                        value = with_held_columns(value, self._environment.time)
                wanted[place] = file.predicate(value, None)
        streams = streams_of(file, self._environment.unit)
        return StreamProgram(
            wanted,
            streams,
            schema,
            self._definitions,
            self._environment,
            periods,
            partial(self._changes, partition),
            only_due=self.only_due and not self._values,
            can_leave_out=self.can_leave_out,
        )

    def _held(self, expression: Expression) -> Predicate:
        """The expression that is true where an atom holds, and false elsewhere."""
        false = Expression(ops.CONSTANT, (), False)
        held = Expression(ops.COALESCE, (expression, false), None, expression.span)
        return self._file.predicate(held, None)

    def _changed(self, schema: pa.Schema) -> str:
        assert self._schema is not None
        known = {field.name: field.type for field in self._schema}
        changed = [one for one in schema if known.get(one.name, one.type) != one.type]
        # keys, for instance, may have any types
        changed.sort(key=lambda one: not pa.types.is_floating(one.type))
        for field in changed:
            name = field.name.partition("\0")[0]
            declared = "float" if pa.types.is_floating(field.type) else "text"
            return (
                f"column {name!r} changes its type from {known[field.name]} to {field.type}, "
                "but streams need one type: declare it in the policy file, as in "
                f"column {column_text(name)}: {declared}"
            )
        return "the columns of the log change their types, but streams need one type for each"


def _undo(programs: Sequence[StreamProgram]) -> None:
    for program in programs:
        program.undo()


def streams_of(file: PolicyFile, unit: str | None = None) -> dict[str, Stream]:
    """Return the streams of a file as a program takes them.

    Args:
        file: the policy file.
        unit: the unit of the time-stamps, if it is known.
    """

    return {
        name: Stream(
            file.predicate(stream.expression, name, "stream"),
            None
            if stream.clock is None or stream.clock.condition is None
            else file.predicate(stream.clock.condition, name, "stream"),
            None if stream.kind is None else kinds.DECLARED[stream.kind],
            _period_of(stream, unit),
            per=stream.per,
            start=stream.start,
            end=stream.end,
        )
        for name, stream in file.streams.items()
    }


def _period_of(stream: DeclaredStream, unit: str | None) -> int:
    clock = stream.clock
    if clock is None or clock.period is None:
        return ROWS
    assert not isinstance(clock.period, Waiting | Changes)
    return period_in_units(clock.period, unit)


def _at_ticks(name: str, period: When) -> str:
    """The name of an atom at ticks among what a program computes."""
    return f"\0every {period} {name}"


def _column(name: str) -> Expression:
    return Expression(ops.COLUMN, (), name)


def _atom(name: str) -> Expression:
    return Expression(ops.ATOM, (), name)
