# cython: language_level=3
"""Declarations of the compiled unit for tables."""

include "columns/time_formats/instants.pxd"
include "columns/time_formats/formats.pxd"
