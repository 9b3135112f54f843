# cython: language_level=3
"""Declarations of the compiled unit for streams."""

include "fixed_point.pxd"
include "sums.pxd"
include "multisets.pxd"
