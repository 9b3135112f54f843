# cython: language_level=3
"""Moves what slices remember to the slices of another plan: union and split of states at once.

A slice may be wrong about rows that it does not own, as events that concern them never came to it.
So each row is taken from the first of the old slices that are right about it, and goes to all of
the new slices that have to know it. What depends on time only is the same in all slices.

# PERF: 0.8 to 1 µs of processor time a row on a shared Xeon, for a window of 10^6 rows that moves
# from 4 slices to 8, 3 and 4 again. Items are sorted by time-point, which is simpler than a merge.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memset


cdef int compare_moved(const void *left, const void *right) noexcept nogil:
    cdef const MovedItem *a = <const MovedItem *> left
    cdef const MovedItem *b = <const MovedItem *> right
    if a.order != b.order:
        return -1 if a.order < b.order else 1
    if a.source != b.source:
        return -1 if a.source < b.source else 1
    return -1 if a.place < b.place else a.place > b.place


@final
cdef class Mover:
    """Moves what the engines of some slices remember to those of others.

    old_points, old_rows: the routes of rows of atoms and of remembered rows, in the old slices.
    new_points, new_rows: those in the new slices.
    """

    def __cinit__(
        self,
        Router old_points not None,
        Router old_rows not None,
        Router new_points not None,
        Router new_rows not None,
    ):
        self.old_points = old_points
        self.old_rows = old_rows
        self.new_points = new_points
        self.new_rows = new_rows
        self.old_count = old_rows.slices
        self.new_count = new_rows.slices
        if old_points.slices != self.old_count or new_points.slices != self.new_count:
            raise ValueError("routes of different slices")
        self.old_states = <State **> calloc(self.old_count, sizeof(State *))
        self.new_states = <State **> calloc(self.new_count, sizeof(State *))
        self.old_queues = <RowQueue **> calloc(self.old_count, sizeof(RowQueue *))
        self.new_queues = <RowQueue **> calloc(self.new_count, sizeof(RowQueue *))
        self.gathered = <Rows *> calloc(self.new_count, sizeof(Rows))
        if (
            self.old_states == NULL or self.new_states == NULL or self.old_queues == NULL
            or self.new_queues == NULL or self.gathered == NULL
        ):
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        cdef size_t k
        if self.gathered != NULL:
            for k in range(self.new_count):
                free(self.gathered[k].cells)
        free(self.gathered)
        free(self.old_states)
        free(self.new_states)
        free(self.old_queues)
        free(self.new_queues)
        free(self.items)

    def move(self, list old not None, list new not None):
        """Move everything.

        old: the engines of the old slices. They have taken in the same time-points, and their
            answers have been taken; the states may be brought to the same time-point.
        new: those of the new slices, which are new, with the same plan and texts.
        """
        cdef RelationalEngine engine, first
        cdef size_t k, s, j
        cdef uint32_t states, queries
        if <size_t> len(old) != self.old_count or <size_t> len(new) != self.new_count:
            raise ValueError("expected an engine for each slice")
        first = old[0]
        states = first.state_count
        queries = first.query_count
        digest_of_plan = first.plan.digest()
        if self.old_rows.atom_count != states + 2 * queries or (
            self.new_rows.atom_count != self.old_rows.atom_count
            or self.old_points.atom_count != first.atom_count
            or self.new_points.atom_count != first.atom_count
        ):
            raise ValueError("routes of another plan")
        for engine in [*old, *new]:
            engine.require_sound()
            if engine.texts is not first.texts or engine.plan.digest() != digest_of_plan:
                raise ValueError("an engine has other texts or another plan")
            if len(engine.points) or len(engine.answers):
                raise ValueError("time-points or answers wait to be taken")
        for engine in old:
            if engine.point_count != first.point_count or engine.clock != first.clock:
                raise ValueError("the slices have taken in different time-points")
        for engine in new:
            if engine.point_count or engine.clock:
                raise ValueError("a slice is not new")
            if engine.timeline is not first.timeline:
                raise ValueError("a slice of another log")
            copy_log(engine, old)
        (<RelationalEngine> new[0]).overflows = sum([one.overflows for one in old])
        for s in range(states):
            for k in range(self.old_count):
                self.old_states[k] = &(<RelationalEngine> old[k]).states[s]
            for k in range(self.new_count):
                self.new_states[k] = &(<RelationalEngine> new[k]).states[s]
            with nogil:
                self.move_state(<uint32_t> s)
            for j in range(first.states[s].left_count):
                if first.states[s].lefts[j].operand != NONE:
                    with nogil:
                        self.move_left(states + first.states[s].lefts[j].operand, <uint32_t> j)
        for s in range(queries):
            for k in range(self.old_count):
                self.old_queues[k] = &(<RelationalEngine> old[k]).queries[s].waiting
            for k in range(self.new_count):
                self.new_queues[k] = &(<RelationalEngine> new[k]).queries[s].waiting
            with nogil:
                self.move_queue(
                    self.old_rows, self.new_rows, states + queries + <uint32_t> s, False
                )
            for j in range(first.queries[s].kept.count):
                for k in range(self.old_count):
                    self.old_queues[k] = &(<RelationalEngine> old[k]).queries[s].kept_rows[j]
                for k in range(self.new_count):
                    self.new_queues[k] = &(<RelationalEngine> new[k]).queries[s].kept_rows[j]
                with nogil:
                    self.move_queue(
                        self.old_points, self.new_points, first.queries[s].kept.of[j],
                        first.queries[s].kept.of[j] == first.point_atom
                        or first.queries[s].kept.of[j] == first.time_atom
                    )
        for policy in first.closed:
            engine = old[self.old_points.policies[<size_t> policy].home]
            saved = engine.closed[policy].snapshot()
            for engine in new:
                engine.closed[policy].restore(*saved)

    cdef bint takes(
        self, Router router, uint32_t kind, const int64_t *cells, size_t source
    ) noexcept nogil:
        """Whether an old slice is the first of those that are right about a row."""
        cdef size_t word
        self.aim(router, kind, cells)
        for word in range(TARGET_WORDS):
            if self.targets[word]:
                return 64 * word + <size_t> lowest_bit(self.targets[word]) == source
        return False

    cdef void aim(self, Router router, uint32_t kind, const int64_t *cells) noexcept nogil:
        """Find the slices of a row."""
        memset(self.targets, 0, sizeof(self.targets))
        router.route(kind, cells, self.targets)

    cdef bint is_target(self, size_t slice) noexcept nogil:
        return self.targets[slice >> 6] >> (slice & 63) & 1

    cdef int note(self, const MovedItem *item) except -1 nogil:
        make_room(
            <void **> &self.items, &self.item_room, self.item_count + 1, sizeof(MovedItem)
        )
        self.items[self.item_count] = item[0]
        self.item_count += 1
        return 0

    cdef void sort(self) noexcept nogil:
        if self.item_count > 1:
            qsort(self.items, self.item_count, sizeof(MovedItem), compare_moved)

    cdef int align(self) except -1 nogil:
        """Bring a state to the same time-point in all old slices, the latest one of theirs."""
        cdef size_t k
        cdef uint64_t position = NOWHERE
        cdef int64_t now = 0
        for k in range(self.old_count):
            if self.old_states[k].position != NOWHERE and (
                position == NOWHERE or self.old_states[k].position > position
            ):
                position = self.old_states[k].position
                now = self.old_states[k].now
        if position != NOWHERE:
            for k in range(self.old_count):
                advance_state(self.old_states[k], position, now)
        return 0

    cdef int move_state(self, uint32_t kind) except -1 nogil:
        """Move the rows of a state, and those that wait in its inbox."""
        cdef State *first = self.old_states[0]
        cdef State *state
        cdef size_t k, j
        if first.kind == GROUPS:
            # these follow from the rows of the parent
            return 0
        if first.kind == SPANS:
            return self.move_spans(kind)
        self.align()
        for k in range(self.new_count):
            state = self.new_states[k]
            state.position = first.position
            state.now = first.now
            state.processed = first.processed
            for j in range(self.old_count):
                state.processed = max(state.processed, self.old_states[j].processed)
            if state.kind == COUNTS:
                self.copy_counted(state)
        if first.upper < 0 and first.kind != UNTIL_STATE:
            self.move_slots(kind)
        else:
            self.move_entries(kind)
        for k in range(self.old_count):
            self.old_queues[k] = &self.old_states[k].inbox
        for k in range(self.new_count):
            self.new_queues[k] = &self.new_states[k].inbox
        return self.move_queue(self.old_rows, self.new_rows, kind, False)

    cdef int copy_counted(self, State *state) except -1 nogil:
        """Copy the time-points that a state counts from the slice that knows the most of them.

        That slice has taken in all time-points, if a policy counts them.
        """
        cdef size_t k
        cdef uint64_t known, most = 0
        cdef const State *source = self.old_states[0]
        for k in range(self.old_count):
            known = self.old_states[k].time_end - self.old_states[k].first_time
            if self.old_states[k].upper < 0:
                known += self.old_states[k].total
            if known > most:
                most = known
                source = self.old_states[k]
        state.total = source.total
        for k in range(source.first_time, source.time_end):
            put_time(state, source.times[k].time_stamp, source.times[k].point)
        state.window_end = source.window_end - source.first_time
        return 0

    cdef int move_slots(self, uint32_t kind) except -1 nogil:
        """Move the rows of a state that has no entries."""
        cdef State *state
        cdef const int64_t *cells
        cdef size_t k, s, j
        cdef uint32_t slot
        for k in range(self.old_count):
            state = self.old_states[k]
            for s in range(state.rows.count):
                cells = cells_of(state, <uint32_t> s)
                if not state.slots[s].is_live or not self.takes(self.old_rows, kind, cells, k):
                    continue
                self.aim(self.new_rows, kind, cells)
                for j in range(self.new_count):
                    if self.is_target(j):
                        slot = slot_for(self.new_states[j], cells)
                        self.new_states[j].slots[slot].references = state.slots[s].references
                        make_live(self.new_states[j], slot)
                        self.new_states[j].slots[slot].time_stamp = state.slots[s].time_stamp
        return 0

    cdef int move_entries(self, uint32_t kind) except -1 nogil:
        """Move the entries of a state, and their rows with them."""
        cdef State *state
        cdef Entry *entry
        cdef MovedItem item
        cdef MovedItem *moved
        cdef size_t k, e, j
        cdef uint32_t slot
        self.item_count = 0
        for k in range(self.old_count):
            state = self.old_states[k]
            for e in range(state.first_entry, state.entry_end):
                entry = &state.entries[e]
                if entry.slot == NONE or not state.slots[entry.slot].is_live or (
                    entry.epoch != state.slots[entry.slot].epoch
                ):
                    continue
                item.cells = cells_of(state, entry.slot)
                if self.takes(self.old_rows, kind, item.cells, k):
                    item.order = entry.point
                    item.source = <uint32_t> k
                    item.place = e
                    item.time_stamp = entry.time_stamp
                    self.note(&item)
        self.sort()
        for e in range(self.item_count):
            moved = &self.items[e]
            self.aim(self.new_rows, kind, moved.cells)
            entry = &self.old_states[moved.source].entries[moved.place]
            for j in range(self.new_count):
                if self.is_target(j):
                    slot = slot_for(self.new_states[j], moved.cells)
                    add_entry(
                        self.new_states[j], slot, entry.time_stamp, entry.point, entry.since
                    )
        return 0

    cdef int move_spans(self, uint32_t kind) except -1 nogil:
        """Move spans; the rows of the parent have begun those that have not ended."""
        cdef State *spans
        cdef State *parent
        cdef MovedItem item
        cdef MovedItem *moved
        cdef size_t k, s, j
        cdef uint32_t slot
        cdef uint64_t start, end
        self.item_count = 0
        for k in range(self.old_count):
            spans = self.old_states[k]
            forget_spans(spans)
            parent = spans.parent
            for s in range(parent.rows.count):
                item.cells = cells_of(parent, <uint32_t> s)
                if not parent.slots[s].is_live or not self.takes(
                    self.old_rows, kind, item.cells, k
                ):
                    continue
                start = spans.slots[open_span(spans, item.cells)].head
                self.aim(self.new_rows, kind, item.cells)
                for j in range(self.new_count):
                    if self.is_target(j):
                        slot = open_span(self.new_states[j], item.cells)
                        self.new_states[j].slots[slot].head = start
            for s in range(spans.first_entry, spans.entry_end):
                item.slot = spans.entries[s].slot
                item.cells = cells_of(spans, item.slot)
                if self.takes(self.old_rows, kind, item.cells, k):
                    item.order = <uint64_t> spans.entries[s].time_stamp
                    item.source = <uint32_t> k
                    item.place = s
                    item.time_stamp = spans.entries[s].time_stamp
                    self.note(&item)
        self.sort()
        for s in range(self.item_count):
            moved = &self.items[s]
            self.aim(self.new_rows, kind, moved.cells)
            spans = self.old_states[moved.source]
            start = spans.slots[moved.slot].head
            end = spans.slots[moved.slot].tail
            for j in range(self.new_count):
                if not self.is_target(j):
                    continue
                spans = self.new_states[j]
                make_room(
                    <void **> &spans.entries, &spans.entry_room,
                    spans.entry_end + spans.live_count + 2, sizeof(Entry)
                )
                slot = new_span(spans, moved.cells)
                spans.slots[slot].head = start
                spans.live_count += 1
                put_end(spans, slot, end, moved.time_stamp)
        return 0

    cdef int move_left(self, uint32_t kind, uint32_t left) except -1 nogil:
        """Move what a conjunct of the left side of SINCE or UNTIL knows."""
        cdef Left *known
        cdef MovedItem item
        cdef MovedItem *moved
        cdef QueuedPoint point
        cdef uint32_t place
        cdef size_t k, s, j
        self.item_count = 0
        for k in range(self.old_count):
            known = &self.old_states[k].lefts[left]
            self.old_queues[k] = &known.inbox
            # UNTIL alone knows rows; each is the only one of its key
            for s in range(known.by_row.mask + 1 if known.by_row.heads != NULL else 0):
                place = known.by_row.heads[s]
                if place == NONE:
                    continue
                item.cells = row_of(&known.known, place)
                if self.takes(self.old_rows, kind, item.cells, k):
                    item.order = known.latest[place]
                    item.source = <uint32_t> k
                    item.place = place
                    item.slot = place
                    item.time_stamp = 0
                    self.note(&item)
        self.sort()
        point.time_stamp = 0
        point.count = 1
        for s in range(self.item_count):
            moved = &self.items[s]
            point.point = moved.order
            self.aim(self.new_rows, kind, moved.cells)
            for j in range(self.new_count):
                if self.is_target(j):
                    known = &self.new_states[j].lefts[left]
                    note_left(known, moved.cells, &point)
                    place = known_row(known, moved.cells, known.by_row.columns)
                    known.starts[place] = (
                        self.old_states[moved.source].lefts[left].starts[moved.slot]
                    )
        for j in range(self.new_count):
            self.new_queues[j] = &self.new_states[j].lefts[left].inbox
        return self.move_queue(self.old_rows, self.new_rows, kind, False)

    cdef int move_queue(
        self, Router old_router, Router new_router, uint32_t kind, bint is_everywhere
    ) except -1 nogil:
        """Move rows that wait with their time-points; with `is_everywhere`, to all slices."""
        cdef const RowQueue *queue
        cdef const QueuedPoint *point
        cdef MovedItem item
        cdef size_t k, p, r, s, j
        cdef uint32_t width = self.new_queues[0].width
        self.item_count = 0
        for k in range(self.old_count):
            queue = self.old_queues[k]
            item.cells = queue.cells + queue.first_cell if has_points(queue) else NULL
            item.place = 0
            item.slot = NONE
            item.source = <uint32_t> k
            for p in range(queue.first_point, queue.point_count):
                point = &queue.points[p]
                for r in range(point.count):
                    if is_everywhere or self.takes(old_router, kind, item.cells, k):
                        item.order = point.point
                        item.time_stamp = point.time_stamp
                        self.note(&item)
                    item.cells += width
                    item.place += 1
        self.sort()
        for j in range(self.new_count):
            self.gathered[j].width = width
            self.gathered[j].count = 0
        s = 0
        while s < self.item_count:
            item = self.items[s]
            while s < self.item_count and self.items[s].order == item.order:
                if not is_everywhere:
                    self.aim(new_router, kind, self.items[s].cells)
                for j in range(self.new_count):
                    # the row of a built-in atom is the same wherever the time-point was taken in
                    if self.is_target(j) if not is_everywhere else not self.gathered[j].count:
                        copy_cells(new_row(&self.gathered[j]), self.items[s].cells, width)
                s += 1
            for j in range(self.new_count):
                if self.gathered[j].count:
                    push_rows(
                        self.new_queues[j], item.time_stamp, item.order, &self.gathered[j]
                    )
                    self.gathered[j].count = 0
        return 0


cdef int copy_log(RelationalEngine engine, list others) except -1:
    """Let a new engine know what those of other slices have taken in."""
    cdef RelationalEngine other = others[0]
    cdef size_t k
    cdef list taken = []
    engine.point_count = other.point_count
    engine.clock = other.clock
    engine.kept_texts = other.kept_texts
    engine.constants = other.constants
    for k in range(engine.policy_count):
        engine.found[k] = other.found[k]
    for other in others:
        taken += [other.taken[k] for k in range(other.taken_count)]
    set_taken(engine, sorted(set(taken)))
    return 0
