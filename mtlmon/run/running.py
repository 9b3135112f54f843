"""Run a pump, tell what a user should know at the end, and derive the exit status."""

from __future__ import annotations

import time

from mtlmon.run.failure import SIGNALLED, VIOLATION
from mtlmon.run.report import show_summary
from mtlmon.run.signals import Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.run.pump import EndTime, Pump

__all__ = ["run_to_end"]


def run_to_end(
    pump: Pump,
    *,
    has_violation: Callable[[], bool],
    report: Callable[[int, float], None],
    summary: Callable[[float], str],
    wants_summary: bool | None,
    end_time: EndTime = None,
) -> int:
    """Run the pump and return the exit status.

    Args:
        pump: moves the log through its work; its signals are handled for as long as this takes.
        has_violation: tells whether the work has found a violation.
        report: called with the status and the seconds of the run, once all verdicts are written.
        summary: makes the summary, from the seconds of the run.
        wants_summary: whether there is a summary; None means on a terminal only.
        end_time: what is known about the time after the log.
    """
    start = time.perf_counter()
    with pump.signals:
        try:
            try:
                pump.run(end_time)
                status = VIOLATION if has_violation() else 0
            except Interrupted as signal:
                status = SIGNALLED + signal.number
            seconds = time.perf_counter() - start
            # what comes now may be broken off anywhere
            pump.signals.is_held = False
            pump.verdicts.close()
            report(status, seconds)
            show_summary(wants_summary, lambda: summary(seconds))
        finally:
            pump.release()
    return status
