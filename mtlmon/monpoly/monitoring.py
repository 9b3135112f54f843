"""Monitors formulas of MonPoly's language, and writes what MonPoly does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.engine.guarding import Guard, guarded
from mtlmon.errors import TimeStampError
from mtlmon.monpoly.points import PointFeeder
from mtlmon.monpoly.writing import verdict_lines
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.relational.running import RelationalRun
from mtlmon.support.copies import NotCopied

if TYPE_CHECKING:
    from mtlmon.monpoly.logs import TimePoint
    from mtlmon.monpoly.policies import MonPolyPolicy
    from mtlmon.relational.plan import Plan


def plan_of(policy: MonPolyPolicy) -> Plan:
    """Plan how a formula is evaluated.

    Raises:
        MtlmonError: it cannot be.
    """
    return plan(policy.file, valid_analysis(policy.file))


class MonPolyMonitor(NotCopied):
    """Monitors a formula.

    Args:
        policy: the formula.
        adds_last: whether a last time-point with the largest time-stamp follows the log, which
            has no rows and no answers.

    Raises:
        MtlmonError: the formula cannot be evaluated.
    """

    def __init__(self, policy: MonPolyPolicy, *, adds_last: bool = True) -> None:
        self._guard = Guard("monitor")
        made = plan_of(policy)
        engine = RelationalEngine(made, made.texts)
        self._output = verdict_lines(made, policy.columns)
        self._run = RelationalRun(engine, self._output)
        self._feeder = PointFeeder(made, engine.points)
        self._adds_last = adds_last

    @guarded
    def step(self, point: TimePoint) -> str:
        """Take a time-point; return lines about the time-points that are decided now.

        Raises:
            TimeStampError: its time-stamp is too large, or below that of an earlier one.
            MtlmonError: arithmetic on the rows overflows, or the engine has reached a limit.
        """
        clock = self._run.engine.clock
        if not clock <= point.time_stamp <= LARGEST:
            raise TimeStampError(
                f"time-stamp {point.time_stamp} is not between {clock}, that of an earlier "
                "time-point, and 2^63-1"
            )
        self._feeder.add([point])
        self._run.advance()
        return self._output.writer.take().decode()

    @guarded
    def finish(self) -> str:
        """End the log; return the lines that are left."""
        if self._adds_last:
            self._run.end_with_point()
        return self._output.writer.take().decode()
