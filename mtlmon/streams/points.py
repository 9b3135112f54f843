"""The time-points of a batch, in one order: its rows, and the ticks between them.

Ticks are those of periods, and the changes of relations. `policy/predicates/time_points` says where
an expression has values, and what it may read. Only kernels connect columns of different
time-points: they get the time-points of their argument and those of their results in one order, and
return results only for the latter. So a value is computed at a tick only if it is wanted there, and
a file without ticks has no extra cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import RowError
from mtlmon.policy.predicates.time_points import CHANGES, ROWS
from mtlmon.streams import native
from mtlmon.streams.kernels import Meeting
from mtlmon.streams.ticking import NO_TICKS, Ticks
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]


class Span(NamedTuple):
    """Which ticks belong to a batch.

    Attributes:
        start: none is below this time.
        stop: none is at or above this time, but for those of `traces`.
        traces: of the traces below this number, those at `stop` belong to it, too.
        left_out: times and traces of ticks that do not.
    """

    start: int
    stop: int
    traces: int = 0
    left_out: frozenset[tuple[int, int]] = frozenset()

    @property
    def limit(self) -> int:
        """A time below which all ticks are."""
        return self.stop + (self.traces > 0)


class InstanceMeeting(NamedTuple):
    """Ticks of instances, and the time-points of results about all instances, in one order.

    Attributes:
        batch: all of them, with the numbers of their traces.
        moments: for each of them, its moment among the rows of the batch; see `moments_behind`.
        arguments: which of them are ticks of instances.
        results: which of them are those of the results.
        is_result: for each of them, whether it is one of `results`.
    """

    batch: native.Batch
    moments: Integers
    arguments: Integers
    results: Integers
    is_result: NDArray[np.uint8]


class Readings(NamedTuple):
    """Time-points of instances as of which their windows are read; see `InstanceNows`.

    Attributes:
        points: their times, the numbers of instances, and how many rows each is behind.
        traces: the numbers of the traces of the instances.
        own: which of them are rows of the instance itself, in the order of these rows.
        of_rows: where a row reads, or is the instance's own, and no tick; None for all.
    """

    points: Ticks
    traces: Numbers
    own: Integers
    of_rows: NDArray[np.bool_] | None

    @property
    def rows_before(self) -> Integers:
        """How many rows of the batch come before each, without the instance's own."""
        found = self.points.places.copy()
        found[self.own] -= 1
        return found

    @property
    def moments(self) -> Integers:
        """Their moments among the rows; those of the instance itself are at these rows."""
        found = moments_behind(self.points.places)
        found[self.own] = _moments_at(self.points.places[self.own] - 1)
        return found


NO_SPAN = Span(0, 0)


