# cython: language_level=3
"""Exact sums: integers of many words in two's complement, as multiples of a power of two.

A running sum of floats would depend on what has left the window. Here, the order of additions does
not matter, and a subtraction exactly undoes an addition; words are added when a value does not fit.
Only the result is rounded, once, to the nearest float: it is that of `math.fsum`. Variances have
sums of squares that are exact in the same way.
"""

from libc.math cimport ldexp

from mtlmon.engine.native cimport damaged


cdef double rounded(const uint64_t *words, uint32_t count, int exponent) noexcept nogil:
    """The float nearest to words * 2^exponent; ties go to the even one."""
    cdef bint is_negative = count > 0 and words[count - 1] >> 63
    cdef uint64_t fill = <uint64_t> -1 if is_negative else 0
    cdef uint64_t top = 0
    cdef uint64_t below = 0
    cdef bint rest = False
    cdef int last = <int> count - 1
    cdef int lowest = 0
    cdef int zeros, place
    cdef double value
    while last >= 0 and words[last] == fill:
        last -= 1
    while lowest < <int> count and words[lowest] == 0:
        lowest += 1
    if lowest == <int> count:
        return 0.0
    # The magnitude of a negative number is its complement plus one, which carries through the
    # words that are 0. So no word is 0 at `last`, and none below `lowest` is another than 0.
    if is_negative:
        last = max(last, lowest)
        top = ~words[last] + (last == lowest)
        if last > lowest:
            below = ~words[last - 1] + (last - 1 == lowest)
    else:
        top = words[last]
        if last > 0:
            below = words[last - 1]
    rest = lowest < last - 1
    zeros = count_leading_zeros(top)
    if zeros:
        rest |= (below << zeros) != 0
        top = top << zeros | below >> (64 - zeros)
    else:
        rest |= below != 0
    # Signed integers are converted faster. The last bit says whether anything is below.
    place = 64 * last - zeros + exponent + 1
    value = <double> <int64_t> (top >> 1 | top & 1 | rest)
    if place > -1000 and place < 900:
        value *= power_of_two(place)
    else:
        value = ldexp(value, place)
    return -value if is_negative else value


cdef int resize_numbers(Numbers *numbers, uint32_t traces) except -1 nogil:
    """Make room for more traces; their numbers are 0."""
    resized(<void **> &numbers.words, traces, number_bytes(numbers))
    memset(
        number_of(numbers, numbers.traces), 0, (traces - numbers.traces) * number_bytes(numbers)
    )
    numbers.traces = traces
    return 0


