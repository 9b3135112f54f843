# cython: language_level=3
"""Arrays: buffers of numpy and Arrow as columns, cells and keys. The compiled unit."""

include "blocks.pxi"
include "columns.pxi"
include "cells.pxi"
include "key_table.pxi"
