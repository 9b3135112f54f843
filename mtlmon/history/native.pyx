# cython: language_level=3
"""The compiled unit for histories: late events are judged again in their places."""

include "chunks.pxi"
include "earliest.pxi"
include "journal.pxi"
include "arrivals.pxi"
include "replay.pxi"
include "admission.pxi"
include "histories.pxi"
include "following.pxi"
include "snapshots.pxi"