cdef Numbers widened(
    const Numbers *numbers, int exponent, int bits, bint is_doubled
) noexcept nogil:
    """Numbers in which terms have a place; with words, if there is memory for them.

    is_doubled: whether there are two words for each, at twice the exponent, for squares.
    """
    cdef Numbers found
    cdef int low = numbers.exponent
    cdef int high = numbers.exponent + 64 * <int> numbers.width
    while low > exponent:
        low -= 64
    while high < exponent + bits + HEADROOM:
        high += 64
    found.words = NULL
    found.traces = numbers.traces
    found.exponent = low * (1 + is_doubled)
    found.width = <uint32_t> ((high - low) // 64) * (1 + is_doubled)
    has_resized(<void **> &found.words, numbers.traces, number_bytes(&found))
    return found


cdef object most_words(const Numbers *numbers, bint is_float, int bits):
    """The most words that a number needs for terms of so many bits."""
    cdef int low = numbers.exponent
    cdef int high = numbers.exponent + 64 * <int> numbers.width
    if is_float:
        while low > LEAST_EXPONENT:
            low -= 64
        # the exponent of the last bit of the largest floats
        while high < EXPONENT_BITS - 2 + LEAST_EXPONENT + bits + HEADROOM:
            high += 64
    return (high - low) // 64


cdef void take_number(
    uint64_t *target, const Numbers *wide, const uint64_t *source, const Numbers *numbers
) noexcept nogil:
    """Copy a number to a wider one."""
    cdef uint32_t below = <uint32_t> ((numbers.exponent - wide.exponent) // 64)
    cdef uint64_t fill = <uint64_t> -1 if source[numbers.width - 1] >> 63 else 0
    cdef uint32_t place
    for place in range(wide.width):
        if place < below:
            target[place] = 0
        elif place < below + numbers.width:
            target[place] = source[place - below]
        else:
            target[place] = fill


cdef void take_numbers(Numbers *numbers, const Numbers *wide) noexcept nogil:
    """Move numbers to wider ones."""
    cdef size_t trace
    for trace in range(numbers.traces):
        take_number(number_of(wide, trace), wide, number_of(numbers, trace), numbers)
    free(numbers.words)
    numbers[0] = wide[0]


cdef int write_numbers(const Numbers *numbers, NumberWriter writer) except -1:
    cdef size_t place
    writer.put(numbers.width)
    writer.put(zigzag(numbers.exponent))
    writer.put(numbers.traces)
    for place in range(<size_t> numbers.traces * numbers.width):
        writer.put(numbers.words[place])
    return 0


cdef int read_width(Numbers *numbers, NumberReader reader) except -1:
    """Read how wide numbers are."""
    cdef uint64_t width = reader.get(MOST_WORDS)
    cdef int64_t exponent = unzigzag(reader.get(UINT64_MAX))
    if width < 2 or exponent % 64 or not -64 * MOST_WORDS < exponent <= 0:
        raise damaged()
    numbers.width = <uint32_t> width
    numbers.exponent = <int> exponent
    return 0


cdef int clear_numbers(Numbers *numbers) except -1:
    """Let all numbers be 0, with their present width."""
    cdef uint32_t traces = numbers.traces
    numbers.traces = 0
    return resize_numbers(numbers, traces)


cdef int read_numbers(Numbers *numbers, NumberReader reader) except -1:
    """Read numbers in the place of those that there are."""
    cdef uint64_t traces
    cdef size_t place
    read_width(numbers, reader)
    traces = reader.get_count(numbers.width)
    if traces > MOST_TRACES:
        raise damaged()
    numbers.traces = 0
    resize_numbers(numbers, <uint32_t> traces)
    for place in range(<size_t> traces * numbers.width):
        numbers.words[place] = reader.get(UINT64_MAX)
    return 0


cdef int write_specials(const Specials *specials, NumberWriter writer) except -1:
    writer.put(<uint64_t> specials.positive)
    writer.put(<uint64_t> specials.negative)
    writer.put(<uint64_t> specials.undefined)
    return 0


cdef int read_specials(Specials *specials, NumberReader reader) except -1:
    specials.positive = <int64_t> reader.get(INT64_MAX)
    specials.negative = <int64_t> reader.get(INT64_MAX)
    specials.undefined = <int64_t> reader.get(INT64_MAX)
    return 0


cdef double variance(
    const uint64_t *sums, const uint64_t *squares, uint32_t width, int exponent, int64_t count
) noexcept nogil:
    """The variance of a sample, rounded once, from exact sums of its values and their squares.

    It is (count * squares - sums^2) / (count * (count - 1)). The sums are multiples of 2^exponent,
    those of squares of 2^(2 * exponent). Above 2^32 values, the quotient is rounded twice more.
    """
    cdef uint64_t magnitude[MOST_WORDS]
    cdef uint64_t rest[MOST_WORDS]
    cdef bint is_negative = sums[width - 1] >> 63
    cdef uint64_t carry = is_negative
    cdef uint32_t words = 2 * width + 1
    cdef uint32_t i, j
    cdef uint64_t low, high
    cdef double value
    for i in range(width):
        magnitude[i] = (~sums[i] if is_negative else sums[i]) + carry
        carry = carry and magnitude[i] == 0
    carry = 0
    for i in range(2 * width):
        rest[i] = multiply_words(squares[i], <uint64_t> count, carry, &high)
        carry = high
    rest[2 * width] = carry
    for i in range(width):
        if magnitude[i]:
            for j in range(width):
                low = multiply_words(magnitude[i], magnitude[j], 0, &high)
                subtract_word(rest, words, i + j, low)
                subtract_word(rest, words, i + j + 1, high)
    if count >> 32:
        value = rounded(rest, words, 2 * exponent)
        return value / <double> count / <double> (count - 1)
    return quotient(rest, words, 2 * exponent, <uint64_t> count * <uint64_t> (count - 1))


cdef double quotient(
    const uint64_t *words, uint32_t count, int exponent, uint64_t divisor
) noexcept nogil:
    """The float nearest to words / divisor * 2^exponent, for a natural number in the words."""
    cdef uint64_t digits[5]
    cdef uint64_t rest = 0
    cdef int top = <int> count - 1
    cdef int place
    cdef bint has_more = False
    while top >= 0 and words[top] == 0:
        top -= 1
    # Four words leave at least 128 bits above the point, so the rest only decides ties.
    for place in range(4):
        digits[place] = words[top - 3 + place] if top - 3 + place >= 0 else 0
    for place in range(top - 3):
        has_more |= words[place] != 0
    for place in range(3, -1, -1):
        digits[place] = divide_words(rest, digits[place], divisor, &rest)
    digits[0] |= has_more or rest != 0
    digits[4] = 0
    return rounded(digits, 5, exponent + 64 * (top - 3))
