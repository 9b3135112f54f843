"""Lets test suites assert that the behaviour of a program satisfies a formula.

- `assert_holds` and `check` monitor recorded traces;
- the pytest fixture `mtl_monitor`, and elsewhere `LiveMonitor`, monitor a running program;
- `LogRule` and `log_events` turn the records of `logging` into events;
- `policies` makes parameters of tests of the policies of a file;
- `mtlmon.testing.strategies` generates formulas and traces with hypothesis.
"""

from mtlmon.errors import (
    TraceError,
    UnknownAtomWarning,
    VacuousError,
    VacuousWarning,
    ViolationError,
)
from mtlmon.testing.checking import Result, assert_holds, check
from mtlmon.testing.live import LiveMonitor
from mtlmon.testing.logs import LogHandler, LogRule, log_events
from mtlmon.testing.policy_parameters import PolicyParameter, policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.testing.plugin import MonitorFactory

__all__ = [
    "LiveMonitor",
    "LogHandler",
    "LogRule",
    "MonitorFactory",
    "PolicyParameter",
    "Result",
    "TraceError",
    "UnknownAtomWarning",
    "VacuousError",
    "VacuousWarning",
    "ViolationError",
    "assert_holds",
    "check",
    "log_events",
    "policies",
]


def __getattr__(name: str) -> object:
    # The plugin needs pytest, which the rest does not.
    if name == "MonitorFactory":
        from mtlmon.testing.plugin import MonitorFactory

        return MonitorFactory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
