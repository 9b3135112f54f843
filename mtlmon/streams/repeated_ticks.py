"""Windows of ticks where only some ticks are computed, and those in between repeat their values.

A window such as `max[0,1h](x)` does not tell how often a value is in it. So of the ticks that are
left out before one that is computed, it is enough that the window gets the last one: its value is
that of the tick that was computed before, and it leaves the window last. It comes in time, because
the window has seen no later tick, of whatever trace.

A window that ends earlier, such as `max[20m,1h](x)` of ticks every minute, is `max[0,40m]` of the
values 20 minutes ago, which ticks that are left out repeat likewise. These are computed where `x`
changes, and 20 minutes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.streams import native
from mtlmon.streams.kernels import Kernel, Meeting

if TYPE_CHECKING:
    from mtlmon.streams.points import Points

REPEATABLE = frozenset(
    {
        ops.WINDOW_ANY,
        ops.WINDOW_ALL,
        ops.WINDOW_MIN,
        ops.WINDOW_MAX,
        ops.WINDOW_FIRST,
        ops.WINDOW_LAST,
        ops.WINDOW_DISTINCT,
    }
)
"""Aggregates whose results stay the same if a value that is in the window comes again."""


class RepeatedTicks:
    """Computes a window of ticks of which some are left out.

    Args:
        kernel: the window.
        period: the period of the ticks that it looks at.
        result_period: that of the ticks of the results, a multiple.

    Attributes:
        kernels: all kernels: the window, and what remembers the last tick of each trace.
    """

    def __init__(self, kernel: Kernel, period: int, result_period: int) -> None:
        self._window = kernel
        self._period = period
        self._result_period = result_period
        delay = delay_of(kernel, period)
        last = Expression(ops.LAST, kernel.node.operands, Offset(1), kernel.node.span)
        self._value = kernel.beside(last, kernel.argument_kind)
        # twice the number of the last tick, plus 1 if it had a value
        self._tick = kernel.beside(last, kinds.INTEGER)
        self.kernels = [kernel, self._value, self._tick]
        # the value and the tick so long ago
        self._earlier: tuple[Kernel, Kernel] | None = None
        if delay:
            kernel.begin_sooner(delay)
            value = kernel.beside(last, kernel.argument_kind)
            tick = kernel.beside(last, kinds.INTEGER)
            for one in (value, tick):
                one.look_back(delay)
            self._earlier = value, tick
            self.kernels += self._earlier

    def run(self, values: pa.Array, points: Points) -> pa.Array:
        """Compute the results at ticks from the values at those that the window looks at."""
        results = points.batch(self._result_period)
        common = points.common(self._period, self._result_period)
        batch = points.batch(self._period)
        times, numbers = batch.times, batch.numbers_of_traces
        ticks = times // self._period
        has_value = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.int64)
        if self._earlier is not None:
            value, tick = self._earlier
            known, _ = tick.run(batch, pa.array(has_value))
            found, _ = value.run(batch, values)
            is_kept = pc.equal(known.fill_null(0), 1)
            values = pc.if_else(is_kept, found, pa.scalar(None, found.type)).cast(values.type)
            has_value = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.int64)
        before, _ = self._value.run(batch, values)
        marks, _ = self._tick.run(batch, pa.array(2 * ticks + has_value))
        last = marks.fill_null(0).to_numpy()
        gaps = np.flatnonzero((last & 1 != 0) & (last >> 1 < ticks - 1))
        if not len(gaps) and results.count == batch.count:
            return self._window.run(batch, values)[0]
        times = np.concatenate([times[gaps] - self._period, times])
        order = np.argsort(times, kind="stable")
        if numbers is not None:
            numbers = np.concatenate([numbers[gaps], numbers])[order]
        # PERF: panes merge only what comes between two results
        is_wanted = np.zeros(len(order), np.bool_)
        is_wanted[len(gaps) + common] = True
        is_wanted = is_wanted[order]
        meeting = Meeting(
            native.Batch(times[order], numbers, len(order)),
            np.arange(len(order)),
            np.flatnonzero(is_wanted),
            is_wanted.astype(np.uint8),
        )
        repeated = before.take(pa.array(gaps)).cast(values.type)
        both = pa.concat_arrays([repeated, values]).take(pa.array(order))
        return self._window.run(results, both, meeting)[0]


def delay_of(kernel: Kernel, period: int) -> int:
    """Return how long ago the values are that a window of ticks looks at as if they came now.

    Args:
        kernel: the window.
        period: the period of the ticks that it looks at.
    """
    lower = kernel.extent.lower
    # up to one period ago, the last tick that was left out is in the window
    return 0 if lower <= period else -(-lower // period) * period
