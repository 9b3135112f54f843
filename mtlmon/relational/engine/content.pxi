# cython: language_level=3
"""Sums of what states hold: two engines with equal sums give the same answers from now on.

A state as bytes has more than what it answers: the numbers of time-points and of slots, rows that
have left their intervals, and how much of an inbox has been taken in. So an engine that has taken
in one event more, long ago, has other bytes. The sum leaves that out:

- States that only the present looks at are advanced to the last time-point first. They hold no
  number of a time-point then that anything compares, only time-stamps; rows are added up by their
  hashes, so that their order does not matter.
- Elsewhere, a time-point is said by how many follow it, as engines compare the numbers of
  time-points with each other only. Where nothing simpler is known to be right, all that the bytes
  have is in the sum, so that two sums may differ for states that answer alike, never the other way.

There is no sum if numbers of time-points are values, or if ordinary monitors decide a policy.

A sum has 128 bits. It is made when a chunk of a log with late events begins, from all that states
hold, which takes less time than to write them; rows that come cost nothing.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from *:
    """
    #include <stdint.h>

    typedef struct { uint64_t low, high; } mtlmon_sum;

    static inline uint64_t mtlmon_spread(uint64_t value) {
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ULL;
        value = (value ^ value >> 27) * 0x94D049BB133111EBULL;
        return value ^ value >> 31;
    }

    /* Let a sum depend on a word, and on its place among others. */
    static inline void mtlmon_stir(mtlmon_sum *sum, uint64_t word) {
        sum->low = mtlmon_spread(sum->low * 0x9E3779B97F4A7C15ULL + word + 1);
        sum->high = (sum->high ^ word) * 0xD1B54A32D192ED03ULL + 0x632BE59BD9B4E019ULL;
        sum->high = mtlmon_spread(sum->high);
    }
    """
    ctypedef struct Sum "mtlmon_sum":
        uint64_t low
        uint64_t high
    void stir "mtlmon_stir"(Sum *sum, uint64_t word) noexcept nogil


cdef enum Tag:
    # what an element is of; each inbox of a left side has one more
    OF_HEAD
    OF_SLOT
    OF_ENTRY
    OF_TIME
    OF_SPAN
    OF_INBOX
    OF_LEFT


cdef inline uint64_t behind(uint64_t points, uint64_t number) noexcept nogil:
    """How many time-points there are from one on; 0 if there is none yet."""
    return 0 if number == NOWHERE else points - number + 1


cdef inline Sum element_of(Tag tag, const int64_t *cells, size_t width) noexcept nogil:
    """Begin an element of a sum with a row."""
    cdef Sum sum
    cdef size_t k
    sum.low = sum.high = <uint64_t> tag
    for k in range(width):
        stir(&sum, <uint64_t> cells[k])
    return sum


cdef inline void add_element(Sum *total, Sum *element) noexcept nogil:
    """Add an element, in whatever order."""
    stir(element, 0)
    total.low += element.low
    total.high += element.high


cdef void add_queue(
    Sum *total, const RowQueue *queue, Tag tag, uint64_t points, uint64_t least,
    bint has_numbers
) noexcept nogil:
    """Add the rows of a queue, from a time-point on, with its number or without."""
    cdef size_t k, row, cell = queue.first_cell
    cdef const QueuedPoint *point
    cdef Sum element
    for k in range(queue.first_point, queue.point_count):
        point = &queue.points[k]
        for row in range(point.count if point.point >= least else 0):
            element = element_of(tag, queue.cells + cell + row * queue.width, queue.width)
            stir(&element, <uint64_t> point.time_stamp)
            if has_numbers:
                stir(&element, behind(points, point.point))
            add_element(total, &element)
        cell += point.count * queue.width


cdef void add_left(Sum *total, const Left *left, uint32_t number, uint64_t points) noexcept nogil:
    """Add what a conjunct of a left side knows."""
    cdef size_t k
    cdef uint32_t place
    cdef Sum own, element
    own.low = own.high = number
    add_queue(&own, &left.inbox, OF_INBOX, points, 0, True)
    for k in range(left.by_row.mask + 1):
        place = left.by_row.heads[k]
        if place != NONE:
            element = element_of(OF_LEFT, row_of(&left.known, place), left.known.width)
            stir(&element, behind(points, left.latest[place]))
            stir(&element, behind(points, left.starts[place]))
            add_element(&own, &element)
    add_element(total, &own)


cdef void add_spans(Sum *total, const State *spans, uint64_t points) noexcept nogil:
    """Add spans: those that have not ended, and the others."""
    cdef State *parent = spans.parent
    cdef uint32_t slot = parent.first_live
    cdef uint32_t span
    cdef size_t k
    cdef Sum element
    while slot != NONE:
        span = open_span(spans, cells_of(parent, slot))
        if span != NONE:
            element = element_of(OF_SLOT, cells_of(spans, span), spans.rows.width)
            stir(&element, behind(points, spans.slots[span].head))
            add_element(total, &element)
        slot = parent.slots[slot].next_live
    for k in range(spans.first_entry, spans.entry_end):
        span = spans.entries[k].slot
        element = element_of(OF_SPAN, cells_of(spans, span), spans.rows.width)
        stir(&element, <uint64_t> spans.entries[k].time_stamp)
        stir(&element, behind(points, spans.slots[span].head))
        stir(&element, behind(points, spans.slots[span].tail))
        add_element(total, &element)


cdef void add_slots(Sum *total, const State *state) noexcept nogil:
    """Add the rows of a state without a bound, which has no entries."""
    cdef uint32_t slot = state.first_live
    cdef const Slot *one
    cdef Sum element
    cdef uint64_t missed
    while slot != NONE:
        one = &state.slots[slot]
        missed = state.total - one.references if state.kind == COUNTS else 0
        # a row that was missing once is missing for ever
        if not missed or state.grouping_count:
            element = element_of(OF_SLOT, cells_of(state, slot), state.rows.width)
            stir(&element, missed)
            if state.kind == SINCE_STATE and state.now - one.time_stamp < state.lower:
                stir(&element, <uint64_t> one.time_stamp + 1)
            add_element(total, &element)
        slot = one.next_live


cdef void add_entries(
    Sum *total, const State *state, uint64_t points, uint64_t least, bint has_numbers
) noexcept nogil:
    """Add the entries that count, from a time-point on, with its number or without."""
    cdef size_t k
    cdef const Entry *entry
    cdef Sum element
    for k in range(state.first_entry, state.entry_end):
        entry = &state.entries[k]
        if entry.slot == NONE or entry.epoch != state.slots[entry.slot].epoch or (
            entry.point < least
        ):
            continue
        element = element_of(
            # whether it has been taken in is nothing that a window ahead depends on
            OF_INBOX if state.is_future and state.kind != UNTIL_STATE else OF_ENTRY,
            cells_of(state, entry.slot), state.rows.width
        )
        stir(&element, <uint64_t> entry.time_stamp)
        if has_numbers:
            stir(&element, behind(points, entry.point))
        if state.kind == UNTIL_STATE and entry.since and (
            state.position == NOWHERE or entry.since > state.position
        ):
            stir(&element, behind(points, entry.since))
        add_element(total, &element)


cdef void add_times(
    Sum *total, const State *state, uint64_t points, uint64_t least, bint has_numbers
) noexcept nogil:
    """Add the time-points that count, or wait for it, of a state that counts them."""
    cdef size_t k
    cdef Sum element
    for k in range(state.first_time, state.time_end):
        if state.times[k].point < least:
            continue
        element = element_of(OF_TIME, NULL, 0)
        stir(&element, <uint64_t> state.times[k].time_stamp)
        if has_numbers:
            stir(&element, behind(points, state.times[k].point))
        add_element(total, &element)


cdef void add_state(Sum *total, const State *state, uint64_t points, uint64_t least) noexcept nogil:
    """Add what a state holds.

    points: how many time-points there are.
    least: the first one at which a late block is still to be run.
    """
    cdef Sum own
    cdef uint32_t k
    # whether it stands at the last time-point, so that all numbers are before what follows
    cdef bint is_settled = not state.is_future and state.position == points - 1
    # whether it is all about the time-points that come behind those that look at it
    cdef bint is_ahead = state.is_future and state.upper >= 0 and (
        state.kind == WINDOW or state.kind == COUNTS
    )
    cdef bint has_numbers = not is_settled or state.is_exact
    own.low = own.high = OF_HEAD
    if state.kind == GROUPS:
        # the rows of the parent say all
        return
    if state.kind == SPANS:
        add_spans(&own, state, points)
        add_element(total, &own)
        return
    if is_settled and state.kind == PRESENT:
        # nothing asks about the last time-point again
        return
    if is_settled and state.kind == NEIGHBOUR:
        add_queue(&own, &state.inbox, OF_INBOX, points, points - 1, False)
        add_element(total, &own)
        return
    if not is_settled and not is_ahead:
        stir(&own, behind(points, state.position))
        stir(&own, <uint64_t> state.now)
        if state.kind == SINCE_STATE:
            stir(&own, behind(points, state.processed))
    if not is_ahead:
        least = 0
    for k in range(state.left_count):
        add_left(&own, &state.lefts[k], k, points)
    add_queue(
        &own, &state.inbox, OF_INBOX, points, least,
        has_numbers or state.kind == SINCE_STATE
    )
    if state.kind == COUNTS:
        if not is_settled and not is_ahead:
            stir(&own, state.window_end - state.first_time)
            stir(&own, state.total)
        elif state.upper < 0:
            stir(&own, state.total > 0)
        add_times(&own, state, points, least, has_numbers)
    if state.upper < 0 and state.kind != UNTIL_STATE:
        add_slots(&own, state)
    add_entries(&own, state, points, least, has_numbers)
    add_element(total, &own)


cdef void add_log(
    Sum *total, RelationalEngine engine, Timeline timeline, uint64_t least
) noexcept nogil:
    """Add the time-points that are undecided, the last one, and what waits for late blocks."""
    cdef uint64_t points = timeline.point_count
    cdef uint64_t number = min(least, points - 1)
    cdef size_t k, first = engine.taken_count
    cdef const LateQuery *late
    cdef const Query *query
    stir(total, <uint64_t> timeline.clock)
    stir(total, timeline.is_closed)
    while number < points:
        stir(total, <uint64_t> timeline.time_of(number).time_stamp)
        stir(total, timeline.time_of(number).offset)
        number += 1
    for k in range(timeline.late_count):
        late = &timeline.late[k]
        stir(total, behind(points, late.position))
        first = min(first, <size_t> (engine.queries[late.query].done - engine.taken_base))
    for k in range(first, engine.taken_count):
        stir(total, behind(points, engine.taken[k]))
    for k in range(engine.query_count):
        query = &engine.queries[k]
        stir(total, k)
        add_queue(total, &query.waiting, OF_INBOX, points, 0, True)
        for first in range(query.kept.count):
            stir(total, first)
            add_queue(total, &query.kept_rows[first], OF_LEFT, points, 0, True)


cdef int advance_present(RelationalEngine engine) except -1 nogil:
    """Let the states that only the present looks at stand at the last time-point."""
    cdef uint64_t last = engine.timeline.point_count - 1
    cdef int64_t now = engine.timeline.time_of(last).time_stamp
    cdef State *state
    cdef size_t k
    for k in range(engine.state_count):
        state = &engine.states[k]
        if state.is_present and not state.is_eager and not state.is_future:
            advance_state(state, last, now)
    return 0


cdef int find_present(RelationalEngine engine) except -1:
    """Find the states at which early blocks look and late blocks do not."""
    cdef Query *query
    cdef State *state
    cdef size_t k, j
    for k in range(engine.query_count):
        query = &engine.queries[k]
        for j in range(query.early_states.count):
            engine.states[query.early_states.of[j]].is_present = True
    for k in range(engine.query_count):
        query = &engine.queries[k]
        for j in range(query.late_states.count):
            state = &engine.states[query.late_states.of[j]]
            state.is_present = False
            if state.parent != NULL:
                state.parent.is_present = False
    for k in range(engine.state_count):
        state = &engine.states[k]
        if state.parent != NULL and not state.parent.is_present:
            state.is_present = False
    return 0


cdef object sum_of(RelationalEngine engine):
    """The sum of what an engine holds as bytes, or None if there is none."""
    cdef Sum total
    cdef uint64_t points = engine.timeline.point_count
    cdef uint64_t least = points
    cdef size_t k
    if engine.point_atom != NONE or engine.has_closed or engine.timeline.is_of_stamps or not points:
        return None
    with nogil:
        advance_present(engine)
        for k in range(engine.timeline.late_count):
            least = min(least, engine.timeline.late[k].position)
        total.low = total.high = OF_HEAD
        for k in range(engine.state_count):
            stir(&total, k)
            add_state(&total, &engine.states[k], points, least)
        add_log(&total, engine, engine.timeline, least)
    return PyBytes_FromStringAndSize(<const char *> &total, sizeof(Sum))
