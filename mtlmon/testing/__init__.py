"""For test suites: assert that what a program does meets a formula.

- `assert_holds` and `check` look at recorded traces;
- the pytest fixture `mtl_monitor`, and `LiveMonitor` anywhere else, watch while the program runs;
- `LogRule` and `log_events` make events of the records of `logging`;
- `mtlmon.testing.strategies` generates formulas and traces with hypothesis.
"""

from mtlmon.errors import TraceError, UnknownAtomWarning, ViolationError
from mtlmon.testing.checking import Result, assert_holds, check
from mtlmon.testing.live import LiveMonitor
from mtlmon.testing.logs import LogHandler, LogRule, log_events

__all__ = [
    "LiveMonitor",
    "LogHandler",
    "LogRule",
    "Result",
    "TraceError",
    "UnknownAtomWarning",
    "ViolationError",
    "assert_holds",
    "check",
    "log_events",
]
