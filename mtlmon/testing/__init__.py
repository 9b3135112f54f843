"""For test suites: assert that what a program does meets a formula.

- `assert_holds` and `check` look at recorded traces;
- `mtlmon.testing.strategies` generates formulas and traces with hypothesis.
"""

from mtlmon.errors import TraceError, ViolationError
from mtlmon.testing.checking import Result, assert_holds, check

__all__ = ["Result", "TraceError", "ViolationError", "assert_holds", "check"]
