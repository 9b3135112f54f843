# cython: language_level=3
"""Traces: many traces of one formula, each at rest between its events. The compiled unit."""

include "at_rest.pxi"
include "waiting.pxi"
