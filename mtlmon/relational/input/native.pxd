# cython: language_level=3
"""Declarations of the compiled unit for what first-order policies read."""

include "values.pxd"
include "relation_table.pxd"
include "row_reader.pxd"
include "row_scanner.pxd"
include "column_rows.pxd"
include "row_events.pxd"
