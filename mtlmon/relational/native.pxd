# cython: language_level=3
"""Declarations of the compiled unit for first-order policies."""

include "engine/points.pxd"
include "engine/answers.pxd"
