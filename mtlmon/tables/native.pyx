# cython: language_level=3
"""Tables: rows of files, their times, keys and events. The compiled unit."""

include "rows_of_text.pxi"
include "event_names.pxi"
include "time_formats/instants.pxi"
include "time_formats/formats.pxi"
include "time_formats/reader.pxi"
