# cython: language_level=3
"""Declarations of the compiled unit for histories of late events."""

include "chunks.pxd"
include "earliest.pxd"
include "journal.pxd"
include "arrivals.pxd"
include "replay.pxd"
include "admission.pxd"
include "histories.pxd"
