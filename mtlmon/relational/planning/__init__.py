"""Makes plans: how the formulas of policies are evaluated, step by step.

A conjunction is evaluated in an order: what this time-point has drives, and what is remembered is
looked up. What only the past decides is evaluated as a time-point comes; the rest waits for later
ones.
"""

from __future__ import annotations

from mtlmon.relational.planning.planner import plan

__all__ = ["plan"]
