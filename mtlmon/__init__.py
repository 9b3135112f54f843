"""Almost event-rate independent monitoring of metric temporal logic.

>>> import mtlmon
>>> monitor = mtlmon.Monitor("request IMPLIES EVENTUALLY[0,5] response")
>>> [str(verdict) for verdict in monitor.step(1, {"request"})]
[]
>>> [str(verdict) for verdict in monitor.step(4, {"response"})]
['1:0 true', '4:0 true']
"""

from mtlmon._core import Monitor, Verdict
from mtlmon._monitors import Monitors
from mtlmon._program import Program
from mtlmon._version import __version__
from mtlmon.errors import (
    ExplanationError,
    FormulaError,
    LimitError,
    LogError,
    MonitorBrokenError,
    MtlmonError,
    SnapshotError,
    TimeStampError,
    UndecidedError,
)
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.parser import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.explanation import Proof, explain

__all__ = [
    "ExplanationError",
    "Formula",
    "FormulaError",
    "LimitError",
    "LogError",
    "Monitor",
    "MonitorBrokenError",
    "Monitors",
    "MtlmonError",
    "Program",
    "Proof",
    "SnapshotError",
    "TimeStampError",
    "UndecidedError",
    "Verdict",
    "__version__",
    "explain",
    "parse",
]


def __getattr__(name: str) -> object:
    """Explanations are imported when they are asked for: watching a stream needs none."""
    if name in ("Proof", "explain"):
        import mtlmon.explanation

        return getattr(mtlmon.explanation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
