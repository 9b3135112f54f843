# cython: language_level=3
"""The compiled unit for first-order policies: finite relations, and the states of operators."""

include "engine/points.pxi"
include "engine/answers.pxi"
