# cython: language_level=3
"""Declarations of the compiled unit for first-order policies."""

include "engine/points.pxd"
include "engine/answers.pxd"
include "engine/rows.pxd"
include "engine/index.pxd"
include "engine/states.pxd"
include "engine/texts.pxd"
include "engine/steps.pxd"
include "engine/plans.pxd"
include "engine/engine.pxd"
