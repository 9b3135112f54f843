"""Finds out whether the left side of an implication held anywhere in a trace."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

from mtlmon._core import Monitor
from mtlmon.analysis.antecedent import antecedent_of
from mtlmon.errors import MtlmonError, VacuousError, VacuousWarning
from mtlmon.testing.recording import Recording
from mtlmon.testing.report import misspelt
from mtlmon.testing.seen import levels_inside

if TYPE_CHECKING:
    from collections.abc import Collection

    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.recording import EndTime, Events

    Vacuous = Literal["ignore", "warn", "error"]

__all__ = ["LeftSide", "Vacuous", "left_side"]


class LeftSide:
    """The left side of an implication, monitored until it holds.

    Args:
        recording: the recording of the implication.
        formula: the left side.
        is_error: whether it is an error if it never holds, rather than a warning.
    """

    def __init__(self, recording: Recording, formula: Formula, *, is_error: bool) -> None:
        self.recording = recording
        self.text = str(formula)
        self.monitor = Monitor(formula)
        self.is_error = is_error

    def step(self, time_stamp: int, atoms: Collection[str]) -> None:
        """Process an event, which the recording has accepted."""
        if not self.monitor.counters["true"]:
            self.monitor.step(time_stamp, atoms)

    def finish(self, end_time: EndTime) -> None:
        """End the trace."""
        if not self.monitor.counters["true"]:
            self.monitor.finish("inf" if self.recording.at_end == "closed" else end_time)

    @property
    def is_failure(self) -> bool:
        """Whether the left side has held nowhere, and that is an error."""
        return self.is_error and not self.monitor.counters["true"]

    def tell(self) -> None:
        """Warn, or raise an error, if the left side has held nowhere.

        Raises:
            VacuousError: it has not, and that is an error.
        """
        __tracebackhide__ = True
        if self.monitor.counters["true"]:
            return
        formula = self.recording.formula
        message = (
            f"{formula} was never triggered: {self.text} holds at none of the "
            f"{self.recording.event_count:,} time-points, so nothing was checked"
        )
        if self.is_error:
            raise VacuousError("\n\n".join([message, *misspelt(self.recording)]), formula=formula)
        warnings.warn(message, VacuousWarning, stacklevel=levels_inside())


def left_side(recording: Events, vacuous: Vacuous) -> LeftSide | None:
    """Return what monitors the left side; None if the formula has none, or nobody asks.

    Raises:
        MtlmonError: `vacuous` is unknown, or the formula is a policy with variables.
    """
    __tracebackhide__ = True
    if vacuous not in ("ignore", "warn", "error"):
        raise MtlmonError(f"vacuous is one of 'ignore', 'warn', 'error', not {vacuous!r}")
    if vacuous == "ignore":
        return None
    if not isinstance(recording, Recording):
        raise MtlmonError(
            f"vacuous={vacuous!r} does not work yet for policies with variables: leave it out"
        )
    antecedent = antecedent_of(recording.formula)
    if antecedent is None:
        return None
    return LeftSide(recording, antecedent.formula, is_error=vacuous == "error")
