"""Windows of aggregates that a program of Python defines; see `register_aggregate`.

They have the methods of a native kernel, and a state for each trace that is replaced rather than
changed, so a batch is undone by putting the old one back. The two stacks of a window share their
ends, as lists of pairs. Snapshots contain the states, not the values, as adding floats again could
round otherwise.
"""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import RowError, SnapshotError
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.machine_code import constant_as
from mtlmon.streams.kernels import Kernel, Meeting
from mtlmon.streams.own_values import OwnError, call, from_plain, is_of_kind, plain
from mtlmon.syntax.report import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.own_aggregates import OwnAggregate
    from mtlmon.streams import native

    _Front = tuple[Any, "_Front"] | None

__all__ = ["OwnKernel"]

_FORGOTTEN = 2**32 - 1
_SHOWN_WIDTH = 60
# About what a row and its states take.
_ROW_BYTES = 200
# Rows that have left are dropped once there are so many.
_DROPPED = 32


class _State(NamedTuple):
    """Where the window of a trace is among its rows, and the states of parts of it.

    Attributes:
        left: the index of its first row.
        middle: the index behind the rows of `front`.
        entered: the index behind its last row.
        front: the states of rows up to `middle`: from the first one on, from the second on, ...
        back: the state of the rows behind; with an inverse, or without an upper bound, of all rows.
    """

    left: int = 0
    middle: int = 0
    entered: int = 0
    front: _Front = None
    back: Any = None


class _Trace:
    """The rows of a trace that are or will be in the window, and its state.

    Attributes:
        rows: the time-stamp and the state of each row, in order.
        state: where the window is; it is replaced, and never changed.
    """

    __slots__ = ("rows", "state")

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any]] = []
        self.state = _State()


