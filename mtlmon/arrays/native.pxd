# cython: language_level=3
"""Arrays: buffers of numpy and Arrow as columns, cells and keys. What its parts declare."""

include "blocks.pxd"
include "columns.pxd"
include "cells.pxd"
include "key_table.pxd"
