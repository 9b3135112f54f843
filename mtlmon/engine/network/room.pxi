# cython: language_level=3
"""Room for the blocks of a queue network and for what is to be decided."""

from libc.stdint cimport SIZE_MAX, UINT32_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove, memset


cdef enum:
    LEAST_BLOCKS = 64


cdef inline bint lacks_room(const Network *network) noexcept nogil:
    return (
        network.count == network.capacity
        or network.count - network.first >= network.decision_room
    )


cdef int make_room(NetworkPlan plan, Network *network) except -1 nogil:
    """Make room for another block, and for the decision of everything undecided."""
    cdef int64_t shift
    cdef size_t needed
    if network.count == network.capacity:
        shift = network.first & ~<int64_t> 63
        if network.capacity == 0 or 2 * shift < network.capacity:
            move_blocks(plan, network, max(<int64_t> LEAST_BLOCKS, 2 * network.capacity), 0)
        else:
            move_blocks(plan, network, network.capacity, shift)
    needed = (
        <size_t> (network.count - network.first + 1)
        * (plan.variable_count + plan.pair_count + <size_t> 1)
        + 2 * MOST_VARIABLES * MOST_VARIABLES
    )
    reserve(
        <void **> &network.decisions, &network.decision_capacity, needed, sizeof(Decision)
    )
    network.decision_room = (
        (network.decision_capacity - 2 * MOST_VARIABLES * MOST_VARIABLES)
        // (plan.variable_count + plan.pair_count + 1)
    )
    return 0


cdef int move_blocks(
    NetworkPlan plan, Network *network, int64_t capacity, int64_t shift
) except -1 nogil:
    """Change the capacity, and drop the first `shift` blocks, a multiple of 64."""
    cdef size_t row = plan.block_words
    cdef size_t kept = <size_t> (network.count - shift)
    cdef size_t set_words = <size_t> words_of_set(capacity)
    cdef size_t set_count = (
        <size_t> plan.operator_count * QUEUE_SETS + <size_t> plan.pair_count * PAIR_SETS
    )
    cdef uint64_t *words
    cdef void *grown
    cdef Bits bits
    cdef Bits *old
    cdef uint32_t k, which
    cdef int64_t i
    cdef Queue *queue
    if <size_t> capacity > UINT32_MAX // 2 or (
        <size_t> capacity > SIZE_MAX // 4 // ((row + 1) * sizeof(TimeBlock))
    ):
        with gil:
            raise MemoryError("mtlmon: a table of the monitor has outgrown 2^31 items")
    words = <uint64_t *> zeros(set_count * set_words, sizeof(uint64_t))
    if capacity > network.capacity:
        grown = realloc(network.blocks, <size_t> capacity * sizeof(TimeBlock))
        if grown != NULL:
            network.blocks = <TimeBlock *> grown
            grown = realloc(
                network.functions, max(<size_t> 1, <size_t> capacity * row) * sizeof(uint64_t)
            )
        if grown == NULL:
            free(words)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        network.functions = <uint64_t *> grown
    if shift:
        memmove(network.blocks, network.blocks + shift, kept * sizeof(TimeBlock))
        memmove(
            network.functions, network.functions + <size_t> shift * row,
            kept * row * sizeof(uint64_t)
        )
    for k in range(plan.operator_count):
        queue = &network.queues[k]
        for which in range(QUEUE_SETS):
            old = &queue.sets[which]
            lay_out(&bits, words + (k * <size_t> QUEUE_SETS + which) * set_words, capacity)
            if has_sets(&plan.operators[k]):
                for i in range(bits.sizes[0]):
                    if i < (network.count - shift + 63) // 64:
                        bits.words[0][i] = old.words[0][i + shift // 64]
                    elif has_all(which):
                        bits.words[0][i] = ~<uint64_t> 0
                sum_up(&bits)
            old[0] = bits
        queue.open = max(<int64_t> 0, queue.open - shift)
        queue.settled = max(<int64_t> 0, queue.settled - shift)
        queue.lower_hint -= shift
        queue.upper_hint -= shift
        queue.start_hint -= shift
    for k in range(plan.pair_count):
        for which in range(PAIR_SETS):
            old = &network.pairs[k * PAIR_SETS + which]
            lay_out(
                &bits, words + (
                    plan.operator_count * <size_t> QUEUE_SETS + k * <size_t> PAIR_SETS + which
                ) * set_words, capacity
            )
            for i in range((network.count - shift + 63) // 64):
                bits.words[0][i] = old.words[0][i + shift // 64]
            sum_up(&bits)
            old[0] = bits
    free(network.set_words)
    network.set_words = words
    network.set_word_count = set_count * set_words
    network.capacity = capacity
    network.first -= shift
    network.count -= shift
    return 0


cdef inline bint has_all(uint32_t which) noexcept nogil:
    """Whether a set of a queue has all blocks that are still to come."""
    return which == NOT_TRUE or which == NOT_FALSE


cdef inline void sum_up(Bits *bits) noexcept nogil:
    """Set the higher levels of a set, which are empty, by its lowest one."""
    cdef int64_t i
    cdef int level
    for level in range(1, BIT_LEVELS):
        for i in range(bits.sizes[level - 1]):
            if bits.words[level - 1][i]:
                bits.words[level][i >> 6] |= <uint64_t> 1 << (i & 63)


cdef void empty_sets(NetworkPlan plan, Network *network) noexcept nogil:
    """Let the sets of all queues be as they are before the first block."""
    cdef uint32_t k, which
    cdef Bits *bits
    if network.set_word_count == 0:
        return
    memset(network.set_words, 0, network.set_word_count * sizeof(uint64_t))
    for k in range(plan.operator_count):
        for which in range(QUEUE_SETS):
            if has_sets(&plan.operators[k]) and has_all(which):
                bits = &network.queues[k].sets[which]
                memset(bits.words[0], 0xFF, <size_t> bits.sizes[0] * sizeof(uint64_t))
                sum_up(bits)


cdef inline int64_t words_of_set(int64_t capacity) noexcept nogil:
    cdef int64_t low = capacity // 64
    cdef int64_t middle = (low + 63) // 64
    return low + middle + (middle + 63) // 64


cdef inline void lay_out(Bits *bits, uint64_t *words, int64_t capacity) noexcept nogil:
    bits.sizes[0] = capacity // 64
    bits.sizes[1] = (bits.sizes[0] + 63) // 64
    bits.sizes[2] = (bits.sizes[1] + 63) // 64
    bits.words[0] = words
    bits.words[1] = bits.words[0] + bits.sizes[0]
    bits.words[2] = bits.words[1] + bits.sizes[1]
