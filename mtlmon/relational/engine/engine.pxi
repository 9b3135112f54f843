# cython: language_level=3
"""The engine of first-order policies: time-points in, answers out.

A query is a formula that is evaluated by itself: a policy, or the operand of a temporal operator.
Its early block is run at each time-point as it comes; what that leaves waits for the late block,
which looks at later time-points. Queries come after those whose rows they need.
"""

from cython cimport final, no_gc_clear
from libc.stdint cimport INT64_MAX, SIZE_MAX, UINT64_MAX
from libc.stdlib cimport free
from libc.string cimport memmove

from mtlmon.arrays.native cimport KeyTable
from mtlmon.engine.native cimport (
    DIGEST_BYTES, NumberReader, NumberWriter, as_bytes, damaged, digest,
)

from mtlmon.errors import LimitError, RowError, SnapshotError


cdef enum:
    SNAPSHOT_VERSION = 3

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
        self.closed = {}
        if plan.closed:
            from mtlmon.relational.closed import ClosedMonitor

            self.closed = {
                one.policy: ClosedMonitor(one.formula, one.part_count) for one in plan.closed
            }
        self.has_closed = bool(self.closed)
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
        self.most_rows = SIZE_MAX
        self.limit_name = "most_rows"
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
            read_groups(self, &self.states[k], plan.states[k])
        for k in range(self.block_count):
            block = &self.blocks[k]
            block.width = plan.blocks[k].width
            block.count = <uint32_t> len(plan.blocks[k].steps)
            block.steps = <Step *> allocated(self.allocations, block.count, sizeof(Step))
            for j in range(block.count):
                read_step(&block.steps[j], self, plan.blocks[k].steps[j])
        for k in range(self.query_count):
            read_query(self, &self.queries[k], plan.queries[k])
        new_row(&self.unit)

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
        for policy, closed in self.closed.items():
            found[policy] = closed.answered
        return found

    @property
    def has_many_texts(self):
        """Whether there are twice as many texts as were kept last."""
        return len(self.texts) > 2 * self.kept_texts + self.spare_texts

    def advance(self):
        """Take in all time-points of `points`; what is found is in `answers` then.

        With `pauses` or `pauses_at_found`, some may be left: call this again.

        Raises:
            RowError: integers overflow.
            LimitError: an operator would remember too much, or a step makes too many rows.
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
                    if self.pauses or (self.pauses_at_found and self.has_found):
                        break
                self.has_found = False
                if points.next == points.point_count:
                    points.clear()
            if points.point_count == 0 and self.has_many_texts and not self.keeps_texts:
                forget_texts([self], None)
        except BaseException as error:
            self.fail(error)

    def end(self, int64_t clock, bint is_closed):
        """Say that no time-point with a time-stamp below `clock` comes, or none at all."""
        self.require_sound()
        self.clock = max(self.clock, clock)
        self.is_closed = self.is_closed or is_closed
        try:
            with nogil:
                self.settle()
        except BaseException as error:
            self.fail(error)

    cdef int require_sound(self) except -1:
        if self.failure is not None:
            raise ValueError("the engine stopped at an error") from self.failure
        return 0

    cdef int fail(self, error) except -1:
        """Raise the error that ends the engine."""
        cdef PointTime *time
        if isinstance(error, TooManyRows):
            time = self.time_of(self.here)
            error = LimitError(
                f"{self.plan.words_of_query(self.current)} makes more rows at time-point "
                f"{time.time_stamp}:{time.offset} than the {self.most_rows:,} of {self.limit_name}"
            )
        self.failure = error
        raise error from None

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
            self.current = <uint32_t> k
            self.here = self.point_count - 1
            self.now = time_stamp
            run_early(self, query)
            if query.late != NONE:
                while is_ready(self, query):
                    run_late(self, query)
        if self.has_closed:
            with gil:
                answer_closed(self, True)
        self.forget_times()
        return 0

    cdef int settle(self) except -1 nogil:
        """Run what waits for time to pass."""
        cdef size_t k
        for k in range(self.query_count):
            self.current = <uint32_t> k
            if self.queries[k].late != NONE:
                while is_ready(self, &self.queries[k]):
                    run_late(self, &self.queries[k])
        if self.has_closed:
            with gil:
                answer_closed(self, False)
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
        for closed in self.closed.values():
            for part in closed.snapshot():
                writer.put_bytes(part)
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
        for closed in self.closed.values():
            try:
                closed.restore(reader.get_bytes(), reader.get_bytes())
            except (ValueError, KeyError, TypeError, AttributeError):
                raise damaged() from None
        reader.end()
        self.kept_texts = max(self.constants, len(self.texts) // 2)
        self.failure = None
