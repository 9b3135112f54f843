# cython: language_level=3
"""Process eight characters in a 64-bit word at once (SIMD within a register).

The first character is in the lowest byte, on machines of either byte order. The multiplications
that convert between eight digits and a number are widely known; see H. S. Warren, "Hacker's
Delight", chapters 2 and 6, for searching bytes in a word.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif

    /* A word as it is in memory, from or to one whose lowest byte comes first. */
    static inline uint64_t mtlmon_lowest_first(uint64_t word) {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        return __builtin_bswap64(word);
    #else
        return word;
    #endif
    }

    /* The 64 bytes at a place: bit i of `blanks` says whether the i-th is a blank or a control
       character, bit i of `others` whether it is one of ()", and delete. Without instructions
       for this, of which there is no portable form, nothing is found. */
    static inline void mtlmon_classify_64(
        const uint8_t *place, uint64_t *blanks, uint64_t *others
    ) {
        size_t part;
        *blanks = *others = 0;
    #ifdef __SSE2__
        for (part = 0; part < 64; part += 16) {
            __m128i text = _mm_loadu_si128((const __m128i *) (place + part));
            __m128i blank = _mm_cmpeq_epi8(_mm_min_epu8(text, _mm_set1_epi8(' ')), text);
            __m128i other = _mm_or_si128(
                _mm_or_si128(
                    _mm_cmpeq_epi8(text, _mm_set1_epi8('"')),
                    _mm_cmpeq_epi8(text, _mm_set1_epi8(','))
                ),
                _mm_or_si128(
                    _mm_cmpeq_epi8(_mm_or_si128(text, _mm_set1_epi8(1)), _mm_set1_epi8(')')),
                    _mm_cmpeq_epi8(text, _mm_set1_epi8(127))
                )
            );
            *blanks |= (uint64_t) (unsigned) _mm_movemask_epi8(blank) << part;
            *others |= (uint64_t) (unsigned) _mm_movemask_epi8(other) << part;
        }
    #else
        (void) place;
        (void) part;
    #endif
    }

    static const uint8_t mtlmon_first_bytes[32] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
    };
    """
    void classify_64 "mtlmon_classify_64"(
        const uint8_t *place, uint64_t *blanks, uint64_t *others
    ) noexcept nogil
    const uint8_t *first_bytes "mtlmon_first_bytes"
    uint64_t lowest_first "mtlmon_lowest_first"(uint64_t word) noexcept nogil
    int trailing_zeros "__builtin_ctzll"(unsigned long long word) noexcept nogil

cdef enum:
    WORD_SIZE = 8
    # one more than the largest number of eight digits
    EIGHT_DIGITS = 100000000


cdef inline uint64_t load_word(const uint8_t *place) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, place, sizeof(word))
    return lowest_first(word)


cdef inline void store_word(uint8_t *place, uint64_t word) noexcept nogil:
    word = lowest_first(word)
    memcpy(place, &word, sizeof(word))


cdef inline void store_half_word(uint8_t *place, uint32_t text) noexcept nogil:
    """Write the four characters in a 32-bit word."""
    cdef uint8_t characters[4]
    characters[0] = <uint8_t> text
    characters[1] = <uint8_t> (text >> 8)
    characters[2] = <uint8_t> (text >> 16)
    characters[3] = <uint8_t> (text >> 24)
    memcpy(place, characters, sizeof(characters))


cdef inline uint64_t find_byte(uint64_t word, uint8_t byte) noexcept nogil:
    """A word whose lowest set bit is the highest bit of the first such byte; 0 if there is none.

    The bits above that one are meaningless.
    """
    word ^= <uint64_t> byte * <uint64_t> 0x0101010101010101
    return (word - <uint64_t> 0x0101010101010101) & ~word & <uint64_t> 0x8080808080808080


cdef inline size_t found_at(uint64_t found) noexcept nogil:
    """The index of the byte that was found; `found` is not 0."""
    return <size_t> trailing_zeros(found) // 8


cdef inline void load_text(
    const uint8_t *place, size_t size, uint64_t *first, uint64_t *second
) noexcept nogil:
    """Load up to 16 characters into two words, padded with zeros; reads 16 bytes."""
    first[0] = load_word(place) & load_word(first_bytes + 2 * WORD_SIZE - size)
    second[0] = load_word(place + WORD_SIZE) & load_word(first_bytes + 3 * WORD_SIZE - size)


cdef inline uint64_t bytes_through(uint64_t found) noexcept nogil:
    """All bits of the bytes up to and including the one that was found."""
    return found ^ (found - 1)


cdef inline uint64_t digits_in(uint64_t text) noexcept nogil:
    """The digits in a word of text, each as a byte from 0 to 9; other characters are above 9."""
    return text ^ <uint64_t> 0x3030303030303030


cdef inline bint are_digits(uint64_t digits) noexcept nogil:
    """Whether all bytes of a result of `digits_in` are digits."""
    return (
        (digits | (digits + <uint64_t> 0x7676767676767676)) & <uint64_t> 0x8080808080808080
    ) == 0


cdef inline uint64_t value_of(uint64_t digits) noexcept nogil:
    """The number with these eight digits, most significant first."""
    digits = (digits * 10 + (digits >> 8)) & <uint64_t> 0x00FF00FF00FF00FF
    digits = (digits * 100 + (digits >> 16)) & <uint64_t> 0x0000FFFF0000FFFF
    return (digits * 10000 + (digits >> 32)) & <uint64_t> 0x00000000FFFFFFFF


cdef inline uint64_t digits_of(uint64_t value) noexcept nogil:
    """The eight digits of a number below 10^8, most significant first, as bytes from 0 to 9."""
    cdef uint64_t fours = value // 10000 | (value % 10000) << 32
    # 10486 / 2^20 and 103 / 2^10 are as good as 1/100 below 10,000 and 1/10 below 100
    cdef uint64_t hundreds = (fours * 10486 >> 20) & <uint64_t> 0x0000007F0000007F
    cdef uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16
    cdef uint64_t tens = (pairs * 103 >> 10) & <uint64_t> 0x000F000F000F000F
    return tens | (pairs - 10 * tens) << 8


cdef inline size_t leading_zeros(uint64_t digits) noexcept nogil:
    """How many zeros to omit before writing digits; the last digit always stays."""
    return <size_t> trailing_zeros(digits | <uint64_t> 1 << 63) // 8


cdef inline uint64_t text_of(uint64_t digits) noexcept nogil:
    return digits | <uint64_t> 0x3030303030303030


cdef inline bint is_digit(uint8_t byte) noexcept nogil:
    return <uint8_t> (byte - c'0') < 10
