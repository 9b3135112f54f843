# cython: language_level=3
"""Declarations of the compiled unit for traces: many saved states of one formula."""

include "rows_by_trace.pxd"
include "at_rest.pxd"
include "waiting.pxd"
include "snapshots.pxd"
