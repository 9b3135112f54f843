# cython: language_level=3
"""The compiled unit for tables: rows of files, with their times, keys and events."""

include "formats/quoted_rows.pxi"
include "formats/rows_of_text.pxi"
include "formats/object_columns.pxi"
include "columns/event_names.pxi"
include "columns/time_formats/instants.pxi"
include "columns/time_formats/formats.pxi"
include "columns/time_formats/cycles.pxi"
include "columns/time_formats/zones.pxi"
include "columns/time_formats/reader.pxi"
