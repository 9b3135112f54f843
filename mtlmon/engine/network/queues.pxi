# cython: language_level=3
"""Queues of undecided blocks: what operands do in a block decides others, in any order.

A block *p* tells two things of a temporal's operands: whether the left one holds throughout it, and
whether there is a witness in it: a time-point at which the right operand holds, and the left one at
all time-points of the block between it and the anchor. Both are true, false or not known. An anchor
is a block whose variable is undecided. For UNTIL, that is whether a later block has a witness, its
distance in the interval, and the left operand holds in all blocks between; SINCE is the mirror
image, with earlier blocks.

Each change looks through the anchors that it decides, and only those, or through the smaller side
of two that it joins. Bitmaps with summary levels find neighbours (`bits`). Decisions go through a
stack (`_settle`) until nothing more follows; verdicts are sorted at the end of the event.

Operators whose operands are known at once decide in order, so a pointer replaces the bitmaps; and a
SINCE over such operands has no variable, only spans of witnesses.
"""

from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove


# ---- time --------------------------------------------------------------------------------------


cdef inline uint64_t later_by(uint64_t time_stamp, uint64_t distance) noexcept nogil:
    """A sum that does not overflow."""
    return UINT64_MAX if distance > UINT64_MAX - time_stamp else time_stamp + distance


cdef inline int64_t first_at(
    const Network *network, uint64_t time_stamp, int64_t hint
) noexcept nogil:
    """The first block whose time-stamp is not below `time_stamp`, or the number of blocks."""
    cdef const TimeBlock *blocks = network.blocks
    cdef int64_t low, high, middle
    cdef int64_t step = 1
    hint = max(network.first, min(hint, network.count))
    if hint < network.count and blocks[hint].time_stamp < time_stamp:
        low = hint
        while low + step < network.count and blocks[low + step].time_stamp < time_stamp:
            low += step
            step *= 2
        high = min(network.count, low + step)
        low += 1
    else:
        high = hint
        while high - step >= network.first and blocks[high - step].time_stamp >= time_stamp:
            high -= step
            step *= 2
        low = max(network.first, high - step)
    while low < high:
        middle = (low + high) // 2
        if blocks[middle].time_stamp < time_stamp:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int64_t first_behind(
    const Network *network, uint64_t time_stamp, int64_t hint
) noexcept nogil:
    """The first block whose time-stamp is above `time_stamp`, or the number of blocks."""
    if time_stamp == UINT64_MAX:
        return network.count
    return first_at(network, time_stamp + 1, hint)


cdef inline int64_t first_near(
    const Network *network, uint64_t time_stamp, int64_t *hint
) noexcept nogil:
    """What `first_at` finds; the next search begins there.

    PERF: with bounds of 50 and 300, searches that began at the block itself took a tenth of the
    time of an event.
    """
    hint[0] = first_at(network, time_stamp, hint[0])
    return hint[0]


# ---- decisions ---------------------------------------------------------------------------------


cdef inline void push(
    Network *network, int64_t position, uint32_t temporal, uint8_t worth
) noexcept nogil:
    """Note that a variable is decided. There is room for all variables of all blocks."""
    cdef Decision *decision = &network.decisions[network.decision_count]
    decision.position = position
    decision.temporal = temporal
    decision.worth = worth
    network.decision_count += 1


cdef inline void lose_anchor(Queue *queue, int64_t anchor) noexcept nogil:
    clear_bit(&queue.sets[UNDECIDED], anchor)
    queue.undecided_count -= 1
    queue.late_count -= anchor < queue.open


cdef inline void decide_anchor(
    Network *network, uint32_t temporal, int64_t anchor, uint8_t worth
) noexcept nogil:
    lose_anchor(&network.queues[temporal], anchor)
    push(network, anchor, temporal, worth)


cdef void decide_range(
    Network *network, uint32_t temporal, int64_t start, int64_t end, uint8_t worth
) noexcept nogil:
    """Decide the anchors from `start` up to and including `end`."""
    cdef Queue *queue = &network.queues[temporal]
    cdef int64_t anchor
    if queue.undecided_count == 0 or start > end:
        return
    anchor = next_bit(&queue.sets[UNDECIDED], start, network.count)
    while anchor <= end and anchor < network.count:
        decide_anchor(network, temporal, anchor, worth)
        if queue.undecided_count == 0:
            return
        anchor = next_bit(&queue.sets[UNDECIDED], anchor + 1, network.count)


# ---- UNTIL -------------------------------------------------------------------------------------


