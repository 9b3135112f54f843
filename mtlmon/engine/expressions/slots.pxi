# cython: language_level=3
"""Number the variables: fixed slots first, then blocks of slots, with one family per block.

The family of a slot never changes, whatever its variable means, so properties of expressions that
depend only on families can be stored with the expressions.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef int init_slots(SlotMap *slots, uint32_t fixed_count, uint32_t family_count) except -1:
    memset(slots, 0, sizeof(SlotMap))
    slots.fixed_count = fixed_count
    slots.families = <FamilyBlocks *> calloc(<size_t> family_count + 1, sizeof(FamilyBlocks))
    if slots.families == NULL:
        raise MemoryError("mtlmon: out of memory")
    slots.family_count = family_count
    return 0


cdef void free_slots(SlotMap *slots) noexcept nogil:
    cdef uint32_t family
    for family in range(slots.family_count):
        free(slots.families[family].blocks)
    free(slots.families)
    free(slots.blocks)
    memset(slots, 0, sizeof(SlotMap))


cdef size_t held_by_slots(const SlotMap *slots) noexcept nogil:
    """The bytes that the numbers of slots take."""
    cdef size_t held = slots.block_capacity * sizeof(Block)
    cdef uint32_t family
    for family in range(slots.family_count):
        held += sizeof(FamilyBlocks) + slots.families[family].capacity * sizeof(uint32_t)
    return held


cdef int add_blocks(SlotMap *slots, uint32_t family, uint32_t member) except -1 nogil:
    """Give the family as many blocks as the member requires."""
    cdef FamilyBlocks *own = &slots.families[family]
    while member // SLOTS_PER_BLOCK >= own.count:
        reserve(
            <void **> &slots.blocks, &slots.block_capacity, <size_t> slots.block_count + 1,
            sizeof(Block)
        )
        reserve(
            <void **> &own.blocks, &own.capacity, <size_t> own.count + 1, sizeof(uint32_t)
        )
        slots.blocks[slots.block_count].family = family
        slots.blocks[slots.block_count].first_member = own.count * SLOTS_PER_BLOCK
        own.blocks[own.count] = slots.block_count
        own.count += 1
        slots.block_count += 1
    return 0
