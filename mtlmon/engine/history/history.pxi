# cython: language_level=3
"""The history: undecided time-points, grouped by expression and merged according to the mode.

All pending time-points with the same expression form a group, so an event costs one substitution
per group, however many time-points are in it.

If an UNTIL is below no temporal operator, and is the only one over its operands, then only
time-points of one time-stamp refer to each of its obligations. Expressions refer to these *outer*
obligations by placeholders, one for each phase (window ahead, window open), which mean a different
obligation for each anchor. When time has reached an end of an anchor's window, its entry leaves the
group and gets its own expression (it *crosses a threshold*). Each threshold has a cursor into the
time-ordered entries, so each entry crosses it once. This serves formulas without nesting, large
conjunctions of rules, and `global` mode.

Mode `naive` merges nothing. In `local` mode, and where an expression has a placeholder, a
time-point merges with a member of the same time-stamp. In `global` mode without placeholder, a
group has one member, the earliest. An equivalence refers to the entry that is left when the event
is done, whatever the order of merging within it, so the output is a function of formula, log and
mode.

Where the windows of different anchors all saturate at the end of time, placeholders still tell them
apart, so `global` keeps such time-points separately: up to one per time-stamp that close to the
end.
"""

from libc.stdint cimport UINT64_MAX, uint8_t
from libc.stdlib cimport qsort


cdef enum:
    FEW_RECORDS = 16


cdef struct Anchored:
    # The context of substitutions for the time-points of one time-stamp.
    AnchoredImage image_of
    void *context
    uint64_t anchor


cdef Expression anchored_image(
    Workspace workspace, void *context, uint32_t slot
) except? NO_EXPRESSION nogil:
    cdef Anchored *anchored = <Anchored *> context
    return anchored.image_of(workspace, anchored.context, slot, anchored.anchor)


# ---- verdicts ----------------------------------------------------------------------------------


cdef int add_verdict(
    History *history, uint64_t time_stamp, uint64_t offset, uint8_t kind, uint32_t reference
) except -1 nogil:
    cdef VerdictRecord *record
    reserve(
        <void **> &history.verdicts, &history.verdict_capacity,
        <size_t> history.verdict_count + 1, sizeof(VerdictRecord)
    )
    record = &history.verdicts[history.verdict_count]
    record.time_stamp = time_stamp
    record.offset = offset
    record.kind = kind
    record.reference_time_stamp = 0
    record.reference_offset = reference
    history.verdict_count += 1
    return 0


cdef int count_decided(History *history, Expression value, uint64_t weight) noexcept nogil:
    if value == TRUE_EXPRESSION:
        history.true_count += weight
        return VERDICT_TRUE
    history.false_count += weight
    return VERDICT_FALSE


cdef int decide(History *history, uint32_t number, Expression value) except -1 nogil:
    """Output the verdict of an entry that is no longer in a group."""
    cdef Entry *entry = &history.entries[number]
    add_verdict(
        history, entry.time_stamp, entry.offset, count_decided(history, value, entry.weight), NONE
    )
    take_from_time(history, number)
    free_entry(history, number)
    return 0


cdef int merge(History *history, uint32_t later, uint32_t earlier) except -1 nogil:
    """Record the equivalence of an entry outside all groups; free it when the event is done."""
    cdef Entry *entry = &history.entries[later]
    reserve(
        <void **> &history.dropped, &history.dropped_capacity, <size_t> history.dropped_count + 1,
        sizeof(uint32_t)
    )
    add_verdict(history, entry.time_stamp, entry.offset, VERDICT_EQUIVALENT, earlier)
    history.entries[earlier].weight += entry.weight
    entry.merged_into = earlier
    take_from_time(history, later)
    history.dropped[history.dropped_count] = later
    history.dropped_count += 1
    return 0


