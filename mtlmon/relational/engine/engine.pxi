# cython: language_level=3
"""The engine of first-order policies: time-points in, answers out.

A *query* is a formula that is evaluated by itself: a policy, or the operand of a temporal operator.
It is a block of steps, each of which makes rows of rows. `relational/planning` has decided on their
order, and they are run without Python. A query starts from the rows of its time-point. The rows
that temporal operators remember are *probed* by an index on the columns that are bound; they are
listed only if the query has no other rows to start from.

What present and past decide of a query is evaluated when a time-point comes, in its early block.
What that leaves waits for the late block, which looks at later time-points, with copies of the
atoms that it still needs. So a state of the past that is probed late is a state of its own, which
is at an earlier time-point. Equal subformulas share all other states, whatever their variables are
called, even across policies.

Queries come after those whose rows they need. A query puts its rows into the inboxes of states, and
a state reads its inbox when something probes it, or when many rows wait. Hence an empty time-point
costs only a loop over queries. Counts and sums of integers, and the least and largest values, over
the rows that a temporal operator remembers are kept up to date; other aggregates are computed from
the rows of their group at each time-point at which something asks.

There is one stream here, no equivalence and nothing to resolve, so answers do not go through
`drive`. A source fills a `PointBlock`, `RelationalRun` lets the engine read it, and hands the
`AnswerBlock` to a sink. All texts are numbers of one `KeyTable`, which source, engine and sink
share. They get their numbers as late as possible, and an engine that may forget texts is told if
another part still holds their numbers (`keeps_texts`).
"""

from cython cimport final, no_gc_clear
from libc.stdint cimport INT64_MAX, SIZE_MAX, UINT64_MAX
from libc.stdlib cimport free
from libc.string cimport memmove

from mtlmon.arrays.native cimport KeyTable
from mtlmon.engine.native cimport (
    DIGEST_BYTES, NumberReader, NumberWriter, as_bytes, damaged, digest,
)

from mtlmon.errors import (
    LimitError, MonitorBrokenError, MtlmonError, RowError, SnapshotError,
)


cdef enum:
    SNAPSHOT_VERSION = 4
    # that of a state whose engine shares its texts and its plan with whoever restores it
    OF_SAME_TEXTS = 0

# Up to here, integers are floats without rounding.
cdef int64_t MOST_EXACT = 1 << 53


