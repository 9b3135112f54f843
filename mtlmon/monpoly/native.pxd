# cython: language_level=3
"""Declarations of the compiled unit for files of MonPoly."""

include "plain_shape.pxd"
include "verdict_lines.pxd"
