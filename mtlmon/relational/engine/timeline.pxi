# cython: language_level=3
"""The time-points of a log, and when late blocks can be run, which depends on times alone.

An engine has a timeline of its own. Engines that monitor slices of a log share one, which hears of
all time-points and says when one engine would have answered. So a slice reads only the time-points
that have rows for it, with their numbers, and its answers have their places in the order of one
engine, up to the time-point at which an error stops the run.

Slices that cannot share one have timelines *of stamps*: each time-stamp is a time-point whose
number it is, most of them without rows. So all slices number time-points alike, and each knows by
itself, from the clock alone, when an engine with all of them answers. This is possible where no
policy asks for time-points without rows or compares numbers; elsewhere, all slices get marks of all
time-stamps.
"""

from cython cimport final, no_gc_clear
from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memmove

from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, damaged


# The collector of garbage would let go of `allocations` before the timeline is freed.
@no_gc_clear
@final
cdef class Timeline:
    """All time-points of a log.

    plan: a `mtlmon.relational.plan.Plan`, which says what late blocks wait for.
    is_of_stamps: whether each time-stamp is a time-point. No policy may compare the numbers of
        time-points, or ask for those without rows.
    """

    def __cinit__(self, plan, bint is_of_stamps=False):
        cdef size_t k, number
        cdef LateQuery *late
        self.allocations = Allocations()
        self.is_of_stamps = is_of_stamps
        self.query_count = <uint32_t> len(plan.queries)
        self.late_of = <uint32_t *> allocated(
            self.allocations, self.query_count, sizeof(uint32_t)
        )
        self.late = <LateQuery *> allocated(
            self.allocations, self.query_count, sizeof(LateQuery)
        )
        for k in range(self.query_count):
            self.late_of[k] = NONE
            query = plan.queries[k]
            if query.late is None:
                continue
            self.late_of[k] = self.late_count
            late = &self.late[self.late_count]
            self.late_count += 1
            late.query = <uint32_t> k
            if k < <size_t> plan.joint:
                self.joint_count = self.late_count
                self.joint_queries = <uint32_t> plan.joint
            late.awaited = <Awaited *> allocated(
                self.allocations, len(query.late_states), sizeof(Awaited)
            )
            for number in query.late_states:
                if number >= <size_t> len(plan.states):
                    raise ValueError("a plan names a state that does not exist")
                read_awaited(
                    self, &late.awaited[late.awaited_count], plan.states[number],
                    k < <size_t> plan.joint
                )
                late.awaited_count += 1
        # of those that need each other's answers, until nothing grows any more
        while grows(self):
            pass
        for k in range(self.joint_count, self.late_count):
            self.late[k].reach = reach_of(self, &self.late[k])

    def __dealloc__(self):
        cdef size_t k
        for k in range(self.late_count):
            free(self.late[k].known)
        free(self.times)

    @property
    def held_bytes(self):
        """The bytes that time-points hold."""
        cdef size_t held = self.time_room * sizeof(PointTime)
        cdef size_t k
        for k in range(self.late_count):
            held += self.late[k].known_room * sizeof(uint64_t)
        return held

    def waiting(self, uint32_t query, size_t most):
        """Return time-stamp and offset of the first time-points that a query has no answer for.

        query: the number of the query.
        most: how many at most.
        """
        cdef uint64_t point
        cdef PointTime time
        if self.is_of_stamps:
            raise ValueError("time-points without rows are not listed")
        if query >= self.query_count:
            raise ValueError("there is no such query")
        found = []
        point = self.position_of(query)
        while point < self.point_count and <size_t> len(found) < most:
            time = self.time_of(point)
            found.append((time.time_stamp, time.offset))
            point += 1
        return found

    def next_due(self):
        """Return the least clock at which time alone lets a late block be run, or None."""
        cdef int64_t least = INT64_MAX
        cdef size_t k
        for k in range(self.late_count):
            if self.late[k].position < self.point_count:
                least = min(least, self.due_of(&self.late[k]))
        return None if least == INT64_MAX else least

    def advance(self, int64_t clock, bint is_closed):
        """Note that no time-point with a time-stamp below `clock` comes, or none at all."""
        with nogil:
            self.begin()
            self.end(clock, is_closed)

    def snapshot(self):
        """Return the timeline as bytes for `restore`; engines have done what could be done."""
        cdef NumberWriter writer = NumberWriter()
        put_timeline(writer, self)
        return writer.taken()

    def restore(self, snapshot):
        """Continue from the snapshot of a timeline of the same plan; this one must be new.

        Raises:
            SnapshotError: the bytes are not such a snapshot.
        """
        cdef NumberReader reader = NumberReader()
        reader.open(as_bytes(snapshot), 0)
        get_timeline(reader, self)
        reader.end()

    cdef PointTime time_of(self, uint64_t point) noexcept nogil:
        cdef PointTime time
        if not self.is_of_stamps:
            return self.times[point - self.base]
        time.time_stamp = <int64_t> point
        time.offset = 0
        return time

    cdef uint64_t known_at(self, const LateQuery *late, uint64_t point) noexcept nogil:
        """How many time-points had been read when a late block could be run at one of them."""
        if not self.is_of_stamps:
            return late.known[point - late.first]
        return min(self.point_count, saturated(point, late.reach) + 1)

    cdef uint64_t position_of(self, uint32_t query) noexcept nogil:
        """The time-points before it are answered."""
        if self.late_of[query] == NONE:
            return self.point_count
        return self.late[self.late_of[query]].position

    cdef void begin(self) noexcept nogil:
        """Forget what engines have done; they have run the late blocks that could be run."""
        cdef size_t k
        for k in range(self.late_count):
            self.late[k].first = self.late[k].position
        self.forget()

    cdef uint64_t add(self, int64_t time_stamp) except? 0 nogil:
        """Add a time-point; returns its number."""
        cdef uint64_t offset = 0
        if time_stamp < self.clock or (
            self.is_of_stamps and <uint64_t> time_stamp < self.point_count
        ):
            with gil:
                raise ValueError("time-stamps decrease")
        if self.is_of_stamps:
            self.clock = time_stamp
            self.point_count = <uint64_t> time_stamp + 1
            self.settle()
            return self.point_count - 1
        if self.time_count and self.times[self.time_count - 1].time_stamp == time_stamp:
            offset = self.times[self.time_count - 1].offset + 1
        make_room(
            <void **> &self.times, &self.time_room, self.time_count + 1, sizeof(PointTime)
        )
        self.times[self.time_count].time_stamp = time_stamp
        self.times[self.time_count].offset = offset
        self.time_count += 1
        self.clock = time_stamp
        self.point_count += 1
        self.settle()
        return self.point_count - 1

    cdef int end(self, int64_t clock, bint is_closed) except -1 nogil:
        """Note that no time-point with a time-stamp below `clock` comes, or none at all."""
        self.clock = max(self.clock, clock)
        self.is_closed = self.is_closed or is_closed
        if self.is_of_stamps:
            self.point_count = max(self.point_count, <uint64_t> self.clock)
        return self.settle()

    cdef int settle(self) except -1 nogil:
        """Find the time-points at which late blocks can be run now."""
        cdef bint is_done = self.joint_count == 0
        while not is_done:
            # what one of them is ready for may depend on those behind it
            is_done = self.settle_late(0, self.joint_count) == 0 or self.is_of_stamps
        self.settle_late(self.joint_count, self.late_count)
        return 0

    cdef int settle_late(self, size_t first, size_t end) except -1 nogil:
        """Find those of some late blocks; returns whether there are any."""
        cdef size_t k
        cdef int found = False
        cdef LateQuery *late
        for k in range(first, end):
            late = &self.late[k]
            if self.is_of_stamps:
                late.position = self.point_count
                if not self.is_closed:
                    late.position -= min(late.position, late.reach)
                continue
            while self.is_ready(late):
                make_room(
                    <void **> &late.known, &late.known_room,
                    <size_t> (late.position - late.first) + 1, sizeof(uint64_t)
                )
                late.known[late.position - late.first] = self.point_count
                late.position += 1
                found = True
        return found

    cdef bint is_ready(self, const LateQuery *late) noexcept nogil:
        """Whether the late block of a query can be run at the query's position."""
        cdef uint64_t here = late.position
        cdef uint64_t reached
        cdef size_t k, j
        cdef const Awaited *awaited
        cdef int64_t now
        if here >= self.point_count:
            return False
        now = self.time_of(here).time_stamp
        for k in range(late.awaited_count):
            awaited = &late.awaited[k]
            reached = UINT64_MAX
            for j in range(awaited.operands.count):
                reached = min(reached, self.position_of(awaited.operands.of[j]))
            if not awaited.is_future:
                if reached < here + (not awaited.is_earlier):
                    return False
            elif awaited.is_neighbour:
                if reached < here + 2 and not (
                    self.is_closed and reached == self.point_count
                ):
                    return False
            elif reached < self.point_count:
                if self.time_of(reached).time_stamp - now <= awaited.upper:
                    return False
            elif not self.is_closed and self.clock - now <= awaited.upper:
                return False
        return True

    cdef int64_t due_of(self, const LateQuery *late) noexcept nogil:
        """The least clock at which the late block can be run at the query's position.

        INT64_MAX if it waits for something else than time.
        """
        cdef uint64_t here = late.position
        cdef uint64_t reached
        cdef size_t k, j
        cdef const Awaited *awaited
        cdef int64_t now = self.time_of(here).time_stamp
        cdef int64_t due = now
        for k in range(late.awaited_count):
            awaited = &late.awaited[k]
            reached = UINT64_MAX
            for j in range(awaited.operands.count):
                reached = min(reached, self.position_of(awaited.operands.of[j]))
            if not awaited.is_future:
                if reached < here + (not awaited.is_earlier):
                    return INT64_MAX
            elif awaited.is_neighbour:
                if reached < here + 2:
                    return INT64_MAX
            elif reached < self.point_count:
                if self.time_of(reached).time_stamp - now <= awaited.upper:
                    return INT64_MAX
            elif awaited.upper >= INT64_MAX - 1 - now:
                return INT64_MAX
            else:
                due = max(due, now + awaited.upper + 1)
        return due

    cdef void forget(self) noexcept nogil:
        """Forget the time-stamps that nothing waits for; that of the last time-point is kept."""
        cdef uint64_t least = self.point_count
        cdef size_t k, first
        if self.time_count < 64:
            return
        for k in range(self.late_count):
            least = min(least, self.late[k].position)
        if least == self.point_count:
            least -= 1
        first = <size_t> (least - self.base)
        if first <= self.time_count // 2:
            return
        memmove(
            self.times, self.times + first, (self.time_count - first) * sizeof(PointTime)
        )
        self.time_count -= first
        self.base = least


