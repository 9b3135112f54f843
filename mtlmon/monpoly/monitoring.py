"""Monitors formulas of MonPoly's language, and writes what MonPoly does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mtlmon.monpoly.writing import line_of
from mtlmon.syntax.interval import MAXIMUM_BOUND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mtlmon.monpoly.logs import Row, TimePoint
    from mtlmon.monpoly.policies import MonPolyPolicy

    Rows = Mapping[str, Sequence[Row]]


class Answer(Protocol):
    """What holds at a time-point that is decided.

    Attributes:
        point: the number of the time-point, from 0.
        valuations: the valuations that satisfy a `find` or violate a policy; without variables, an
            empty one if it is so.
    """

    @property
    def point(self) -> int: ...
    @property
    def valuations(self) -> Sequence[Mapping[str, int | float | str]]: ...


class Engine(Protocol):
    """What evaluates the policy of a file."""

    def step(self, time_stamp: int, rows: Rows) -> Iterable[Answer]:
        """Take a time-point; return the answers that are known now, in order of time-points."""


def make_engine(policy: MonPolyPolicy) -> Engine:
    """Return an engine for a formula.

    Raises:
        MtlmonError: nothing can evaluate it.
    """
    from mtlmon.policy.needs import refuse_first_order

    refuse_first_order(policy.file.policies)
    raise AssertionError


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
        # The time-stamps of the time-points without an answer.
        self._waiting: dict[int, int] = {}

    def step(self, point: TimePoint) -> Iterator[str]:
        """Take a time-point; yield the lines about time-points that are decided now.

        Raises:
            MtlmonError: arithmetic on the rows overflows, or the engine has reached a limit.
        """
        self._waiting[self.point_count] = point.time_stamp
        self.point_count += 1
        yield from self._lines(self._engine.step(point.time_stamp, point.rows))

    def finish(self) -> Iterator[str]:
        """End the log; yield the lines that are left."""
        if self._adds_last:
            yield from self._lines(self._engine.step(MAXIMUM_BOUND, {}))

    def _lines(self, answers: Iterable[Answer]) -> Iterator[str]:
        for answer in answers:
            time_stamp = self._waiting.pop(answer.point, None)
            if time_stamp is None:
                # the one that follows the log
                continue
            rows = [tuple(values[name] for name in self._names) for values in answer.valuations]
            self.row_count += len(rows)
            if line := line_of(time_stamp, answer.point, rows, self._types):
                yield line
