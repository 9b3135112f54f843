"""Implements the pytest fixture `mtl_monitor`.

The plugin that pytest loads is the small module `_mtlmon_pytest`. The first test that uses the
fixture imports this module.
"""

from __future__ import annotations

import sys
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from mtlmon.testing.live import LiveMonitor
from mtlmon.testing.recording import DEFAULT_KEEP

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from types import FrameType

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.testing.clocks import Clock
    from mtlmon.testing.ordering import Wait
    from mtlmon.testing.recording import AtEnd, EndTime, Mode
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Asserted

__all__ = ["MonitorFactory", "monitors_of"]


class _Made(NamedTuple):
    """A monitor, and the line that made it.

    A test that fails at its end has no failing line to show, so it shows this one, which has the
    formula.
    """

    monitor: LiveMonitor
    frame: FrameType
    instruction: int
    line: int

    def close(self) -> Exception | None:
        """Close the monitor; return the exception that it raises, as if raised by the line."""
        try:
            self.monitor.close(place=(self.frame.f_code.co_filename, self.line))
        except Exception as error:
            place = TracebackType(None, self.frame, self.instruction, self.line)
            return error.with_traceback(place)
        return None


class MonitorFactory:
    """The value of the fixture: makes monitors, which are closed when the test ends."""

    def __init__(self) -> None:
        self._made: list[_Made] = []
        self._thread = get_ident()

    def __call__(
        self,
        formula: Asserted,
        *,
        key: str | Sequence[str] | None = None,
        clock: Clock | None = None,
        unit: str | None = None,
        at_end: AtEnd = "decided",
        end_time: EndTime = None,
        mode: Mode = "local",
        keep: int | None = DEFAULT_KEEP,
        unknown: Unknown = None,
        vacuous: Vacuous = "ignore",
        wait: Wait | None = None,
    ) -> LiveMonitor:
        """Make a monitor for this test; the arguments are those of `LiveMonitor`."""
        __tracebackhide__ = True
        monitor = LiveMonitor(
            formula,
            key=key,
            clock=clock,
            unit=unit,
            at_end=at_end,
            end_time=end_time,
            mode=mode,
            keep=keep,
            unknown=unknown,
            vacuous=vacuous,
            wait=wait,
            # The test's thread is the owner, even if another thread makes the monitor.
            owner=None if get_ident() == self._thread else self._thread,
        )
        frame = sys._getframe(1)
        self._made.append(_Made(monitor, frame, frame.f_lasti, frame.f_lineno))
        return monitor

    def close(self) -> None:
        """Close all monitors; raise their first exception, with the others as notes.

        Raises:
            ViolationError: a monitor has found a violation. Other errors of monitoring are raised
                as well.
        """
        __tracebackhide__ = True
        made, self._made = self._made, []
        failures = [error for error in [one.close() for one in made] if error is not None]
        # Drop the references to frames of the test.
        made.clear()
        for failure in failures[1:]:
            failures[0].add_note(f"\n{failure}")
        if failures:
            raise failures[0]

    def abandon(self) -> list[str]:
        """Close all monitors of a failed test; return the violations that they have found."""
        violations = [one.monitor.abandon() for one in self._made]
        self._made.clear()
        return [str(violation) for violation in violations if violation is not None]


class AtTestEnd:
    """A plugin that is registered while a single test runs, to make it fail at its end."""

    def __init__(self, item: pytest.Item, monitors: MonitorFactory) -> None:
        self.item = item
        self.monitors = monitors

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Close the monitors once the test function has returned."""
        __tracebackhide__ = True
        if item is not self.item:
            return (yield)
        try:
            result = yield
        except BaseException as error:
            for violation in self.monitors.abandon():
                if violation != str(error):
                    item.add_report_section("call", "mtl_monitor", violation)
            raise
        self.monitors.close()
        return result


def monitors_of(request: pytest.FixtureRequest) -> Iterator[MonitorFactory]:
    """Implement the fixture: yield a factory of monitors, and close those that are left open."""
    __tracebackhide__ = True
    monitors = MonitorFactory()
    manager = request.config.pluginmanager
    at_end = AtTestEnd(request.node, monitors)
    manager.register(at_end)
    try:
        yield monitors
    finally:
        manager.unregister(at_end)
    # Needed for a fixture that is requested in the middle of a test: the hook does not run then.
    monitors.close()
