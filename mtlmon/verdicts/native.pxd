# cython: language_level=3
"""Verdicts: equivalences to Booleans, in order, in arrays. What its parts declare."""

include "resolver.pxd"
include "order.pxd"
include "stream.pxd"
include "resolution.pxd"
