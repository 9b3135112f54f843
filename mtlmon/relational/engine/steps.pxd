# cython: language_level=3
"""Declarations for plans: blocks of steps that make rows of rows."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mtlmon.policy.predicates.operations cimport Instruction, Register


cdef enum StepKind:
    SCAN                        # the rows of an atom, a neighbour or an aggregate
    PROBE                       # the rows that a state holds for
    COMPUTE                     # an expression: a condition, or the value of a new column
    ATTEMPT                     # a condition; what overflows is kept, and computed again later
    CALL                        # the same, computed by Python for all rows at once
    LISTED                      # a new column with each of some constants
    BRANCH                      # rows for which blocks give rows, or those rows
    PROJECT                     # some columns only
    AGGREGATE                   # the groups of the rows of a block
    MEET                        # the rows of a window at whose time-points other rows were live


cdef enum Mode:
    JOIN                        # each row with each match
    SEMI                        # the rows that have a match
    ANTI                        # the rows that have none
    OUTER                       # of groups: each row, also those whose group is empty


cdef enum SourceKind:
    ATOM_ROWS
    NEIGHBOUR_ROWS
    GROUP_ROWS


cdef enum AggregateKind:
    COUNT_OF
    SUM_OF
    AVG_OF
    MIN_OF
    MAX_OF
    MEDIAN_OF


cdef enum CellKind:
    INTEGER_CELL
    FLOAT_CELL
    TEXT_CELL


cdef struct Program:
    Instruction *code
    size_t size
    Register *registers
    Register *constants
    uint32_t result
    uint32_t description        # the place of the words for errors


cdef struct Side:
    # A state of two that meet. Columns are those of the rows that a step makes.
    uint32_t state
    uint32_t first_index        # on the columns that are bound, or NONE if none is
    uint32_t index              # on these and those that it shares with the other state
    Numbers first_keys          # the columns with the keys of both indexes
    Numbers keys
    Numbers takes               # the columns of the state that are new, in these places
    Numbers places


cdef struct Step:
    StepKind kind
    Mode mode
    SourceKind source_kind
    # the atom, state, aggregate, program or function; MEET: the number of columns with new ones
    uint32_t source
    uint32_t index              # PROBE: of the state
    bint is_binding             # COMPUTE, CALL: whether the value is a new column
    bint is_distinct            # PROJECT: whether equal rows can arise
    Numbers keys                # columns of rows that are compared ...
    Numbers matched             # ... with these of the source
    Numbers takes               # columns of the source that become new columns
    Numbers fixed               # SCAN: columns of the source that equal constants
    Numbers equal               # SCAN: pairs of columns of the source that are equal
    int64_t *constants          # for `fixed` and LISTED
    uint32_t constant_count
    Numbers blocks
    Numbers columns             # PROJECT; BRANCH that joins: those of each block, one after another
    uint32_t width              # of the rows that it makes
    # AGGREGATE: `columns` are those of the groups in the rows of the block, `keys` those of rows
    # that the block starts with, `matched` those of the groups in these if all have a value,
    # `source` is the program of the value
    AggregateKind aggregate
    CellKind cell
    bint has_value
    uint32_t group
    Side *sides                 # MEET: a window, and spans
    Rows rows                   # what it makes
    Rows given                  # what its blocks are given
    uint8_t *flags
    size_t flag_room


cdef struct StepBlock:
    Step *steps
    uint32_t count
    uint32_t width              # of the rows that it is given


cdef struct Consumer:
    uint32_t state
    uint32_t left               # which conjunct of its left side, or NONE for the operand itself


cdef struct Query:
    uint32_t early              # the block for what time-points up to the present decide, or NONE
    uint32_t late               # the block that waits for later time-points, or NONE
    uint32_t width
    uint32_t policy             # which one it answers, or NONE
    uint32_t part               # which part of a closed policy it is, or NONE
    uint32_t counted            # for which policy its rows are counted, or NONE
    bint is_find
    Numbers early_states
    Numbers late_states
    Numbers kept                # the atoms that the late block looks at
    RowQueue *kept_rows
    Consumer *consumers
    uint32_t consumer_count
    RowQueue waiting            # the rows for the late block
    Numbers waiting_texts       # the columns of those that are texts
    uint64_t done               # at how many of the time-points taken in the late block was run
