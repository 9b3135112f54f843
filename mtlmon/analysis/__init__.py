"""Properties of a formula that can be computed before any event is read."""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.analysis.reach import decision_delay, future_reach, past_reach
from mtlmon.analysis.subformulas import skewed_count, subformula_count

__all__ = [
    "decision_delay",
    "desugar",
    "future_reach",
    "past_reach",
    "skewed_count",
    "subformula_count",
]