cdef int read_awaited(Timeline timeline, Awaited *awaited, plan, bint is_joint) except -1:
    """Read what a late block waits for, if it looks at a state.

    is_joint: whether it is one of those that need each other's answers.
    """
    operands = [] if plan.kind in ("groups", "spans") else [plan.operand]
    operands += [one.operand for one in plan.lefts]
    awaited.is_future = plan.is_future
    awaited.is_neighbour = plan.kind == "neighbour"
    awaited.is_earlier = plan.is_earlier if is_joint else plan.kind == "neighbour"
    awaited.upper = -1 if plan.upper is None else plan.upper
    awaited.operands = read_numbers(
        timeline.allocations, [one for one in operands if one != NONE], timeline.query_count
    )
    return 0


cdef inline uint64_t saturated(uint64_t point, uint64_t reach) noexcept nogil:
    """A time-point, and how far it looks ahead."""
    return point + reach if point < UINT64_MAX - 1 - reach else UINT64_MAX - 1


cdef bint grows(Timeline timeline) except? True:
    """Find the reaches of late blocks that need each other's answers; whether one has grown."""
    cdef size_t k
    cdef bint found = False
    cdef uint64_t reach
    for k in range(timeline.joint_count):
        reach = reach_of(timeline, &timeline.late[k])
        found = found or reach != timeline.late[k].reach
        timeline.late[k].reach = reach
    return found


