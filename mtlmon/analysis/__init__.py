"""Properties of a formula that can be computed before any event is read."""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.analysis.reach import decision_delay, future_reach, is_bounded, past_reach
from mtlmon.analysis.subformulas import atoms, skewed_count, subformula_count

__all__ = [
    "atoms",
    "decision_delay",
    "desugar",
    "future_reach",
    "is_bounded",
    "past_reach",
    "skewed_count",
    "subformula_count",
]
