# cython: language_level=3
"""The compiled unit for verdicts: resolving equivalences, sorting verdicts, arrays."""

include "resolver.pxi"
include "order.pxi"
include "stream.pxi"
include "resolution.pxi"
include "objects.pxi"
