# cython: language_level=3
"""The compiled unit for what first-order policies read: logs and columns to time-points."""

include "values.pxi"
include "relation_table.pxi"
include "row_reader.pxi"
include "row_scanner.pxi"
include "column_rows.pxi"
include "row_events.pxi"