class OwnWindow:
    """What native kernels are for other aggregates.

    Args:
        aggregate: the aggregate.
        lower: how old rows are at least, in units of time.
        upper: how old they are at most; -1 for no limit.
    """

    can_be_by_trace = False

    def __init__(self, aggregate: OwnAggregate, lower: int, upper: int) -> None:
        self._aggregate = aggregate
        self._lower, self._upper = lower, upper
        self._traces: dict[int, _Trace] = {}
        # What traces were before a batch: the number of their rows, and their state.
        self._before: dict[int, tuple[int, _State]] = {}
        self._clock = self._marked_clock = 0

    def lifted(self, value: Any) -> Any:
        """Return the state of a value."""
        return self._call("lift", self._aggregate.lift, value)

    def put(self, time_stamp: int, number: int, state: Any) -> None:
        """Add the state of a row."""
        self._touched(number).rows.append((time_stamp, state))

    def get(self, time_stamp: int, number: int) -> Any:
        """Return the result at a time-point; None if nothing is in the window."""
        self._clock = max(self._clock, time_stamp)
        if number not in self._traces:
            return None
        trace = self._touched(number)
        trace.state = self._moved(trace, time_stamp)
        left, middle, entered, front, back = trace.state
        if left == entered:
            return None
        if front is None:
            whole = back
        elif middle == entered:
            whole = front[0]
        else:
            whole = self._combined(front[0], back)
        return self._call("lower", self._aggregate.lower, whole)

    def _moved(self, trace: _Trace, now: int) -> _State:
        """Let rows enter and leave the window of a trace."""
        left, middle, entered, front, back = trace.state
        rows, inverse = trace.rows, self._aggregate.inverse
        has_stacks = inverse is None and self._upper >= 0
        while entered < len(rows) and rows[entered][0] <= now - self._lower:
            is_first = entered == (middle if has_stacks else left)
            back = rows[entered][1] if is_first else self._combined(back, rows[entered][1])
            entered += 1
        while self._upper >= 0 and left < entered and rows[left][0] < now - self._upper:
            if inverse is not None:
                if left + 1 < entered:
                    back = self._call("inverse", inverse, back, rows[left][1])
                left += 1
                middle = left
                continue
            if left == middle:
                front, middle, back = None, entered, None
                for place in range(entered - 1, left - 1, -1):
                    state = rows[place][1]
                    front = (state if front is None else self._combined(state, front[0]), front)
            assert front is not None
            front = front[1]
            left += 1
        return _State(left, middle, entered, front, back)

    def _combined(self, one: Any, other: Any) -> Any:
        return self._call("combine", self._aggregate.combine, one, other)

    def _call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return call(f"{what} of aggregate {self._aggregate.name}", function, *arguments)

    def _touched(self, number: int) -> _Trace:
        """The trace with a number, which will be changed."""
        trace = self._traces.get(number)
        if trace is None:
            trace = self._traces[number] = _Trace()
        if number not in self._before:
            self._before[number] = len(trace.rows), trace.state
        return trace

    def begin(self) -> None:
        """Begin a batch: what was done before can no longer be undone."""
        for number in self._before:
            trace = self._traces[number]
            state = trace.state
            # Without an upper bound, the state has all of what has entered.
            removed = state.left if self._upper >= 0 else state.entered
            if removed > _DROPPED and 2 * removed > len(trace.rows):
                del trace.rows[:removed]
                left, middle, entered = (max(0, place - removed) for place in state[:3])
                trace.state = _State(left, middle, entered, state.front, state.back)
                if self._upper < 0:
                    # that something has entered
                    trace.rows.insert(0, (0, None))
                    trace.state = trace.state._replace(entered=1)
        self._before.clear()
        self._marked_clock = self._clock

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        for number, (count, state) in self._before.items():
            trace = self._traces[number]
            del trace.rows[count:]
            trace.state = state
            if not count:
                del self._traces[number]
        self._before.clear()
        self._clock = self._marked_clock

    def settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the bytes of traces whose rows matter."""
        for number, trace in self._traces.items():
            is_over = self._upper >= 0 and (
                not trace.rows or trace.rows[-1][0] < self._clock - self._upper
            )
            if number < len(flags) and not is_over:
                flags[number] = 0

    def keep(self, new_numbers: bytes) -> None:
        """Give traces new numbers, and forget others; see the native kernels."""
        self.begin()
        numbers = np.frombuffer(new_numbers, np.uint32)
        known = self._traces
        self._traces = {
            int(numbers[number]): trace
            for number, trace in known.items()
            if number < len(numbers) and numbers[number] != _FORGOTTEN
        }

    def forget_all(self) -> None:
        """Return to the state before the first row."""
        self._traces.clear()
        self._before.clear()
        self._clock = self._marked_clock = 0

    def set_panes(self, width: int) -> bool:
        """Return False: rows are not merged."""
        return False

    def set_ranks(self, ranks: object) -> None:
        """Do nothing: there are no numbers of texts."""

    def mark_texts(self, flags: object) -> None:
        """Do nothing: there are no numbers of texts."""

    def renumber_texts(self, new_numbers: object) -> None:
        """Do nothing: there are no numbers of texts."""

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`.

        Raises:
            MtlmonError: a state is not a plain value.
        """
        self.begin()
        traces = []
        for number, trace in sorted(self._traces.items()):
            fronts, front = [], trace.state.front
            while front is not None:
                fronts.append(self._plain(front[0]))
                front = front[1]
            rows = [[time, self._plain(state)] for time, state in trace.rows]
            traces.append([number, rows, trace.state[:3], fronts, self._plain(trace.state.back)])
        return json.dumps([self._clock, traces]).encode()

    def restore(self, snapshot: bytes, from_integers: bool = False) -> None:
        """Continue from a snapshot; states that come of integers are left as they are.

        Raises:
            SnapshotError: the bytes are no snapshot.
        """
        self.forget_all()
        try:
            self._clock, traces = json.loads(snapshot)
            for number, rows, places, fronts, back in traces:
                trace = self._traces[number] = _Trace()
                trace.rows = [(int(time), from_plain(state)) for time, state in rows]
                front: _Front = None
                for state in reversed(fronts):
                    front = (from_plain(state), front)
                left, middle, entered = places
                if not 0 <= left <= middle <= entered <= len(trace.rows):
                    raise ValueError("a window that is not among its rows")
                if len(fronts) not in (0, middle - left):
                    raise ValueError("too many states")
                trace.state = _State(left, middle, entered, front, from_plain(back))
        except (ValueError, TypeError, KeyError) as error:
            raise SnapshotError(f"the snapshot is of another aggregate: {error}") from None
        self._marked_clock = self._clock

    def _plain(self, state: Any) -> Any:
        """A state for JSON."""
        return plain(state, f"aggregate {self._aggregate.name}")

    @property
    def held_bytes(self) -> int:
        """About how many bytes the state takes."""
        return sum(_ROW_BYTES * (1 + len(trace.rows)) for trace in self._traces.values())


