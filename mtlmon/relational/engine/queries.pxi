# cython: language_level=3
"""What queries do at time-points: blocks are run, and rows go to states and to answers."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef int run_early(RelationalEngine engine, Query *query) except -1 nogil:
    """Run the early block at the present time-point."""
    cdef Rows *rows = &engine.unit
    cdef Rows *kept
    cdef size_t k
    if query.early != NONE:
        stand_at(engine, &query.early_states)
        rows = run_block(engine, query.early, rows)
        relieve(engine, &query.early_states)
    if query.late == NONE:
        return deliver(engine, query, rows)
    if query.early != NONE and rows.count:
        push_rows(&query.waiting, engine.now, engine.here, rows)
    for k in range(query.kept.count):
        kept = &engine.database[query.kept.of[k]]
        if kept.count:
            push_rows(&query.kept_rows[k], engine.now, engine.here, kept)
    return 0


cdef int run_late(RelationalEngine engine, Query *query) except -1 nogil:
    """Run the late block at the next time-point that was taken in."""
    cdef Rows waiting
    cdef Rows *rows = &engine.unit
    cdef Rows *kept
    cdef RowQueue *queue
    cdef uint64_t here = engine.taken[query.done - engine.taken_base]
    cdef size_t k
    engine.here = here
    engine.now = engine.timeline.time_of(here).time_stamp
    if query.early != NONE:
        waiting.width = query.waiting.width
        waiting.room = waiting.count = 0
        waiting.cells = NULL
        if has_points(&query.waiting) and front_point(&query.waiting).point == here:
            waiting.count = front_point(&query.waiting).count
            waiting.cells = <int64_t *> front_rows(&query.waiting)
        rows = &waiting
    for k in range(query.kept.count):
        kept = &engine.kept[query.kept.of[k]]
        queue = &query.kept_rows[k]
        kept.count = 0
        if has_points(queue) and front_point(queue).point == here:
            kept.count = front_point(queue).count
            kept.cells = <int64_t *> front_rows(queue)
        engine.atoms[query.kept.of[k]] = kept
    # left sides of SINCE that are filters look at the atoms, too
    stand_at(engine, &query.late_states)
    if rows.count:
        rows = run_block(engine, query.late, rows)
    for k in range(query.kept.count):
        queue = &query.kept_rows[k]
        if has_points(queue) and front_point(queue).point == here:
            pop_point(queue)
        engine.atoms[query.kept.of[k]] = &engine.database[query.kept.of[k]]
    relieve(engine, &query.late_states)
    query.done += 1
    deliver(engine, query, rows)
    if query.early != NONE and has_points(&query.waiting) and (
        front_point(&query.waiting).point == here
    ):
        pop_point(&query.waiting)
    return 0


cdef int stand_at(RelationalEngine engine, Numbers *states) except -1 nogil:
    """Advance the states that take in each time-point by itself."""
    cdef size_t k
    cdef State *state
    for k in range(states.count):
        state = &engine.states[states.of[k]]
        if state.is_eager and state.position != engine.here:
            if not state.is_strict:
                filter_live(engine, state)
            advance_state(state, engine.here, engine.now)
            if state.is_strict:
                # also the rows of the time-point before, which the present one ends
                filter_live(engine, state)
    return 0


cdef int relieve(RelationalEngine engine, Numbers *states) except -1 nogil:
    """Advance the states in whose inboxes much waits."""
    cdef size_t k
    cdef State *state
    for k in range(states.count):
        state = &engine.states[states.of[k]]
        if is_crowded(state):
            advance_state(state, engine.here, engine.now)
            if is_crowded(state):
                state.patience *= 2
    return 0


cdef int filter_live(RelationalEngine engine, State *state) except -1 nogil:
    """End the slots of SINCE for which a conjunct of its left side is not true."""
    cdef Rows given
    cdef Rows *found
    cdef uint32_t k, slot, following
    cdef size_t r
    cdef int64_t *row
    memset(&given, 0, sizeof(Rows))
    given.width = state.rows.width + 1
    try:
        for k in range(state.left_count):
            if state.lefts[k].kind != FILTERS or not state.live_count:
                continue
            given.count = 0
            slot = state.first_live
            while slot != NONE:
                row = new_row(&given)
                copy_cells(row, cells_of(state, slot), state.rows.width)
                row[state.rows.width] = slot
                slot = state.slots[slot].next_live
            found = run_block(engine, state.lefts[k].block, &given)
            state.stamp += 1
            for r in range(found.count):
                slot = <uint32_t> row_of(found, r)[state.rows.width]
                state.slots[slot].mark = state.stamp
            slot = state.first_live
            while slot != NONE:
                following = state.slots[slot].next_live
                if state.slots[slot].mark != state.stamp:
                    kill(state, slot)
                slot = following
    finally:
        free(given.cells)
    return 0


cdef int deliver(RelationalEngine engine, Query *query, Rows *rows) except -1 nogil:
    """Give the rows of a query to the states that it feeds, or answer a policy with them."""
    cdef size_t k
    cdef State *state
    cdef RowQueue *inbox
    if query.part != NONE:
        with gil:
            (<object> engine.closed[query.policy]).note(query.part, rows.count > 0)
        return 0
    if query.counted != NONE and query.policy == NONE:
        engine.triggered[query.counted] += rows.count
        return 0
    if query.policy != NONE:
        answer(engine, query, rows)
    if rows.count == 0:
        return 0
    for k in range(query.consumer_count):
        state = &engine.states[query.consumers[k].state]
        inbox = &state.inbox
        if query.consumers[k].left != NONE:
            inbox = &state.lefts[query.consumers[k].left].inbox
        push_rows(inbox, engine.now, engine.here, rows)
    return 0


cdef int answer_closed(RelationalEngine engine, bint begins) except -1:
    """Answer the policies that ordinary monitors decide.

    begins: whether a time-point begins.
    """
    cdef Answer found
    cdef bint is_found, is_find
    for policy, closed in engine.closed.items():
        if begins:
            closed.begin(engine.clock)
        is_find = engine.plan.named_policies[policy].is_find
        for time_stamp, offset, point, value in closed.settle(
            engine.clock, engine.timeline.is_closed
        ):
            is_found = value
            found.policy = policy
            found.time_stamp = time_stamp
            found.offset = offset
            found.point = point
            found.known = engine.point_count
            found.start = 0
            if not is_found:
                if engine.wants_holding and not is_find:
                    found.kind = HOLDS
                    engine.answers.put(&found, NULL)
                continue
            engine.found[<size_t> policy] += 1
            engine.valuations[<size_t> policy] += 1
            engine.has_found = True
            found.kind = MATCHES if is_find else VIOLATED
            engine.answers.put(&found, NULL)
    return 0


cdef int answer(RelationalEngine engine, Query *query, Rows *rows) except -1 nogil:
    """Put the rows of a policy into the answers, in their order."""
    cdef Answer found
    cdef size_t k
    found.policy = query.policy
    found.time_stamp = engine.now
    found.point = engine.here
    found.offset = engine.timeline.time_of(engine.here).offset
    found.known = engine.point_count
    found.start = 0
    if rows.count == 0:
        if engine.wants_holding and not query.is_find:
            found.kind = HOLDS
            engine.answers.put(&found, NULL)
        return 0
    engine.found[query.policy] += 1
    engine.valuations[query.policy] += rows.count
    engine.has_found = True
    found.kind = MATCHES if query.is_find else VIOLATED
    if rows.count == 1 or rows.width == 0:
        engine.answers.put(&found, rows.cells)
        return 0
    make_room(<void **> &engine.order, &engine.order_room, rows.count, sizeof(uint32_t))
    make_room(<void **> &engine.spare, &engine.spare_room, rows.count, sizeof(uint32_t))
    for k in range(rows.count):
        engine.order[k] = <uint32_t> k
    sort_rows(
        engine.texts, engine.kinds[query.policy].of, rows, engine.order, engine.spare
    )
    for k in range(rows.count):
        engine.answers.put(&found, row_of(rows, engine.order[k]))
    return 0
