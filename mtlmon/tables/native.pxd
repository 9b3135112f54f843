# cython: language_level=3
"""Tables: rows of files, their times, keys and events. What its parts declare."""

include "columns/time_formats/instants.pxd"
include "columns/time_formats/formats.pxd"