class OwnKernel(Kernel):
    """An aggregate that a program of Python defines, between columns of Arrow."""

    def _kernel(self) -> native.Kernel:
        own = self.node.window.own
        assert own is not None
        self.found_kind = own.kind
        self._window = OwnWindow(own, self.extent.lower, self.extent.upper)
        return cast("native.Kernel", self._window)

    def run(
        self,
        rows: native.Batch,
        values: pa.Array | None,
        meeting: Meeting | native.Batch | None = None,
    ) -> tuple[pa.Array, int]:
        """Compute the results, as other kernels do.

        Raises:
            RowError: a function has failed, or its result does not fit.
        """
        assert values is not None
        window = self._window
        states: list[tuple[Any] | None] = []
        for value in values.to_pylist():
            if isinstance(value, float) and isnan(value):
                # NaN is no value, as null
                states.append(None)
                continue
            try:
                states.append(None if value is None else (window.lifted(value),))
            except OwnError as failure:
                index = len(states)
                raise self._error(failure, index, is_of_argument=True) from failure.__cause__
        results: list[Any] = []
        for time_stamp, number, argument, is_result in _steps(rows, meeting):
            state = None if argument is None else states[argument]
            if state is not None:
                window.put(time_stamp, number, state[0])
            if is_result:
                try:
                    results.append(self._checked(window.get(time_stamp, number)))
                except OwnError as failure:
                    raise self._error(failure, len(results)) from failure.__cause__
        found = pa.array(results, column_type(self.found_kind))
        if self._default is None:
            return found, rows.count
        kind = column_type(self.kind)
        default = pa.scalar(constant_as(self._default, self.kind), kind)
        return pc.fill_null(pc.cast(found, kind), default), rows.count

    def _checked(self, result: Any) -> Any:
        """A result, which must be of the declared type."""
        if is_of_kind(result, self.found_kind):
            return result
        own = self.node.window.own
        assert own is not None
        raise OwnError(
            f"lower of aggregate {own.name} gives {result!r}, which is not {own.kind.words}"
        )

    def _error(self, failure: OwnError, index: int, *, is_of_argument: bool = False) -> RowError:
        reason = f"{shorten(str(self.node), _SHOWN_WIDTH)}: {failure}"
        error = RowError(reason, rows=(index,))
        error.is_of_argument = is_of_argument
        return error


def _steps(
    rows: native.Batch, meeting: Meeting | native.Batch | None
) -> Iterator[tuple[int, int, int | None, bool]]:
    """Yield all time-points in order.

    For each there are its time-stamp, the number of its trace, the index of the argument there or
    None, and whether there is a result.
    """
    if meeting is None:
        for place, (time_stamp, number) in enumerate(_points(rows)):
            yield time_stamp, number, place, True
    elif isinstance(meeting, Meeting):
        of_argument = np.full(meeting.batch.count, -1)
        of_argument[meeting.arguments] = np.arange(len(meeting.arguments))
        kinds = zip(of_argument.tolist(), meeting.is_result.tolist(), strict=True)
        points = _points(meeting.batch)
        for (time_stamp, number), (argument, is_result) in zip(points, kinds, strict=True):
            yield time_stamp, number, None if argument < 0 else argument, bool(is_result)
    else:
        arguments = [*_points(meeting)]
        argument = 0
        for time_stamp, number in _points(rows):
            while argument < len(arguments) and arguments[argument][0] <= time_stamp:
                yield *arguments[argument], argument, False
                argument += 1
            yield time_stamp, number, None, True
        for place in range(argument, len(arguments)):
            yield *arguments[place], place, False


def _points(batch: native.Batch) -> Iterator[tuple[int, int]]:
    """Yield the time-stamp of each time-point of a batch, and the number of its trace."""
    numbers = batch.numbers_of_traces
    if numbers is None:
        numbers = np.zeros(batch.count, np.uint32)
    yield from zip(batch.times.tolist(), numbers.tolist(), strict=True)
