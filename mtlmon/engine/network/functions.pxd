# cython: language_level=3
"""Boolean functions of a few variables as truth tables.

Bit i of a table is the value where variable v is bit v of the number i. A table of up to six
variables is one word; each further variable doubles the number of words.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset


cdef enum:
    WORD_VARIABLES = 6
    MOST_VARIABLES = 12
    MOST_FUNCTION_WORDS = 1 << (MOST_VARIABLES - WORD_VARIABLES)

cdef extern from *:
    """
    static const uint64_t variable_patterns[6] = {
        0xAAAAAAAAAAAAAAAAULL, 0xCCCCCCCCCCCCCCCCULL, 0xF0F0F0F0F0F0F0F0ULL,
        0xFF00FF00FF00FF00ULL, 0xFFFF0000FFFF0000ULL, 0xFFFFFFFF00000000ULL,
    };
    """
    const uint64_t *variable_patterns


cdef inline void copy_words(uint64_t *target, const uint64_t *source, size_t count) noexcept nogil:
    """Copy words; the pointers may be NULL if there are none."""
    if count:
        memcpy(target, source, count * sizeof(uint64_t))


cdef inline void clear_words(uint64_t *words, size_t count) noexcept nogil:
    """Set words to 0; the pointer may be NULL if there are none."""
    if count:
        memset(words, 0, count * sizeof(uint64_t))


cdef inline bint equal_words(const uint64_t *a, const uint64_t *b, size_t count) noexcept nogil:
    """Whether words are equal; the pointers may be NULL if there are none."""
    return count == 0 or memcmp(a, b, count * sizeof(uint64_t)) == 0


cdef inline uint64_t variable_word(uint32_t variable, uint32_t word) noexcept nogil:
    """A word of the table of a variable itself."""
    if variable < WORD_VARIABLES:
        return variable_patterns[variable]
    return -<uint64_t> (word >> (variable - WORD_VARIABLES) & 1)


cdef inline void set_function(uint64_t *target, uint64_t word, uint32_t words) noexcept nogil:
    """Set all words of a table: 0 for false and ~0 for true."""
    cdef uint32_t i
    for i in range(words):
        target[i] = word


cdef inline void copy_function(
    uint64_t *target, const uint64_t *source, uint32_t words
) noexcept nogil:
    cdef uint32_t i
    for i in range(words):
        target[i] = source[i]


cdef inline bint is_false(const uint64_t *function, uint32_t words) noexcept nogil:
    cdef uint32_t i
    for i in range(words):
        if function[i]:
            return False
    return True


cdef inline bint is_true(const uint64_t *function, uint32_t words) noexcept nogil:
    cdef uint32_t i
    for i in range(words):
        if ~function[i]:
            return False
    return True


cdef inline bint are_equal(
    const uint64_t *left, const uint64_t *right, uint32_t words
) noexcept nogil:
    cdef uint32_t i
    for i in range(words):
        if left[i] != right[i]:
            return False
    return True


cdef inline bint depends_on(
    const uint64_t *function, uint32_t variable, uint32_t words
) noexcept nogil:
    cdef uint32_t i, step
    cdef uint64_t difference = 0
    if variable < WORD_VARIABLES:
        for i in range(words):
            difference |= (
                (function[i] >> (1 << variable)) ^ function[i]
            ) & ~variable_patterns[variable]
        return difference != 0
    step = 1 << (variable - WORD_VARIABLES)
    for i in range(words):
        if not i & step:
            difference |= function[i] ^ function[i | step]
    return difference != 0


cdef inline uint32_t words_of(uint32_t variables) noexcept nogil:
    """The words of a table of so many variables."""
    return 1 if variables <= WORD_VARIABLES else 1 << (variables - WORD_VARIABLES)


cdef inline void set_variable(
    uint64_t *target, const uint64_t *function, uint32_t variable, bint value, uint32_t words
) noexcept nogil:
    """Replace a variable by a constant; the target may be the function itself."""
    cdef uint32_t i, step
    cdef uint64_t word
    if variable < WORD_VARIABLES:
        for i in range(words):
            if value:
                word = function[i] & variable_patterns[variable]
                target[i] = word | word >> (1 << variable)
            else:
                word = function[i] & ~variable_patterns[variable]
                target[i] = word | word << (1 << variable)
        return
    step = 1 << (variable - WORD_VARIABLES)
    for i in range(words):
        if not i & step:
            word = function[i | step] if value else function[i]
            target[i] = target[i | step] = word


cdef inline bint holds_where(
    const uint64_t *function, uint32_t variable, bint value, uint32_t words
) noexcept nogil:
    """Whether a function is true wherever a variable has a value."""
    cdef uint32_t i
    cdef uint64_t elsewhere
    for i in range(words):
        elsewhere = variable_word(variable, i) ^ -<uint64_t> value
        if ~(function[i] | elsewhere):
            return False
    return True


cdef inline void let_imply(
    uint64_t *function, uint32_t variable, uint64_t others, bint is_implied, uint32_t words
) noexcept nogil:
    """Replace a variable by the disjunction of itself and others; or by that of the others."""
    cdef uint64_t high[MOST_FUNCTION_WORDS]
    cdef uint64_t image
    cdef uint32_t w, other
    set_variable(high, function, variable, True, words)
    set_variable(function, function, variable, False, words)
    for w in range(words):
        image = variable_word(variable, w) if is_implied else 0
        for other in range(MOST_VARIABLES):
            if others >> other & 1:
                image |= variable_word(other, w)
        function[w] = (high[w] & image) | (function[w] & ~image)


cdef inline uint64_t support(
    const uint64_t *function, uint64_t candidates, uint32_t words
) noexcept nogil:
    """Which of these variables the function depends on, as bits."""
    cdef uint64_t found = 0
    if candidates == 0 or is_false(function, words) or is_true(function, words):
        return 0
    while candidates:
        if depends_on(function, lowest_bit(candidates), words):
            found |= candidates & (0 - candidates)
        candidates &= candidates - 1
    return found


cdef inline uint64_t hash_function(const uint64_t *function, uint32_t words) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint32_t i
    for i in range(words):
        value = (value ^ function[i]) * <uint64_t> 0x9E3779B97F4A7C15
        value ^= value >> 32
    return value


cdef inline bint substitute_functions(
    uint64_t *function, uint64_t variables, const uint64_t *images, uint32_t words
) noexcept nogil:
    """Replace variables by their images at the same time; return whether there were any.

    The image of variable v begins at images[v * words]. It depends on no variable above v that is
    replaced, so that replacing them one after the other, the lowest first, comes to the same.

    PERF: with eight variables, all cofactors at once took 1 to 1.5 microseconds for a function.
    """
    cdef uint64_t high[MOST_FUNCTION_WORDS]
    cdef uint64_t low[MOST_FUNCTION_WORDS]
    cdef uint32_t variable = 0
    cdef uint32_t w
    cdef const uint64_t *image = images
    cdef bint is_changed = False
    while variables >> variable:
        if variables >> variable & 1 and depends_on(function, variable, words):
            set_variable(high, function, variable, True, words)
            set_variable(low, function, variable, False, words)
            for w in range(words):
                function[w] = (high[w] & image[w]) | (low[w] & ~image[w])
            is_changed = True
        variable += 1
        image += words
    return is_changed
