# cython: language_level=3
"""The batch sizes of the processing loops."""

cdef enum:
    # 64-bit words of letters, for BLOCK_EVENTS events that are scanned
    BLOCK_WORDS = 8192
    # the number of verdicts taken from a resolver at once
    RESOLVED_AT_ONCE = 256
    # `run` returns once this much output waits, or this much time has passed
    OUTPUT_BYTES = 1 << 18
    RUN_NANOSECONDS = 50 * 1000 * 1000
