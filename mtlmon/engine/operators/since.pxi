# cython: language_level=3
"""The SINCE rule: when its right operand held, and which expressions that depends on.

`f SINCE[a,b] g` holds now if some witness has an age in [a, b]. Witnesses with the same expression
form one run if no interval of length b - a fits between them, so the number of runs depends neither
on the rate of events nor, for constants, on the number of witnesses.
"""

from libc.stdlib cimport free, malloc


cdef inline void clear(Witnesses *witnesses) noexcept nogil:
    witnesses.count = 0
    witnesses.symbolic = 0


cdef inline void drop_first(Witnesses *witnesses) noexcept nogil:
    witnesses.symbolic -= run_at(witnesses, 0).expression != TRUE_EXPRESSION
    witnesses.head = (witnesses.head + 1) & (witnesses.capacity - 1)
    witnesses.count -= 1


cdef inline void drop_last(Witnesses *witnesses) noexcept nogil:
    witnesses.count -= 1
    witnesses.symbolic -= run_at(witnesses, witnesses.count).expression != TRUE_EXPRESSION


cdef int grow(Witnesses *witnesses) except -1 nogil:
    cdef uint32_t capacity = 2 * witnesses.capacity if witnesses.capacity else 2
    cdef Run *runs = NULL
    cdef uint32_t i
    if capacity:
        runs = <Run *> malloc(capacity * sizeof(Run))
    if runs == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    for i in range(witnesses.count):
        runs[i] = run_at(witnesses, i)[0]
    free(witnesses.runs)
    witnesses.runs = runs
    witnesses.head = 0
    witnesses.capacity = capacity
    return 0


cdef inline bint joins(
    const Run *run, uint64_t first, Expression expression, uint64_t lower, uint64_t upper
) noexcept nogil:
    """Whether a later witness can extend the run without leaving a relevant gap."""
    if run.expression != expression:
        return False
    return upper == UNBOUNDED() or first - run.last <= upper - lower + 1


cdef int append(
    Witnesses *witnesses, uint64_t first, uint64_t last, Expression expression, uint64_t lower,
    uint64_t upper
) except -1 nogil:
    """Add a run later than all others, or extend the last run if that makes no difference.

    Without upper bound, no witness grows too old, so it makes no difference where a run ends: it
    ends where it begins, as in the canonical form.
    """
    cdef Run *run
    if upper == UNBOUNDED():
        last = first
    if witnesses.count:
        run = run_at(witnesses, witnesses.count - 1)
        if joins(run, first, expression, lower, upper):
            if upper != UNBOUNDED():
                run.last = last
            return 0
    if witnesses.count == witnesses.capacity:
        grow(witnesses)
    run = run_at(witnesses, witnesses.count)
    run.first = first
    run.last = last
    run.expression = expression
    witnesses.count += 1
    witnesses.symbolic += expression != TRUE_EXPRESSION
    return 0


cdef int rewrite(
    Workspace workspace, Witnesses *witnesses, Expression left, uint64_t lower, uint64_t upper,
    uint64_t changed, ImageOf image_of, void *context
) except -1 nogil:
    """Give every run its new expression, then drop impossible runs and join equal ones."""
    cdef uint32_t count = witnesses.count
    cdef uint32_t first = 0
    cdef uint32_t i
    cdef Run run
    cdef Expression expression
    if left == TRUE_EXPRESSION:
        # The runs before the first expression that is not TRUE do not change.
        first = count
        while witnesses.symbolic:
            first -= 1
            witnesses.symbolic -= run_at(witnesses, first).expression != TRUE_EXPRESSION
    witnesses.count = first
    witnesses.symbolic = 0
    for i in range(first, count):
        # It is written behind the runs that are still to be read.
        run = run_at(witnesses, i)[0]
        expression = run.expression
        if mask_of(workspace, expression) & changed:
            expression = workspace.substitute(expression, image_of, context)
        expression = conjunction(workspace, expression, left)
        if expression != FALSE_EXPRESSION:
            append(witnesses, run.first, run.last, expression, lower, upper)
    return 0


