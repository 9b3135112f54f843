# cython: language_level=3
"""Traces: many traces of one formula, each at rest between its events. What its parts declare."""

include "at_rest.pxd"
include "waiting.pxd"
