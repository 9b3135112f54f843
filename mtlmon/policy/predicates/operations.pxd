# cython: language_level=3
"""The operations of machines that compute expressions, on cells of 64 bits that may be null."""

from libc.math cimport atan2, cos, exp, fabs, floor, fmod, isnan, log, pow, rint, sin, sqrt, tan
from libc.stdint cimport int64_t, uint32_t


cdef extern from *:
    """
    #define add_overflows(left, right, result) __builtin_add_overflow(left, right, result)
    #define subtract_overflows(left, right, result) __builtin_sub_overflow(left, right, result)
    #define multiply_overflows(left, right, result) __builtin_mul_overflow(left, right, result)
    """
    bint add_overflows(int64_t left, int64_t right, int64_t *result) noexcept nogil
    bint subtract_overflows(int64_t left, int64_t right, int64_t *result) noexcept nogil
    bint multiply_overflows(int64_t left, int64_t right, int64_t *result) noexcept nogil


cdef enum Operation:
    # `a`, `b` and `c` are registers unless something else is said.
    LOAD                # input number a
    CONSTANT            # constant number a; null if there is none
    GET                 # the result of kernel a
    PUT                 # give b to kernel a, unless it is null
    PUT_TRUE            # if b is true
    PUT_FALSE           # if b is false
    COPY
    IF_ELSE             # if a is true b, else c
    COALESCE
    IS_NULL
    IS_NOT_NULL
    AND
    OR
    # Of here on, the result is null if an operand is.
    FIRST_STRICT
    NOT
    TO_FLOAT
    ADD_INTEGERS
    SUBTRACT_INTEGERS
    MULTIPLY_INTEGERS
    REMAINDER_INTEGERS  # null if b is 0
    NEGATE_INTEGER
    ABS_INTEGER
    LEAST_INTEGER
    GREATEST_INTEGER
    ADD_FLOATS
    SUBTRACT_FLOATS
    MULTIPLY_FLOATS
    DIVIDE_FLOATS       # null if b is 0
    REMAINDER_FLOATS    # null if b is 0
    NEGATE_FLOAT
    ABS_FLOAT
    SQRT_FLOAT
    SIN_FLOAT
    COS_FLOAT
    TAN_FLOAT
    ATAN2_FLOATS
    EXP_FLOAT
    LOG_FLOAT
    POWER_FLOATS
    FLOOR_FLOAT
    ROUND_FLOAT
    LEAST_FLOAT
    GREATEST_FLOAT
    NAN_TO_NULL
    # Comparisons; c is the set of the results of `compare` for which they are true.
    COMPARE_INTEGERS
    COMPARE_FLOATS
    COMPARE_MIXED       # an integer a with a float b
    OPERATION_COUNT


cdef enum Comparison:
    IS_LESS = 1
    IS_EQUAL = 2
    IS_GREATER = 4
    IS_UNORDERED = 8


cdef struct Instruction:
    Operation operation
    uint32_t target
    uint32_t a, b, c


cdef union Content:
    int64_t integer
    double number


cdef struct Register:
    Content content
    bint is_valid


cdef inline Comparison compare_integers(int64_t left, int64_t right) noexcept nogil:
    return IS_LESS if left < right else IS_GREATER if left > right else IS_EQUAL


cdef inline Comparison compare_floats(double left, double right) noexcept nogil:
    if left < right:
        return IS_LESS
    if left > right:
        return IS_GREATER
    return IS_EQUAL if left == right else IS_UNORDERED


cdef inline Comparison compare_mixed(int64_t left, double right) noexcept nogil:
    """Compare exactly."""
    cdef int64_t whole
    if isnan(right):
        return IS_UNORDERED
    if right >= 9223372036854775808.0:
        return IS_LESS
    if right < -9223372036854775808.0:
        return IS_GREATER
    whole = <int64_t> floor(right)
    if left != whole:
        return compare_integers(left, whole)
    return IS_LESS if right > floor(right) else IS_EQUAL


