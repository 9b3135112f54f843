# cython: language_level=3
"""Declarations of the compiled unit for what first-order policies write."""

include "value_texts.pxd"
include "answer_lines.pxd"
include "first_answers.pxd"
include "answer_queue.pxd"
