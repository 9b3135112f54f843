"""Almost event-rate independent monitoring of metric temporal logic.

>>> import mtlmon
>>> monitor = mtlmon.Monitor("request IMPLIES EVENTUALLY[0,5] response")
>>> [str(verdict) for verdict in monitor.step(1, {"request"})]
[]
>>> [str(verdict) for verdict in monitor.step(4, {"response"})]
['1:0 true', '4:0 true']
"""

# imported first, so that signals do no harm while the command imports the rest
from mtlmon import _start  # noqa: F401

try:
    from mtlmon._core import Monitor, Verdict
except ModuleNotFoundError as error:
    # A native module of this package is missing; a module that it imports may be missing instead.
    if error.name is None or not error.name.startswith("mtlmon."):
        raise
    from mtlmon._unbuilt import advice

    raise ImportError(advice(__path__[0], error.name), name=error.name) from None
from mtlmon._version import __version__
from mtlmon.engine.compile import compile_formula
from mtlmon.engine.native import Program
from mtlmon.errors import (
    CopyError,
    EventError,
    EventTypeError,
    ExplanationError,
    FormulaError,
    InUseError,
    LimitError,
    LogError,
    MemoryLimitError,
    MonitorBrokenError,
    MtlmonError,
    PolicyError,
    RowError,
    RunError,
    SnapshotError,
    TableError,
    TimeStampError,
    UndecidedError,
    UnitError,
)
from mtlmon.syntax.formula import FALSE, TRUE, Formula, atom
from mtlmon.syntax.parser import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon._monitors import Monitors
    from mtlmon._relational import RelationalMonitor
    from mtlmon._relational_history import RelationalHistory
    from mtlmon.explanation import Proof, explain
    from mtlmon.history.history import History
    from mtlmon.run.answers import Answers
    from mtlmon.run.library import Run, check
    from mtlmon.run.live import Live, live
    from mtlmon.run.records import query
    from mtlmon.syntax.build import (
        always,
        atoms,
        conjunction,
        disjunction,
        eventually,
        historically,
        next_,
        once,
        previous,
    )
    from mtlmon.verdicts.arrays import VerdictArray
    from mtlmon.verdicts.operations import Resolution, Summary, first, resolve, violations

# Names that the command does not need, and the modules to import when they are first used.
_LATER = {
    "mtlmon._monitors": ("Monitors",),
    "mtlmon._relational": ("RelationalMonitor",),
    "mtlmon._relational_history": ("RelationalHistory",),
    "mtlmon.explanation": ("Proof", "explain"),
    "mtlmon.history.history": ("History",),
    "mtlmon.syntax.build": (
        "always",
        "atoms",
        "conjunction",
        "disjunction",
        "eventually",
        "historically",
        "next_",
        "once",
        "previous",
    ),
    "mtlmon.run.answers": ("Answers",),
    "mtlmon.run.library": ("Run", "check"),
    "mtlmon.run.live": ("Live", "live"),
    "mtlmon.run.records": ("query",),
    "mtlmon.verdicts.arrays": ("VerdictArray",),
    "mtlmon.verdicts.operations": ("Resolution", "Summary", "first", "resolve", "violations"),
}

__all__ = [
    "FALSE",
    "TRUE",
    "Answers",
    "CopyError",
    "EventError",
    "EventTypeError",
    "ExplanationError",
    "Formula",
    "FormulaError",
    "History",
    "InUseError",
    "LimitError",
    "Live",
    "LogError",
    "MemoryLimitError",
    "Monitor",
    "MonitorBrokenError",
    "Monitors",
    "MtlmonError",
    "PolicyError",
    "Program",
    "Proof",
    "RelationalHistory",
    "RelationalMonitor",
    "Resolution",
    "RowError",
    "Run",
    "RunError",
    "SnapshotError",
    "Summary",
    "TableError",
    "TimeStampError",
    "UndecidedError",
    "UnitError",
    "Verdict",
    "VerdictArray",
    "__version__",
    "always",
    "atom",
    "atoms",
    "check",
    "compile_formula",
    "conjunction",
    "disjunction",
    "eventually",
    "explain",
    "first",
    "historically",
    "live",
    "next_",
    "once",
    "parse",
    "previous",
    "query",
    "resolve",
    "violations",
]


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names:
            from importlib import import_module

            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
