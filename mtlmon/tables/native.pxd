# cython: language_level=3
"""Tables: rows of files, their times, keys and events. What its parts declare."""

include "time_formats/instants.pxd"
include "time_formats/formats.pxd"