# The collector of garbage would let go of `allocations` before the engine is freed.
@no_gc_clear
@final
cdef class RelationalEngine:
    """Evaluates the policies of a plan.

    plan: a `mtlmon.relational.plan.Plan`.
    texts: the table of texts whose numbers are cells; of one column.
    timeline: for a slice of a log, its time-points. Those of `points` have numbers then, and
        time-points without rows may be left out where the slice needs none.
    is_of_stamps: for a slice that is alone, whether its timeline is one of stamps.
    """

    def __cinit__(
        self, plan, KeyTable texts not None, Timeline timeline=None, bint is_of_stamps=False
    ):
        cdef size_t k, j
        cdef StepBlock *block
        from array import array

        if texts.columns != 1:
            raise ValueError("texts have one column")
        self.plan = plan
        self.texts = texts
        self.is_slice = timeline is not None
        self.timeline = timeline if self.is_slice else Timeline(plan, is_of_stamps)
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
        # these are made anew each time
        atoms, texts_of_atoms, policies = plan.atoms, plan.atom_texts, plan.policies
        self.points = PointBlock(array("I", atoms))
        self.answers = AnswerBlock(array("I", [len(one) for one in policies]))
        self.atom_count = <uint32_t> len(atoms)
        self.state_count = <uint32_t> len(plan.states)
        self.block_count = <uint32_t> len(plan.blocks)
        self.program_count = <uint32_t> len(plan.programs)
        self.query_count = <uint32_t> len(plan.queries)
        self.group_count = <uint32_t> len(plan.groups)
        self.policy_count = <uint32_t> len(policies)
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
        self.valuations = <uint64_t *> allocated(
            self.allocations, self.policy_count, sizeof(uint64_t)
        )
        self.triggered = <uint64_t *> allocated(
            self.allocations, self.policy_count, sizeof(uint64_t)
        )
        for k in range(self.atom_count):
            self.database[k].width = self.kept[k].width = atoms[k]
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
                self.allocations, texts_of_atoms[k], atoms[k]
            )
        for k in range(self.policy_count):
            self.kinds[k] = read_numbers(
                self.allocations, [CELL_KINDS[kind] for kind in policies[k]], 3
            )
        for k in range(self.program_count):
            read_program(&self.programs[k], self.allocations, plan.programs[k])
            self.programs[k].description = <uint32_t> k
        for k in range(self.state_count):
            read_state(&self.states[k], self.allocations, plan.states[k])
            read_groups(self, &self.states[k], plan.states[k])
        use_texts_of_groups(self)
        for k in range(self.block_count):
            block = &self.blocks[k]
            block.width = plan.blocks[k].width
            block.count = <uint32_t> len(plan.blocks[k].steps)
            block.steps = <Step *> allocated(self.allocations, block.count, sizeof(Step))
            for j in range(block.count):
                read_step(&block.steps[j], self, plan.blocks[k].steps[j])
        for k in range(self.query_count):
            read_query(self, &self.queries[k], plan.queries[k])
        find_present(self)
        for counted in plan.counted:
            read_counted(self, counted)
        if self.timeline.query_count != self.query_count:
            raise ValueError("a timeline of other policies")
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
        free(self.taken)
        free(self.seen.places)
        free(self.chain)
        free(self.order)
        free(self.spare)

    @property
    def held_bytes(self):
        """The bytes that states and waiting rows hold."""
        cdef size_t held = self.taken_room * sizeof(uint64_t)
        cdef size_t k, j
        for k in range(self.state_count):
            held += held_by_state(&self.states[k])
        for k in range(self.query_count):
            held += held_by_queue(&self.queries[k].waiting)
            for j in range(self.queries[k].kept.count):
                held += held_by_queue(&self.queries[k].kept_rows[j])
        return held if self.is_slice else held + self.timeline.held_bytes

    @property
    def found_points(self):
        """For each policy the number of time-points that violate it, or match."""
        return [self.found[k] for k in range(self.policy_count)]

    @property
    def counted_valuations(self):
        """For each policy with a left side that is counted, by its number, how many valuations
        have matched that, and how many have violated the policy."""
        return {
            one.policy: (self.triggered[<size_t> one.policy], self.valuations[<size_t> one.policy])
            for one in self.plan.counted
        }

    @property
    def answered_points(self):
        """For each policy the number of time-points that have been answered."""
        found = [0] * self.policy_count
        for k in range(self.query_count):
            if self.queries[k].policy != NONE:
                found[self.queries[k].policy] = self.timeline.position_of(<uint32_t> k)
        for policy, closed in self.closed.items():
            found[policy] = closed.answered
        return found

    def waiting_points(self, policy, most):
        """Return time-stamp and offset of the first time-points that a policy has no answer for.

        policy: the number of the policy.
        most: how many at most.
        """
        if policy in self.closed:
            return self.closed[policy].waiting(most)
        for k in range(self.query_count):
            if self.queries[k].policy == policy:
                return self.timeline.waiting(<uint32_t> k, most)
        raise ValueError("there is no such policy")

    def closed_due(self, policy):
        """Return the least clock at which time alone may bring an answer about a closed policy.

        None if that cannot be, or if the policy is not one that looks ahead without bound.
        """
        closed = self.closed.get(policy)
        return None if closed is None else closed.next_due

    def next_due(self):
        """Return the least clock at which time alone may bring an answer, or None."""
        dues = [self.next_late_due(), *map(self.closed_due, self.closed)]
        return min((due for due in dues if due is not None), default=None)

    cdef object next_late_due(self):
        """The least clock at which time alone lets a late block be run, or None."""
        cdef size_t k, next
        cdef uint64_t least = INT64_MAX
        cdef LateQuery *late
        if not self.timeline.is_of_stamps:
            return self.timeline.next_due()
        for k in range(self.timeline.late_count):
            late = &self.timeline.late[k]
            next = <size_t> (self.queries[late.query].done - self.taken_base)
            if next < self.taken_count:
                least = min(least, saturated(self.taken[next], late.reach) + 1)
        return None if least == <uint64_t> INT64_MAX else least

    @property
    def is_closed(self):
        """Whether no time-point comes any more."""
        return self.timeline.is_closed

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
        cdef PointBlock points = self.points
        self.require_sound()
        if self.timeline.is_closed:
            raise MtlmonError("the log has ended: no time-point can follow")
        try:
            with nogil:
                while points.next < points.point_count:
                    self.take_next()
                    if self.pauses or (self.pauses_at_found and self.has_found):
                        break
                self.has_found = False
                if points.next == points.point_count:
                    points.clear()
                    if self.is_slice:
                        self.run_due(self.timeline.point_count)
                        self.point_count = self.timeline.point_count
                        self.clock = self.timeline.clock
            if points.point_count == 0 and self.has_many_texts and not self.keeps_texts:
                forget_texts([self], None)
        except BaseException as error:
            self.fail(error)

    def end(self, int64_t clock, bint is_closed):
        """Say that no time-point with a time-stamp below `clock` comes, or none at all.

        The timeline of a slice has been told.
        """
        self.require_sound()
        try:
            with nogil:
                if not self.is_slice:
                    self.timeline.begin()
                    self.timeline.end(clock, is_closed)
                self.clock = self.timeline.clock
                self.settle()
        except BaseException as error:
            self.fail(error)

    cdef int require_sound(self) except -1:
        if self.failure is not None:
            raise MonitorBrokenError("the monitor stopped at an error") from self.failure
        return 0

    cdef int fail(self, error) except -1:
        """Raise the error that ends the engine."""
        cdef PointTime time
        if isinstance(error, TooManyRows):
            time = self.timeline.time_of(self.here)
            error = LimitError(
                f"{self.plan.words_of_query(self.current)} makes more rows at time-point "
                f"{time.time_stamp}:{time.offset} than the {self.most_rows:,} of {self.limit_name}"
            )
        self.failure = error
        raise error from None

    cdef int take_next(self) except -1 nogil:
        """Take in the next time-point of `points`."""
        cdef size_t next = self.points.next
        cdef const Point *point = &self.points.points[next]
        cdef size_t first = self.points.points[next - 1].row_end if next else 0
        cdef uint64_t number = point.number
        if self.is_slice:
            self.run_due(number)
        else:
            self.timeline.begin()
            number = self.timeline.add(point.time_stamp)
            if self.timeline.is_of_stamps:
                # time-points before it have been left out
                self.run_due(number)
        self.take_point(number, point.time_stamp, first, point.row_end)
        self.points.next += 1
        return 0

    cdef int take_point(
        self, uint64_t number, int64_t time_stamp, size_t first_row, size_t end_row
    ) except -1 nogil:
        """Take in a time-point with its rows."""
        cdef uint32_t atom
        cdef size_t k
        cdef Query *query
        self.clock = self.now = time_stamp
        self.here = number
        self.point_count = number + 1
        if self.timeline.late_count:
            make_room(
                <void **> &self.taken, &self.taken_room, self.taken_count + 1, sizeof(uint64_t)
            )
            self.taken[self.taken_count] = number
            self.taken_count += 1
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
        for k in range(self.state_count):
            if self.states[k].kind == COUNTS:
                put_time(&self.states[k], time_stamp, number)
        for k in range(self.query_count):
            query = &self.queries[k]
            self.current = <uint32_t> k
            self.here = number
            self.now = time_stamp
            run_early(self, query)
            if k < self.timeline.joint_queries:
                if k + 1 == self.timeline.joint_queries:
                    self.run_joint(self.point_count)
            elif query.late != NONE:
                while self.due(&self.timeline.late[self.timeline.late_of[k]]) <= self.point_count:
                    run_late(self, query)
        if self.has_closed:
            with gil:
                answer_closed(self, True)
        self.forget_taken()
        return 0

    cdef uint64_t due(self, const LateQuery *late) noexcept nogil:
        """How many time-points had been read when a late block could be run next, or NOWHERE."""
        cdef size_t next = <size_t> (self.queries[late.query].done - self.taken_base)
        if next == self.taken_count or self.taken[next] >= late.position:
            return NOWHERE
        return self.timeline.known_at(late, self.taken[next])

    cdef int run_due(self, uint64_t limit) except -1 nogil:
        """Run late blocks as far as they could be run when `limit` time-points had been read."""
        cdef size_t k
        cdef uint64_t least
        cdef LateQuery *late
        while True:
            least = NOWHERE
            for k in range(self.timeline.late_count):
                least = min(least, self.due(&self.timeline.late[k]))
            if least == NOWHERE or least > limit:
                return 0
            # the order is that of an engine that takes in all time-points, also for errors
            self.point_count = least
            self.clock = self.timeline.clock
            if least < self.timeline.point_count:
                self.clock = self.timeline.time_of(least - 1).time_stamp
            self.run_joint(least)
            for k in range(self.timeline.joint_count, self.timeline.late_count):
                late = &self.timeline.late[k]
                self.current = late.query
                while self.due(late) == least:
                    run_late(self, &self.queries[late.query])

    cdef int run_joint(self, uint64_t limit) except -1 nogil:
        """Run the late blocks that need each other's answers, one time-point after another.

        limit: how many time-points have been read.
        """
        cdef size_t k, next
        cdef uint64_t least
        cdef LateQuery *late
        while True:
            least = NOWHERE
            for k in range(self.timeline.joint_count):
                late = &self.timeline.late[k]
                if self.due(late) <= limit:
                    next = <size_t> (self.queries[late.query].done - self.taken_base)
                    least = min(least, self.taken[next])
            if least == NOWHERE:
                return 0
            for k in range(self.timeline.joint_count):
                late = &self.timeline.late[k]
                next = <size_t> (self.queries[late.query].done - self.taken_base)
                if self.due(late) <= limit and self.taken[next] == least:
                    self.current = late.query
                    run_late(self, &self.queries[late.query])

    cdef int settle(self) except -1 nogil:
        """Run what waits for time to pass."""
        self.run_due(self.timeline.point_count)
        self.point_count = self.timeline.point_count
        self.clock = self.timeline.clock
        if self.has_closed:
            with gil:
                answer_closed(self, False)
        self.forget_taken()
        return 0

    cdef void forget_taken(self) noexcept nogil:
        """Forget the numbers of time-points at which all late blocks have been run."""
        cdef uint64_t least = self.taken_base + self.taken_count
        cdef size_t k, first
        if self.taken_count < 64:
            return
        for k in range(self.timeline.late_count):
            least = min(least, self.queries[self.timeline.late[k].query].done)
        first = <size_t> (least - self.taken_base)
        if first <= self.taken_count // 2:
            return
        memmove(
            self.taken, self.taken + first, (self.taken_count - first) * sizeof(uint64_t)
        )
        self.taken_count -= first
        self.taken_base = least

    def know_constants(self, size_t count):
        """Say how many of the texts are constants; it is new, but others have used its texts."""
        if count > <size_t> len(self.texts):
            raise ValueError("there are not as many texts")
        self.constants = self.kept_texts = count

    def take_all(self):
        """Let late blocks be run at all time-points from now on, also at those left out before."""
        set_taken(self, range(self.timeline.base, self.timeline.point_count))

    def join(self, KeyTable texts not None, Timeline timeline not None):
        """Become one of several slices of a log; this one has been alone.

        texts: the texts of the slices, with the constants of the plan. All engines that share them
            keep texts.
        timeline: the time-points of the log; it has taken in all that the own one has.

        Raises:
            ValueError: these are of another plan, or of another time.
        """
        self.require_sound()
        if len(self.points) or len(self.answers):
            raise ValueError("time-points or answers wait to be taken")
        if self.is_slice or timeline.snapshot() != self.timeline.snapshot():
            raise ValueError("a timeline of another time")
        use_texts(self, texts)
        self.timeline = timeline
        self.is_slice = True

    def leave(self):
        """Be alone again: nothing else uses the timeline and the texts from now on."""
        self.is_slice = False

    def snapshot(self, bint has_texts=True):
        """Return the state as bytes for `restore`; all time-points and answers have been taken.

        has_texts: whether the texts are among the bytes. If not, only an engine of the same plan
            and with the same table of texts can go on.
        """
        cdef NumberWriter writer = NumberWriter()
        cdef size_t k, j
        cdef Query *query
        self.require_sound()
        if len(self.points) or len(self.answers):
            raise ValueError("time-points or answers wait to be taken")
        writer.put(SNAPSHOT_VERSION if has_texts else OF_SAME_TEXTS)
        if has_texts:
            writer.put_bytes(self.plan.digest())
            writer.put_bytes(self.texts.snapshot())
        writer.put(self.is_slice)
        if not self.is_slice:
            put_timeline(writer, self.timeline)
        writer.put(self.overflows)
        for k in range(self.policy_count):
            writer.put(self.found[k])
        for policy in self.counted_valuations:
            writer.put(self.triggered[<size_t> policy])
            writer.put(self.valuations[<size_t> policy])
        put_taken(writer, self)
        for k in range(self.state_count):
            put_state(writer, &self.states[k])
        for k in range(self.query_count):
            query = &self.queries[k]
            put_queue(writer, &query.waiting)
            for j in range(query.kept.count):
                put_queue(writer, &query.kept_rows[j])
        for closed in self.closed.values():
            for part in closed.snapshot():
                writer.put_bytes(part)
        data = writer.taken()
        return data + digest(data)

    def content(self):
        """Return a sum of what the state holds, or None if there is none for this plan.

        Engines of the same plan and with the same texts whose sums are equal answer alike. They
        may have different snapshots, and count differently up to now.
        """
        self.require_sound()
        if len(self.points) or len(self.answers):
            raise ValueError("time-points or answers wait to be taken")
        return sum_of(self)

    def restore(self, snapshot):
        """Continue from the snapshot of an engine with the same plan; this one must be new.

        The timeline of a slice has been restored.

        Raises:
            SnapshotError: the bytes are not such a snapshot. The engine must not be used after
                that.
        """
        cdef NumberReader reader = NumberReader()
        cdef KeyTable texts = KeyTable(1)
        cdef bytes data = as_bytes(snapshot)
        cdef size_t k, j
        cdef uint64_t points, version
        cdef Query *query
        if self.point_count or self.clock:
            raise SnapshotError("a snapshot can only be restored before the first time-point")
        self.failure = damaged()
        if len(data) < DIGEST_BYTES or digest(data[:-DIGEST_BYTES]) != data[-DIGEST_BYTES:]:
            raise damaged()
        reader.open(data[:-DIGEST_BYTES], 0)
        version = reader.get(UINT64_MAX)
        if version != SNAPSHOT_VERSION and version != OF_SAME_TEXTS:
            raise SnapshotError("the snapshot was made by another version of mtlmon")
        if version != OF_SAME_TEXTS:
            if reader.get_bytes() != self.plan.digest():
                raise SnapshotError(
                    "the snapshot is of other policies"
                    + (", or of a run that did not count left sides" if self.plan.counted else "")
                )
            texts.restore(reader.get_bytes())
            number_again(self.texts, texts)
        if not reader.get(1):
            # an engine without slices becomes the only one
            if self.timeline.point_count:
                raise damaged()
            get_timeline(reader, self.timeline)
        elif not self.is_slice:
            raise damaged()
        points = self.point_count = self.timeline.point_count
        self.clock = self.timeline.clock
        self.overflows = reader.get(UINT64_MAX)
        for k in range(self.policy_count):
            self.found[k] = reader.get(points)
        for policy in self.counted_valuations:
            self.triggered[<size_t> policy] = reader.get(UINT64_MAX)
            self.valuations[<size_t> policy] = reader.get(UINT64_MAX)
        get_taken(reader, self)
        for k in range(self.state_count):
            get_state(reader, &self.states[k], points)
        for k in range(self.query_count):
            query = &self.queries[k]
            get_queue(reader, &query.waiting, points)
            for j in range(query.kept.count):
                get_queue(reader, &query.kept_rows[j], points)
        for closed in self.closed.values():
            try:
                closed.restore(reader.get_bytes(), reader.get_bytes())
            except (ValueError, KeyError, TypeError, AttributeError):
                raise damaged() from None
        reader.end()
        require_texts(self, [])
        self.kept_texts = max(self.constants, len(self.texts) // 2)
        self.failure = None
