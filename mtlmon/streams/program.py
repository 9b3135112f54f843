"""Streams as a program: layers of columns that are computed batch after batch, and their state."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa

from mtlmon.errors import RowError, SnapshotError, TickError
from mtlmon.policy.predicates.environment import NOTHING, Environment
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.policy.predicates.time_points import ROWS, Changes, Waiting
from mtlmon.streams.builder import Builder
from mtlmon.streams.cells import Texts
from mtlmon.streams.change_ticks import ChangeTicks
from mtlmon.streams.delays import Delays, delays_of, delays_of_instances
from mtlmon.streams.due_ticks import DueTicks
from mtlmon.streams.instances import FamilyTask
from mtlmon.streams.kernels import Kernel
from mtlmon.streams.layer import LayerError
from mtlmon.streams.motion import Motions
from mtlmon.streams.points import NO_SPAN, Points, Span, tick_times
from mtlmon.streams.recursion import MachineTask
from mtlmon.streams.ticking import NO_TICKS, Ticking
from mtlmon.streams.waiting import Holding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams import native
    from mtlmon.streams.change_ticks import TraceChanges
    from mtlmon.streams.declarations import Stream
    from mtlmon.streams.delays import Obstacle
    from mtlmon.streams.instance_ticks import InstanceTicks
    from mtlmon.streams.instances import Family
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.ticking import Ticks

    _Holder = native.Kernel | Family | Holding

# Stands for due ticks among the kinds of values in a snapshot.
_DUE = "due ticks"
# Numbers, as kinds of values there; integers can count time.
_INTEGERS = "integer "
_FLOATS = "float 0"
_MAGIC = b"MTLMON-STREAMS-7"
_MAGIC_OF_ANY_VERSION = b"MTLMON-STREAMS-"
_DIGEST_BYTES = 8
# With so many texts, those that no state has are looked for first.
_MANY_TEXTS = 65_536


def _digest(body: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _parts(body: bytes) -> Iterator[bytes]:
    """The parts of a snapshot, each behind its length."""
    place = 0
    while place < len(body):
        size = int.from_bytes(body[place : place + 8], "little")
        place += 8
        yield body[place : place + size]
        place += size


def _no_flags(count: int) -> NDArray[np.bool_]:
    return np.zeros(count, np.bool_)


class StreamProgram:
    """Computes expressions over streams, batch after batch, for many traces.

    Args:
        wanted: the expressions to compute, by name. Names in them are resolved: a STREAM is one of
            `streams`, an ATOM or LET one of `definitions`.
        streams: the declared streams by name.
        schema: the schema of all batches; columns that no expression names may differ.
        definitions: what the names of atoms and lets stand for.
        environment: the unit of the time-stamps, which is needed if intervals or distances have
            units, and for functions of time the time column and the zone.
        periods: for each name in `wanted` whose values are wanted at ticks, their period in units
            of time; `Waiting` for those that look at later values, and `Changes` for those at the
            changes of a relation.
        changes: returns the changes of a relation as time-points of the traces; needed if something
            is wanted at some.
        only_due: whether to compute only the ticks of each trace at which values may change, its
            first one among them, if it is known which these are.
        can_leave_out: whether `compute_all_ticks` is called before `leave_out`, so that ticks can
            be left out in spite of `only_due`.

    Attributes:
        columns: the names of the columns that are read.
        types: the type of the result for each name in `wanted`.
        periods: the periods of all ticks, also those that only streams have.
        can_leave_out: as given.
        is_by_trace: whether the state of each trace is by itself.
        obstacles: with `only_due`, why all ticks are computed nevertheless; empty if they are not.

    Raises:
        PolicyError: a column does not exist, a type does not fit, a stream needs its own value at
            the same row, or an operator is not supported.
        FormulaError: a duration is not a whole number of units.
    """

    def __init__(
        self,
        wanted: Mapping[str, Predicate],
        streams: Mapping[str, Stream],
        schema: pa.Schema,
        definitions: Mapping[str, Predicate] | None = None,
        environment: Environment = NOTHING,
        periods: Mapping[str, When] | None = None,
        changes: Callable[[Changes], TraceChanges] | None = None,
        *,
        only_due: bool = False,
        can_leave_out: bool = False,
    ) -> None:
        self._texts = Texts()
        self.can_leave_out = can_leave_out
        found: dict[str, int] = {}
        later: dict[Waiting, dict[str, Predicate]] = {}
        builder = Builder(streams, definitions or {}, schema, environment, self._texts)
        for name, predicate in wanted.items():
            when = (periods or {}).get(name, ROWS)
            if isinstance(when, Waiting):
                later.setdefault(when, {})[name] = predicate
            else:
                found[name] = builder.number_of(when) if isinstance(when, Changes) else when
        needed = {when: builder.held_parts(some) for when, some in later.items()}
        parts = [part for one in needed.values() for part in one.parts]
        builder.streams_in_order(
            [*((wanted[name], period) for name, period in found.items()), *parts],
            dict.fromkeys(name for one in needed.values() for name in one.templates),
        )
        outputs = {name: builder.output(wanted[name], period) for name, period in found.items()}
        held = {when: builder.held(one) for when, one in needed.items()}
        self._layers = builder.finish()
        self._holdings = {
            when: Holding(one, builder.schema, environment, self._texts)
            for when, one in held.items()
        }
        self._outputs = {name: (found[name], column) for name, column in outputs.items()}
        self.periods = builder.periods
        self._changes = builder.changes
        self._families = builder.families
        self._instance_ticks = builder.instance_ticks
        self._instance_nows = builder.instance_nows
        self._instance_calls = builder.instance_calls
        ticking: Ticking | DueTicks = Ticking(self.periods)
        self.obstacles: list[Obstacle] = []
        if only_due and (self.periods or self._instance_ticks):
            delays = self._find_due(environment, schema, can_leave_out=can_leave_out)
            if self.periods:
                self.obstacles = delays.obstacles
            if self.periods and not delays.obstacles:
                ticking = DueTicks(
                    self.periods,
                    delays,
                    delays.time_changes(self.periods, schema, environment),
                    delays.self_changes(self.periods, builder.schema, environment),
                )
        self._ticking: Ticking | DueTicks | ChangeTicks = ticking
        if self._changes:
            assert changes is not None
            self._ticking = ChangeTicks(
                {number: changes(one) for one, number in self._changes.items()},
                ticking if self.periods else None,
            )
        self._marked_ticking = self._ticking
        # times and traces of ticks that are left out, as integers overflow there
        self._left_out: set[tuple[int, int]] = set()
        # the one whose rows the last error is about
        self._failed: Holding | None = None
        self._columns: Columns = {}
        self._points: Points | None = None
        self._environment = environment
        self._schema = schema
        self._kernels = [
            kernel for layer in self._layers for task in layer.tasks for kernel in task.kernels
        ]
        self._kernels += [one for held in self._holdings.values() for one in held.kernels]
        of_instances = {id(kernel) for family in self._families for kernel in family.kernels}
        # Those to whose state the numbers of traces matter.
        self._of_traces = [kernel for kernel in self._kernels if id(kernel) not in of_instances]
        # Constants of machines; they keep their numbers.
        self._constant_texts = len(self._texts)
        self._declared = dict(streams), dict(definitions or {})
        self._most_texts = _MANY_TEXTS
        self._clock = 0
        self._marked_clock = 0
        self.is_by_trace = False
        # where states are to be saved in the next batch
        self._marks: tuple[NDArray[np.int64], NDArray[np.uint64]] | None = None
        self.columns = tuple(dict.fromkeys(builder.columns))
        self.types = {name: builder.schema.field(column).type for name, column in outputs.items()}
        for holding in self._holdings.values():
            self.types |= holding.types

    def _find_due(
        self, environment: Environment, schema: pa.Schema, *, can_leave_out: bool
    ) -> Delays:
        """Find only the ticks of instances at which values may change; delays of other ticks."""
        found: dict[int, tuple[int, Delays]] = {}
        read = {
            task.argument_period
            for layer in self._layers
            for task in layer.tasks
            if task.period > ROWS
        }
        for family in self._families:
            if family.frame in read:
                # the values at the last rows of instances stay as they are
                delays = Delays(Motions(environment, schema))
                delays.end_instances(family, self.periods)
                found[family.frame] = 1, delays
        for calls in self._instance_calls:
            # they stay as they are behind a row of their trace
            delays = Delays(Motions(environment, schema))
            delays.end_instances(calls.family, self.periods)
            found[calls.frame] = 1, delays
        for ticks in self._instance_ticks:
            delays = delays_of_instances(
                self._layers, environment.time, ticks.frame, ticks.family.frame
            )
            delays.end_instances(ticks.family, self.periods)
            # those that are counted from beginnings are at any time
            period = 0 if ticks.is_from_beginning else ticks.period
            found[ticks.frame] = period, delays
            if not delays.obstacles:
                ticks.find_due(delays)
        for nows in self._instance_nows:
            # they change at any time
            delays = delays_of_instances(
                self._layers, environment.time, nows.frame, nows.family.frame
            )
            delays.end_instances(nows.family, self.periods)
            found[nows.frame] = 1, delays
        motions = Motions(environment, schema)
        outputs = self._outputs.values()
        return delays_of(self._layers, motions, outputs, found, can_leave_out=can_leave_out)

    def compute_all_ticks(self) -> None:
        """Compute all ticks from now on, even if only due ones were to be computed.

        So those after a tick that is left out do not count as if they repeated its values.
        """
        if isinstance(self._ticking, DueTicks | ChangeTicks):
            self._ticking = self._marked_ticking = self._ticking.followed_by_all()
        for ticks in self._instance_ticks:
            ticks.find_all()

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32] | None = None,
        until: int | None = None,
        *,
        is_end: bool = False,
    ) -> dict[str, pa.Array]:
        """Compute all wanted expressions for the next rows, and remember the rows.

        The ticks below the last row are computed, too. `tick_count` tells how many these are.

        Args:
            batch: the rows, with the columns of the schema.
            time_stamps: their time-stamps, contiguous; they must not decrease, over all batches.
            numbers: for each row, the number of its trace, contiguous; None if there is only one
                trace. Numbers should be dense, as memory is needed for all below the largest.
            until: no further row is below this time, which is above the last row: compute all ticks
                below it.
            is_end: whether no more rows come at all: the rows that wait for later values go. There
                must be no rows then.

        Returns:
            For each name in `wanted` an array as long as the batch, or with a value for each of
            `ticks_of` its period. Conditions keep their nulls.

        Raises:
            RowError: integers overflow in some rows. These rows must be left out: `evaluate` is to
                be called again with the other rows of the batch. The state is as before the call.
            TickError: integers overflow at a tick. The state is as before the call; `leave_out` and
                `evaluate` go on without the tick.
            ValueError: a column is missing or has another type than in the schema, or time-stamps
                decrease.
        """
        self.commit()
        if len(self._texts) >= self._most_texts:
            # most of them may be of rows that have left
            self._forget_texts()
        ticks = NO_TICKS
        following = self._ticking
        span = NO_SPAN
        if self.has_ticks:
            start = max(self._ticking.done, self._clock)
            if len(time_stamps) and not self._ticking.trace_count:
                start = int(time_stamps[0])
            ticks, following = self._ticking.ticks(time_stamps, numbers, until)
            span = Span(start, following.done, left_out=frozenset(self._left_out))
            if self._left_out:
                own = zip(ticks.time_stamps.tolist(), ticks.numbers.tolist(), strict=True)
                is_kept = [tick not in self._left_out for tick in own]
                ticks = ticks.chosen(np.array(is_kept, np.bool_))
        points = Points(
            time_stamps, numbers, ticks, self._clock, span, is_by_trace=self.is_by_trace
        )
        if self._marks is not None:
            moments, places = self._marks
            points.batch(ROWS).mark(moments, places, len(self.natives))
            self._marks = None
        try:
            found = self._attempt(batch, points)
        except _Refused as refused:
            self._reject(batch, points, refused)
        except BaseException:
            self.undo()
            raise
        self._ticking = following
        try:
            if isinstance(following, DueTicks | ChangeTicks):
                following.look(self._columns, points)
            for holding in self._holdings.values():
                self._failed = holding
                found |= holding.run(self._columns, points, is_end=is_end)
        except BaseException:
            self.undo()
            raise
        finally:
            self._columns = {}
        return found

    def _reject(self, batch: pa.RecordBatch, points: Points, refused: _Refused) -> NoReturn:
        """Raise the error of the rows or the tick of a batch at which integers overflow."""
        if self.is_by_trace:
            # there is no state to go back to
            raise refused.error from refused.error.__cause__
        while refused.has_memory or refused.period != ROWS:
            # It overflows if no earlier row does, which would have been left out before.
            self.undo()
            index, period = refused.error.rows[0], refused.period
            points_of, points = points, points.before(period, index)
            batch = batch.slice(0, points.row_count)
            try:
                self._attempt(batch, points)
            except _Refused as earlier:
                refused = earlier
            except BaseException:
                self.undo()
                raise
            else:
                self.undo()
                error = refused.error
                cause = error.__cause__
                if period == ROWS:
                    raise RowError(error.reason, rows=(index,), atom=error.atom) from cause
                place, time_stamp, number = points_of.tick(period, index)
                raise TickError(
                    error.reason, place=place, time_stamp=time_stamp, number=number
                ) from cause
        self.undo()
        raise refused.error from refused.error.__cause__

    def leave_out(self, error: TickError) -> None:
        """Leave out the tick or the rows of an error, which have not been evaluated yet."""
        if error.rows:
            for holding in self._holdings.values():
                if holding is self._failed:
                    holding.leave_out(error.rows)
            return
        self._left_out.add((error.time_stamp, error.number))

    def keep_points(self) -> None:
        """Leave out nothing of what has not been evaluated yet."""
        self._left_out.clear()
        for holding in self._holdings.values():
            holding.forget_left_out()

    def forget_left_out(self) -> int:
        """Forget what was left out of what has been evaluated; return how many time-points."""
        coming = {tick for tick in self._left_out if tick[0] >= self._ticking.done}
        count = len(self._left_out) - len(coming)
        self._left_out = coming
        return count + sum(holding.forget_left_out() for holding in self._holdings.values())

    @property
    def holdings(self) -> dict[Waiting, Holding]:
        """The rows that wait for later values."""
        return self._holdings

    @property
    def waiting_rows(self) -> int:
        """The number of rows that wait for later values."""
        return max((one.native.waiting for one in self._holdings.values()), default=0)

    def ticks_of(self, period: When) -> Ticks:
        """Return the ticks of a period that the last call of `evaluate` has computed.

        For `Waiting`, these are the rows that no longer wait, each at the row that lets it go. For
        `Changes`, they are the times at which the relation changes.
        """
        if isinstance(period, Waiting):
            return self._holdings[period].rows
        if isinstance(period, Changes):
            period = self._changes[period]
        return NO_TICKS if self._points is None else self._points.ticks_of(period)

    @property
    def has_ticks(self) -> bool:
        """Whether there are ticks, of periods, by changes of relations, or of instances."""
        return bool(self.periods or self._changes or self._instance_ticks)

    @property
    def has_many_points(self) -> bool:
        """Whether there may be many more time-points than rows: ticks, or calls of instances."""
        return self.has_ticks or any(calls.calls_all for calls in self._instance_calls)

    def has_ticks_between(self, first: int, last: int) -> bool:
        """Whether there may be ticks from one time on and below another."""
        if any(-(-first // period) * period < last for period in self.periods):
            return True
        if any(ticks.is_from_beginning for ticks in self._instance_ticks):
            return first < last
        return self.next_change(first, last) is not None

    @property
    def points(self) -> Points:
        """The rows and ticks that the last call of `evaluate` has computed."""
        assert self._points is not None
        return self._points

    def tick_count(
        self,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32] | None,
        batch: pa.RecordBatch | None = None,
    ) -> NDArray[np.int64]:
        """Return how many ticks `evaluate` computes at most before each of the next rows.

        Time-points at which rows call all instances of a stream count, too.

        Args:
            time_stamps: the time-stamps of the rows, at least one.
            numbers: the numbers of their traces, as for `evaluate`.
            batch: the rows; without them, all count that may call instances.
        """
        counts = np.zeros(len(time_stamps), np.int64)
        calling = [calls for calls in self._instance_calls if calls.calls_all]
        if calling:
            known: Mapping[str, pa.Array] = {}
            if batch is not None:
                rows = Points(time_stamps, numbers, NO_TICKS, self._clock)
                known = self._layers[0].parts_of_rows(_columns_of(batch), rows)
            for calls in calling:
                counts += calls.counts(numbers, len(time_stamps), known)
        if not self.has_ticks:
            return counts
        of_traces = self._ticking.tick_counts(time_stamps, numbers)
        counts = counts + of_traces
        if self._instance_ticks:
            start = max(self._ticking.done, self._clock)
            if not self._ticking.trace_count:
                start = int(time_stamps[0])
            for ticks in self._instance_ticks:
                counts = counts + ticks.tick_counts(time_stamps, start, of_traces)
        return counts

    @property
    def ticks_done(self) -> int:
        """A time below which all ticks have been computed."""
        return self._ticking.done

    @property
    def ticks_end(self) -> float:
        """A time below which all ticks have been computed; infinity if there are no ticks."""
        return self._ticking.done if self._ticking.trace_count else inf

    def time_behind(self, count: int) -> int | None:
        """Return a time below which there are about so many ticks from now on.

        There is at least one, if any is to come. None if there are no ticks.
        """
        if not self._ticking.trace_count:
            return None
        all_found = [ticks for ticks in self._instance_ticks if ticks.due is None]
        instances = sum(ticks.family.table.living for ticks in all_found)
        found = [self._ticking.time_behind(count // max(1, instances))]
        done = self._ticking.done
        found += [one.time_behind(done, count) for one in all_found if one.is_from_beginning]
        return min(found)

    def next_change(self, start: int, limit: int) -> int | None:
        """Return the first time from one on below another at which a relation changes, or None.

        Only the relations whose changes are time-points count.
        """
        ticking = self._ticking
        return ticking.next_change(start, limit) if isinstance(ticking, ChangeTicks) else None

    # ---- states by trace ---------------------------------------------------------------------

    @property
    def can_be_by_trace(self) -> bool:
        """Whether the state of each trace can be by itself; see `be_by_trace`."""
        is_plain = not (self.has_ticks or self._holdings or self._families)
        return is_plain and all(kernel.can_be_by_trace for kernel in self._natives())

    def be_by_trace(self) -> None:
        """Let the state of each trace be by itself, from before the first row on.

        Then rows come in the order of time in each trace, whatever the order between traces is. An
        error leaves no state to go on from.
        """
        if not self.is_by_trace:
            for kernel in self._natives():
                kernel.by_trace()
            self.is_by_trace = True

    def save_before(self, moments: NDArray[np.int64], places: NDArray[np.uint64]) -> None:
        """Let the next call of `evaluate` save states before some rows; see `native.Batch.mark`."""
        self._marks = moments, places

    @property
    def natives(self) -> list[native.Kernel]:
        """The native kernels, which hold the state."""
        return list(self._natives())

    def commit(self) -> None:
        """Let `undo` return to the present state from now on; `evaluate` begins with it."""
        self._marked_clock = self._clock
        self._marked_ticking = self._ticking
        self._ticking.begin()
        for kernel in self._natives():
            kernel.begin()
        for family in self._families:
            family.begin()
        for holding in self._holdings.values():
            holding.native.begin()

    def undo(self) -> None:
        """Return to the state before the last call of `evaluate`, unless it is by trace."""
        if self.is_by_trace:
            return
        self._clock = self._marked_clock
        self._ticking = self._marked_ticking
        self._ticking.undo()
        for kernel in self._natives():
            kernel.undo()
        for family in self._families:
            family.undo()
        for holding in self._holdings.values():
            holding.native.undo()

    def settled(self, count: int) -> NDArray[np.bool_]:
        """Find the traces that can be forgotten.

        The state of such a trace is that of a new one, and time alone does not change it. Where
        there are ticks, no trace that has had a row is settled, as its ticks go on.

        Args:
            count: the number of traces.

        Returns:
            For each trace whether it is settled.
        """
        flags = np.ones(count, np.uint8)
        for kernel in _natives(self._of_traces):
            kernel.settled(flags)
        for family in self._families:
            family.table.settled(flags)
        for holding in self._holdings.values():
            holding.native.settled(flags)
        if self.has_ticks:
            self._ticking.clear_settled(flags)
        return flags.view(np.bool_)

    def keep(self, new_numbers: bytes) -> None:
        """Give traces new numbers, in the same order, and forget others.

        Args:
            new_numbers: 32-bit integers, indexed by the current number; 2^32-1 for traces to
                forget.
        """
        for kernel in _natives(self._of_traces):
            kernel.keep(new_numbers)
        for family in self._families:
            family.compact(new_numbers)
        for holding in self._holdings.values():
            holding.native.keep(new_numbers)
        if self.has_ticks:
            self._ticking = self._ticking.kept(new_numbers)
        self._marked_clock = self._clock
        self._marked_ticking = self._ticking

    def forget_all(self) -> None:
        """Return to the state before the first row; time-stamps may be smaller from now on."""
        for family in self._families:
            family.forget_all()
        for kernel in self._natives():
            kernel.forget_all()
        for holding in self._holdings.values():
            holding.native.forget_all()
        self._keep_texts(_no_flags(len(self._texts)), [])
        self._clock = self._marked_clock = 0
        self._ticking = self._marked_ticking = self._ticking.emptied()
        self._left_out.clear()

    @property
    def settled_from(self) -> int | None:
        """The least time-stamp at which all traces are settled if no row comes before it.

        Rows from there on have the same values as if there had been none before. It is None if
        something is remembered for ever.
        """
        if self.settled(1).all():
            return 0
        ages = [kernel.settling_age for kernel in self._kernels]
        known = [age for age in ages if age is not None]
        has_end = len(known) == len(ages) and not self.has_ticks and not self._families
        has_end = has_end and not self._holdings
        return self._clock + max(known) + 1 if has_end else None

    @property
    def reach(self) -> int | None:
        """How far below a row the rows may be that its values depend on; None if there is no bound.

        Values at a row are the same if earlier rows than these are left out.
        """
        if self.has_ticks or self._families or self._holdings:
            return None
        reach = 0
        for layer in self._layers:
            ages = [kernel.settling_age for task in layer.tasks for kernel in task.kernels]
            known = [age for age in ages if age is not None]
            if len(known) < len(ages) or any(isinstance(one, MachineTask) for one in layer.tasks):
                return None
            # A layer reads what those before it have computed.
            reach += max(known, default=0)
        return reach

    @property
    def next_tick(self) -> int | None:
        """The time of the first tick of a period that is not computed; None if none is yet."""
        if not self.periods or not self._ticking.trace_count:
            return None
        done = self._ticking.done
        return min(-(-done // period) * period for period in self.periods)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return (
            self._texts.held_bytes
            + self._ticking.held_bytes
            + sum(kernel.held_bytes for kernel in self._natives())
            + sum(family.held_bytes for family in self._families)
            + sum(holding.native.held_bytes for holding in self._holdings.values())
        )

    @property
    def living_instances(self) -> int:
        """The number of instances of streams with `per` that are alive, of all traces."""
        return sum(family.table.living for family in self._families)

    @property
    def most_instances(self) -> dict[str, int]:
        """For streams with `per`, how many instances were alive at once in the last `evaluate`.

        Those that share their instances count once.
        """
        return {family.name: family.table.peak for family in self._families}

    @cached_property
    def _meaning(self) -> bytes:
        """A digest of what streams and atoms are, by which a snapshot knows its program again."""
        streams, definitions = self._declared
        texts = [
            (
                name,
                str(one.value),
                str(one.on),
                None if one.kind is None else one.kind.name,
                one.period,
                [(str(key), parameter) for key, parameter in one.per],
                str(one.start),
                str(one.end),
            )
            for name, one in streams.items()
        ]
        atoms = [(name, str(one)) for name, one in definitions.items()]
        return _digest(repr((sorted(texts, key=repr), sorted(atoms))).encode())

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        self._forget_texts()
        parts = [self._clock.to_bytes(8, "little"), self._texts.snapshot()]
        parts.append("\n".join(self._kinds).encode())
        parts.append(self._ticking.snapshot())
        parts += [kernel.snapshot() for kernel in self._natives()]
        parts += [part for family in self._families for part in family.snapshot()]
        parts += [holding.native.snapshot() for holding in self._holdings.values()]
        parts.append(self._meaning)
        body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return _MAGIC + _digest(body) + body

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of a program with the same arguments, whatever this one had.

        Columns that are floats here may have been integers there: the values that are remembered
        become floats, too.

        Raises:
            SnapshotError: the bytes are not a snapshot, are damaged, or belong to another program.
                This program must not be used after that.
        """
        head = len(_MAGIC) + _DIGEST_BYTES
        body = snapshot[head:]
        if not snapshot.startswith(_MAGIC):
            if snapshot.startswith(_MAGIC_OF_ANY_VERSION):
                raise SnapshotError("the snapshot was made by another version of mtlmon")
            raise SnapshotError("this is not a snapshot of streams")
        if snapshot[len(_MAGIC) : head] != _digest(body):
            raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
        parts = list(_parts(body))
        natives = list(self._natives())
        count = 5 + len(natives) + sum(family.part_count for family in self._families)
        count += len(self._holdings)
        if len(parts) != count or len(parts[0]) != 8 or not self._fit(parts[2]):
            raise SnapshotError("the snapshot is of other streams")
        if parts.pop() != self._meaning:
            raise SnapshotError(
                "the snapshot is of other streams, or of atoms that mean another thing"
            )
        self.forget_all()
        if not self._has_due(parts[2]):
            self.compute_all_ticks()
        self._clock = int.from_bytes(parts[0], "little")
        self._texts.restore(parts[1])
        self._most_texts = max(_MANY_TEXTS, 2 * len(self._texts))
        try:
            self._ticking = self._ticking.restored(parts[3])
        except ValueError:
            raise SnapshotError("the snapshot is of other streams") from None
        self._rank_texts()
        rest = iter(parts[4:])
        widened = self._widened(parts[2])
        for one in self._kernels:
            is_widened = next(widened)
            for kernel in one.natives:
                kernel.restore(next(rest), is_widened)
        keys = [[next(widened) for _ in family.keys] for family in self._families]
        held = [[next(widened) for _ in one.kinds] for one in self._holdings.values()]
        for family, flags in zip(self._families, keys, strict=True):
            values = [next(widened) for _ in family.kinds_over]
            family.restore([next(rest) for _ in range(family.part_count)], flags, values)
        for holding, flags in zip(self._holdings.values(), held, strict=True):
            holding.native.restore(next(rest), flags)
        self.commit()

    @property
    def _kinds(self) -> list[str]:
        """The kind of the values that each kernel keeps, and of the keys of instances.

        Those of rows that wait, and of aggregates over instances, come behind them.
        """
        found = [kernel.argument for kernel in self._kernels]
        found += [key.kind for family in self._families for key in family.keys]
        found += [kind for holding in self._holdings.values() for kind in holding.kinds]
        found += [kind for family in self._families for kind in family.kinds_over]
        ticks = [] if self.due_ticks is None else [_DUE]
        ticks += [_DUE for one in self._instance_ticks if one.due is not None]
        return [*(f"{kind.name} {kind.unit}" for kind in found), *ticks]

    @property
    def kernels(self) -> list[tuple[Kernel, int]]:
        """The kernels, which hold the state, with the time-points of their arguments."""
        found: list[tuple[Kernel, int]] = []
        for layer in self._layers:
            for task in layer.tasks:
                periods = [task.argument_period] * len(task.kernels)
                if isinstance(task, MachineTask | FamilyTask):
                    periods = task.argument_periods
                found += zip(task.kernels, periods, strict=True)
        return found + [(one, ROWS) for held in self._holdings.values() for one in held.kernels]

    @property
    def due_ticks(self) -> DueTicks | None:
        """Finds the ticks of periods that are computed; None if these are all or there are none."""
        ticking = self._ticking
        found = ticking.periodic if isinstance(ticking, ChangeTicks) else ticking
        return found if isinstance(found, DueTicks) else None

    @property
    def instance_ticks(self) -> list[InstanceTicks]:
        """The ticks of instances."""
        return self._instance_ticks

    @property
    def families(self) -> list[Family]:
        """The instances of streams with `per`."""
        return self._families

    def _fit(self, written: bytes) -> bool:
        """Whether values of the kinds in a snapshot can be kept here; nulls are no values."""
        found = written.decode(errors="replace").split("\n") if written else []
        own_kinds = self._kinds
        if not self._has_due(written):
            own_kinds = [kind for kind in own_kinds if kind != _DUE]
        return len(found) == len(own_kinds) and all(
            kind == own or kind.startswith("null ") or _is_widened(kind, own)
            for kind, own in zip(found, own_kinds, strict=True)
        )

    def _widened(self, written: bytes) -> Iterator[bool]:
        """Say for each kind of values whether a snapshot has integers that are floats here."""
        return map(_is_widened, written.decode().split("\n"), self._kinds)

    def _has_due(self, written: bytes) -> bool:
        """Whether a snapshot with these kinds is of a program that computes due ticks only."""
        return not self.can_leave_out or _DUE.encode() in written.split(b"\n")

    def _forget_texts(self) -> None:
        """Forget the texts that no state has."""
        with_texts = [kernel.native for kernel in self._kernels if kernel.argument.name == "text"]
        for family in self._families:
            family.compact()
        holders: list[_Holder] = [*with_texts, *self._holdings.values()]
        holders += self._families
        is_kept = _no_flags(len(self._texts))
        for holder in holders:
            holder.mark_texts(is_kept.view(np.uint8))
        self._keep_texts(is_kept, holders)
        self._most_texts = max(_MANY_TEXTS, 2 * len(self._texts))

    def _keep_texts(self, is_kept: NDArray[np.bool_], holders: Sequence[_Holder]) -> None:
        """Forget texts, but no constants; those that hold others get the new numbers."""
        is_kept[: self._constant_texts] = True
        if is_kept.all():
            return
        numbers = self._texts.keep(is_kept)
        for holder in holders:
            holder.renumber_texts(numbers)
        self._rank_texts()

    def _rank_texts(self) -> None:
        """Tell those that compare texts the order of all."""
        for kernel in self._kernels:
            kernel.rank_texts()
        for family in self._families:
            family.rank_texts()

    def _natives(self) -> Iterator[native.Kernel]:
        return _natives(self._kernels)

    def _attempt(self, batch: pa.RecordBatch, points: Points) -> dict[str, pa.Array]:
        of_ticks = (*self.periods, *self._changes.values())
        columns: dict[int, dict[str, pa.Array]] = {period: {} for period in of_ticks}
        columns |= {family.frame: {} for family in self._families}
        columns |= {ticks.frame: {} for ticks in self._instance_ticks}
        columns |= {nows.frame: {} for nows in self._instance_nows}
        columns |= {calls.frame: {} for calls in self._instance_calls}
        columns[ROWS] = _columns_of(batch)
        time = self._environment.time
        if time in self.columns and time is not None:
            kind = self._schema.field(time).type
            for period in of_ticks:
                time_stamps = points.ticks_of(period).time_stamps
                columns[period][time] = tick_times(time_stamps, kind, self._environment)
        for number, layer in enumerate(self._layers):
            try:
                layer.run(columns, points)
            except LayerError as found:
                raise _Refused(number > 0 or found.has_memory, found.period, found.error) from None
        self._clock = points.clock
        self._points = points
        self._columns = columns
        return {name: columns[period][column] for name, (period, column) in self._outputs.items()}


def _columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch.column(index) for index, name in enumerate(batch.schema.names)}


def _is_widened(kind: str, own: str) -> bool:
    """Whether values of a kind in a snapshot are integers, and floats here."""
    return kind.startswith(_INTEGERS) and own == _FLOATS


def _natives(kernels: Iterable[Kernel]) -> Iterator[native.Kernel]:
    for kernel in kernels:
        yield from kernel.natives


class _Refused(Exception):
    """The error of a row or tick, where it was found, and whether it may depend on other rows."""

    def __init__(self, has_memory: bool, period: int, error: RowError) -> None:
        super().__init__(has_memory, period, error)
        self.has_memory = has_memory
        self.period = period
        self.error = error