cdef int compare_records(const void *left, const void *right) noexcept nogil:
    cdef const VerdictRecord *a = <const VerdictRecord *> left
    cdef const VerdictRecord *b = <const VerdictRecord *> right
    if a.time_stamp != b.time_stamp:
        return 1 if a.time_stamp > b.time_stamp else -1
    return (a.offset > b.offset) - (a.offset < b.offset)


cdef void sort_records(VerdictRecord *records, uint32_t count) noexcept nogil:
    """Sort verdicts by their time-points.

    PERF: an event mostly has two or three, for which `qsort` took 5 % of a nested formula's time.
    """
    cdef VerdictRecord record
    cdef uint32_t i, place
    if count > FEW_RECORDS:
        qsort(records, count, sizeof(VerdictRecord), compare_records)
        return
    for i in range(1, count):
        record = records[i]
        place = i
        while place and compare_records(&records[place - 1], &record) > 0:
            records[place] = records[place - 1]
            place -= 1
        records[place] = record


cdef void finish_verdicts(History *history) noexcept nogil:
    """After an event, set the references of equivalences and the order of time-points."""
    cdef uint32_t i, reference
    cdef bint is_sorted = True
    cdef VerdictRecord *record
    if history.verdict_count == 0:
        return
    for i in range(history.verdict_count):
        record = &history.verdicts[i]
        if record.kind == VERDICT_EQUIVALENT:
            reference = <uint32_t> record.reference_offset
            while history.entries[reference].merged_into != NONE:
                reference = history.entries[reference].merged_into
            record.reference_time_stamp = history.entries[reference].time_stamp
            record.reference_offset = history.entries[reference].offset
        if i and is_sorted:
            is_sorted = compare_records(record - 1, record) < 0
    if not is_sorted:
        sort_records(history.verdicts, history.verdict_count)
    for i in range(history.dropped_count):
        free_entry(history, history.dropped[i])
    history.dropped_count = 0


# ---- merging -----------------------------------------------------------------------------------


cdef inline bint merges_across_time(
    Workspace workspace, History *history, Expression expression
) noexcept nogil:
    """Whether equal expressions of different time-stamps mean the same."""
    return (
        history.mode == MODE_GLOBAL and not workspace.nodes[expression >> 1].has_placeholder
    )


cdef uint32_t find_twin(
    Workspace workspace, History *history, uint32_t number, uint32_t group
) noexcept nogil:
    """The member of a group that an entry outside of it must merge with, or NONE."""
    cdef Entry *entries = history.entries
    cdef uint64_t time_stamp = entries[number].time_stamp
    cdef uint32_t twin
    if history.mode == MODE_NAIVE:
        return NONE
    if merges_across_time(workspace, history, history.groups[group].expression):
        return history.groups[group].any_member
    twin = entries[number].earlier
    while twin != NONE and entries[twin].time_stamp == time_stamp:
        if entries[twin].group == group:
            return twin
        twin = entries[twin].earlier
    twin = entries[number].later
    while twin != NONE and entries[twin].time_stamp == time_stamp:
        if entries[twin].group == group:
            return twin
        twin = entries[twin].later
    return NONE


cdef int attach(
    Workspace workspace, History *history, uint32_t number, uint32_t group
) except -1 nogil:
    """Put an entry that is in no group into a group, or merge it with a member."""
    cdef uint32_t twin = find_twin(workspace, history, number, group)
    cdef bint was_latest
    if twin == NONE:
        link_member(history, number, group)
    elif is_earlier(history, twin, number):
        merge(history, number, twin)
    else:
        was_latest = history.groups[group].latest == twin
        unlink_member(history, twin)
        link_member(history, number, group)
        if was_latest:
            # It replaces its twin: no other member is between the two in time.
            history.groups[group].latest = number
        merge(history, twin, number)
    return 0


cdef int move_members(
    Workspace workspace, History *history, uint32_t source, uint32_t target
) except -1 nogil:
    """Move all members of a group to another group of the same expression."""
    cdef uint32_t number = history.groups[source].any_member
    cdef uint32_t count = history.groups[source].size
    cdef uint32_t following
    while count:
        following = history.entries[number].next_member
        history.entries[number].group = NONE
        attach(workspace, history, number, target)
        number = following
        count -= 1
    return 0


