# cython: language_level=3
"""Declarations of the compiled unit for traces: many saved states of one formula."""

include "at_rest.pxd"
include "waiting.pxd"
include "snapshots.pxd"
