"""Monitors formulas of MonPoly's language, and writes what MonPoly does."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from mtlmon.monpoly.writing import line_of
from mtlmon.syntax.interval import MAXIMUM_BOUND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.monpoly.logs import Row, TimePoint
    from mtlmon.monpoly.policies import MonPolyPolicy

    Rows = Mapping[str, Sequence[Row]]


class Answer(Protocol):
    """A valuation that satisfies a `find` or violates a policy at a time-point."""

    @property
    def time_stamp(self) -> int: ...
    @property
    def valuation(self) -> Mapping[str, bool | int | float | str]: ...
    @property
    def point(self) -> int:
        """The number of the time-point, from 0."""


class Engine(Protocol):
    """What evaluates a formula."""

    def step(self, time_stamp: int, rows: Rows, /) -> Sequence[Answer]:
        """Take a time-point; return the answers that are known now, in order of time-points."""


def make_engine(policy: MonPolyPolicy) -> Engine:
    """Return an engine for a formula.

    Raises:
        MtlmonError: it cannot be evaluated.
    """
    from mtlmon.relational.monitor import RelationalMonitor

    return RelationalMonitor(policy.file)


class MonPolyMonitor:
    """Monitors a formula.

    Args:
        policy: the formula.
        adds_last: whether a last time-point with the largest time-stamp follows the log, which
            has no rows and no answers.

    Attributes:
        point_count: the number of time-points that were read.
        row_count: the number of valuations that were reported.

    Raises:
        MtlmonError: the formula cannot be evaluated.
    """

    def __init__(self, policy: MonPolyPolicy, *, adds_last: bool = True) -> None:
        self.point_count = 0
        self.row_count = 0
        self._engine = make_engine(policy)
        self._adds_last = adds_last
        self._names = [name for name, _ in policy.columns]
        self._types = [kind for _, kind in policy.columns]

    def step(self, point: TimePoint) -> Iterator[str]:
        """Take a time-point; yield the lines about time-points that are decided now.

        Raises:
            MtlmonError: arithmetic on the rows overflows, or the engine has reached a limit.
        """
        self.point_count += 1
        yield from self._lines(self._engine.step(point.time_stamp, point.rows))

    def finish(self) -> Iterator[str]:
        """End the log; yield the lines that are left."""
        if self._adds_last:
            yield from self._lines(self._engine.step(MAXIMUM_BOUND, {}))

    def _lines(self, answers: Sequence[Answer]) -> Iterator[str]:
        for number, own in groupby(answers, lambda answer: answer.point):
            if number == self.point_count:
                # the time-point that follows the log
                continue
            found = list(own)
            rows = [tuple([one.valuation[name] for name in self._names]) for one in found]
            self.row_count += len(rows)
            yield line_of(found[0].time_stamp, number, rows, self._types)
