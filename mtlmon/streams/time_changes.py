"""The ticks at which values of time change, such as `hour(ts) >= 22`, whatever rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import RowError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.streams.points import tick_times
from mtlmon.streams.ticking import multiples

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.streams.layer import Part

    Integers = NDArray[np.int64]

_LATEST = 2**63 - 1
# How many ticks are computed in a piece, and how many are looked at ahead of the rows.
_PIECE = 1 << 16
_MOST_TICKS = 1 << 18
SLOW = frozenset({*ops.COMPARISONS.values(), ops.IN, ops.NOT_IN, ops.AND, ops.OR, ops.NOT})
SLOW |= ops.TIME_FUNCTIONS
"""Operators of time and constants whose values stay the same for many ticks."""


class Known(NamedTuple):
    """The ticks from a time on and below another at which values may differ."""

    start: int
    limit: int
    ticks: Integers


class TimeChanges:
    """Finds the ticks at which expressions of time have other values than at the tick before.

    Args:
        parts: expressions over the time column, by the period of their ticks.
        delays: how long after a change there are ticks at which values differ.
        periods: the periods of all ticks.
        schema: the columns of the rows.
        environment: the time column, and the unit and zone of times.
    """

    def __init__(
        self,
        parts: Mapping[int, Sequence[Part]],
        delays: Iterable[int],
        periods: Sequence[int],
        schema: pa.Schema,
        environment: Environment,
    ) -> None:
        assert environment.time is not None
        self._delays = sorted(delays)
        self._periods = sorted(periods)
        self._known = Known(0, 0, np.empty(0, np.int64))
        self._time = environment.time
        self._kind = schema.field(environment.time).type
        self._environment = environment
        self._compiled: dict[int, CompiledExpressions] = {}
        for period, some in parts.items():
            predicates = (one.origin.with_expression(one.expression) for one in some)
            named = {str(number): one for number, one in enumerate(predicates)}
            self._compiled[period] = CompiledExpressions(named, schema, environment)

    def horizon(self, start: int) -> int:
        """Return a time up to which ticks from another time on can be looked at at once."""
        return min(_LATEST, start + _MOST_TICKS * self._periods[0])

    def between(self, start: int, limit: int) -> Integers:
        """Find the ticks from a time on and below another at which values may differ, sorted."""
        known = self._known
        if not (known.start <= start and limit <= known.limit):
            known = self._known = Known(start, limit, self._between(start, limit))
        first, last = np.searchsorted(known.ticks, [start, limit])
        return known.ticks[first:last]

    def _between(self, start: int, limit: int) -> Integers:
        first = max(0, start - self._delays[-1] - self._periods[-1])
        changes = np.unique(
            np.concatenate([self._of_period(one, first, limit) for one in self._compiled])
        )
        found = [
            -(-(changes[changes < limit - delay] + delay) // period) * period
            for delay in self._delays
            for period in self._periods
        ]
        ticks = np.unique(np.concatenate(found))
        return ticks[(ticks >= start) & (ticks < limit)]

    def _of_period(self, period: int, start: int, limit: int) -> Integers:
        """Find the ticks of a period, from a time on, at which a value differs from the last."""
        found = [np.empty(0, np.int64)]
        first = -(-start // period) * period
        while first < limit:
            stop = min(limit, first + _PIECE * period)
            found.append(self._of_piece(multiples((period,), first, stop), period))
            first = -(-stop // period) * period
        return np.concatenate(found)

    def _of_piece(self, times: Integers, period: int) -> Integers:
        before = np.maximum(times[:1] - period, 0)
        times = np.concatenate([before, times])
        column = tick_times(times, self._kind, self._environment)
        try:
            values = self._compiled[period].compute({self._time: column}, len(times))
        except RowError:
            return times[1:]
        is_changed = np.zeros(len(times) - 1, np.bool_)
        for one in values.values():
            is_changed |= _differs(one.slice(0, len(one) - 1), one.slice(1))
        return times[1:][is_changed]


def _differs(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Whether values differ; null is a value of its own."""
    is_same = pc.fill_null(pc.equal(one, other), pc.and_(one.is_null(), other.is_null()))
    return ~np.asarray(is_same.to_numpy(zero_copy_only=False), np.bool_)
