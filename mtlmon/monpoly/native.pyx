# cython: language_level=3
"""The compiled unit for files of MonPoly: plain lines of logs, and verdicts in its form."""

include "plain_shape.pxi"
include "verdict_lines.pxi"
