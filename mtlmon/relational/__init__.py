"""First-order policies: what is checked before one is run, how it is evaluated, and monitors."""

from __future__ import annotations

from mtlmon.relational.analysis import Analysis, analyse
from mtlmon.relational.explaining import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.relational.monitor import Answer, RelationalMonitor

__all__ = ["Analysis", "Answer", "RelationalMonitor", "analyse", "describe"]


def __getattr__(name: str) -> object:
    # the engine is imported only when policies are run
    if name in {"Answer", "RelationalMonitor"}:
        from mtlmon.relational import monitor

        return getattr(monitor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
