# cython: language_level=3
"""The engine of first-order policies: time-points in, answers out.

A query is a formula that is evaluated by itself: a policy, or the operand of a temporal operator.
Its early block is run at each time-point as it comes; what that leaves waits for the late block,
which looks at later time-points. Queries come after those whose rows they need.
"""

from cython cimport final, no_gc_clear
from libc.stdint cimport INT64_MAX, UINT32_MAX, UINT64_MAX, uint8_t
from libc.stdlib cimport free
from libc.string cimport memmove, memset
from mtlmon.policy.predicates.operations cimport (
    CONSTANT, FIRST_STRICT, IF_ELSE, LOAD, Instruction, Register, lenient, strict,
)
from mtlmon.arrays.native cimport KeyTable

from mtlmon.engine.native cimport DIGEST_BYTES, as_bytes, digest

from mtlmon.errors import LimitError, RowError, SnapshotError

cdef enum:
    SNAPSHOT_VERSION = 1

# Up to here, integers are floats without rounding.
cdef int64_t MOST_EXACT = 1 << 53


# The collector of garbage would let go of `allocations` before the engine is freed.
@no_gc_clear
@final
cdef class RelationalEngine:
    """Evaluates the policies of a plan.

    plan: a `mtlmon.relational.plan.Plan`.
    texts: the table of texts whose numbers are cells; of one column.
    """

    def __cinit__(self, plan, KeyTable texts not None):
        cdef size_t k, j
        cdef StepBlock *block
        from array import array

        if texts.columns != 1:
            raise ValueError("texts have one column")
        self.plan = plan
        self.texts = texts
        self.allocations = Allocations()
        self.functions = list(plan.functions)
        self.descriptions = [one.descriptions for one in plan.programs]
        self.points = PointBlock(array("I", plan.atoms))
        self.answers = AnswerBlock(array("I", [len(one) for one in plan.policies]))
        self.atom_count = <uint32_t> len(plan.atoms)
        self.state_count = <uint32_t> len(plan.states)
        self.block_count = <uint32_t> len(plan.blocks)
        self.program_count = <uint32_t> len(plan.programs)
        self.query_count = <uint32_t> len(plan.queries)
        self.group_count = <uint32_t> len(plan.groups)
        self.policy_count = <uint32_t> len(plan.policies)
        self.states = <State *> allocated(self.allocations, self.state_count, sizeof(State))
        self.blocks = <StepBlock *> allocated(
            self.allocations, self.block_count, sizeof(StepBlock)
        )
        self.programs = <Program *> allocated(
            self.allocations, self.program_count, sizeof(Program)
        )
        self.queries = <Query *> allocated(self.allocations, self.query_count, sizeof(Query))
        self.kinds = <Numbers *> allocated(
            self.allocations, self.policy_count, sizeof(Numbers)
        )
        self.database = <Rows *> allocated(self.allocations, self.atom_count, sizeof(Rows))
        self.atom_texts = <Numbers *> allocated(
            self.allocations, self.atom_count, sizeof(Numbers)
        )
        self.kept = <Rows *> allocated(self.allocations, self.atom_count, sizeof(Rows))
        self.atoms = <Rows **> allocated(self.allocations, self.atom_count, sizeof(Rows *))
        self.groups = <Rows *> allocated(self.allocations, self.group_count, sizeof(Rows))
        self.found = <uint64_t *> allocated(
            self.allocations, self.policy_count, sizeof(uint64_t)
        )
        for k in range(self.atom_count):
            self.database[k].width = self.kept[k].width = plan.atoms[k]
            self.atoms[k] = &self.database[k]
        # constants are texts that are never forgotten
        self.constants = self.kept_texts = len(texts)
        self.spare_texts = 4096
        self.point_atom = NONE if plan.point is None else plan.point
        self.time_atom = NONE if plan.time is None else plan.time
        for k in range(self.group_count):
            self.groups[k].width = plan.groups[k]
        for k in range(self.atom_count):
            self.atom_texts[k] = read_numbers(
                self.allocations, plan.atom_texts[k], plan.atoms[k]
            )
        for k in range(self.policy_count):
            self.kinds[k] = read_numbers(
                self.allocations, [CELL_KINDS[kind] for kind in plan.policies[k]], 3
            )
        for k in range(self.program_count):
            read_program(&self.programs[k], self.allocations, plan.programs[k])
            self.programs[k].description = <uint32_t> k
        for k in range(self.state_count):
            read_state(&self.states[k], self.allocations, plan.states[k])
            self.read_groups(&self.states[k], plan.states[k])
        for k in range(self.block_count):
            block = &self.blocks[k]
            block.width = plan.blocks[k].width
            block.count = <uint32_t> len(plan.blocks[k].steps)
            block.steps = <Step *> allocated(self.allocations, block.count, sizeof(Step))
            for j in range(block.count):
                read_step(&block.steps[j], self, plan.blocks[k].steps[j])
        for k in range(self.query_count):
            self.read_query(&self.queries[k], plan.queries[k])
        new_row(&self.unit)

    cdef int read_query(self, Query *query, plan) except -1:
        cdef size_t k
        query.early = NONE if plan.early is None else plan.early
        query.late = NONE if plan.late is None else plan.late
        query.width = plan.width
        query.waiting.width = 0
        if query.late != NONE:
            query.waiting.width = self.blocks[query.late].width
        query.waiting_texts = read_numbers(
            self.allocations, plan.waiting_texts, query.waiting.width
        )
        query.policy = NONE if plan.policy is None else plan.policy
        query.is_find = plan.is_find
        query.early_states = read_numbers(
            self.allocations, plan.early_states, self.state_count
        )
        query.late_states = read_numbers(self.allocations, plan.late_states, self.state_count)
        query.kept = read_numbers(self.allocations, plan.kept, self.atom_count)
        query.kept_rows = <RowQueue *> allocated(
            self.allocations, query.kept.count, sizeof(RowQueue)
        )
        for k in range(query.kept.count):
            query.kept_rows[k].width = self.points.widths[query.kept.of[k]]
        query.consumers = <Consumer *> allocated(
            self.allocations, len(plan.consumers), sizeof(Consumer)
        )
        for state, left in plan.consumers:
            if not 0 <= state < self.state_count:
                raise ValueError("a plan names a state that does not exist")
            query.consumers[query.consumer_count].state = state
            query.consumers[query.consumer_count].left = NONE if left is None else left
            query.consumer_count += 1
        return 0

    def __dealloc__(self):
        cdef size_t k, j
        for k in range(self.state_count):
            free_state(&self.states[k])
        for k in range(self.block_count):
            for j in range(self.blocks[k].count):
                free_step(&self.blocks[k].steps[j])
        for k in range(self.query_count):
            free_queue(&self.queries[k].waiting)
            for j in range(self.queries[k].kept.count):
                free_queue(&self.queries[k].kept_rows[j])
        for k in range(self.atom_count):
            free(self.database[k].cells)
        for k in range(self.group_count):
            free(self.groups[k].cells)
        free(self.unit.cells)
        free(self.times)
        free(self.seen.places)
        free(self.chain)
        free(self.order)
        free(self.spare)

    @property
    def held_bytes(self):
        """The bytes that states and waiting rows hold."""
        cdef size_t held = self.time_room * sizeof(PointTime)
        cdef size_t k, j
        for k in range(self.state_count):
            held += held_by_state(&self.states[k])
        for k in range(self.query_count):
            held += held_by_queue(&self.queries[k].waiting)
            for j in range(self.queries[k].kept.count):
                held += held_by_queue(&self.queries[k].kept_rows[j])
        return held

    @property
    def found_points(self):
        """For each policy the number of time-points that violate it, or match."""
        return [self.found[k] for k in range(self.policy_count)]

    @property
    def answered_points(self):
        """For each policy the number of time-points that have been answered."""
        found = [0] * self.policy_count
        for k in range(self.query_count):
            if self.queries[k].policy != NONE:
                found[self.queries[k].policy] = self.queries[k].position
        return found

    def advance(self):
        """Take in all time-points of `points`; what is found is in `answers` then.

        Raises:
            RowError: integers overflow.
            LimitError: an operator would remember too much.
        """
        cdef size_t first = 0
        cdef PointBlock points = self.points
        self.require_sound()
        if self.is_closed:
            raise ValueError("the log has ended")
        try:
            with nogil:
                if points.next:
                    first = points.points[points.next - 1].row_end
                while points.next < points.point_count:
                    self.take_point(
                        points.points[points.next].time_stamp, first,
                        points.points[points.next].row_end
                    )
                    first = points.points[points.next].row_end
                    points.next += 1
                points.clear()
            if len(self.texts) > 2 * self.kept_texts + self.spare_texts and not self.keeps_texts:
                self.forget_texts()
        except BaseException as error:
            self.failure = error
            raise

    def end(self, int64_t clock, bint is_closed):
        """Say that no time-point with a time-stamp below `clock` comes, or none at all."""
        self.require_sound()
        self.clock = max(self.clock, clock)
        self.is_closed = self.is_closed or is_closed
        try:
            with nogil:
                self.settle()
        except BaseException as error:
            self.failure = error
            raise

    cdef int require_sound(self) except -1:
        if self.failure is not None:
            raise ValueError("the engine stopped at an error") from self.failure
        return 0

    cdef PointTime *time_of(self, uint64_t point) noexcept nogil:
        return &self.times[point - self.time_base]

    cdef int take_point(self, int64_t time_stamp, size_t first_row, size_t end_row) except -1 nogil:
        """Take in a time-point with its rows."""
        cdef uint32_t atom
        cdef size_t k
        cdef uint64_t offset = 0
        cdef Query *query
        if time_stamp < self.clock:
            with gil:
                raise ValueError("time-stamps decrease")
        if self.time_end and self.times[self.time_end - 1].time_stamp == time_stamp:
            offset = self.times[self.time_end - 1].offset + 1
        self.clock = time_stamp
        make_room(
            <void **> &self.times, &self.time_room, self.time_end + 1, sizeof(PointTime)
        )
        self.times[self.time_end].time_stamp = time_stamp
        self.times[self.time_end].offset = offset
        self.time_end += 1
        self.here = self.point_count
        self.now = time_stamp
        for atom in range(self.atom_count):
            self.database[atom].count = 0
        for k in range(first_row, end_row):
            atom = self.points.rows[k].atom
            copy_cells(
                new_row(&self.database[atom]), self.points.values + self.points.rows[k].start,
                self.points.widths[atom]
            )
        if end_row - first_row > 1:
            for atom in range(self.atom_count):
                distinct(&self.database[atom], &self.seen)
        if self.point_atom != NONE:
            new_row(&self.database[self.point_atom])[0] = <int64_t> self.here
        if self.time_atom != NONE:
            new_row(&self.database[self.time_atom])[0] = time_stamp
        self.point_count += 1
        for k in range(self.state_count):
            if self.states[k].kind == COUNTS:
                put_time(&self.states[k], time_stamp)
        for k in range(self.query_count):
            query = &self.queries[k]
            self.here = self.point_count - 1
            self.now = time_stamp
            self.run_early(query)
            if query.late != NONE:
                while self.is_ready(query):
                    self.run_late(query)
        self.forget_times()
        return 0

    cdef int settle(self) except -1 nogil:
        """Run what waits for time to pass."""
        cdef size_t k
        for k in range(self.query_count):
            if self.queries[k].late != NONE:
                while self.is_ready(&self.queries[k]):
                    self.run_late(&self.queries[k])
        self.forget_times()
        return 0

    cdef void forget_times(self) noexcept nogil:
        """Forget the time-stamps that nothing waits for; that of the last time-point is kept."""
        cdef uint64_t least = self.point_count
        cdef size_t k, first
        if self.time_end < 64:
            return
        for k in range(self.query_count):
            least = min(least, self.queries[k].position)
        if least == self.point_count:
            least -= 1
        first = <size_t> (least - self.time_base)
        if first <= self.time_end // 2:
            return
        memmove(
            self.times, self.times + first, (self.time_end - first) * sizeof(PointTime)
        )
        self.time_end -= first
        self.time_base = least

    cdef bint is_ready(self, Query *query) noexcept nogil:
        """Whether the late block of a query can be run at the query's position."""
        cdef uint64_t here = query.position
        cdef uint64_t reached
        cdef size_t k, j
        cdef State *state
        cdef int64_t now
        if here >= self.point_count:
            return False
        now = self.time_of(here).time_stamp
        for k in range(query.late_states.count):
            state = &self.states[query.late_states.of[k]]
            reached = NOWHERE
            if state.operand != NONE:
                reached = self.queries[state.operand].position
            for j in range(state.left_count):
                if state.lefts[j].operand != NONE:
                    reached = min(reached, self.queries[state.lefts[j].operand].position)
            if not state.is_future:
                if reached < here + (state.kind != NEIGHBOUR):
                    return False
            elif state.kind == NEIGHBOUR:
                if reached < here + 2 and not (
                    self.is_closed and reached == self.point_count
                ):
                    return False
            elif reached < self.point_count:
                if self.time_of(reached).time_stamp - now <= state.upper:
                    return False
            elif not self.is_closed and self.clock - now <= state.upper:
                return False
        return True

    cdef int run_early(self, Query *query) except -1 nogil:
        """Run the early block at the present time-point."""
        cdef Rows *rows = &self.unit
        cdef Rows *kept
        cdef size_t k
        if query.early != NONE:
            self.stand_at(&query.early_states)
            rows = self.run_block(query.early, rows)
            self.relieve(&query.early_states)
        if query.late == NONE:
            query.position = self.here + 1
            return self.deliver(query, rows)
        if query.early != NONE and rows.count:
            push_rows(&query.waiting, self.now, self.here, rows)
        for k in range(query.kept.count):
            kept = &self.database[query.kept.of[k]]
            if kept.count:
                push_rows(&query.kept_rows[k], self.now, self.here, kept)
        return 0

    cdef int run_late(self, Query *query) except -1 nogil:
        """Run the late block at the query's position."""
        cdef Rows waiting
        cdef Rows *rows = &self.unit
        cdef Rows *kept
        cdef RowQueue *queue
        cdef uint64_t here = query.position
        cdef size_t k
        self.here = here
        self.now = self.time_of(here).time_stamp
        self.stand_at(&query.late_states)
        if query.early != NONE:
            waiting.width = query.waiting.width
            waiting.room = waiting.count = 0
            waiting.cells = NULL
            if has_points(&query.waiting) and front_point(&query.waiting).point == here:
                waiting.count = front_point(&query.waiting).count
                waiting.cells = <int64_t *> front_rows(&query.waiting)
            rows = &waiting
        for k in range(query.kept.count):
            kept = &self.kept[query.kept.of[k]]
            queue = &query.kept_rows[k]
            kept.count = 0
            if has_points(queue) and front_point(queue).point == here:
                kept.count = front_point(queue).count
                kept.cells = <int64_t *> front_rows(queue)
            self.atoms[query.kept.of[k]] = kept
        if rows.count:
            rows = self.run_block(query.late, rows)
        for k in range(query.kept.count):
            queue = &query.kept_rows[k]
            if has_points(queue) and front_point(queue).point == here:
                pop_point(queue)
            self.atoms[query.kept.of[k]] = &self.database[query.kept.of[k]]
        self.relieve(&query.late_states)
        query.position = here + 1
        self.deliver(query, rows)
        if query.early != NONE and has_points(&query.waiting) and (
            front_point(&query.waiting).point == here
        ):
            pop_point(&query.waiting)
        return 0

    cdef int stand_at(self, Numbers *states) except -1 nogil:
        """Advance the states that take in each time-point by itself."""
        cdef size_t k
        cdef State *state
        for k in range(states.count):
            state = &self.states[states.of[k]]
            if state.is_eager and state.position != self.here:
                self.filter_live(state)
                advance_state(state, self.here, self.now)
        return 0

    cdef int relieve(self, Numbers *states) except -1 nogil:
        """Advance the states in whose inboxes much waits."""
        cdef size_t k
        cdef State *state
        for k in range(states.count):
            state = &self.states[states.of[k]]
            if is_crowded(state):
                advance_state(state, self.here, self.now)
                if is_crowded(state):
                    state.patience *= 2
        return 0

    cdef int filter_live(self, State *state) except -1 nogil:
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
                found = self.run_block(state.lefts[k].block, &given)
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

    cdef int deliver(self, Query *query, Rows *rows) except -1 nogil:
        """Give the rows of a query to the states that it feeds, or answer a policy with them."""
        cdef size_t k
        cdef State *state
        cdef RowQueue *inbox
        if query.policy != NONE:
            self.answer(query, rows)
        if rows.count == 0:
            return 0
        for k in range(query.consumer_count):
            state = &self.states[query.consumers[k].state]
            inbox = &state.inbox
            if query.consumers[k].left != NONE:
                inbox = &state.lefts[query.consumers[k].left].inbox
            push_rows(inbox, self.now, self.here, rows)
        return 0

    cdef int answer(self, Query *query, Rows *rows) except -1 nogil:
        """Put the rows of a policy into the answers, in their order."""
        cdef Answer found
        cdef size_t k
        found.policy = query.policy
        found.time_stamp = self.now
        found.point = self.here
        found.offset = self.time_of(self.here).offset
        found.known = self.point_count
        found.start = 0
        if rows.count == 0:
            if self.wants_holding and not query.is_find:
                found.kind = HOLDS
                self.answers.put(&found, NULL)
            return 0
        self.found[query.policy] += 1
        found.kind = MATCHES if query.is_find else VIOLATED
        if rows.count == 1 or rows.width == 0:
            self.answers.put(&found, rows.cells)
            return 0
        make_room(<void **> &self.order, &self.order_room, rows.count, sizeof(uint32_t))
        make_room(<void **> &self.spare, &self.spare_room, rows.count, sizeof(uint32_t))
        for k in range(rows.count):
            self.order[k] = <uint32_t> k
        sort_rows(
            self.texts, self.kinds[query.policy].of, rows, self.order, self.spare
        )
        for k in range(rows.count):
            self.answers.put(&found, row_of(rows, self.order[k]))
        return 0

    cdef Rows *run_block(self, uint32_t number, Rows *given) except NULL nogil:
        """Run the steps of a block; the rows belong to the last step, or are those given."""
        cdef StepBlock *block = &self.blocks[number]
        cdef Rows *rows = given
        cdef uint32_t k
        for k in range(block.count):
            rows = self.run_step(&block.steps[k], rows)
            if rows.count == 0:
                # no step makes rows of none
                break
        return rows

    cdef Rows *run_step(self, Step *step, Rows *given) except NULL nogil:
        if step.kind == AGGREGATE:
            self.aggregate(step, given)
            return given
        step.rows.count = 0
        if step.kind == SCAN:
            self.scan(step, given)
        elif step.kind == PROBE:
            if self.states[step.source].kind == GROUPS:
                self.probe_groups(step, given)
            else:
                self.probe(step, given)
        elif step.kind == COMPUTE:
            self.compute(step, given)
        elif step.kind == PROJECT:
            self.project(step, given)
        elif step.kind == BRANCH:
            if step.mode == JOIN:
                self.join_branches(step, given)
            else:
                self.branch(step, given)
        elif step.kind == LISTED:
            self.listed(step, given)
        else:
            with gil:
                self.call(step, given)
        if step.is_distinct:
            distinct(&step.rows, &self.seen)
        return &step.rows

    cdef Rows *source_of(self, Step *step) except NULL nogil:
        cdef State *state
        if step.source_kind == ATOM_ROWS:
            return self.atoms[step.source]
        if step.source_kind == GROUP_ROWS:
            return &self.groups[step.source]
        state = &self.states[step.source]
        advance_state(state, self.here, self.now)
        return &state.current

    cdef int scan(self, Step *step, Rows *given) except -1 nogil:
        """Join rows with rows of this time-point."""
        cdef Rows *source = self.source_of(step)
        cdef size_t i, j
        cdef const int64_t *row
        cdef const int64_t *other
        cdef bint is_found
        if step.keys.count and given.count > 1 and source.count > HASHED_PAIRS // given.count:
            return self.scan_hashed(step, given, source)
        for i in range(given.count):
            row = row_of(given, i)
            is_found = False
            for j in range(source.count):
                other = row_of(source, j)
                if not matches_fixed(step, other) or not matches_keys(step, row, other):
                    continue
                is_found = True
                if step.mode != JOIN:
                    break
                put_joined(&step.rows, row, given.width, other, &step.takes)
            if step.mode != JOIN and is_found == (step.mode == SEMI):
                copy_cells(new_row(&step.rows), row, given.width)
        return 0

    cdef int scan_hashed(self, Step *step, Rows *given, Rows *source) except -1 nogil:
        """The same by a table of the source's rows by their keys."""
        cdef size_t mask = set_mask(source.count)
        cdef size_t i, place
        cdef uint32_t j
        cdef const int64_t *row
        cdef const int64_t *other
        cdef bint is_found
        prepare_set(&self.seen, source.count)
        make_room(<void **> &self.chain, &self.chain_room, source.count, sizeof(uint32_t))
        for i in range(source.count):
            other = row_of(source, source.count - 1 - i)
            if not matches_fixed(step, other):
                continue
            # rows of equal hash are a list
            place = hash_columns(other, step.matched.of, step.matched.count) & mask
            self.chain[source.count - 1 - i] = self.seen.places[place]
            self.seen.places[place] = <uint32_t> (source.count - 1 - i)
        for i in range(given.count):
            row = row_of(given, i)
            is_found = False
            j = self.seen.places[hash_columns(row, step.keys.of, step.keys.count) & mask]
            while j != NONE:
                other = row_of(source, j)
                j = self.chain[j]
                if not matches_keys(step, row, other):
                    continue
                is_found = True
                if step.mode != JOIN:
                    break
                put_joined(&step.rows, row, given.width, other, &step.takes)
            if step.mode != JOIN and is_found == (step.mode == SEMI):
                copy_cells(new_row(&step.rows), row, given.width)
        return 0

    cdef int read_groups(self, State *state, plan) except -1:
        """Let a state of groups hear of the rows of its parent, which comes before it."""
        cdef State *parent
        cdef size_t room
        if state.kind != GROUPS:
            return 0
        parent = &self.states[plan.operand]
        if not self.states <= parent < state:
            raise ValueError("a plan names a state that does not exist")
        state.operand = NONE
        state.parent = parent
        state.grouped_by = read_numbers(self.allocations, plan.grouped_by, parent.rows.width)
        if plan.width != state.grouped_by.count:
            raise ValueError("groups have the columns by which rows are grouped")
        state.summed = NONE if plan.summed is None else plan.summed
        if state.summed != NONE and state.summed >= parent.rows.width:
            raise ValueError("a plan names a column that does not exist")
        room = parent.grouping_count
        make_room(
            <void **> &parent.groupings, &room, parent.grouping_count + 1, sizeof(State *)
        )
        parent.groupings[parent.grouping_count] = state
        parent.grouping_count += 1
        return 0

    cdef int note_wide_sum(self) except -1 nogil:
        """A sum does not fit 64 bits: an error, or no value."""
        if not self.skips_overflows:
            with gil:
                raise RowError("a SUM overflows 64 bits")
        self.overflows += 1
        return 0

    cdef int probe_groups(self, Step *step, Rows *given) except -1 nogil:
        """Join rows with the groups that have counts and sums."""
        cdef State *state = &self.states[step.source]
        cdef Index *index = &state.indexes[step.index]
        cdef size_t i
        cdef uint32_t slot
        cdef const int64_t *row
        cdef int64_t value
        advance_state(state, self.here, self.now)
        for i in range(given.count):
            row = row_of(given, i)
            slot = first_slot(index, &state.rows, row, step.keys.of)
            if slot == NONE and state.rows.width == 0 and step.aggregate <= SUM_OF:
                # nothing has a count and a sum, 0
                new_row(&step.rows)
                row = row_of(given, i)
                copy_cells(row_of(&step.rows, step.rows.count - 1), row, given.width)
                row_of(&step.rows, step.rows.count - 1)[given.width] = 0
            while slot != NONE:
                if self.value_of_group(step, state, slot, &value):
                    put_joined(
                        &step.rows, row, given.width, cells_of(state, slot), &step.takes
                    )
                    row_of(&step.rows, step.rows.count - 1)[step.width - 1] = value
                if step.index == 0:
                    break
                slot = index.next[slot]
        return 0

    cdef bint value_of_group(
        self, Step *step, State *state, uint32_t slot, int64_t *value
    ) except -1 nogil:
        """Find the count, sum or mean of a group; return whether it has one."""
        cdef const uint64_t *words = state.sums + 2 * slot
        cdef uint64_t count = state.slots[slot].references
        if step.aggregate == COUNT_OF:
            value[0] = <int64_t> count
            return True
        if step.aggregate == SUM_OF:
            value[0] = <int64_t> words[0]
            if is_wide(words):
                self.note_wide_sum()
                return False
            return True
        if not is_wide(words) and -MOST_EXACT <= <int64_t> words[0] <= MOST_EXACT:
            value[0] = as_cell(<double> <int64_t> words[0] / <double> count)
            return True
        with gil:
            value[0] = as_cell(((<object> <int64_t> words[1] << 64) + words[0]) / count)
        return True

    cdef int probe(self, Step *step, Rows *given) except -1 nogil:
        """Join rows with those that a temporal operator holds for."""
        cdef State *state = &self.states[step.source]
        cdef Index *index = &state.indexes[step.index]
        cdef size_t i
        cdef uint32_t slot
        cdef const int64_t *row
        cdef bint is_found
        advance_state(state, self.here, self.now)
        for i in range(given.count):
            row = row_of(given, i)
            slot = first_slot(index, &state.rows, row, step.keys.of)
            if state.kind == COUNTS and slot == NONE:
                is_found = state.total == 0
            else:
                is_found = False
            while slot != NONE:
                if holds_now(state, slot):
                    is_found = True
                    if step.mode != JOIN:
                        break
                    put_joined(
                        &step.rows, row, given.width, cells_of(state, slot), &step.takes
                    )
                if step.index == 0:
                    break
                slot = index.next[slot]
            if step.mode != JOIN and is_found == (step.mode == SEMI):
                copy_cells(new_row(&step.rows), row, given.width)
        return 0

    cdef int evaluate(
        self, Program *program, const int64_t *row, Register *result
    ) except -1 nogil:
        """Compute an expression of the cells of a row."""
        cdef size_t place
        cdef Instruction *code
        cdef Register *target
        cdef Register *a
        cdef Register *b
        for place in range(program.size):
            code = &program.code[place]
            target = &program.registers[code.target]
            if code.operation == LOAD:
                target.content.integer = row[code.a]
                target.is_valid = True
                continue
            if code.operation == CONSTANT:
                target[0] = program.constants[code.a]
                continue
            a = &program.registers[code.a]
            b = &program.registers[code.b]
            if code.operation == COMPARE_TEXTS:
                target.is_valid = a.is_valid and b.is_valid
                if target.is_valid:
                    target.content.integer = (code.c & comparison_of(
                        compare_texts(self.texts, a.content.integer, b.content.integer)
                    )) != 0
            elif code.operation < FIRST_STRICT:
                lenient(
                    code.operation, target, a, b,
                    &program.registers[code.c if code.operation == IF_ELSE else code.b]
                )
            elif not a.is_valid or not b.is_valid:
                target.is_valid = False
            elif strict(code.operation, target, a.content, b.content, code.c):
                if not self.skips_overflows:
                    with gil:
                        words = self.descriptions[program.description][place]
                        raise RowError(f"{words} overflows 64 bits")
                self.overflows += 1
                target.is_valid = False
        result[0] = program.registers[program.result]
        return 0

    cdef int compute(self, Step *step, Rows *given) except -1 nogil:
        """Keep rows for which a condition is true, or add its value to rows where it has one."""
        cdef Program *program = &self.programs[step.source]
        cdef Register result
        cdef size_t i
        cdef int64_t *place
        for i in range(given.count):
            self.evaluate(program, row_of(given, i), &result)
            if step.is_binding:
                if not result.is_valid:
                    continue
            elif (result.is_valid and result.content.integer != 0) == (step.mode == ANTI):
                # a condition without a value is false
                continue
            place = new_row(&step.rows)
            copy_cells(place, row_of(given, i), given.width)
            if step.is_binding:
                place[given.width] = result.content.integer
                if step.cell == FLOAT_CELL:
                    place[given.width] = as_cell(result.content.number)
        return 0

    cdef int call(self, Step *step, Rows *given) except -1:
        """The same by a function of Python, which takes the cells of the columns."""
        cdef size_t i
        cdef int64_t *place
        cdef size_t column
        columns = [
            [row_of(given, i)[column] for i in range(given.count)]
            for column in [step.columns.of[i] for i in range(step.columns.count)]
        ]
        found = self.functions[step.source](columns, given.count, self.texts)
        for i in range(given.count):
            value = found[i]
            if step.is_binding:
                if value is None:
                    continue
            elif bool(value) == (step.mode == ANTI):
                continue
            place = new_row(&step.rows)
            copy_cells(place, row_of(given, i), given.width)
            if step.is_binding:
                place[given.width] = value
        return 0

    cdef int listed(self, Step *step, Rows *given) except -1 nogil:
        """Add a column with each of some constants."""
        cdef size_t i, k
        cdef int64_t *place
        for i in range(given.count):
            for k in range(step.constant_count):
                place = new_row(&step.rows)
                copy_cells(place, row_of(given, i), given.width)
                place[given.width] = step.constants[k]
        return 0

    cdef int branch(self, Step *step, Rows *given) except -1 nogil:
        """Keep the rows for which some block gives rows, or for which none does."""
        cdef Rows *found
        cdef size_t i, k
        cdef int64_t *place
        step.given.count = 0
        step.given.width = given.width + 1
        make_room(<void **> &step.flags, &step.flag_room, given.count, 1)
        memset(step.flags, 0, given.count)
        for i in range(given.count):
            place = new_row(&step.given)
            copy_cells(place, row_of(given, i), given.width)
            place[given.width] = <int64_t> i
        for k in range(step.blocks.count):
            found = self.run_block(step.blocks.of[k], &step.given)
            for i in range(found.count):
                step.flags[row_of(found, i)[given.width]] = 1
        for i in range(given.count):
            if step.flags[i] == (step.mode == SEMI):
                copy_cells(new_row(&step.rows), row_of(given, i), given.width)
        return 0

    cdef int join_branches(self, Step *step, Rows *given) except -1 nogil:
        """The rows of all blocks, each with its columns in one order."""
        cdef Rows *found
        cdef const uint32_t *columns
        cdef size_t i, k, c
        cdef int64_t *place
        for k in range(step.blocks.count):
            found = self.run_block(step.blocks.of[k], given)
            columns = step.columns.of + k * step.width
            for i in range(found.count):
                place = new_row(&step.rows)
                for c in range(step.width):
                    place[c] = row_of(found, i)[columns[c]]
        return distinct(&step.rows, &self.seen)

    cdef int project(self, Step *step, Rows *given) except -1 nogil:
        cdef size_t i, c
        cdef int64_t *place
        for i in range(given.count):
            place = new_row(&step.rows)
            for c in range(step.columns.count):
                place[c] = row_of(given, i)[step.columns.of[c]]
        return 0

    cdef int aggregate(self, Step *step, Rows *given) except -1 nogil:
        """Make the groups of the rows of a block: their columns, and the value of each."""
        cdef Rows *groups = &self.groups[step.group]
        cdef Rows *found
        cdef Register value
        cdef size_t i, k, count = 0, place, mask
        cdef uint32_t group
        cdef const int64_t *row
        cdef int64_t *target
        cdef uint32_t *group_of = NULL
        cdef int64_t *values = NULL
        cdef size_t group_room = 0, value_room = 0
        step.given.count = 0
        step.given.width = step.keys.count
        for i in range(given.count):
            target = new_row(&step.given)
            for k in range(step.keys.count):
                target[k] = row_of(given, i)[step.keys.of[k]]
        distinct(&step.given, &self.seen)
        found = self.run_block(step.blocks.of[0], &step.given)
        groups.count = 0
        try:
            make_room(<void **> &group_of, &group_room, found.count, sizeof(uint32_t))
            make_room(<void **> &values, &value_room, found.count, sizeof(int64_t))
            prepare_set(&self.seen, found.count)
            mask = set_mask(found.count)
            for i in range(found.count):
                row = row_of(found, i)
                value.content.integer = 0
                if step.has_value:
                    self.evaluate(&self.programs[step.source], row, &value)
                    if not value.is_valid:
                        continue
                place = hash_columns(row, step.columns.of, step.columns.count) & mask
                while True:
                    group = self.seen.places[place]
                    if group == NONE:
                        break
                    target = row_of(groups, group)
                    for k in range(step.columns.count):
                        if target[k] != row[step.columns.of[k]]:
                            break
                    else:
                        break
                    place = (place + 1) & mask
                if group == NONE:
                    group = <uint32_t> groups.count
                    self.seen.places[place] = group
                    target = new_row(groups)
                    for k in range(step.columns.count):
                        target[k] = row[step.columns.of[k]]
                    target[step.columns.count] = 0
                group_of[count] = group
                values[count] = value.content.integer
                count += 1
            if groups.count == 0 and step.columns.count == 0 and step.aggregate <= SUM_OF:
                # nothing has a count and a sum, 0, which has the same cell as 0.0
                new_row(groups)[0] = 0
            else:
                self.fold(step, groups, group_of, values, count)
        finally:
            free(group_of)
            free(values)
        return 0

    cdef int fold(
        self, Step *step, Rows *groups, const uint32_t *group_of, const int64_t *values,
        size_t count
    ) except -1 nogil:
        """Compute the aggregate of each group, the last cell of its row."""
        cdef size_t last = step.columns.count
        cdef size_t i, kept = 0
        cdef int64_t *target
        cdef uint64_t *wide = NULL
        cdef size_t room = 0
        cdef int order
        if step.aggregate == COUNT_OF:
            for i in range(count):
                row_of(groups, group_of[i])[last] += 1
            return 0
        if step.aggregate == MIN_OF or step.aggregate == MAX_OF:
            make_room(<void **> &self.chain, &self.chain_room, groups.count, sizeof(uint32_t))
            memset(self.chain, 0, groups.count * sizeof(uint32_t))
            for i in range(count):
                target = row_of(groups, group_of[i]) + last
                order = compare_cells(self.texts, step.cell, values[i], target[0])
                if not self.chain[group_of[i]] or (
                    order < 0 if step.aggregate == MIN_OF else order > 0
                ):
                    target[0] = values[i]
                self.chain[group_of[i]] = 1
            return 0
        if step.aggregate == SUM_OF and step.cell == INTEGER_CELL:
            try:
                make_room(<void **> &wide, &room, 2 * groups.count, sizeof(uint64_t))
                memset(wide, 0, 2 * groups.count * sizeof(uint64_t))
                for i in range(count):
                    add_wide(wide + 2 * group_of[i], values[i], False)
                for i in range(groups.count):
                    if is_wide(wide + 2 * i):
                        self.note_wide_sum()
                        continue
                    copy_cells(row_of(groups, kept), row_of(groups, i), groups.width)
                    row_of(groups, kept)[last] = <int64_t> wide[2 * i]
                    kept += 1
                groups.count = kept
            finally:
                free(wide)
            return 0
        with gil:
            self.fold_slowly(step, groups, group_of, values, count)
        return 0

    cdef int fold_slowly(
        self, Step *step, Rows *groups, const uint32_t *group_of, const int64_t *values,
        size_t count
    ) except -1:
        """Sums of floats, means and medians, with Python's exact arithmetic."""
        cdef size_t i, kept = 0
        cdef double found
        cdef list bags = [[] for i in range(groups.count)]
        for i in range(count):
            (<list> bags[group_of[i]]).append(
                as_number(values[i]) if step.cell == FLOAT_CELL else values[i]
            )
        for i in range(groups.count):
            found = folded(step.aggregate, bags[i])
            if found != found:
                # infinities of both signs have no sum, so the group has no row
                continue
            copy_cells(row_of(groups, kept), row_of(groups, i), groups.width)
            row_of(groups, kept)[step.columns.count] = as_cell(found)
            kept += 1
        groups.count = kept
        return 0

    cdef size_t most_slots(self) noexcept nogil:
        """The largest number of slots of a state or of a conjunct of a left side."""
        cdef size_t most = 0
        cdef size_t k, j
        for k in range(self.state_count):
            most = max(most, self.states[k].rows.count)
            for j in range(self.states[k].left_count):
                most = max(most, self.states[k].lefts[j].known.count)
        return most

    cdef void visit_texts(self, uint8_t *is_free, const TextUse *use) noexcept nogil:
        """Visit all cells that are texts; points and databases have been read."""
        cdef size_t k, j, c
        cdef State *state
        cdef Left *left
        cdef Query *query
        cdef Answer *answer
        for k in range(self.state_count):
            state = &self.states[k]
            visit_queue(&state.inbox, &state.texts, use)
            visit_slots(
                &state.rows, state.free_slots, state.free_count, &state.texts, is_free, use
            )
            for j in range(state.left_count):
                left = &state.lefts[j]
                visit_queue(&left.inbox, &left.texts, use)
                visit_queue(&left.expiring, &left.texts, use)
                visit_slots(
                    &left.known, left.free_slots, left.free_count, &left.texts, is_free, use
                )
        for k in range(self.query_count):
            query = &self.queries[k]
            visit_queue(&query.waiting, &query.waiting_texts, use)
            for j in range(query.kept.count):
                visit_queue(&query.kept_rows[j], &self.atom_texts[query.kept.of[j]], use)
        for k in range(self.answers.count):
            answer = &self.answers.answers[k]
            if answer.kind == HOLDS:
                continue
            for c in range(self.kinds[answer.policy].count):
                if self.kinds[answer.policy].of[c] == TEXT_CELL:
                    visit_cell(self.answers.values + answer.start + c, use)

    cdef int forget_texts(self) except -1:
        """Forget the texts that nothing remembers, and give the others new numbers."""
        cdef TextUse use
        cdef uint8_t *flags = NULL
        cdef uint8_t *is_free = NULL
        cdef uint32_t *numbers = NULL
        cdef size_t flag_room = 0, free_room = 0, number_room = 0
        cdef size_t count = len(self.texts)
        cdef size_t k, j
        cdef uint32_t kept = 0
        try:
            make_room(<void **> &flags, &flag_room, count, 1)
            make_room(<void **> &numbers, &number_room, count, sizeof(uint32_t))
            make_room(<void **> &is_free, &free_room, self.most_slots(), 1)
            memset(flags, 0, count)
            memset(flags, 1, self.constants)
            use.flags = flags
            use.numbers = numbers
            use.count = count
            with nogil:
                self.visit_texts(is_free, &use)
                for k in range(count):
                    numbers[k] = UINT32_MAX
                    if flags[k]:
                        numbers[k] = kept
                        kept += 1
            self.texts.keep((<const char *> numbers)[:count * sizeof(uint32_t)])
            use.flags = NULL
            with nogil:
                self.visit_texts(is_free, &use)
                for k in range(self.state_count):
                    if self.states[k].texts.count:
                        for j in range(self.states[k].index_count):
                            build_again(&self.states[k].indexes[j], &self.states[k].rows)
                    for j in range(self.states[k].left_count):
                        if self.states[k].lefts[j].texts.count:
                            build_again(
                                &self.states[k].lefts[j].by_row, &self.states[k].lefts[j].known
                            )
            self.kept_texts = kept
        finally:
            free(flags)
            free(numbers)
            free(is_free)
        return 0

    def snapshot(self):
        """Return the state as bytes for `restore`; all time-points and answers have been taken."""
        cdef NumberWriter writer = NumberWriter()
        cdef size_t k, j
        cdef Query *query
        self.require_sound()
        if len(self.points) or len(self.answers):
            raise ValueError("time-points or answers wait to be taken")
        writer.put(SNAPSHOT_VERSION)
        writer.put_bytes(self.plan.digest())
        writer.put_bytes(self.texts.snapshot())
        writer.put(self.point_count)
        writer.put(<uint64_t> self.clock)
        writer.put(self.is_closed)
        writer.put(self.overflows)
        for k in range(self.policy_count):
            writer.put(self.found[k])
        writer.put(self.time_base + self.first_time)
        for k in range(self.first_time, self.time_end):
            writer.put(<uint64_t> self.times[k].time_stamp)
        writer.put(self.times[self.first_time].offset if self.time_end else 0)
        for k in range(self.state_count):
            put_state(writer, &self.states[k])
        for k in range(self.query_count):
            query = &self.queries[k]
            writer.put(query.position)
            put_queue(writer, &query.waiting)
            for j in range(query.kept.count):
                put_queue(writer, &query.kept_rows[j])
        data = writer.taken()
        return data + digest(data)

    def restore(self, snapshot):
        """Continue from the snapshot of an engine with the same plan; this one must be new.

        Raises:
            SnapshotError: the bytes are not such a snapshot. The engine must not be used after
                that.
        """
        cdef NumberReader reader = NumberReader()
        cdef KeyTable texts = KeyTable(1)
        cdef bytes data = as_bytes(snapshot)
        cdef size_t k, j
        cdef uint64_t points, base, offset
        cdef Query *query
        if self.point_count or self.clock:
            raise ValueError("a snapshot can only be restored before the first time-point")
        self.failure = damaged()
        if len(data) < DIGEST_BYTES or digest(data[:-DIGEST_BYTES]) != data[-DIGEST_BYTES:]:
            raise damaged()
        reader.open(data[:-DIGEST_BYTES], 0)
        if reader.get(UINT64_MAX) != SNAPSHOT_VERSION:
            raise SnapshotError("the snapshot was made by another version of mtlmon")
        if reader.get_bytes() != self.plan.digest():
            raise SnapshotError("the snapshot is of other policies")
        texts.restore(reader.get_bytes())
        number_again(self.texts, texts)
        points = self.point_count = reader.get(INT64_MAX)
        self.clock = <int64_t> reader.get(INT64_MAX)
        self.is_closed = reader.get(1)
        self.overflows = reader.get(UINT64_MAX)
        for k in range(self.policy_count):
            self.found[k] = reader.get(points)
        base = self.time_base = reader.get(points)
        if points - base > reader.size - reader.place:
            raise damaged()
        make_room(
            <void **> &self.times, &self.time_room, <size_t> (points - base) + 1, sizeof(PointTime)
        )
        for k in range(<size_t> (points - base)):
            self.times[k].time_stamp = <int64_t> reader.get(INT64_MAX)
            if k and self.times[k].time_stamp < self.times[k - 1].time_stamp:
                raise damaged()
        offset = reader.get(points)
        for k in range(<size_t> (points - base)):
            if k:
                offset = (
                    offset + 1
                    if self.times[k].time_stamp == self.times[k - 1].time_stamp else 0
                )
            self.times[k].offset = offset
        self.time_end = <size_t> (points - base)
        if points and (
            not self.time_end or self.times[self.time_end - 1].time_stamp > self.clock
        ):
            raise damaged()
        for k in range(self.state_count):
            get_state(reader, &self.states[k], points)
        for k in range(self.query_count):
            query = &self.queries[k]
            query.position = reader.get(points)
            if query.position < base:
                raise damaged()
            get_queue(reader, &query.waiting, points)
            for j in range(query.kept.count):
                get_queue(reader, &query.kept_rows[j], points)
        reader.end()
        self.kept_texts = max(self.constants, len(self.texts) // 2)
        self.failure = None


cdef int number_again(KeyTable texts, KeyTable others) except -1:
    """Give texts the numbers that they have in another table; constants have them already."""
    cdef size_t k
    cdef Text text
    for k in range(others.count):
        text = others.column_text(k, 0)
        if texts.number_of(text, texts.hash_of(text)) != k:
            raise damaged()
    return 0