cdef int collapse(History *history, uint32_t group_number) except -1 nogil:
    """Merge all members into the earliest: their expression means the same at all of them."""
    cdef Group *group = &history.groups[group_number]
    cdef uint32_t earliest = group.any_member
    cdef uint32_t count = group.size
    cdef uint32_t number = group.any_member
    cdef uint32_t _i, following
    for _i in range(count):
        if is_earlier(history, number, earliest):
            earliest = number
        number = history.entries[number].next_member
    for _i in range(count):
        following = history.entries[number].next_member
        history.entries[number].group = NONE
        if number != earliest:
            merge(history, number, earliest)
        number = following
    group.any_member = NONE
    group.size = 0
    link_member(history, earliest, group_number)
    return 0


# ---- events ------------------------------------------------------------------------------------


cdef int note_change(History *history, uint32_t subject, Expression expression) except -1 nogil:
    reserve(
        <void **> &history.changes, &history.change_capacity, <size_t> history.change_count + 1,
        sizeof(Change)
    )
    history.changes[history.change_count].subject = subject
    history.changes[history.change_count].expression = expression
    history.change_count += 1
    return 0


cdef int collect_crossers(
    Workspace workspace, History *history, uint64_t time_stamp
) except -1 nogil:
    """Take entries that cross a threshold out of their groups, each with its expression."""
    cdef Threshold *threshold
    cdef uint32_t i, number, group
    history.next_due = UINT64_MAX
    for i in range(history.threshold_count):
        threshold = &history.thresholds[i]
        while threshold.cursor != NONE:
            if due_time(history, threshold) > time_stamp:
                history.next_due = min(history.next_due, due_time(history, threshold))
                break
            number = threshold.cursor
            history.entries[number].cursor_count -= 1
            threshold.cursor = history.entries[number].later
            if threshold.cursor != NONE:
                history.entries[threshold.cursor].cursor_count += 1
            group = history.entries[number].group
            if group == NONE or not workspace.mentions(
                history.groups[group].expression, threshold.slot
            ):
                continue
            note_change(history, number, history.groups[group].expression)
            unlink_member(history, number)
            if history.groups[group].size == 0:
                take_from_table(history, group)
                release_group(history, group)
    return 0


cdef void watch(Workspace workspace, History *history, uint32_t number) noexcept nogil:
    """Record which changes and which time affect a group with a new expression."""
    cdef Group *group = &history.groups[number]
    cdef Node *node = &workspace.nodes[group.expression >> 1]
    cdef const uint32_t *items = workspace.pool + node.start
    cdef uint32_t shift = node.kind == NODE_CUBE
    cdef uint64_t kinds = 0
    cdef uint64_t due = UINT64_MAX
    cdef uint32_t i, slot, family
    cdef uint32_t demanded = NONE
    cdef bint demands_fixed = node.kind != NODE_CUBE
    cdef Window *window
    for i in range(node.length):
        slot = items[i] >> shift
        family = family_of(&workspace.slots, slot)
        if family == NO_FAMILY:
            kinds |= slot_bit(slot)
            demands_fixed |= not items[i] & 1
            continue
        window = &workspace.families[family].windows[member_of(&workspace.slots, slot)]
        if window.phase == PHASE_CLOSED:
            kinds |= kind_bit(&workspace.slots, family, KIND_CLOSED)
            due = min(due, window.lower)
        else:
            kinds |= kind_bit(&workspace.slots, family, KIND_OPEN)
            if window.upper != UNBOUNDED():
                due = min(due, window.upper + 1)
            if not items[i] & 1:
                demanded = family
    group.demanded = NONE if demands_fixed else demanded
    group.kinds = kinds
    history.kinds |= kinds
    if due != group.due:
        set_due(history, number, due)


