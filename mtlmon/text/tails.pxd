# cython: language_level=3
"""A memo of tails, the text of short lines after the time-stamp, with their letters.

A tail begins right after a time-stamp and ends with its only line feed. Short tails, of up to 16
bytes, are kept in two words padded with zeros and compared as a whole, so a recalled letter is
always what reading the tail would yield. Most logs of short lines have few different tails; if
there are many, a bucket forgets the older of its two tails.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef enum:
    LONGEST_TAIL = 16
    TAIL_BUCKET_BITS = 9
    TAIL_BUCKETS = 1 << TAIL_BUCKET_BITS
    # PERF: new tails are learned immediately as long as few were new; later one in 16, so that
    # tails that hardly ever recur cost little
    LEARNED_AT_ONCE = 1 << 12
    LEARNED_LATER = 16


cdef struct Tail:
    uint64_t first, second
    uint64_t letter


cdef struct TailBucket:
    # the newer tail, then the older one
    Tail tails[2]


cdef struct TailMemo:
    # NULL if there is no memo
    TailBucket *buckets
    size_t new_count


cdef inline const uint8_t *recall_tail(
    const TailMemo *memo, const uint8_t *text, uint64_t *letter
) noexcept nogil:
    """Look up the letter of the tail at a place; return the next line, or NULL if not known.

    LONGEST_TAIL bytes must be readable.

    PERF: the branch on the place of the line feed costs little if lines are short; finding it among
    16 bytes without a branch took 0.6 ns more for every line.
    """
    cdef uint64_t first = load_word(text)
    cdef uint64_t second
    cdef uint64_t line_feed = find_byte(first, c'\n')
    if line_feed != 0:
        if find_tail(memo, first & bytes_through(line_feed), 0, letter):
            return text + found_at(line_feed) + 1
        return NULL
    second = load_word(text + WORD_SIZE)
    line_feed = find_byte(second, c'\n')
    if line_feed != 0 and find_tail(memo, first, second & bytes_through(line_feed), letter):
        return text + WORD_SIZE + found_at(line_feed) + 1
    return NULL


cdef inline bint find_tail(
    const TailMemo *memo, uint64_t first, uint64_t second, uint64_t *letter
) noexcept nogil:
    cdef const Tail *tail = bucket_of(memo, first, second).tails
    if not is_tail(tail, first, second):
        tail += 1
        if not is_tail(tail, first, second):
            return False
    letter[0] = tail.letter
    return True


cdef inline TailBucket *bucket_of(
    const TailMemo *memo, uint64_t first, uint64_t second
) noexcept nogil:
    cdef uint64_t hash = (
        first * <uint64_t> 0x9E3779B97F4A7C15 ^ second * <uint64_t> 0xD6E8FEB86659FD93
    )
    return memo.buckets + (hash >> (64 - TAIL_BUCKET_BITS))


cdef inline bint is_tail(const Tail *tail, uint64_t first, uint64_t second) noexcept nogil:
    return ((tail.first ^ first) | (tail.second ^ second)) == 0


cdef inline void learn_tail(
    TailMemo *memo, const uint8_t *text, size_t size, uint64_t letter
) noexcept nogil:
    """Add a tail that was read; LONGEST_TAIL bytes must be readable."""
    cdef uint64_t first, second
    cdef TailBucket *bucket
    memo.new_count += 1
    if memo.new_count > LEARNED_AT_ONCE and memo.new_count % LEARNED_LATER != 0:
        return
    load_text(text, size, &first, &second)
    bucket = bucket_of(memo, first, second)
    if not is_tail(bucket.tails, first, second):
        bucket.tails[1] = bucket.tails[0]
        bucket.tails[0] = Tail(first=first, second=second, letter=letter)
