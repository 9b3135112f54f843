# cython: language_level=3
"""Declarations of the compiled unit for arrays: columns, cells and keys."""

include "hashing.pxd"
include "blocks.pxd"
include "columns.pxd"
include "cells.pxd"
include "key_table.pxd"
