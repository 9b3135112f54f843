# cython: language_level=3
"""The compiled unit for relations: sweeps over the starts and ends of records."""

include "endpoints.pxi"
include "multiplicities.pxi"
include "aggregates.pxi"
include "group_sweep.pxi"
include "pairs.pxi"
include "contacts.pxi"
include "segments.pxi"