cdef uint64_t reach_of(Timeline timeline, const LateQuery *late) except? 0:
    """How far ahead a late block looks, together with the queries whose answers it takes."""
    cdef const Awaited *awaited
    cdef uint64_t most, reach = 0
    cdef size_t k, j
    cdef uint32_t operand
    for k in range(late.awaited_count):
        awaited = &late.awaited[k]
        most = 0
        for j in range(awaited.operands.count):
            operand = timeline.late_of[awaited.operands.of[j]]
            if operand != NONE:
                most = max(most, timeline.late[operand].reach)
        if awaited.is_neighbour or (awaited.is_future and awaited.upper < 0):
            if timeline.is_of_stamps:
                raise ValueError("a policy compares the numbers of time-points")
        elif awaited.is_future:
            most = min(saturated(most, <uint64_t> awaited.upper), <uint64_t> INT64_MAX)
        reach = max(reach, most)
    return reach


cdef int put_timeline(NumberWriter writer, Timeline timeline) except -1:
    """Write the time-points, and how far queries are."""
    cdef size_t k
    writer.put(timeline.point_count)
    writer.put(<uint64_t> timeline.clock)
    writer.put(timeline.is_closed + 2 * timeline.is_of_stamps)
    if timeline.is_of_stamps:
        return 0
    writer.put(timeline.base)
    for k in range(timeline.time_count):
        writer.put(<uint64_t> timeline.times[k].time_stamp)
    writer.put(timeline.times[0].offset if timeline.time_count else 0)
    for k in range(timeline.late_count):
        writer.put(timeline.late[k].position)
    return 0


