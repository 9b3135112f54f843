# cython: language_level=3
"""Declarations of the compiled unit for the processing loops."""

include "sizes.pxd"
include "first_violation.pxd"
include "prefixes.pxd"
include "text_monitor.pxd"
include "text_resolver.pxd"
include "successive.pxd"
include "log_records.pxd"
include "keyed.pxd"
include "policies.pxd"
include "policy_lines.pxd"
include "feeding.pxd"
