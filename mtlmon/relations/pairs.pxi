# cython: language_level=3
"""Pairs of records with the same key that are valid at the same time."""


cdef struct Side:
    # A relation of a join.
    const int64_t *starts
    const int64_t *ends
    const int64_t *by_start     # NULL for the order of rows
    const uint32_t *keys
    size_t count, started
    uint32_t *first             # for each key, the record that has started last
    uint32_t *following         # for each record, the one of its key that started before it


cdef inline size_t row_to_start(const Side *side) noexcept nogil:
    return side.started if side.by_start == NULL else <size_t> side.by_start[side.started]


@final
cdef class Pairs:
    """Finds the pairs of records of two relations, some at a time, in order of their start.

    lefts, rights: the records; only the order of starts is used.
    left_keys, right_keys: a number for the key of each record; `keys` itself has no partner.
    keys: the number of keys.

    Raises ValueError for arrays of different lengths, or greater numbers of keys.

    Attributes:
        left, right: the rows of the pairs found last: the memory of arrays of type uint32.
    """

    cdef readonly object left, right
    cdef list held              # what the pointers of the sides point into
    cdef Side lefts, rights
    cdef uint32_t keys
    cdef uint32_t *found_lefts
    cdef uint32_t *found_rights
    cdef uint32_t found, left_room, right_room
    # the record whose partners are looked for, and the link to the next of them
    cdef size_t row
    cdef bint is_left
    cdef uint32_t *link

    def __cinit__(
        self, Timeline lefts not None, Numbering left_keys not None,
        Timeline rights not None, Numbering right_keys not None, uint32_t keys
    ):
        if left_keys.count != lefts.count or right_keys.count != rights.count:
            raise ValueError("the arrays are of different lengths")
        if keys == NONE or max(left_keys.limit, right_keys.limit) > keys + 1:
            raise ValueError("a number of a key is too great")
        self.keys = keys
        self.held = [lefts, left_keys, rights, right_keys]
        prepare(&self.lefts, lefts, left_keys, keys)
        prepare(&self.rights, rights, right_keys, keys)

    def __dealloc__(self):
        free(self.lefts.first)
        free(self.lefts.following)
        free(self.rights.first)
        free(self.rights.following)
        free(self.found_lefts)
        free(self.found_rights)

    def find(self, uint32_t limit):
        """Find up to so many more pairs; returns whether there may be more.

        Raises MemoryError if there is no memory for them.
        """
        cdef bint is_unfinished
        self.found = 0
        with nogil:
            is_unfinished = self.run(limit)
        self.left_room = self.right_room = 0
        self.left = block_of(<void **> &self.found_lefts, self.found, sizeof(uint32_t))
        self.right = block_of(<void **> &self.found_rights, self.found, sizeof(uint32_t))
        return is_unfinished

    cdef int run(self, uint32_t limit) except -1 nogil:
        cdef Side *lefts = &self.lefts
        cdef Side *rights = &self.rights
        while True:
            if self.link != NULL:
                if not self.follow(limit):
                    return 1
                self.link = NULL
            if lefts.started < lefts.count and (
                rights.started == rights.count
                or lefts.starts[row_to_start(lefts)] <= rights.starts[row_to_start(rights)]
            ):
                self.is_left = True
                self.begin(lefts, rights)
            elif rights.started < rights.count:
                self.is_left = False
                self.begin(rights, lefts)
            else:
                return 0

    cdef inline void begin(self, Side *own, Side *other) noexcept nogil:
        """Let the next record be found by others from now on, and look for its partners."""
        cdef uint32_t key
        self.row = row_to_start(own)
        own.started += 1
        key = own.keys[self.row]
        if key == self.keys:
            return
        own.following[self.row] = own.first[key]
        own.first[key] = <uint32_t> self.row
        self.link = &other.first[key]

    cdef inline int follow(self, uint32_t limit) except -1 nogil:
        """Put down the partners of the record; returns 0 if there are too many."""
        cdef Side *own = &self.lefts if self.is_left else &self.rights
        cdef Side *other = &self.rights if self.is_left else &self.lefts
        cdef int64_t start = own.starts[self.row]
        cdef uint32_t partner
        while self.link[0] != NONE:
            partner = self.link[0]
            if other.ends[partner] <= start:
                # it has ended, and no later record can be valid with it
                self.link[0] = other.following[partner]
                continue
            if self.found == limit:
                return 0
            self.put(partner)
            self.link = &other.following[partner]
        return 1

    cdef inline int put(self, uint32_t partner) except -1 nogil:
        cdef size_t needed = <size_t> self.found + 1
        reserve(<void **> &self.found_lefts, &self.left_room, needed, sizeof(uint32_t))
        reserve(<void **> &self.found_rights, &self.right_room, needed, sizeof(uint32_t))
        self.found_lefts[self.found] = <uint32_t> self.row if self.is_left else partner
        self.found_rights[self.found] = partner if self.is_left else <uint32_t> self.row
        self.found += 1
        return 0


cdef int prepare(Side *side, Timeline timeline, Numbering keys, uint32_t count) except -1:
    side.starts = timeline.starts
    side.ends = timeline.ends
    side.by_start = timeline.by_start
    side.keys = keys.numbers
    side.count = timeline.count
    side.first = new_links(count)
    side.following = new_links(timeline.count)
    return 0


cdef uint32_t *new_links(size_t count) except NULL:
    """Links that lead nowhere."""
    cdef uint32_t *links = <uint32_t *> zeros(count, sizeof(uint32_t))
    cdef size_t k
    for k in range(count):
        links[k] = NONE
    return links
