# cython: language_level=3
"""Text: log lines to events, verdicts to lines. The compiled unit."""

include "atoms.pxi"
include "items.pxi"
include "scanner.pxi"
include "writer.pxi"
include "verdict_lines.pxi"
