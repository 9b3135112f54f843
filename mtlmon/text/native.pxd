# cython: language_level=3
"""Text: log lines to events, verdicts to lines. What its parts declare."""

include "swar.pxd"
include "line_errors.pxd"
include "atoms.pxd"
include "items.pxd"
include "time_stamps.pxd"
include "tails.pxd"
include "repeated.pxd"
include "scanner.pxd"
include "writer.pxd"
include "verdict_lines.pxd"
