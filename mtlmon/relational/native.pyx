# cython: language_level=3
"""The compiled unit for first-order policies: finite relations, and the states of operators."""

include "engine/points.pxi"
include "engine/answers.pxi"
include "engine/rows.pxi"
include "engine/index.pxi"
include "engine/states.pxi"
include "engine/since.pxi"
include "engine/sorting.pxi"
include "../policy/predicates/operations.pxi"
include "engine/plans.pxi"
include "engine/execution.pxi"
include "engine/engine.pxi"
