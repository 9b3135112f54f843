"""Closed intervals of natural numbers: how far a temporal operator looks."""

from __future__ import annotations

from mtlmon.syntax.native import MAXIMUM_BOUND, Interval

__all__ = ["MAXIMUM_BOUND", "Interval"]
