# cython: language_level=3
"""The compiled unit for traces: many states of one formula, saved between their events."""

include "rows_by_trace.pxi"
include "at_rest.pxi"
include "waiting.pxi"
include "snapshots.pxi"
