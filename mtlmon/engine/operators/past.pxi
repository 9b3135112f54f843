# cython: language_level=3
"""The rows of a program that no future operator is below: which of them can change at an event.

Their values are constants, so most of them need no evaluation at most events. A row is evaluated
again if an operand has changed since the last event, or if it is a temporal operator and

- time has passed the moment at which its witnesses become old enough or too old,
- or it is *active*: it stores something at every event.

A SINCE whose operands both hold is *steady* if its interval begins with 0: its value stays, and
only its last witness moves with time. All other rows keep their values.

If the workspace has just evaluated the same state, an event starts with the atoms that have changed
and the operators whose time has come (a heap), and goes on to the users of each row whose value
changes. The values belong to a workspace, and a state has the number of the evaluation that made
it. Everything else that changes a state (restoring, `advance`) resets this number, and then all
rows are evaluated. If many rows change, all are evaluated as well, as the lists would take 10 to 20
% more time.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset


cdef enum:
    # PERF: with fewer rows, evaluating all of them costs as little.
    LEAST_PAST_ROWS = 32
    # PERF: where more than one row in so many is evaluated at an event, evaluating all of them
    # takes 10 to 20 % less time. So the next events do that; twice as many each time.
    WORTHWHILE = 4
    FIRST_PAUSE_OF_ROWS = 32
    LONGEST_PAUSE_OF_ROWS = 1 << 10


@final
cdef class PastRows:
    """Finds the rows of the past to be evaluated at an event.

    The owner keeps their values: at each event it calls `begin`, evaluates the marked rows in
    order, and calls `plan` for each temporal operator among them and `mark_users` where a value
    changes, then `finish`.
    """

    def __cinit__(self, Program program not None):
        cdef uint32_t rows = program.instruction_count
        cdef uint32_t number, operand, total
        cdef const Instruction *instruction
        self.program = program
        self.word_count = (rows + 63) // 64
        self.letter = <uint64_t *> zeros(words_of_letter(program), sizeof(uint64_t))
        self.row_of_atom = <uint32_t *> zeros(
            64 * <size_t> words_of_letter(program), sizeof(uint32_t)
        )
        self.user_starts = <uint32_t *> zeros(rows + <size_t> 1, sizeof(uint32_t))
        self.users = <uint32_t *> zeros(2 * <size_t> rows, sizeof(uint32_t))
        self.others = <uint32_t *> zeros(rows, sizeof(uint32_t))
        self.all_rows = <uint64_t *> zeros(self.word_count, sizeof(uint64_t))
        self.marked = <uint64_t *> zeros(self.word_count, sizeof(uint64_t))
        self.active = <uint32_t *> zeros(rows, sizeof(uint32_t))
        self.steady = <Steady *> zeros(rows, sizeof(Steady))
        self.steady_places = <uint32_t *> zeros(rows, sizeof(uint32_t))
        self.heap = <Waking *> zeros(rows, sizeof(Waking))
        self.heap_places = <uint32_t *> zeros(rows, sizeof(uint32_t))
        self.wake_times = <uint64_t *> zeros(rows, sizeof(uint64_t))
        for number in range(1, rows):
            instruction = &program.instructions[number]
            if not is_of_the_past(self.all_rows, instruction):
                self.others[self.other_count] = number
                self.other_count += 1
                continue
            self.all_rows[number >> 6] |= <uint64_t> 1 << (number & 63)
            if instruction.operation == OP_ATOM:
                self.row_of_atom[instruction.index] = number
                continue
            self.user_starts[instruction.left >> 1] += 1
            self.user_starts[instruction.right >> 1] += 1
        self.next_pause = FIRST_PAUSE_OF_ROWS
        self.row_count = rows - self.other_count - 1
        # From the numbers of users to the ends of their lists, which then become the starts.
        total = 0
        for number in range(rows):
            total += self.user_starts[number]
            self.user_starts[number] = total
        self.user_starts[rows] = total
        for number in range(1, rows):
            instruction = &program.instructions[number]
            if instruction.operation == OP_ATOM or not (
                self.all_rows[number >> 6] >> (number & 63) & 1
            ):
                continue
            for operand in (instruction.left >> 1, instruction.right >> 1):
                self.user_starts[operand] -= 1
                self.users[self.user_starts[operand]] = number

    def __dealloc__(self):
        free(self.letter)
        free(self.row_of_atom)
        free(self.user_starts)
        free(self.users)
        free(self.others)
        free(self.all_rows)
        free(self.marked)
        free(self.active)
        free(self.steady)
        free(self.steady_places)
        free(self.heap)
        free(self.heap_places)
        free(self.wake_times)

    cdef void begin(
        self, uint64_t evaluation, const uint64_t *letter, uint64_t time_stamp
    ) noexcept nogil:
        """Mark the rows to be evaluated at an event.

        evaluation: the number of the evaluation that the state and the values are from. If it is
            not the last one that these rows have followed, all of them are marked.
        """
        cdef uint32_t letter_words = words_of_letter(self.program)
        cdef uint32_t rows = self.program.instruction_count
        cdef uint32_t w, k, row
        cdef uint64_t changed
        cdef Waking waking
        if evaluation != self.evaluation:
            memcpy(self.marked, self.all_rows, self.word_count * sizeof(uint64_t))
            memset(self.steady_places, 0, rows * sizeof(uint32_t))
            memset(self.heap_places, 0, rows * sizeof(uint32_t))
            self.active_count = self.steady_count = self.heap_count = 0
            memcpy(self.letter, letter, letter_words * sizeof(uint64_t))
            return
        for w in range(letter_words):
            changed = self.letter[w] ^ letter[w]
            self.letter[w] = letter[w]
            while changed:
                self._mark(self.row_of_atom[64 * w + lowest_bit(changed)])
                changed &= changed - 1
        for k in range(self.active_count):
            self._mark(self.active[k])
        self.active_count = 0
        while self.heap_count and self.heap[0].time_stamp <= time_stamp:
            waking.row = row = self.heap[0].row
            waking.time_stamp = self.wake_times[row]
            if waking.time_stamp <= time_stamp:
                self._mark(row)
                waking.time_stamp = UINT64_MAX
            if waking.time_stamp == UINT64_MAX:
                self.heap_places[row] = 0
                self.heap_count -= 1
                waking = self.heap[self.heap_count]
            if self.heap_count:
                self._sink_first(waking)

    cdef bint is_paused(self) noexcept nogil:
        """Whether all rows are to be evaluated at the next event, without these lists."""
        if self.pause == 0:
            return False
        self.pause -= 1
        return True

    cdef void mark_users(self, uint32_t row) noexcept nogil:
        """Mark the rows that have a row as an operand."""
        cdef uint32_t k
        for k in range(self.user_starts[row], self.user_starts[row + 1]):
            self._mark(self.users[k])

    cdef void plan(
        self, uint32_t row, Witnesses *witnesses, const uint32_t *values
    ) noexcept nogil:
        """Find out when a temporal operator is to be evaluated next; it has just been evaluated.

        witnesses: of all SINCEs of the state.
        """
        cdef const Instruction *instruction = &self.program.instructions[row]
        cdef bint left = values[instruction.left >> 1] ^ (instruction.left & 1)
        cdef bint right = values[instruction.right >> 1] ^ (instruction.right & 1)
        if instruction.operation == OP_SINCE:
            self._plan_since(
                row, instruction, &witnesses[instruction.index], left, right, values[row]
            )
        elif left or values[row]:
            # What a PREVIOUS stores is its value at the next event, or that changes back.
            self.active[self.active_count] = row
            self.active_count += 1

    cdef void _plan_since(
        self, uint32_t row, const Instruction *instruction, Witnesses *witnesses, bint left,
        bint right, bint value
    ) noexcept nogil:
        cdef const Run *first
        cdef Steady *steady
        self.wake_times[row] = UINT64_MAX
        if instruction.upper == UNBOUNDED() and (
            instruction.lower == 0 or left and witnesses.settled == TRUE_EXPRESSION
        ):
            return
        if right and left and instruction.lower == 0:
            steady = &self.steady[self.steady_count]
            steady.run = run_at(witnesses, witnesses.count - 1)
            steady.upper = instruction.upper
            steady.row = row
            self.steady_count += 1
            self.steady_places[row] = self.steady_count
        elif right:
            self.active[self.active_count] = row
            self.active_count += 1
        elif witnesses.count:
            first = run_at(witnesses, 0)
            if value:
                self._wake_at(row, first.last + instruction.upper + 1)
            else:
                self._wake_at(row, first.first + instruction.lower)

    cdef void leave_steady(self, uint32_t row) noexcept nogil:
        """Note that a temporal operator is going to be evaluated."""
        cdef uint32_t place = self.steady_places[row]
        cdef Steady *last
        if place:
            self.steady_places[row] = 0
            self.steady_count -= 1
            last = &self.steady[self.steady_count]
            if last.row != row:
                self.steady[place - 1] = last[0]
                self.steady_places[last.row] = place

    cdef void finish(
        self, uint64_t time_stamp, uint32_t evaluated, uint64_t evaluation
    ) noexcept nogil:
        """Make the event the last witness of steady rows, and note how many rows were evaluated.

        evaluation: the number of the evaluation that has just been made.
        """
        cdef uint32_t k
        cdef Run *run
        if WORTHWHILE * evaluated <= self.row_count:
            self.next_pause = FIRST_PAUSE_OF_ROWS
        elif self.evaluation + 1 == evaluation:
            self.pause = self.next_pause
            self.next_pause = min(2 * self.pause, <uint32_t> LONGEST_PAUSE_OF_ROWS)
        self.evaluation = evaluation
        for k in range(self.steady_count):
            run = self.steady[k].run
            if time_stamp - run.last > self.steady[k].upper:
                run.first = time_stamp
            run.last = time_stamp

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the lists take."""
        return (
            <size_t> self.program.instruction_count * (
                7 * sizeof(uint32_t) + sizeof(uint64_t) + sizeof(Waking) + sizeof(Steady)
            )
            + 2 * self.word_count * sizeof(uint64_t) + self.program.atom_count * sizeof(uint32_t)
        )

    cdef void _mark(self, uint32_t row) noexcept nogil:
        self.marked[row >> 6] |= <uint64_t> 1 << (row & 63)

    # ---- the heap --------------------------------------------------------------------------

    cdef void _wake_at(self, uint32_t row, uint64_t time_stamp) noexcept nogil:
        """Have a row marked at the first event that is not before a time-stamp.

        PERF: most often, a row in the heap is to wake later than before. Then it keeps its place,
        and gets another one when it comes to the top.
        """
        cdef uint32_t place = self.heap_places[row]
        cdef uint32_t parent
        self.wake_times[row] = time_stamp
        if place == 0:
            place = self.heap_count
            self.heap_count += 1
        elif self.heap[place - 1].time_stamp <= time_stamp:
            return
        else:
            place -= 1
        while place:
            parent = (place - 1) // 2
            if self.heap[parent].time_stamp <= time_stamp:
                break
            self._put(place, self.heap[parent].time_stamp, self.heap[parent].row)
            place = parent
        self._put(place, time_stamp, row)

    cdef void _put(self, uint32_t place, uint64_t time_stamp, uint32_t row) noexcept nogil:
        self.heap[place].time_stamp = time_stamp
        self.heap[place].row = row
        self.heap_places[row] = place + 1

    cdef void _sink_first(self, Waking waking) noexcept nogil:
        """Put an entry into the heap in place of the first one."""
        cdef uint32_t place = 0
        cdef uint32_t child
        while True:
            child = 2 * place + 1
            if child >= self.heap_count:
                break
            if (
                child + 1 < self.heap_count
                and self.heap[child + 1].time_stamp < self.heap[child].time_stamp
            ):
                child += 1
            if waking.time_stamp <= self.heap[child].time_stamp:
                break
            self._put(place, self.heap[child].time_stamp, self.heap[child].row)
            place = child
        self._put(place, waking.time_stamp, waking.row)


cdef inline uint32_t words_of_letter(Program program) noexcept nogil:
    return (program.atom_count + 63) // 64


cdef bint is_of_the_past(const uint64_t *past, const Instruction *instruction) noexcept nogil:
    """Whether no future operator is in a row or below it; `past` has the rows before it."""
    cdef uint32_t left = instruction.left >> 1
    cdef uint32_t right = instruction.right >> 1
    if instruction.operation == OP_ATOM:
        return True
    return instruction.operation in (OP_AND, OP_PREVIOUS, OP_SINCE) and (
        (left == 0 or past[left >> 6] >> (left & 63) & 1)
        and (right == 0 or past[right >> 6] >> (right & 63) & 1)
    )


cdef PastRows rows_of_the_past(Program program):
    """The rows of the past of a program, or None if there are few."""
    cdef PastRows past
    if program.instruction_count < LEAST_PAST_ROWS:
        return None
    past = PastRows(program)
    return past if past.row_count >= LEAST_PAST_ROWS else None
