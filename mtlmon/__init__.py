"""Almost event-rate independent monitoring of metric temporal logic.

>>> import mtlmon
>>> monitor = mtlmon.Monitor("request IMPLIES EVENTUALLY[0,5] response")
>>> [str(verdict) for verdict in monitor.step(1, {"request"})]
[]
>>> [str(verdict) for verdict in monitor.step(4, {"response"})]
['1:0 true', '4:0 true']
"""

from mtlmon._core import Monitor, Verdict
from mtlmon._program import Program
from mtlmon._version import __version__
from mtlmon.errors import (
    FormulaError,
    LimitError,
    LogError,
    MonitorBrokenError,
    MtlmonError,
    SnapshotError,
    TimeStampError,
)
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.parser import parse

__all__ = [
    "Formula",
    "FormulaError",
    "LimitError",
    "LogError",
    "Monitor",
    "MonitorBrokenError",
    "MtlmonError",
    "Program",
    "SnapshotError",
    "TimeStampError",
    "Verdict",
    "__version__",
    "parse",
]