cdef int collect_due(History *history, uint64_t time_stamp) except -1 nogil:
    """Record the due groups: the top of the heap. Their places come first, as a queue."""
    cdef uint32_t next_change = history.change_count
    cdef uint32_t place, child
    if history.active_count and history.groups[history.active[0]].due <= time_stamp:
        note_change(history, 0, FALSE_EXPRESSION)
    while next_change < history.change_count:
        place = history.changes[next_change].subject
        history.changes[next_change].subject = history.active[place]
        for child in range(2 * place + 1, min(2 * place + 3, history.active_count)):
            if history.groups[history.active[child]].due <= time_stamp:
                note_change(history, child, FALSE_EXPRESSION)
        next_change += 1
    return 0


cdef int collect_concerned(
    History *history, uint64_t time_stamp, uint64_t changed
) except -1 nogil:
    """Record the groups that may get another expression."""
    cdef uint32_t i
    cdef uint64_t kinds = 0
    cdef const Group *group
    if history.kinds & changed == 0:
        return collect_due(history, time_stamp)
    for i in range(history.active_count):
        group = &history.groups[history.active[i]]
        if group.due <= time_stamp or (
            group.kinds & changed and not (
                group.kinds & changed == history.absorbed_kind
                and group.demanded == history.absorbing_family
            )
        ):
            note_change(history, history.active[i], FALSE_EXPRESSION)
        else:
            kinds |= group.kinds
    # The kinds of the other groups are added with their new expressions.
    history.kinds = kinds
    return 0


cdef int update_groups(
    Workspace workspace, History *history, uint64_t time_stamp, uint64_t changed,
    AnchoredImage image_of, void *context
) except -1 nogil:
    """Substitute in each group once; output Boolean results, and join groups that became equal."""
    cdef uint32_t base = history.change_count
    cdef uint32_t kept = base
    cdef uint32_t i, group, other
    cdef Expression expression
    cdef Anchored anchored
    anchored.image_of = image_of
    anchored.context = context
    anchored.anchor = time_stamp
    collect_concerned(history, time_stamp, changed)
    for i in range(base, history.change_count):
        group = history.changes[i].subject
        expression = workspace.substitute(
            history.groups[group].expression, anchored_image, &anchored
        )
        if expression == history.groups[group].expression:
            # Even so, windows of it may have opened, and slots may represent other windows.
            watch(workspace, history, group)
            continue
        take_from_table(history, group)
        history.changes[kept].subject = group
        history.changes[kept].expression = expression
        kept += 1
    history.change_count = kept
    for i in range(base, kept):
        group = history.changes[i].subject
        expression = history.changes[i].expression
        if is_constant(expression):
            decide_group(history, group, expression)
            continue
        history.groups[group].expression = expression
        if history.groups[group].size > 1 and merges_across_time(workspace, history, expression):
            collapse(history, group)
        other = find_group(history, expression)
        if other == NONE:
            put_in_table(history, group)
            watch(workspace, history, group)
            continue
        if history.groups[group].size > history.groups[other].size:
            take_from_table(history, other)
            put_in_table(history, group)
            watch(workspace, history, group)
            group, other = other, group
        move_members(workspace, history, group, other)
        release_group(history, group)
    history.change_count = base
    return 0


cdef int decide_group(History *history, uint32_t group, Expression value) except -1 nogil:
    cdef uint32_t number = history.groups[group].any_member
    cdef uint32_t count = history.groups[group].size
    cdef uint32_t following
    while count:
        following = history.entries[number].next_member
        decide(history, number, value)
        number = following
        count -= 1
    release_group(history, group)
    return 0


cdef int join(
    Workspace workspace, History *history, uint32_t number, Expression expression
) except -1 nogil:
    """Add an entry that is in no group to the group of its expression."""
    cdef uint32_t group = find_group(history, expression)
    if group == NONE:
        new_group(history, expression, &group)
        watch(workspace, history, group)
    attach(workspace, history, number, group)
    return 0