cdef int add_witness(
    Workspace workspace, Witnesses *witnesses, uint64_t lower, uint64_t upper,
    uint64_t time_stamp, Expression right
) except -1 nogil:
    """Add a witness if the right operand may hold now. With lower bound 0, later is better."""
    cdef Expression earlier
    while lower == 0 and witnesses.count:
        earlier = run_at(witnesses, witnesses.count - 1).expression
        if earlier == right or conjunction(workspace, earlier, right) != earlier:
            break
        drop_last(witnesses)
    append(witnesses, time_stamp, time_stamp, right, lower, upper)
    return 0


cdef int settle(
    Workspace workspace, Witnesses *witnesses, uint64_t newest
) except -1 nogil:
    """Without upper bound, old enough witnesses stay old enough: keep their disjunction."""
    while witnesses.count and run_at(witnesses, 0).first <= newest:
        witnesses.settled = disjunction(
            workspace, witnesses.settled, run_at(witnesses, 0).expression
        )
        drop_first(witnesses)
    if witnesses.settled == TRUE_EXPRESSION:
        # Younger witnesses add nothing as long as this one remains.
        clear(witnesses)
    return 0


cdef Expression value_of_runs(
    Workspace workspace, Witnesses *witnesses, uint64_t lower, uint64_t time_stamp
) except? NO_EXPRESSION nogil:
    """The disjunction of the runs that are old enough; no run is too old."""
    cdef uint32_t base = workspace.image_count
    cdef uint32_t i
    cdef Run *run
    for i in range(witnesses.count):
        run = run_at(witnesses, i)
        if time_stamp - run.first < lower:
            break
        if run.expression == TRUE_EXPRESSION:
            workspace.image_count = base
            return TRUE_EXPRESSION
        workspace.push(run.expression ^ 1)
    if workspace.image_count == base:
        return FALSE_EXPRESSION
    return workspace.conjoin_pushed(base, 0) ^ 1


cdef Expression since_event(
    Workspace workspace, Witnesses *witnesses, uint64_t lower, uint64_t upper,
    uint64_t time_stamp, Expression left, Expression right, uint64_t changed, ImageOf image_of,
    void *context
) except? NO_EXPRESSION nogil:
    """Process an event with these values of the operands; return the value of the SINCE."""
    if left == FALSE_EXPRESSION:
        clear(witnesses)
        witnesses.settled = FALSE_EXPRESSION
    else:
        if witnesses.count and (
            not is_constant(left) or (witnesses.symbolic and changed)
        ):
            rewrite(workspace, witnesses, left, lower, upper, changed, image_of, context)
        if mask_of(workspace, witnesses.settled) & changed:
            witnesses.settled = workspace.substitute(witnesses.settled, image_of, context)
        witnesses.settled = conjunction(workspace, witnesses.settled, left)
    if upper == UNBOUNDED():
        if right != FALSE_EXPRESSION and witnesses.settled != TRUE_EXPRESSION:
            add_witness(workspace, witnesses, lower, upper, time_stamp, right)
        if time_stamp >= lower:
            settle(workspace, witnesses, time_stamp - lower)
        return witnesses.settled
    while witnesses.count and time_stamp - run_at(witnesses, 0).last > upper:
        drop_first(witnesses)
    if right != FALSE_EXPRESSION:
        add_witness(workspace, witnesses, lower, upper, time_stamp, right)
    return value_of_runs(workspace, witnesses, lower, time_stamp)


cdef int since_time(
    Workspace workspace, Witnesses *witnesses, uint64_t upper, uint64_t time_stamp,
    uint64_t changed, ImageOf image_of, void *context
) except -1 nogil:
    """Let time pass without an event."""
    if witnesses.symbolic and changed:
        # With no interval to fit between, only neighbours with equal time-stamps would be joined.
        rewrite(workspace, witnesses, TRUE_EXPRESSION, 0, 0, changed, image_of, context)
    if mask_of(workspace, witnesses.settled) & changed:
        witnesses.settled = workspace.substitute(witnesses.settled, image_of, context)
    while witnesses.count and time_stamp - run_at(witnesses, 0).last > upper:
        drop_first(witnesses)
    return 0
