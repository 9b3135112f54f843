# cython: language_level=3
"""Verdicts: equivalences to Booleans, in order, in arrays. The compiled unit."""

include "resolver.pxi"
include "order.pxi"
include "stream.pxi"
include "resolution.pxi"
include "objects.pxi"
