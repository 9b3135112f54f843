"""Run a pump, tell what a user should know at the end, and derive the exit status."""

from __future__ import annotations

import time

from mtlmon.run.failure import SIGNALLED, VIOLATION, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from mtlmon.run.host import Host
    from mtlmon.run.pump import EndTime, Pump

    Steps = Generator[None, None, int]
    """A run that goes on for a piece of its work at each step, and returns the exit status."""

__all__ = ["finished", "run_to_end"]


def finished(steps: Steps) -> int:
    """Take all steps of a run; return the exit status."""
    signal: Interrupted | None = None
    while True:
        try:
            if signal is None:
                next(steps)
            else:
                steps.throw(signal)
        except StopIteration as end:
            status: int = end.value
            return status
        except Interrupted as received:
            # Between two steps, the run has to end by it; else it has ended, and throws it back.
            if signal is not None:
                raise
            signal = received


def run_to_end(
    pump: Pump,
    *,
    host: Host,
    has_violation: Callable[[], bool],
    report: Callable[[int, float], None],
    summary: Callable[[float], str],
    wants_summary: bool | None,
    end_time: EndTime = None,
) -> Steps:
    """Run the pump step by step, and return the exit status.

    Args:
        pump: moves the log through its work; its signals are handled for as long as this takes.
        host: is given the work and the summary.
        has_violation: tells whether the work has found a violation.
        report: called with the status and the seconds of the run, once all verdicts are written.
        summary: makes the summary, from the seconds of the run.
        wants_summary: whether there is a summary; None leaves it to the host.
        end_time: what is known about the time after the log.
    """
    host.begin(pump.work, summary, has_violation)
    start = time.perf_counter()
    with pump.signals:
        try:
            try:
                # the log is open, and nothing of it has been read
                yield
                yield from pump.run(end_time)
                status = VIOLATION if has_violation() else 0
            except Interrupted as signal:
                status = SIGNALLED + signal.number
            seconds = time.perf_counter() - start
            # what comes now may be broken off anywhere
            pump.signals.is_held = False
            pump.verdicts.close()
            report(status, seconds)
            host.take_summary(lambda: summary(seconds), is_wanted=wants_summary)
        finally:
            pump.release()
    return status
