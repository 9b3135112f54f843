# cython: language_level=3
"""Numbers for variables: fixed slots first, then blocks of slots, each block of one family."""

from libc.stdint cimport uint32_t

cdef enum:
    NO_FAMILY = 0xFFFFFFFF
    SLOTS_PER_BLOCK = 16


cdef struct FamilyBlocks:
    uint32_t *blocks        # numbers of its blocks, in order
    uint32_t count
    uint32_t capacity


cdef struct Block:
    uint32_t family
    uint32_t first_member


cdef struct SlotMap:
    uint32_t fixed_count
    uint32_t family_count
    FamilyBlocks *families
    Block *blocks
    uint32_t block_count
    uint32_t block_capacity


cdef int init_slots(SlotMap *slots, uint32_t fixed_count, uint32_t family_count) except -1
cdef void free_slots(SlotMap *slots) noexcept nogil
cdef int add_blocks(SlotMap *slots, uint32_t family, uint32_t member) except -1 nogil


cdef inline int slot_of(
    SlotMap *slots, uint32_t family, uint32_t member, uint32_t *slot
) except -1 nogil:
    """The slot of a member of a family of obligations."""
    cdef FamilyBlocks *own = &slots.families[family]
    if member // SLOTS_PER_BLOCK >= own.count:
        add_blocks(slots, family, member)
    slot[0] = (
        slots.fixed_count + own.blocks[member // SLOTS_PER_BLOCK] * SLOTS_PER_BLOCK
        + member % SLOTS_PER_BLOCK
    )
    return 0


cdef inline uint32_t family_of(const SlotMap *slots, uint32_t slot) noexcept nogil:
    """The family of a slot, NO_FAMILY for a fixed one."""
    if slot < slots.fixed_count:
        return NO_FAMILY
    return slots.blocks[(slot - slots.fixed_count) // SLOTS_PER_BLOCK].family


cdef inline uint32_t member_of(const SlotMap *slots, uint32_t slot) noexcept nogil:
    """The member of its family that a slot stands for."""
    cdef uint32_t number = slot - slots.fixed_count
    return slots.blocks[number // SLOTS_PER_BLOCK].first_member + number % SLOTS_PER_BLOCK
