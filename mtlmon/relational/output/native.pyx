# cython: language_level=3
"""The compiled unit for what first-order policies write: answers as lines and as arrays."""

include "value_texts.pxi"
include "answer_lines.pxi"
include "first_answers.pxi"
include "answer_queue.pxi"
