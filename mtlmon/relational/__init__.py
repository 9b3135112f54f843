"""First-order policies: what is checked before one is run, and how it would be evaluated."""

from __future__ import annotations

from mtlmon.relational.analysis import Analysis, analyse
from mtlmon.relational.explaining import describe

__all__ = ["Analysis", "analyse", "describe"]