cdef int get_timeline(NumberReader reader, Timeline timeline) except -1:
    """Read a timeline into one that is new."""
    cdef size_t k, count
    cdef uint64_t offset
    cdef PointTime *times
    cdef uint64_t points = reader.get(<uint64_t> INT64_MAX + 1)
    cdef int64_t clock = <int64_t> reader.get(INT64_MAX)
    cdef uint64_t flags = reader.get(3)
    cdef bint is_closed = flags & 1
    cdef uint64_t base
    if flags >> 1 != timeline.is_of_stamps:
        raise damaged()
    if timeline.is_of_stamps:
        if points < <uint64_t> clock or points > <uint64_t> clock + 1:
            raise damaged()
        timeline.point_count = points
        timeline.clock = clock
        timeline.is_closed = is_closed
        timeline.settle()
        for k in range(timeline.late_count):
            timeline.late[k].first = timeline.late[k].position
        return 0
    base = reader.get(points)
    if points - base > reader.size - reader.place:
        raise damaged()
    count = <size_t> (points - base)
    make_room(<void **> &timeline.times, &timeline.time_room, count + 1, sizeof(PointTime))
    times = timeline.times
    for k in range(count):
        times[k].time_stamp = <int64_t> reader.get(INT64_MAX)
        if k and times[k].time_stamp < times[k - 1].time_stamp:
            raise damaged()
    offset = reader.get(points)
    for k in range(count):
        if k:
            offset = offset + 1 if times[k].time_stamp == times[k - 1].time_stamp else 0
        times[k].offset = offset
    if points and (not count or times[count - 1].time_stamp > clock):
        raise damaged()
    for k in range(timeline.late_count):
        timeline.late[k].position = timeline.late[k].first = reader.get(points)
        if timeline.late[k].position < base:
            raise damaged()
    timeline.point_count = points
    timeline.clock = clock
    timeline.is_closed = is_closed
    timeline.base = base
    timeline.time_count = count
    return 0


cdef int put_taken(NumberWriter writer, RelationalEngine engine) except -1:
    """Write the numbers of the time-points at which late blocks are still to be run."""
    cdef size_t k, first = engine.taken_count
    cdef LateQuery *late
    for k in range(engine.timeline.late_count):
        late = &engine.timeline.late[k]
        first = min(first, <size_t> (engine.queries[late.query].done - engine.taken_base))
    writer.put(engine.taken_count - first)
    for k in range(first, engine.taken_count):
        writer.put(engine.taken[k])
    return 0


cdef int get_taken(NumberReader reader, RelationalEngine engine) except -1:
    """Read them; the timeline says which late blocks have been run there."""
    cdef size_t k
    cdef uint64_t number, least = engine.timeline.base
    cdef list taken = []
    for k in range(<size_t> reader.get_count(1)):
        number = reader.get(UINT64_MAX)
        if number < least or number >= engine.timeline.point_count:
            raise damaged()
        taken.append(number)
        least = number + 1
    return set_taken(engine, taken)


cdef int set_taken(RelationalEngine engine, numbers) except -1:
    """Say which time-points an engine has taken in; late blocks have been run where they could."""
    cdef size_t k, j
    cdef LateQuery *late
    cdef Query *query
    if not engine.timeline.late_count:
        return 0
    make_room(<void **> &engine.taken, &engine.taken_room, len(numbers), sizeof(uint64_t))
    for k in range(<size_t> len(numbers)):
        engine.taken[k] = numbers[k]
    engine.taken_count = <size_t> len(numbers)
    engine.taken_base = 0
    for j in range(engine.timeline.late_count):
        late = &engine.timeline.late[j]
        query = &engine.queries[late.query]
        query.done = 0
        while query.done < engine.taken_count and engine.taken[query.done] < late.position:
            query.done += 1
    return 0
