# cython: language_level=3
"""The compiled unit for text: reads log lines as events, and writes verdicts as lines."""

include "atoms.pxi"
include "items.pxi"
include "scanner.pxi"
include "line_order.pxi"
include "writer.pxi"
include "verdict_lines.pxi"
include "iso_times.pxi"