cdef inline int64_t window_start(
    const Network *network, const Operator *temporal, int64_t anchor
) noexcept nogil:
    """The first block that can be a witness for an anchor."""
    if temporal.lower == 0:
        return anchor + 1
    return max(
        anchor + 1,
        first_near(
            network, network.blocks[anchor].time_stamp + temporal.lower,
            &network.queues[temporal.number].start_hint
        ),
    )


cdef inline uint64_t window_end(
    const Network *network, const Operator *temporal, int64_t anchor
) noexcept nogil:
    return end_of_window(network.blocks[anchor].time_stamp, temporal.upper)


cdef inline uint64_t first_with_window(
    const Network *network, const Operator *temporal
) noexcept nogil:
    """The least time-stamp whose window is not over."""
    if network.now > MAX_TIME_STAMP():
        # Nothing follows: all windows are over that have an end.
        return 0 if temporal.upper == UNBOUNDED() else UINT64_MAX
    return network.now - temporal.upper if network.now > temporal.upper else 0


cdef inline int64_t last_anchor_before(
    const Network *network, const Operator *temporal, int64_t position
) noexcept nogil:
    """The last block for which this one is not too early to be a witness; may be below the first.
    """
    cdef uint64_t time_stamp = network.blocks[position].time_stamp
    if temporal.lower == 0:
        return position - 1
    if time_stamp < temporal.lower:
        return -1
    return min(
        position - 1,
        first_near(
            network, time_stamp - temporal.lower + 1, &network.queues[temporal.number].lower_hint
        ) - 1
    )


cdef inline int64_t first_anchor_before(
    const Network *network, const Operator *temporal, int64_t position
) noexcept nogil:
    """The first block for which this one is not too late to be a witness."""
    cdef uint64_t time_stamp = network.blocks[position].time_stamp
    if time_stamp <= temporal.upper:
        return network.first
    return first_near(
        network, time_stamp - temporal.upper, &network.queues[temporal.number].upper_hint
    )


cdef inline bint has_no_witness(
    const Network *network, const Operator *temporal, const Queue *queue, int64_t anchor,
    int64_t candidate
) noexcept nogil:
    """Whether an UNTIL is false at an anchor whose first possible witness is `candidate`."""
    cdef uint64_t end
    if (
        not temporal.left_is_true
        and next_bit(&queue.sets[KNOWN_FALSE], anchor + 1, network.count) < candidate
    ):
        return True
    end = window_end(network, temporal, anchor)
    if candidate < network.count:
        return network.blocks[candidate].time_stamp > end
    return network.now > end


cdef int64_t first_without_candidate(
    const Network *network, const Operator *temporal, const Queue *queue, int64_t position
) noexcept nogil:
    """The first anchor for which no block up to and including `position` can be a witness.

    That is, if `position` is not below the window of the anchor.
    """
    cdef int64_t candidate = previous_bit(&queue.sets[NOT_FALSE], position)
    if candidate < network.first:
        return network.first
    if temporal.lower == 0:
        return candidate
    if network.blocks[candidate].time_stamp < temporal.lower:
        return network.first
    return first_near(
        network, network.blocks[candidate].time_stamp - temporal.lower + 1,
        &network.queues[temporal.number].lower_hint
    )


