# cython: language_level=3
"""Declarations of the compiled unit for text: log lines and verdict lines."""

include "swar.pxd"
include "line_errors.pxd"
include "atoms.pxd"
include "items.pxd"
include "time_stamps.pxd"
include "tails.pxd"
include "repeated.pxd"
include "line_order.pxd"
include "scanner.pxd"
include "writer.pxd"
include "verdict_lines.pxd"
