# cython: language_level=3
"""The possible errors in a line of a log or of verdicts."""

cdef enum LineError:
    NO_ERROR
    NO_TIME_STAMP
    TIME_STAMP_TOO_LARGE
    LINE_TOO_LONG
    OUT_OF_MEMORY
    # errors in a log
    EMPTY_TIME_STAMP
    TIME_STAMP_NOT_INTEGER
    TIME_STAMP_DECREASES
    STRAY_BYTE
    ARGUMENTS
    EMPTY_PARENTHESES
    OPEN_PARENTHESIS
    OPEN_QUOTE
    EMPTY_QUOTE
    BAD_ESCAPE
    NO_BLANK
    # errors in verdicts
    NO_COLON
    NO_OFFSET
    OFFSET_TOO_LARGE
    NO_VALUE
    NO_REFERENCE
    REFERENCE_NOT_EARLIER
    AFTER_VERDICT
    RESERVED
    HAS_VARIABLES