class Points:
    """The rows of a batch and its ticks, in one order.

    Args:
        time_stamps: the time-stamps of the rows.
        numbers: the numbers of their traces; None if there is only one.
        ticks: the ticks.
        clock: the time of the last time-point before the batch.
        span: which ticks belong to the batch.
        is_by_trace: whether the rows are in the order of time in each trace only; see
            `native.Batch`.

    Attributes:
        ticks: the ticks.
        row_count: the number of rows.
        span: as given.
    """

    def __init__(
        self,
        time_stamps: Integers,
        numbers: Numbers | None,
        ticks: Ticks,
        clock: int,
        span: Span = NO_SPAN,
        *,
        is_by_trace: bool = False,
    ) -> None:
        self.span = span
        self._is_by_trace = is_by_trace
        self.ticks = ticks
        self.row_count = len(time_stamps)
        self._time_stamps = time_stamps
        self._numbers = numbers
        self._clock = clock
        self._of_period: dict[int, Integers] = {}
        self._batches: dict[int, native.Batch] = {}
        self._is_own: dict[int, NDArray[np.bool_] | None] = {}
        self._clocks: dict[int, int] = {}
        self._meetings: dict[tuple[int, int], Meeting] = {}
        # of rows and ticks, in that order; most programs do not need them
        self._common_places: tuple[Integers, Integers] | None = None
        # The ticks of instances, and their traces, by the number of these time-points.
        self._of_instances: dict[int, tuple[Ticks, Numbers]] = {}
        self._instance_meetings: dict[tuple[int, int], InstanceMeeting] = {}
        self._readings: dict[int, Readings] = {}
        # Where rows call instances: the places, and the numbers of the rows' own instances.
        self._calls: dict[int, tuple[Integers, Numbers]] = {}

    @property
    def clock(self) -> int:
        """The time of the last time-point, also of those before the batch."""
        last = [int(stamps[-1]) for stamps in (self._time_stamps, self.ticks[0]) if len(stamps)]
        return max(last, default=self._clock)

    def before(self, period: int, index: int) -> Points:
        """Return the time-points before one that is a row or a tick of a period or instance."""
        left_out = self.span.left_out
        if period == ROWS:
            stop, trace, rows = int(self._time_stamps[index]), 0, index
        else:
            rows, stop, trace = self.tick(period, index)
        numbers = None if self._numbers is None else self._numbers[:rows]
        span = Span(self.span.start, stop, trace, left_out)
        kept = self.ticks.chosen(self._is_below(self.ticks.time_stamps, self.ticks.numbers, span))
        return Points(self._time_stamps[:rows], numbers, kept, self._clock, span)

    def tick(self, period: int, index: int) -> tuple[int, int, int]:
        """Return the place of a tick, its time, and the number of its trace."""
        if period > ROWS:
            ticks = self.ticks_of(period)
            traces = ticks.numbers
        else:
            ticks, traces = self._of_instances[period]
        return int(ticks.places[index]), int(ticks.time_stamps[index]), int(traces[index])

    def is_in_span(self, time_stamps: Integers, traces: Numbers) -> NDArray[np.bool_]:
        """Find out which ticks belong to the batch.

        Args:
            time_stamps: their times, which are not below `span.start`.
            traces: the numbers of their traces.
        """
        found = self._is_below(time_stamps, traces, self.span)
        if self.span.left_out:
            own = zip(time_stamps.tolist(), traces.tolist(), strict=True)
            found &= np.array([tick not in self.span.left_out for tick in own], np.bool_)
        return found

    @staticmethod
    def _is_below(time_stamps: Integers, traces: Numbers, span: Span) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = time_stamps < span.stop
        found |= (time_stamps == span.stop) & (traces < span.traces)
        return found

    def places_of(self, times: Integers) -> Integers:
        """Return for ticks at some times the index of the row that each comes before."""
        return np.searchsorted(self._time_stamps, times, "right")

    def ticks_of(self, period: int) -> Ticks:
        """Return the ticks of a period."""
        which = self._ticks_of(period)
        return self.ticks if len(which) == len(self.ticks) else self.ticks.chosen(which)

    @property
    def all_points(self) -> tuple[Integers, Numbers]:
        """The times of all rows and ticks, and the numbers of their traces."""
        count = self.row_count + len(self.ticks)
        times = np.empty(count, np.int64)
        numbers = np.zeros(count, np.uint32)
        rows, ticks = self._all_places
        times[rows], times[ticks] = self._time_stamps, self.ticks.time_stamps
        if self._numbers is not None:
            numbers[rows] = self._numbers
        numbers[ticks] = self.ticks.numbers
        return times, numbers

    def spread(self, period: int, values: pa.Array) -> pa.Array:
        """Return values at rows or ticks as values at all time-points, null at the others."""
        if not len(self.ticks) and period == ROWS:
            return values
        index = np.full(self.row_count + len(self.ticks), -1)
        index[self._places(period)] = np.arange(len(values))
        return values.take(pa.array(index, mask=index < 0))

    def without_ticks(self) -> Points:
        """Return the rows alone."""
        return Points(self._time_stamps, self._numbers, NO_TICKS, self._clock)

    def with_rows(self, rows: Ticks) -> Points:
        """Return these ticks, with other rows.

        Args:
            rows: the rows, each with the index of the row of the batch that it comes at.
        """
        count = len(rows)
        ticks = self.ticks
        places = np.concatenate([rows.places, ticks.places])
        # rows that have waited are older than the ticks before the row that lets them go
        order = np.lexsort((np.arange(len(places)) >= count, places)).argsort()
        found = Points(rows.time_stamps, rows.numbers, ticks, self._clock)
        found._common_places = order[:count], order[count:]
        return found

    def common(self, period: int, other: int) -> Integers:
        """Return which ticks of a period are those of another one, which is a multiple.

        For ticks of instances, they are those of their traces at the same time.
        """
        if other in self._of_instances:
            ticks, (own, traces) = self.ticks_of(period), self._of_instances[other]
            count = len(ticks)
            times = np.concatenate([ticks.time_stamps, own.time_stamps])
            numbers = np.concatenate([ticks.numbers, traces]).astype(np.int64)
            _, places = np.unique(times, return_inverse=True)
            keys = places * (numbers.max(initial=0) + 1) + numbers
            order = np.argsort(keys[:count])
            found: Integers = order[np.searchsorted(keys[:count], keys[count:], sorter=order)]
            return found
        return np.flatnonzero(self.ticks.time_stamps[self._ticks_of(period)] % other == 0)

    def batch(self, period: int) -> native.Batch:
        """Return the rows or the ticks of a period."""
        if period not in self._batches:
            times, numbers = self._time_stamps, self._numbers
            if period != ROWS:
                ticks = self.ticks_of(period)
                times, numbers = ticks.time_stamps, ticks.numbers
            count = len(times)
            self._batches[period] = native.Batch(
                times, numbers, count, self._clock, self._is_by_trace
            )
        return self._batches[period]

    def readers(self, period: int) -> native.Batch:
        """Return time-points that read instances, ticks of instances among them, by trace."""
        if period not in self._of_instances:
            return self.batch(period)
        ticks, traces = self._of_instances[period]
        return native.Batch(ticks.time_stamps, traces, len(ticks), self._clock)

    def times(self, period: int) -> Integers:
        """Return the time-stamps of the rows, of the rows of a family, or of ticks."""
        times: Integers = self.batch(period).times
        return times

    def add_family(
        self, frame: int, numbers: Numbers, is_own: NDArray[np.bool_] | None, clock: int = ROWS
    ) -> None:
        """Add the rows that belong to instances of a family.

        Args:
            frame: the number of the family, which is negative.
            numbers: the number of each row's instance.
            is_own: which rows belong to an instance; None for all.
            clock: `ROWS`, or the period of the ticks at which instances begin, in place of rows.
        """
        times = self.times(clock)
        self._clocks[frame] = clock
        if is_own is not None:
            times, numbers = times[is_own], numbers[is_own]
        self._is_own[frame] = is_own
        self._batches[frame] = native.Batch(times, numbers, len(times), self._clock)

    def add_instance_ticks(self, frame: int, ticks: Ticks, traces: Numbers) -> None:
        """Add ticks of instances.

        Args:
            frame: the number of these time-points, which is negative.
            ticks: the ticks, with the numbers of instances.
            traces: the numbers of their traces.
        """
        self._of_instances[frame] = ticks, traces
        count = len(ticks)
        self._batches[frame] = native.Batch(ticks.time_stamps, ticks.numbers, count, self._clock)

    def add_readings(self, frame: int, readings: Readings) -> None:
        """Add time-points as of which windows of instances are read.

        Args:
            frame: the number of these time-points, which is negative.
            readings: the time-points.
        """
        self.add_instance_ticks(frame, readings.points, readings.traces)
        self._readings[frame] = readings

    def add_calls(self, frame: int, places: Integers, own: Numbers) -> None:
        """Add time-points at which rows call instances.

        Args:
            frame: the number of these time-points, which is negative.
            places: their places, in order; see `call_places`.
            own: the number of each row's own instance.
        """
        self._calls[frame] = places, own
        rows, numbers = _rows_and_numbers(places)
        traces = self._numbers_of(self.batch(ROWS))[rows]
        self.add_instance_ticks(frame, Ticks(self._time_stamps[rows], numbers, rows), traces)

    def same_rows(self, argument: int, frame: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Find the time-points of instances at the same rows as others of the same instances.

        Args:
            argument: the number of those that are found: rows or calls of the instances.
            frame: the number of calls.

        Returns:
            For each call the index of a time-point, and whether there is one.
        """
        return _found_in(self._places_in_instances(argument), self._calls[frame][0])

    def _places_in_instances(self, frame: int) -> Integers:
        """The places of rows and of calls of instances, in order."""
        if frame in self._calls:
            return self._calls[frame][0]
        return call_places(self.own_rows(frame), self._numbers_of(self.batch(frame)))

    def readings(self, frame: int) -> Readings:
        """Return time-points as of which windows of instances are read."""
        return self._readings[frame]

    @property
    def has_ticks(self) -> bool:
        """Whether there are ticks, of periods or by changes of relations."""
        return bool(len(self.ticks))

    def own_rows(self, frame: int) -> Integers:
        """Return the indices of the rows that belong to instances of a family."""
        is_own = self._is_own[frame]
        count = self.batch(self._clocks[frame]).count
        return np.arange(count) if is_own is None else np.flatnonzero(is_own)

    def comes_first(self, argument: int, result: int) -> bool:
        """Whether of time-points of one time, all of an argument come before those of results."""
        if argument == ROWS:
            return result > ROWS
        is_of_ticks = result in self._of_instances and result not in {
            *self._readings,
            *self._calls,
        }
        return self._clocks.get(argument) == ROWS and is_of_ticks

    def copy_rows(
        self, columns: dict[int, dict[str, pa.Array]], frame: int, names: Iterable[str]
    ) -> None:
        """Copy columns of rows, as far as they belong to a family, if these are missing."""
        rows, own = columns[self._clocks.get(frame, ROWS)], columns[frame]
        missing = [name for name in names if name not in own and name in rows]
        if frame in self._calls:
            places = pa.array(self._of_instances[frame][0].places)
            own |= {name: rows[name].take(places) for name in missing}
        elif frame in self._is_own:
            is_own = self._is_own[frame]
            chosen = None if is_own is None else pa.array(is_own)
            for name in missing:
                own[name] = rows[name] if chosen is None else rows[name].filter(chosen)

    def as_rows(self, values: pa.Array, frame: int) -> pa.Array:
        """Return values of a family as a column of rows, null for rows without an instance."""
        if frame in self._calls:
            places, numbers = self._calls[frame]
            own = call_places(np.arange(self.row_count), numbers)
            found, is_found = _found_in(places, own)
            return values.take(pa.array(found, mask=~is_found))
        is_own = self._is_own[frame]
        if is_own is None:
            return values
        return values.take(pa.array(np.cumsum(is_own) - 1, mask=~is_own))

    def error_of_log(self, frame: int, error: RowError) -> tuple[int, RowError]:
        """Return the error of time-points of instances as one of rows of the batch, if it is one.

        Returns:
            The time-points that the error is about then, and the error.
        """
        rows = error.rows
        if frame in self._readings:
            readings = self._readings[frame]
            if readings.of_rows is not None and not readings.of_rows[rows[0]]:
                return frame, error
            rows = (int(readings.rows_before[rows[0]]),)
        elif frame in self._calls:
            rows = (int(self._of_instances[frame][0].places[rows[0]]),)
        elif frame in self._is_own:
            places = self.own_rows(frame)
            rows = tuple(int(places[row]) for row in rows)
        else:
            return frame, error
        found = RowError(error.reason, rows=rows, atom=error.atom)
        found.__cause__ = error.__cause__
        return self._clocks.get(frame, ROWS), found

    def meeting(self, argument: int, result: int) -> Meeting | None:
        """Return the time-points of an argument and of results; None if they are the same."""
        if argument == result:
            return None
        if (argument, result) not in self._meetings:
            meet = self._meet if argument >= ROWS else self._meet_in_instances
            if result in self._readings:
                meet = self._meet_readings
            elif all(one in self._calls or one in self._is_own for one in (argument, result)):
                meet = self._meet_at_rows
            self._meetings[argument, result] = meet(argument, result)
        return self._meetings[argument, result]

    def _meet_in_instances(self, argument: int, result: int) -> Meeting:
        """The ticks of instances and their rows: one is the argument, and the other the results.

        Where instances begin at ticks, these may be the same time-points as their own ticks.
        """
        batches = self.batch(argument), self.batch(result)
        keys = np.concatenate([self._order_of(argument), self._order_of(result)])
        times = np.concatenate([batch.times for batch in batches])
        numbers = np.concatenate([self._numbers_of(batch) for batch in batches])
        can_be_same = self._clocks.get(argument, ROWS) != ROWS
        order = np.lexsort((numbers, times, keys) if can_be_same else (times, keys))
        is_first = np.ones(len(order), np.bool_)
        if can_be_same:
            is_first[1:] = (np.diff(times[order]) != 0) | (np.diff(numbers[order]) != 0)
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(is_first) - 1
        count, order = batches[0].count, order[is_first]
        is_result = np.zeros(len(order), np.uint8)
        is_result[places[count:]] = 1
        batch = native.Batch(times[order], numbers[order], len(order), self._clock)
        return Meeting(batch, places[:count], places[count:], is_result)

    def _meet_at_rows(self, argument: int, result: int) -> Meeting:
        """Rows and calls of instances, which are one time-point where both are at a row."""
        arguments, results = map(self._places_in_instances, (argument, result))
        places = np.union1d(arguments, results)
        rows, numbers = _rows_and_numbers(places)
        batch = native.Batch(self._time_stamps[rows], numbers, len(places), self._clock)
        of_results, _ = _found_in(places, results)
        is_result = np.zeros(len(places), np.uint8)
        is_result[of_results] = 1
        return Meeting(batch, _found_in(places, arguments)[0], of_results, is_result)

    def _meet_readings(self, argument: int, result: int) -> Meeting:
        """The rows of instances, each of which is among the results."""
        batch = self.batch(result)
        assert argument in self._is_own
        own, count = self._readings[result].own, batch.count
        return Meeting(batch, own, np.arange(count), np.ones(count, np.uint8))

    def instance_meeting(
        self, frame: int, period: int, *, can_share: bool = False
    ) -> InstanceMeeting:
        """Return how time-points of instances lie among the rows, or the ticks of a period.

        Args:
            frame: the number of those of the instances.
            period: `ROWS`, the period of ticks, or the number of ticks of instances.
            can_share: whether one of the time-points may be of an instance and a result.
        """
        if frame in self._readings and period == ROWS:
            return self._read_at_rows(self._readings[frame], can_share=can_share)
        if (frame, period) not in self._instance_meetings:
            results = self.readers(period)
            times_of, traces, own = self._points_of_instances(frame)
            read = _moments_at(np.arange(self.row_count))
            if period in self._calls:
                read = _moments_at(self._of_instances[period][0].places)
            elif period != ROWS:
                read = moments_behind(self._order_of(period) // 2)
            keys = np.concatenate([self._order_of(frame), self._order_of(period)])
            times = np.concatenate([times_of, results.times])
            numbers = np.concatenate([traces, self._numbers_of(results)])
            kinds = np.arange(len(times)) >= len(times_of)
            order = np.lexsort((kinds, times, keys))
            places = order.argsort()
            self._instance_meetings[frame, period] = InstanceMeeting(
                native.Batch(times[order], numbers[order], len(order), self._clock),
                np.concatenate([own, read])[order],
                places[: len(times_of)],
                places[len(times_of) :],
                kinds[order].astype(np.uint8),
            )
        return self._instance_meetings[frame, period]

    def _points_of_instances(self, frame: int) -> tuple[Integers, Numbers, Integers]:
        """The times of time-points of instances, the numbers of their traces, and their moments."""
        if frame in self._is_own:
            rows = self.own_rows(frame)
            traces = self._numbers_of(self.batch(ROWS))[rows]
            return self._time_stamps[rows], traces, _moments_at(rows)
        ticks, traces = self._of_instances[frame]
        moments = moments_behind(ticks.places)
        if frame in self._readings:
            moments = self._readings[frame].moments
        elif frame in self._calls:
            moments = _moments_at(ticks.places)
        return ticks.time_stamps, traces, moments

    def _read_at_rows(self, readings: Readings, *, can_share: bool) -> InstanceMeeting:
        """Return how readings lie among the rows: before the row that reads."""
        points, traces, own, _ = readings
        if can_share and len(own) == self.row_count:
            # each row reads behind that of its own instance, which can be one time-point
            count = len(points)
            is_result = np.zeros(count, np.uint8)
            is_result[own] = 1
            batch = native.Batch(points.time_stamps, traces, count, self._clock)
            return InstanceMeeting(batch, readings.moments, np.arange(count), own, is_result)
        count = len(points) + self.row_count
        arguments = readings.rows_before
        arguments += np.arange(len(points))
        is_result = np.ones(count, np.uint8)
        is_result[arguments] = 0
        results = np.flatnonzero(is_result)
        times, moments = np.empty(count, np.int64), np.empty(count, np.int64)
        times[arguments], times[results] = points.time_stamps, self._time_stamps
        moments[arguments] = readings.moments
        moments[results] = _moments_at(np.arange(self.row_count))
        numbers = np.zeros(count, np.uint32)
        if self._numbers is not None:
            numbers[arguments], numbers[results] = traces, self._numbers
        batch = native.Batch(times, numbers, count, self._clock)
        return InstanceMeeting(batch, moments, arguments, results, is_result)

    def _order_of(self, period: int) -> Integers:
        """Numbers in the order of rows and ticks; ticks before the same row have the same."""
        if period in self._readings:
            orders = 2 * self._readings[period].rows_before
            orders[self._readings[period].own] += 1
            return orders
        if period in self._of_instances:
            return 2 * self._of_instances[period][0].places + (period in self._calls)
        if period > ROWS:
            return 2 * self.ticks_of(period).places
        if period < ROWS:
            rows, clock = self.own_rows(period), self._clocks[period]
            return 2 * rows + 1 if clock == ROWS else 2 * self.ticks_of(clock).places[rows]
        return 2 * np.arange(self.row_count) + 1

    @staticmethod
    def _numbers_of(batch: native.Batch) -> Numbers:
        found: Numbers | None = batch.numbers_of_traces
        return np.zeros(batch.count, np.uint32) if found is None else found

    def joint(self, periods: Sequence[int]) -> tuple[native.Batch, dict[int, Integers]]:
        """Return several kinds of time-points in one order, and which of them are of each kind.

        Args:
            periods: `ROWS` and periods of ticks.
        """
        is_met = np.zeros(self.row_count + len(self.ticks), np.bool_)
        for period in periods:
            is_met[self._places(period)] = True
        index = np.cumsum(is_met) - 1
        times, numbers = self.all_points
        count = int(np.count_nonzero(is_met))
        batch = native.Batch(times[is_met], numbers[is_met], count, self._clock)
        return batch, {period: index[self._places(period)] for period in periods}

    def _meet(self, argument: int, result: int) -> Meeting:
        count = self.row_count + len(self.ticks)
        is_met = np.zeros(count, np.bool_)
        arguments, results = self._places(argument), self._places(result)
        is_met[arguments] = is_met[results] = True
        index = np.cumsum(is_met) - 1
        times, numbers = self.all_points
        met = int(np.count_nonzero(is_met))
        batch = native.Batch(times[is_met], numbers[is_met], met, self._clock)
        is_result = np.zeros(met, np.uint8)
        is_result[index[results]] = 1
        return Meeting(batch, index[arguments], index[results], is_result)

    def _places(self, period: int) -> Integers:
        """The places of rows or ticks among all time-points."""
        rows, ticks = self._all_places
        return rows if period == ROWS else ticks[self._ticks_of(period)]

    @property
    def _all_places(self) -> tuple[Integers, Integers]:
        """The places of rows and those of ticks among all time-points."""
        if self._common_places is None:
            rows = np.arange(self.row_count)
            before = np.searchsorted(self.ticks.places, rows, "right")
            ticks = np.arange(len(self.ticks)) + self.ticks.places
            self._common_places = rows + before, ticks
        return self._common_places

    def _ticks_of(self, period: int) -> Integers:
        if period not in self._of_period:
            kinds = self.ticks.kinds
            if period >= CHANGES:
                found = np.zeros(len(self.ticks), np.bool_) if kinds is None else kinds[period]
            else:
                found = self.ticks.time_stamps % period == 0
                found = found if kinds is None else found & kinds[ROWS]
            self._of_period[period] = np.flatnonzero(found)
        return self._of_period[period]


def call_places(rows: Integers, numbers: Numbers) -> Integers:
    """Return the places of rows in instances: numbers in their order, of the row and instance."""
    return rows << 32 | numbers.astype(np.int64)


def _rows_and_numbers(places: Integers) -> tuple[Integers, Numbers]:
    """The rows and the numbers of instances of some places; see `call_places`."""
    return places >> 32, places.astype(np.uint32)


def _found_in(places: Integers, wanted: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Find some places among others, which are in order: where each is, and whether it is there."""
    found = np.searchsorted(places, wanted)
    is_found = np.zeros(len(wanted), np.bool_)
    is_inside = found < len(places)
    is_found[is_inside] = places[found[is_inside]] == wanted[is_inside]
    return found, is_found


def moments_behind(places: Integers) -> Integers:
    """Return the moments of ticks and the like among rows; see `Turn` of `instances.pxi`.

    Args:
        places: how many rows each of them is behind.
    """
    return 4 * places - 1


def _moments_at(rows: Integers) -> Integers:
    """The moments of rows."""
    return 4 * rows + 1


def tick_times(time_stamps: Integers, kind: pa.DataType, environment: Environment) -> pa.Array:
    """Write the times of ticks as values of the time column; null if its type has no such times.

    Args:
        time_stamps: the times.
        kind: the type of the column.
        environment: the unit of the time-stamps, and that of numbers in the column.
    """
    unit = environment.unit
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        own = kind.unit if pa.types.is_timestamp(kind) else "d" if kind == pa.date32() else "ms"
        values = _in_unit(time_stamps, unit or "s", own)
        if kind == pa.date32():
            return pa.array(values).cast(pa.int32(), safe=False).view(kind)
        return pa.array(values).view(kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        own_unit = environment.time_unit or unit
        if unit is not None and own_unit is not None:
            time_stamps = _in_unit(time_stamps, unit, own_unit)
        return pa.array(time_stamps).cast(kind, safe=False)
    return pa.nulls(len(time_stamps), kind)


def _in_unit(time_stamps: Integers, unit: str, wanted: str) -> Integers:
    """Convert times to another unit, rounded down."""
    if UNITS[unit] >= UNITS[wanted]:
        return time_stamps * (UNITS[unit] // UNITS[wanted])
    return time_stamps // (UNITS[wanted] // UNITS[unit])
