# cython: language_level=3
"""The compiled unit for arrays: reads numpy and Arrow buffers as columns, cells and keys."""

include "blocks.pxi"
include "columns.pxi"
include "cells.pxi"
include "key_table.pxi"
