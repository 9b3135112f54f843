# cython: language_level=3
"""The compiled unit for streams: windows and offsets over the rows of many traces."""

include "batch.pxi"
include "rows.pxi"
include "fixed_point.pxi"
include "kernel.pxi"
include "sliding.pxi"
include "multisets.pxi"
include "integrals.pxi"
include "folds.pxi"
include "machine.pxi"
include "instances.pxi"
include "dues.pxi"
