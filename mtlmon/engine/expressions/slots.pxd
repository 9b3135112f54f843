# cython: language_level=3
"""Declarations for slots, the numbers of variables: fixed slots first, then blocks of families."""

from libc.stdint cimport uint32_t, uint64_t

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


# Kinds of variables, for masks of 64 bits that several kinds may share. Every fixed slot is a kind
# of its own, and every family has three kinds.
cdef enum KindOfFamily:
    KIND_TIME = 0       # the windows that time opens or ends
    KIND_OPEN = 1       # all open windows
    KIND_CLOSED = 2     # all closed windows
    KINDS_OF_FAMILY = 3


cdef inline uint64_t slot_bit(uint32_t slot) noexcept nogil:
    """The bit of a fixed slot's kind."""
    return <uint64_t> 1 << (slot & 63)


cdef inline uint64_t kind_bit(
    const SlotMap *slots, uint32_t family, KindOfFamily kind
) noexcept nogil:
    """The bit of one of the kinds of a family."""
    return <uint64_t> 1 << ((slots.fixed_count + KINDS_OF_FAMILY * family + kind) & 63)


cdef int init_slots(SlotMap *slots, uint32_t fixed_count, uint32_t family_count) except -1
cdef void free_slots(SlotMap *slots) noexcept nogil
cdef size_t held_by_slots(const SlotMap *slots) noexcept nogil
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
    """The family of a slot; NO_FAMILY for a fixed slot."""
    if slot < slots.fixed_count:
        return NO_FAMILY
    return slots.blocks[(slot - slots.fixed_count) // SLOTS_PER_BLOCK].family


cdef inline uint32_t member_of(const SlotMap *slots, uint32_t slot) noexcept nogil:
    """The member of its family that a slot represents."""
    cdef uint32_t number = slot - slots.fixed_count
    return slots.blocks[number // SLOTS_PER_BLOCK].first_member + number % SLOTS_PER_BLOCK