cdef inline void lenient(
    Operation operation, Register *target, const Register *a, const Register *b, const Register *c
) noexcept nogil:
    """An operation that takes nulls."""
    cdef bint decisive = operation == OR
    if operation == COPY:
        target[0] = a[0]
    elif operation == IF_ELSE:
        target[0] = b[0] if a.is_valid and a.content.integer else c[0]
    elif operation == COALESCE:
        target[0] = a[0] if a.is_valid else b[0]
    elif operation == IS_NULL or operation == IS_NOT_NULL:
        target.content.integer = a.is_valid == (operation == IS_NOT_NULL)
        target.is_valid = True
    elif (a.is_valid and a.content.integer == decisive) or (
        b.is_valid and b.content.integer == decisive
    ):
        target.content.integer = decisive
        target.is_valid = True
    else:
        target.is_valid = a.is_valid and b.is_valid
        target.content.integer = not decisive


cdef inline bint strict(
    Operation operation, Register *target, Content a, Content b, uint32_t wanted
) noexcept nogil:
    """An operation on operands that are not null; returns whether it overflows."""
    cdef Content *result = &target.content
    cdef bint has_overflow = False
    target.is_valid = True
    if operation == NOT:
        result.integer = not a.integer
    elif operation == TO_FLOAT:
        result.number = <double> a.integer
    elif operation == ADD_INTEGERS:
        has_overflow = add_overflows(a.integer, b.integer, &result.integer)
    elif operation == SUBTRACT_INTEGERS:
        has_overflow = subtract_overflows(a.integer, b.integer, &result.integer)
    elif operation == MULTIPLY_INTEGERS:
        has_overflow = multiply_overflows(a.integer, b.integer, &result.integer)
    elif operation == REMAINDER_INTEGERS:
        target.is_valid = b.integer != 0
        # C cannot divide the least integer by -1
        result.integer = 0 if b.integer == 0 or b.integer == -1 else a.integer % b.integer
    elif operation == NEGATE_INTEGER:
        has_overflow = subtract_overflows(0, a.integer, &result.integer)
    elif operation == ABS_INTEGER:
        result.integer = a.integer
        if a.integer < 0:
            has_overflow = subtract_overflows(0, a.integer, &result.integer)
    elif operation == LEAST_INTEGER:
        result.integer = min(a.integer, b.integer)
    elif operation == GREATEST_INTEGER:
        result.integer = max(a.integer, b.integer)
    elif operation == ADD_FLOATS:
        result.number = a.number + b.number
    elif operation == SUBTRACT_FLOATS:
        result.number = a.number - b.number
    elif operation == MULTIPLY_FLOATS:
        result.number = a.number * b.number
    elif operation == DIVIDE_FLOATS:
        target.is_valid = b.number != 0
        result.number = a.number / b.number if b.number != 0 else 0
    elif operation == REMAINDER_FLOATS:
        target.is_valid = b.number != 0
        result.number = fmod(a.number, b.number) if b.number != 0 else 0
    elif operation == NEGATE_FLOAT:
        result.number = -a.number
    elif operation == ABS_FLOAT:
        result.number = fabs(a.number)
    elif operation == SQRT_FLOAT:
        result.number = sqrt(a.number)
    elif operation == FLOOR_FLOAT:
        result.number = floor(a.number)
    elif operation == ROUND_FLOAT:
        result.number = rint(a.number)
    elif operation == LEAST_FLOAT:
        # a zero becomes 0.0, whatever the signs of zeros
        result.number = (a.number if a.number < b.number or isnan(a.number) else b.number) + 0.0
    elif operation == GREATEST_FLOAT:
        result.number = (a.number if a.number > b.number or isnan(a.number) else b.number) + 0.0
    elif operation == NAN_TO_NULL:
        target.is_valid = not isnan(a.number)
        result.number = a.number
    elif operation == SIN_FLOAT:
        result.number = sin(a.number)
    elif operation == COS_FLOAT:
        result.number = cos(a.number)
    elif operation == TAN_FLOAT:
        result.number = tan(a.number)
    elif operation == ATAN2_FLOATS:
        result.number = atan2(a.number, b.number)
    elif operation == EXP_FLOAT:
        result.number = exp(a.number)
    elif operation == LOG_FLOAT:
        result.number = log(a.number)
    elif operation == POWER_FLOATS:
        result.number = pow(a.number, b.number)
    elif operation == COMPARE_INTEGERS:
        result.integer = (compare_integers(a.integer, b.integer) & wanted) != 0
    elif operation == COMPARE_FLOATS:
        result.integer = (compare_floats(a.number, b.number) & wanted) != 0
    else:
        result.integer = (compare_mixed(a.integer, b.number) & wanted) != 0
    return has_overflow
