# cython: language_level=3
"""Declarations for exact sums: integers of many words, as multiples of a power of two."""

from libc.math cimport INFINITY, NAN
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #define count_leading_zeros(word) __builtin_clzll(word)

    static inline uint64_t multiply_words(
        uint64_t left, uint64_t right, uint64_t addend, uint64_t *high
    ) {
        unsigned __int128 product = (unsigned __int128) left * right + addend;
        *high = (uint64_t) (product >> 64);
        return (uint64_t) product;
    }

    static inline uint64_t divide_words(
        uint64_t high, uint64_t low, uint64_t divisor, uint64_t *rest
    ) {
        unsigned __int128 dividend = (unsigned __int128) high << 64 | low;
        *rest = (uint64_t) (dividend % divisor);
        return (uint64_t) (dividend / divisor);
    }
    """
    int count_leading_zeros(uint64_t word) noexcept nogil
    # left * right + addend: the low word, and the high one
    uint64_t multiply_words(
        uint64_t left, uint64_t right, uint64_t addend, uint64_t *high
    ) noexcept nogil
    # (high * 2^64 + low) / divisor and its rest; `high` is below the divisor
    uint64_t divide_words(
        uint64_t high, uint64_t low, uint64_t divisor, uint64_t *rest
    ) noexcept nogil


cdef enum:
    # Sums of up to 2^HEADROOM values do not overflow.
    HEADROOM = 44
    # The exponent of the least bit of a float, and of the bit behind its greatest one.
    LEAST_EXPONENT = -1074
    EXPONENT_BITS = 0x7FF
    MOST_WORDS = 160


cdef struct Term:
    # A float other than 0, infinities and NaN: magnitude * 2^exponent.
    uint64_t magnitude
    int exponent
    bint is_negative


cdef enum FloatClass:
    FINITE
    POSITIVE_INFINITY
    NEGATIVE_INFINITY
    NOT_A_NUMBER


cdef inline FloatClass term_of_float(int64_t bits, Term *term) noexcept nogil:
    cdef int biased = <int> (bits >> 52) & EXPONENT_BITS
    term.magnitude = <uint64_t> bits & ((<uint64_t> 1 << 52) - 1)
    term.is_negative = bits < 0
    if biased == EXPONENT_BITS:
        if term.magnitude:
            return NOT_A_NUMBER
        return NEGATIVE_INFINITY if term.is_negative else POSITIVE_INFINITY
    if biased:
        term.magnitude |= <uint64_t> 1 << 52
        biased -= 1
    term.exponent = biased + LEAST_EXPONENT
    return FINITE


cdef inline void term_of_integer(int64_t value, Term *term) noexcept nogil:
    term.is_negative = value < 0
    term.magnitude = <uint64_t> -<uint64_t> value if value < 0 else <uint64_t> value
    term.exponent = 0


cdef inline void add_word(
    uint64_t *words, uint32_t count, uint32_t place, uint64_t word
) noexcept nogil:
    cdef uint64_t carry = word
    while carry and place < count:
        words[place] += carry
        carry = words[place] < carry
        place += 1


cdef inline void subtract_word(
    uint64_t *words, uint32_t count, uint32_t place, uint64_t word
) noexcept nogil:
    cdef uint64_t borrow = word
    cdef uint64_t old
    while borrow and place < count:
        old = words[place]
        words[place] = old - borrow
        borrow = old < borrow
        place += 1


cdef inline void add_magnitude(
    uint64_t *words, uint32_t count, uint64_t magnitude, uint32_t shift, bint is_negative
) noexcept nogil:
    """Add or subtract magnitude * 2^shift; there is a word above the first that changes."""
    cdef uint32_t place = shift >> 6
    cdef uint32_t bits = shift & 63
    cdef uint64_t low = magnitude << bits
    cdef uint64_t high = magnitude >> 1 >> (63 - bits)
    cdef uint64_t first = words[place]
    cdef uint64_t second = words[place + 1]
    # PERF: the first carry is added without a branch, which random values would mislead: sums of
    # floats take two thirds of the time. `high` is below 2^63, so the carry fits.
    if is_negative:
        words[place] = first - low
        high += first < low
        words[place + 1] = second - high
        if second < high:
            subtract_word(words, count, place + 2, 1)
    else:
        words[place] = first + low
        high += words[place] < low
        words[place + 1] = second + high
        if words[place + 1] < second:
            add_word(words, count, place + 2, 1)


cdef inline double power_of_two(int exponent) noexcept nogil:
    """2^exponent, for exponents of normal floats."""
    cdef uint64_t bits = <uint64_t> (exponent + 1023) << 52
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef inline void add_product(
    uint64_t *words, uint32_t count, uint64_t left, uint64_t right, uint32_t shift,
    bint is_negative
) noexcept nogil:
    """Add or subtract left * right * 2^shift."""
    cdef uint64_t high
    cdef uint64_t low = multiply_words(left, right, 0, &high)
    add_magnitude(words, count, low, shift, is_negative)
    add_magnitude(words, count, high, shift + 64, is_negative)


cdef struct Numbers:
    # A number for each trace, of as many words as the values of all traces have needed so far.
    uint64_t *words
    uint32_t traces
    uint32_t width
    int exponent        # of the least bit; a multiple of 64


cdef inline uint64_t *number_of(const Numbers *numbers, size_t trace) noexcept nogil:
    return numbers.words + trace * numbers.width


cdef inline size_t number_bytes(const Numbers *numbers) noexcept nogil:
    return numbers.width * sizeof(uint64_t)


cdef inline bint has_place(const Numbers *numbers, int exponent, int bits) noexcept nogil:
    """Whether many terms with this exponent and so many bits fit into a number."""
    return exponent >= numbers.exponent and (
        exponent - numbers.exponent + bits + HEADROOM <= 64 * <int> numbers.width
    )


cdef inline void add_number(
    uint64_t *words, const uint64_t *other, uint32_t count, bint is_subtracted
) noexcept nogil:
    """Add a number to one of the same width, or subtract it."""
    cdef uint64_t fill = <uint64_t> -1 if is_subtracted else 0
    # a number is subtracted by adding its complement and one
    cdef uint64_t carry = is_subtracted
    cdef uint64_t word
    cdef uint32_t place
    for place in range(count):
        word = words[place] + carry
        carry = word < carry
        words[place] = word + (other[place] ^ fill)
        carry += words[place] < word


cdef struct Specials:
    # The numbers of infinities and NaN, which are not in exact sums.
    int64_t positive, negative, undefined


cdef inline void count_special(
    Specials *specials, FloatClass found, int64_t sign
) noexcept nogil:
    if found == NOT_A_NUMBER:
        specials.undefined += sign
    elif found == POSITIVE_INFINITY:
        specials.positive += sign
    elif found == NEGATIVE_INFINITY:
        specials.negative += sign


cdef inline bint has_specials(const Specials *specials) noexcept nogil:
    return (specials.positive | specials.negative | specials.undefined) != 0


cdef inline double special_sum(const Specials *specials) noexcept nogil:
    """The sum of infinities and NaN, of which there are some."""
    if specials.undefined or (specials.positive and specials.negative):
        return NAN
    return INFINITY if specials.positive else -INFINITY


cdef inline FloatClass term_of(bint is_float, int64_t cell, Term *term) noexcept nogil:
    """The term of an integer or float."""
    if is_float:
        return term_of_float(cell, term)
    term_of_integer(cell, term)
    return FINITE


# Defined in fixed_point.pxi.
cdef double rounded(const uint64_t *words, uint32_t count, int exponent) noexcept nogil
cdef int resize_numbers(Numbers *numbers, uint32_t traces) except -1 nogil
cdef Numbers widened(
    const Numbers *numbers, int exponent, int bits, bint is_doubled
) noexcept nogil
cdef void take_numbers(Numbers *numbers, const Numbers *wide) noexcept nogil
