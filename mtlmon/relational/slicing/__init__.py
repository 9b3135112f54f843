"""Policies with variables on parts of a log: which monitor gets which rows, and owns what."""

from __future__ import annotations

from mtlmon.relational.slicing.slicer import plan_slices, require_slices
from mtlmon.relational.slicing.slices import (
    MOST_SLICES,
    AtomMatch,
    Grid,
    PolicySlices,
    SlicedVariable,
    Slicing,
)
from mtlmon.relational.slicing.statistics import (
    Frequent,
    RowCounts,
    RowSample,
    Statistics,
    read_statistics,
)

__all__ = [
    "MOST_SLICES",
    "AtomMatch",
    "Frequent",
    "Grid",
    "PolicySlices",
    "RowCounts",
    "RowSample",
    "SlicedVariable",
    "Slicing",
    "Statistics",
    "plan_slices",
    "read_statistics",
    "require_slices",
]
