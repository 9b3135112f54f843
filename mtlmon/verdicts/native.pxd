# cython: language_level=3
"""Declarations of the compiled unit for verdicts."""

include "resolver.pxd"
include "order.pxd"
include "stream.pxd"
include "resolution.pxd"
