# cython: language_level=3
"""Tables: rows of files, their times, keys and events. The compiled unit."""

include "formats/rows_of_text.pxi"
include "columns/event_names.pxi"
include "columns/time_formats/instants.pxi"
include "columns/time_formats/formats.pxi"
include "columns/time_formats/reader.pxi"