cdef void until_right_true(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    """A block is known to have a witness."""
    cdef Queue *queue = &network.queues[number]
    cdef int64_t start
    if has_bit(&queue.sets[KNOWN_TRUE], position):
        return
    set_bit(&queue.sets[KNOWN_TRUE], position)
    if queue.undecided_count == 0:
        return
    start = first_anchor_before(network, temporal, position)
    if not temporal.left_is_true:
        start = max(start, previous_bit(&queue.sets[NOT_TRUE], position - 1))
    decide_range(
        network, number, start, last_anchor_before(network, temporal, position), WORTH_TRUE
    )


cdef void until_right_false(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    """A block is known to have no witness."""
    cdef Queue *queue = &network.queues[number]
    cdef int64_t anchor, end, candidate
    clear_bit(&queue.sets[NOT_FALSE], position)
    if queue.undecided_count == 0:
        return
    if queue.late_count == 0 and (
        temporal.left_is_true
        or (position == network.count - 1 and not has_bit(&queue.sets[KNOWN_FALSE], position))
    ):
        # Later blocks can be witnesses for all anchors that this one could serve.
        return
    candidate = next_bit(&queue.sets[NOT_FALSE], position + 1, network.count)
    end = last_anchor_before(network, temporal, position)
    anchor = next_bit(
        &queue.sets[UNDECIDED],
        first_without_candidate(network, temporal, queue, position - 1), network.count
    )
    # The ends of windows are in the order of anchors.
    while anchor <= end and has_no_witness(network, temporal, queue, anchor, candidate):
        decide_anchor(network, number, anchor, WORTH_FALSE)
        anchor = next_bit(&queue.sets[UNDECIDED], anchor + 1, network.count)


cdef void until_left_true(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    """The left operand is known to hold throughout a block: what is before and behind it joins."""
    cdef Queue *queue = &network.queues[number]
    cdef int64_t first, last, witness, anchor
    clear_bit(&queue.sets[NOT_TRUE], position)
    if queue.undecided_count == 0:
        return
    first = max(network.first, previous_bit(&queue.sets[NOT_TRUE], position - 1))
    last = min(
        network.count - 1, next_bit(&queue.sets[NOT_TRUE], position + 1, network.count)
    )
    if last - position <= position - first:
        witness = next_bit(&queue.sets[KNOWN_TRUE], position + 1, network.count)
        while witness <= last:
            anchor = first_anchor_before(network, temporal, witness)
            if anchor >= position:
                return
            decide_range(
                network, number, max(first, anchor),
                min(position - 1, last_anchor_before(network, temporal, witness)), WORTH_TRUE
            )
            witness = next_bit(&queue.sets[KNOWN_TRUE], witness + 1, network.count)
        return
    anchor = next_bit(&queue.sets[UNDECIDED], first, network.count)
    while anchor < position:
        witness = next_bit(
            &queue.sets[KNOWN_TRUE],
            max(position + 1, window_start(network, temporal, anchor)), network.count
        )
        if witness <= last and (
            network.blocks[witness].time_stamp <= window_end(network, temporal, anchor)
        ):
            decide_anchor(network, number, anchor, WORTH_TRUE)
        anchor = next_bit(&queue.sets[UNDECIDED], anchor + 1, network.count)


cdef void until_left_false(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    """The left operand is known to be violated in a block."""
    cdef Queue *queue = &network.queues[number]
    if has_bit(&queue.sets[KNOWN_FALSE], position):
        return
    set_bit(&queue.sets[KNOWN_FALSE], position)
    if queue.undecided_count == 0:
        return
    decide_range(
        network, number,
        max(
            previous_bit(&queue.sets[KNOWN_FALSE], position - 1),
            first_without_candidate(network, temporal, queue, position),
        ),
        position - 1, WORTH_FALSE
    )


cdef void until_time(Network *network, const Operator *temporal, uint32_t number) noexcept nogil:
    """Close the windows that are over."""
    cdef Queue *queue = &network.queues[number]
    cdef int64_t count = network.count
    cdef int64_t anchor = max(queue.open, network.first)
    cdef int64_t candidate
    cdef uint64_t least = first_with_window(network, temporal)
    queue.open = anchor
    while queue.open < count and network.blocks[queue.open].time_stamp < least:
        anchor = queue.open
        queue.open += 1
        if has_bit(&queue.sets[UNDECIDED], anchor):
            queue.late_count += 1
            candidate = next_bit(
                &queue.sets[NOT_FALSE], window_start(network, temporal, anchor), network.count
            )
            if has_no_witness(network, temporal, queue, anchor, candidate):
                decide_anchor(network, number, anchor, WORTH_FALSE)


# ---- UNTIL over operands that are known at once ------------------------------------------------


cdef inline void decide_leading(
    Network *network, const Operator *temporal, uint32_t number, int64_t end, uint8_t worth
) noexcept nogil:
    """Decide all undecided blocks up to and including `end`: they are decided in order."""
    cdef Queue *queue = &network.queues[number]
    queue.open = max(queue.open, network.first)
    while queue.open <= end:
        if network.blocks[queue.open].unknown >> temporal.variable & 1:
            push(network, queue.open, number, worth)
        queue.open += 1


cdef inline void leading_time(
    Network *network, const Operator *temporal, uint32_t number
) noexcept nogil:
    """Close the windows that are over."""
    cdef Queue *queue = &network.queues[number]
    cdef uint64_t least = first_with_window(network, temporal)
    queue.open = max(queue.open, network.first)
    while queue.open < network.count and network.blocks[queue.open].time_stamp < least:
        if network.blocks[queue.open].unknown >> temporal.variable & 1:
            push(network, queue.open, number, WORTH_FALSE)
        queue.open += 1


cdef inline bint has_begun(
    const Network *network, const Operator *temporal, int64_t position
) noexcept nogil:
    """Whether the window of a block has begun; False if there is no such block."""
    return position < network.count and (
        network.blocks[position].time_stamp + temporal.lower <= network.now
    )


# ---- SINCE -------------------------------------------------------------------------------------


cdef inline int64_t first_anchor_behind(
    const Network *network, const Operator *temporal, int64_t position
) noexcept nogil:
    """The first block for which this one is not too late to be a witness, or the number of blocks.
    """
    if temporal.lower == 0:
        return position + 1
    return max(
        position + 1,
        first_near(
            network, later_by(network.blocks[position].time_stamp, temporal.lower),
            &network.queues[temporal.number].start_hint
        ),
    )


cdef inline int64_t last_anchor_behind(
    const Network *network, const Operator *temporal, uint64_t time_stamp, int64_t hint
) noexcept nogil:
    """The last block for which a witness of this time-stamp is not too old."""
    return first_behind(network, later_by(time_stamp, temporal.upper), hint) - 1


cdef bint has_span(
    const Queue *queue, const Operator *temporal, uint64_t time_stamp
) noexcept nogil:
    """Whether one of the settled witnesses serves an anchor of a time-stamp."""
    cdef uint64_t oldest = 0
    cdef uint32_t low = queue.span_first
    cdef uint32_t high = queue.span_first + queue.span_count
    cdef uint32_t end = high
    cdef uint32_t middle
    if time_stamp < temporal.lower:
        return False
    if time_stamp > temporal.upper:
        oldest = time_stamp - temporal.upper
    while low < high:
        middle = low + (high - low) // 2
        if queue.spans[middle].last < oldest:
            low = middle + 1
        else:
            high = middle
    return low < end and queue.spans[low].first <= time_stamp - temporal.lower


cdef int since_value(
    const Network *network, const Operator *temporal, const Queue *queue, int64_t anchor
) noexcept nogil:
    """What is known of a SINCE before a block: WORTH_FALSE, WORTH_TRUE, or -1 for nothing."""
    cdef uint64_t time_stamp = network.blocks[anchor].time_stamp
    cdef int64_t low = queue.settled
    cdef int64_t high = anchor - 1
    cdef int64_t blocked = -1
    cdef bint is_served = has_span(queue, temporal, time_stamp)
    if time_stamp < temporal.lower:
        return WORTH_FALSE
    if temporal.lower:
        high = min(
            high,
            first_near(
                network, time_stamp - temporal.lower + 1,
                &network.queues[temporal.number].lower_hint
            ) - 1
        )
    if time_stamp > temporal.upper:
        low = max(
            low,
            first_near(
                network, time_stamp - temporal.upper, &network.queues[temporal.number].upper_hint
            )
        )
    if not temporal.left_is_true:
        blocked = previous_bit(&queue.sets[NOT_TRUE], anchor - 1)
    if previous_bit(&queue.sets[KNOWN_TRUE], high) >= max(low, blocked):
        return WORTH_TRUE
    if is_served and blocked < queue.settled:
        return WORTH_TRUE
    if not temporal.left_is_true:
        blocked = previous_bit(&queue.sets[KNOWN_FALSE], anchor - 1)
    if previous_bit(&queue.sets[NOT_FALSE], high) >= max(low, blocked):
        return -1
    return -1 if is_served and blocked < queue.settled else WORTH_FALSE


cdef void since_right_true(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    cdef Queue *queue = &network.queues[number]
    cdef int64_t end
    set_bit(&queue.sets[KNOWN_TRUE], position)
    if queue.undecided_count == 0:
        return
    end = last_anchor_behind(
        network, temporal, network.blocks[position].time_stamp, position
    )
    if not temporal.left_is_true:
        end = min(end, next_bit(&queue.sets[NOT_TRUE], position + 1, network.count))
    decide_range(
        network, number, first_anchor_behind(network, temporal, position), end, WORTH_TRUE
    )


cdef void since_right_false(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    cdef Queue *queue = &network.queues[number]
    cdef int64_t anchor, start, candidate, low, previous
    clear_bit(&queue.sets[NOT_FALSE], position)
    if queue.undecided_count == 0:
        return
    start = first_anchor_behind(network, temporal, position)
    previous = previous_bit(&queue.sets[NOT_FALSE], position - 1)
    candidate = next_bit(&queue.sets[NOT_FALSE], position + 1, network.count)
    anchor = network.count - 1
    if candidate < network.count:
        anchor = first_anchor_behind(network, temporal, candidate) - 1
    anchor = previous_bit(&queue.sets[UNDECIDED], anchor)
    # The earliest witnesses that anchors may have are in the order of anchors.
    while anchor >= start:
        low = queue.settled
        if network.blocks[anchor].time_stamp > temporal.upper:
            low = max(
                low,
                first_at(network, network.blocks[anchor].time_stamp - temporal.upper, position),
            )
        if not temporal.left_is_true:
            low = max(low, previous_bit(&queue.sets[KNOWN_FALSE], anchor - 1))
        if previous >= low:
            return
        if since_value(network, temporal, queue, anchor) == WORTH_FALSE:
            decide_anchor(network, number, anchor, WORTH_FALSE)
        anchor = previous_bit(&queue.sets[UNDECIDED], anchor - 1)


cdef void since_left_true(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    cdef Queue *queue = &network.queues[number]
    cdef int64_t blocked, first, last, witness, anchor, served
    cdef uint32_t k
    cdef const Span *span
    clear_bit(&queue.sets[NOT_TRUE], position)
    if queue.undecided_count == 0:
        return
    blocked = previous_bit(&queue.sets[NOT_TRUE], position - 1)
    first = max(blocked, queue.settled)
    last = min(
        network.count - 1, next_bit(&queue.sets[NOT_TRUE], position + 1, network.count)
    )
    served = queue.span_count if blocked < queue.settled else 0
    if position - first + served > last - position:
        anchor = next_bit(&queue.sets[UNDECIDED], position + 1, network.count)
        while anchor <= last:
            if since_value(network, temporal, queue, anchor) == WORTH_TRUE:
                decide_anchor(network, number, anchor, WORTH_TRUE)
            anchor = next_bit(&queue.sets[UNDECIDED], anchor + 1, network.count)
        return
    witness = previous_bit(&queue.sets[KNOWN_TRUE], position - 1)
    while witness >= first:
        decide_range(
            network, number,
            max(position + 1, first_anchor_behind(network, temporal, witness)),
            min(
                last,
                last_anchor_behind(
                    network, temporal, network.blocks[witness].time_stamp, position
                ),
            ),
            WORTH_TRUE
        )
        witness = previous_bit(&queue.sets[KNOWN_TRUE], witness - 1)
    for k in range(<uint32_t> served):
        span = &queue.spans[queue.span_first + k]
        decide_range(
            network, number,
            max(
                position + 1,
                first_at(network, later_by(span.first, temporal.lower), position),
            ),
            min(last, last_anchor_behind(network, temporal, span.last, position)), WORTH_TRUE
        )


cdef void since_left_false(
    Network *network, const Operator *temporal, uint32_t number, int64_t position
) noexcept nogil:
    cdef Queue *queue = &network.queues[number]
    cdef int64_t candidate, end
    set_bit(&queue.sets[KNOWN_FALSE], position)
    if queue.undecided_count == 0:
        return
    candidate = next_bit(&queue.sets[NOT_FALSE], position, network.count)
    end = next_bit(&queue.sets[KNOWN_FALSE], position + 1, network.count)
    if candidate < network.count:
        end = min(end, first_anchor_behind(network, temporal, candidate) - 1)
    decide_range(network, number, position + 1, end, WORTH_FALSE)


# ---- settled witnesses of SINCE ----------------------------------------------------------------


cdef int add_span(Queue *queue, const Operator *temporal, uint64_t time_stamp) except -1 nogil:
    """Add a settled witness, which is the latest."""
    cdef Span *span
    if queue.span_count:
        span = &queue.spans[queue.span_first + queue.span_count - 1]
        # A window that fits between two witnesses would tell them from a span.
        if temporal.upper == UNBOUNDED() or (
            time_stamp - span.last <= temporal.upper - temporal.lower + 1
        ):
            span.last = time_stamp
            return 0
    if queue.span_first and queue.span_first + queue.span_count == queue.span_capacity:
        memmove(
            queue.spans, queue.spans + queue.span_first, queue.span_count * sizeof(Span)
        )
        queue.span_first = 0
    reserve(
        <void **> &queue.spans, &queue.span_capacity,
        <size_t> queue.span_first + queue.span_count + 1, sizeof(Span)
    )
    span = &queue.spans[queue.span_first + queue.span_count]
    span.first = span.last = time_stamp
    queue.span_count += 1
    return 0


cdef inline void drop_spans(
    Queue *queue, const Operator *temporal, uint64_t time_stamp
) noexcept nogil:
    """Drop the spans that are too old for anchors from a time-stamp on."""
    cdef Span *span
    if time_stamp <= temporal.upper:
        return
    while queue.span_count and (
        queue.spans[queue.span_first].last < time_stamp - temporal.upper
    ):
        queue.span_first += 1
        queue.span_count -= 1
    if queue.span_count == 0:
        queue.span_first = 0
