# cython: language_level=3
"""How much the loops do at a time."""

cdef enum:
    # 64-bit words of letters, for BLOCK_EVENTS events that are scanned
    BLOCK_WORDS = 8192
    # verdicts that are taken from a resolver
    RESOLVED_AT_ONCE = 256
    # `run` returns when this much output waits, or this much time has passed
    OUTPUT_BYTES = 1 << 18
    RUN_NANOSECONDS = 50 * 1000 * 1000