cdef int update_pending(
    Workspace workspace, History *history, uint64_t time_stamp, uint64_t changed,
    AnchoredImage image_of, void *context
) except -1 nogil:
    """Process an event, or a time without an event, that gives the slots these images.

    `changed` has the bits of all kinds of variables that no longer represent themselves.
    """
    cdef uint32_t i
    cdef Expression expression
    cdef Anchored anchored
    history.change_count = 0
    if time_stamp >= history.next_due:
        collect_crossers(workspace, history, time_stamp)
    update_groups(workspace, history, time_stamp, changed, image_of, context)
    anchored.image_of = image_of
    anchored.context = context
    for i in range(history.change_count):
        anchored.anchor = history.entries[history.changes[i].subject].time_stamp
        expression = workspace.substitute(
            history.changes[i].expression, anchored_image, &anchored
        )
        if is_constant(expression):
            decide(history, history.changes[i].subject, expression)
        else:
            join(workspace, history, history.changes[i].subject, expression)
    return 0


cdef int add_time_point(
    Workspace workspace, History *history, uint64_t time_stamp, uint64_t offset,
    Expression expression
) except -1 nogil:
    """Add the current time-point: output its verdict if it is known, else store it."""
    cdef uint32_t group, twin, number
    if is_constant(expression):
        return add_verdict(
            history, time_stamp, offset, count_decided(history, expression, 1), NONE
        )
    # Most time-points have the same expression as the previous one.
    group = history.recent_group
    if group == NONE or history.groups[group].expression != expression:
        group = find_group(history, expression)
        history.recent_group = group
    if group != NONE and history.mode != MODE_NAIVE:
        # Only the latest member can belong to the current time-point.
        twin = history.groups[group].latest
        if (
            history.entries[twin].time_stamp == time_stamp
            or merges_across_time(workspace, history, expression)
        ):
            history.entries[twin].weight += 1
            return add_verdict(history, time_stamp, offset, VERDICT_EQUIVALENT, twin)
    new_entry(history, time_stamp, offset, &number)
    if group == NONE:
        new_group(history, expression, &group)
        history.recent_group = group
        watch(workspace, history, group)
    link_member(history, number, group)
    return 0


# ---- checks of the debug build -----------------------------------------------------------------


cdef int check_group(Workspace workspace, History *history, uint32_t number) except -1:
    """Check that the group is in its place, and that what affects it is recorded."""
    cdef Group *group = &history.groups[number]
    cdef uint64_t kinds = group.kinds
    cdef uint64_t due = group.due
    assert kinds & ~history.kinds == 0, "the kinds of all groups"
    assert history.active[group.place] == number, "a group out of its place"
    assert (
        group.place == 0 or history.groups[history.active[(group.place - 1) // 2]].due <= due
    ), "the order of the heap"
    watch(workspace, history, number)
    assert kinds == group.kinds and due == group.due, "what concerns a group"
    return 0


cdef int check_history(Workspace workspace, History *history) except -1:
    """Check the time order, that every entry has a group, and that equal entries are merged."""
    cdef uint32_t number = history.first
    cdef uint32_t count = 0
    cdef Entry *entry
    seen = set()
    while number != NONE:
        entry = &history.entries[number]
        count += 1
        assert entry.earlier == NONE or is_earlier(history, entry.earlier, number), "time order"
        assert entry.group != NONE, "an entry between groups"
        expression = history.groups[entry.group].expression
        assert find_group(history, expression) == entry.group, "a group out of the table"
        check_group(workspace, history, entry.group)
        if history.mode != MODE_NAIVE:
            key = (expression, entry.time_stamp)
            if merges_across_time(workspace, history, expression):
                key = (expression, None)
            assert key not in seen, "two equal pending entries"
            seen.add(key)
        number = entry.later
    assert count == history.pending_count, "the number of pending entries"
    return 0
