# cython: language_level=3
"""Put the lines of a log into the order of time, as far as they are not too late.

A line waits until no line with a smaller time-stamp can come any more. The *frontier* is the
largest time-stamp so far, less the time that lines wait. A line below it is refused, and all lines
up to it are released, in the order of their time-stamps; lines of one time-stamp keep the order in
which they came. So the lines that are released are a stable sort of those that are not refused,
wherever blocks end and whenever lines come.

The parts behind this one read bytes as from a log that is in order; only the original numbers of
lines matter to them, for messages and rows. As what is released depends on the lines alone, a
checkpoint need not contain the lines that wait: a resumed run reads the log again from its
beginning. Lines that only the end of the log releases are its tail, behind the last checkpoint.
Where time passes without lines, a checkpoint has the few that were refused for that reason, and how
far time had passed.

In logs of MonPoly, a time-point may have several lines: a line that does not begin with `@` goes
where the line before it goes.

PERF: lines that come in order are a queue of runs, one for the neighbours of one time-stamp, and
only the others go through a heap.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcpy, memmove

cdef enum:
    FIRST_RUNS = 256
    FIRST_TEXT = 1 << 16
    # Of so many lines that were released out of order, the numbers are known. That is more than
    # all blocks have that are read ahead.
    MOST_NUMBERS = 1 << 19
    # what `is_alike` reads
    STAMP_ROOM = 2 + LONGEST_DIGITS


@cython.final
cdef class LineOrder:
    """Takes the lines of a log, and returns them in the order of time.

    Lines without a time-stamp that can be read stay behind all lines before them. Empty lines and
    comments are left out.

    wait: how much below the largest time-stamp so far a line may be, in time units; None if no
        line comes too late, so that all lines wait for the end of the log.
    joins_lines: lines that do not begin with '@' belong to the time-point before them, and go
        where that goes.
    """

    def __cinit__(self, wait, *, bint joins_lines=False):
        self.joins_lines = joins_lines
        self.wait = <uint64_t> -1 if wait is None else wait
        self.refused_by_time = []
        classify_bytes(self.classes)

    def __dealloc__(self):
        free(self.text)
        free(self.queue)
        free(self.heap)
        free(self.numbers)
        free(self.refused)

    @property
    def is_ready(self):
        """Whether there are lines to take."""
        return self.present.size > 0 or self.next_run() != NULL

    @property
    def has_lines(self):
        """Whether lines wait, or are ready."""
        return self.live > 0

    @property
    def held_bytes(self):
        """The bytes of memory that waiting lines take."""
        return (
            self.room + self.refused_room + (self.queue_room + self.heap_room) * sizeof(LineRun)
            + self.numbers_room * sizeof(LineNumbers)
        )

    def push(self, data):
        """Take a block of the log, of any size.

        Raises:
            MemoryError: there is no memory for the lines that wait.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                self.add(<const uint8_t *> view.buf, <size_t> view.len)
        finally:
            PyBuffer_Release(&view)

    def finish(self):
        """End the log: release all lines, and end the last one if it has no line feed."""
        with nogil:
            if self.rest < self.used:
                self.add(<const uint8_t *> b"\n", 1)
            self.has_ended = True

    def pass_time(self, uint64_t time_stamp):
        """Declare that lines below a time come too late from now on."""
        self.passed = max(self.passed, time_stamp)

    def passed_time(self):
        """Return how time has passed without lines, as values for `pass_again`; None if it has not.

        These are the number of lines so far, the time below which lines come too late, and the
        numbers of the lines that only this has refused.
        """
        return (self.line_count, self.passed, self.refused_by_time) if self.passed else None

    def pass_again(self, uint64_t line_count, uint64_t time_stamp, list refused):
        """Let time pass as it did before the first lines were read before; call this first."""
        self.is_again = True
        self.again_line, self.again_time = line_count, time_stamp
        self.again = refused[::-1]
        self.next_again = self.again.pop() if self.again else 0
        if line_count == 0:
            self.end_again()

    def parts(self):
        """Return what `restore` needs: numbers, the lines that wait, and their text.

        All lines that are released have been taken, and no line is unfinished.
        """
        cdef size_t k
        cdef LineRun *run
        if self.present.size or self.rest < self.used or self.next_run() != NULL:
            raise ValueError("some lines have not been taken")
        facts = [
            self.refused_count, self.refused_line, self.passed, self.latest, self.refused_by_time,
            self.has_begun, self.line_count, self.before, self.has_refused_before,
            self.last.value, self.last.digit_count, self.released_count,
        ]
        runs = []
        for k in range(self.behind - self.first + self.heap_count):
            if k < self.behind - self.first:
                run = &self.queue[self.first + k]
            else:
                run = &self.heap[k - (self.behind - self.first)]
            text = PyBytes_FromStringAndSize(
                <const char *> self.text + run.place, <Py_ssize_t> run.size
            )
            runs.append((run.time_stamp, run.line, run.count, text))
        runs.sort()
        sizes = [(*names, len(text)) for *names, text in runs]
        return facts, sizes, b"".join([one[3] for one in runs])

    def restore(self, list facts, list runs, bytes text):
        """Go on from what `parts` has returned; nothing must have come.

        Raises:
            ValueError, TypeError, OverflowError: it is something else.
        """
        cdef size_t place = 0, size = <size_t> len(text)
        cdef uint64_t time_stamp, last, digit_count, count
        cdef LineRun *run
        if sum([one[3] for one in runs]) != len(text) or sorted(runs) != runs:
            raise ValueError("these are no lines that wait")
        self.make_room(size)
        memcpy(self.text, PyBytes_AS_STRING(text), size)
        self.used = self.rest = self.searched = size
        for time_stamp, self.line_count, count, size in runs:
            # they are in order, so all of them come to the queue
            self.keep(time_stamp, place, size)
            run = &self.queue[self.behind - 1]
            run.count += count - 1
            place += size
        (
            self.refused_count, self.refused_line, self.passed, self.latest, self.refused_by_time,
            self.has_begun, self.line_count, self.before, self.has_refused_before,
            last, digit_count, self.released_count,
        ) = facts
        if digit_count:
            remember_time_stamp(&self.last, last, digit_count)

    def take_into(self, block):
        """Write lines that are released to a writable buffer; return the number of bytes.

        A line may be continued by the next call.
        """
        cdef Py_buffer view
        cdef uint8_t *target
        cdef size_t size, part, count = 0
        PyObject_GetBuffer(block, &view, PyBUF_WRITABLE)
        try:
            with nogil:
                target = <uint8_t *> view.buf
                size = <size_t> view.len
                while count < size:
                    if self.present.size == 0 and not self.release_run():
                        break
                    part = min(self.present.size, size - count)
                    memcpy(target + count, self.text + self.present.place, part)
                    self.present.place += part
                    self.present.size -= part
                    self.live -= part
                    count += part
        finally:
            PyBuffer_Release(&view)
        return count

    def take_refused(self):
        """Return the lines that came too late since the last call, as bytes."""
        refused = PyBytes_FromStringAndSize(
            <const char *> self.refused, <Py_ssize_t> self.refused_size
        ) if self.refused_size else b""
        self.refused_size = 0
        return refused

    def line_of(self, uint64_t released):
        """Return the number in the log of a line, given its number among the released ones."""
        return self.number_of(released)

    def lines_of(self, bytes released):
        """Return the numbers in the log of lines; both are 64 bits each, in order."""
        cdef size_t k, count = <size_t> len(released) // sizeof(uint64_t)
        lines = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> (count * sizeof(uint64_t)))
        cdef const uint64_t *source = <const uint64_t *> PyBytes_AS_STRING(released)
        cdef uint64_t *target = <uint64_t *> PyBytes_AS_STRING(lines)
        for k in range(count):
            target[k] = self.number_of(source[k])
        return lines

    # ---- lines that come -------------------------------------------------------------------

    cdef int add(self, const uint8_t *data, size_t size) except -1 nogil:
        cdef const uint8_t *line_feed
        if size == 0:
            return 0
        if self.used - self.rest > LONGEST_LINE:
            # The end of such a line does not matter.
            line_feed = <const uint8_t *> memchr(data, c'\n', size)
            if line_feed == NULL:
                return 0
            size -= <size_t> (line_feed - data)
            data = line_feed
        self.make_room(size)
        memcpy(self.text + self.used, data, size)
        self.used += size
        return self.read_lines()

    cdef int make_room(self, size_t size) except -1 nogil:
        """Make room behind the text, by dropping what has been released or in more memory."""
        cdef size_t kept = self.live + (self.used - self.rest)
        cdef size_t room = max(self.room, <size_t> FIRST_TEXT)
        cdef size_t unused
        if self.room - self.used >= size and self.text != NULL:
            return 0
        # PERF: memory that is new costs 4 ns for a line of 18 bytes, as the system clears it.
        unused = self.lowest_place()
        if unused >= self.used // 2 and self.used - unused + size <= self.room:
            self.slide_text(unused)
            return 0
        while room // 2 < kept + size:
            room *= 2
        return self.move_text(room)

    cdef size_t lowest_place(self) noexcept nogil:
        """Where the text begins that is still needed."""
        cdef size_t k, lowest = self.rest
        if self.present.size:
            lowest = min(lowest, self.present.place)
        for k in range(self.first, self.behind):
            lowest = min(lowest, self.queue[k].place)
        for k in range(self.heap_count):
            lowest = min(lowest, self.heap[k].place)
        return lowest

    cdef void slide_text(self, size_t unused) noexcept nogil:
        """Move all text to the front, over the first bytes, which nobody needs."""
        cdef size_t k
        memmove(self.text, self.text + unused, self.used - unused)
        self.used -= unused
        self.rest -= unused
        self.searched -= unused
        if self.present.size:
            self.present.place -= unused
        for k in range(self.first, self.behind):
            self.queue[k].place -= unused
        for k in range(self.heap_count):
            self.heap[k].place -= unused

    cdef int move_text(self, size_t room) except -1 nogil:
        """Move the lines that wait, and an unfinished one, to other memory."""
        cdef uint8_t *text = <uint8_t *> malloc(room)
        cdef size_t k, used = 0
        if text == NULL:
            with gil:
                raise MemoryError
        if self.present.size:
            used = moved(self, text, used, &self.present)
        for k in range(self.first, self.behind):
            used = moved(self, text, used, &self.queue[k])
        for k in range(self.heap_count):
            used = moved(self, text, used, &self.heap[k])
        self.searched = used + (self.searched - self.rest)
        if self.used > self.rest:
            memcpy(text + used, self.text + self.rest, self.used - self.rest)
        self.used = used + (self.used - self.rest)
        self.rest = used
        free(self.text)
        self.text = text
        self.room = room
        return 0

    cdef int read_lines(self) except -1 nogil:
        """Read the lines that are complete."""
        cdef const uint8_t *line_feed
        cdef size_t place
        if not self.has_begun and self.used - self.rest >= 3:
            self.has_begun = True
            self.rest += <size_t> (
                skip_byte_order_mark(self.text + self.rest) - (self.text + self.rest)
            )
            self.searched = self.rest
        while self.searched < self.used:
            if self.searched == self.rest and not self.is_again and keep_lines_alike(self):
                continue
            line_feed = <const uint8_t *> memchr(
                self.text + self.searched, c'\n', self.used - self.searched
            )
            if line_feed == NULL:
                self.searched = self.used
                return 0
            place = self.rest
            self.rest = self.searched = <size_t> (line_feed - self.text) + 1
            self.has_begun = True
            self.read_line(place, self.rest - place)
            if self.is_again and self.line_count >= self.again_line:
                self.end_again()
        return 0

    cdef int end_again(self) except -1 nogil:
        """Let time pass as far as it had when lines were read before."""
        self.is_again = False
        self.passed = max(self.passed, self.again_time)
        return 0

    cdef bint is_refused(self, uint64_t time_stamp) except -1 nogil:
        """Whether the present line comes too late; `latest` is with it."""
        cdef uint64_t bound = self.latest - min(self.wait, self.latest)
        if self.is_again and self.line_count == self.next_again:
            with gil:
                self.refused_by_time.append(self.line_count)
                self.next_again = self.again.pop() if self.again else 0
            return True
        if bound <= time_stamp < self.passed:
            with gil:
                self.refused_by_time.append(self.line_count)
        return time_stamp < max(bound, self.passed)

    cdef int read_line(self, size_t place, size_t size) except -1 nogil:
        """Read a line, which ends with its line feed."""
        cdef const uint8_t *line = self.text + place
        cdef uint64_t time_stamp
        self.line_count += 1
        if (
            line[0] == c'@' and self.used - place >= STAMP_ROOM and self.last.digit_count
            and is_alike(self, line + 1)
        ):
            self.latest = self.last.value
            return self.take_line(self.latest, self.is_refused(self.latest), place, size)
        while self.classes[line[0]] == BLANK:
            line += 1
        if line[0] == c'\n' or line[0] == c'#' or (line[0] == c'\r' and line[1] == c'\n'):
            return 0
        if self.joins_lines and line[0] != c'@':
            # Nothing has come since the line before it that could be released between them.
            if self.has_refused_before:
                return self.add_refused(place, size)
            return self.keep(self.before, place, size)
        if not self.find_time(line, &time_stamp):
            return self.take_line(max(self.latest, self.passed), False, place, size)
        self.latest = max(self.latest, time_stamp)
        return self.take_line(time_stamp, self.is_refused(time_stamp), place, size)

    cdef int take_line(
        self, uint64_t time_stamp, bint is_refused, size_t place, size_t size
    ) except -1 nogil:
        """Let a line wait, or put it to those that came too late."""
        self.before = time_stamp
        self.has_refused_before = is_refused
        if not is_refused:
            return self.keep(time_stamp, place, size)
        if self.refused_count == 0:
            self.refused_line = self.line_count
        self.refused_count += 1
        return self.add_refused(place, size)

    cdef bint find_time(self, const uint8_t *place, uint64_t *time_stamp) noexcept nogil:
        """Read the time-stamp of a line; return False if it cannot be read."""
        cdef const uint8_t *digits = place + 1
        cdef uint64_t value = 0
        if place[0] != c'@' or not is_digit(digits[0]):
            return False
        place = digits
        while is_digit(place[0]):
            if value > (LARGEST_TIME_STAMP - <uint64_t> (place[0] - c'0')) // 10:
                return False
            value = 10 * value + (place[0] - c'0')
            place += 1
        if not ends_item(self.classes, place) and place[0] != c';':
            return False
        time_stamp[0] = value
        if value >= self.latest:
            remember_time_stamp(&self.last, value, <size_t> (place - digits))
        return True

    cdef int keep(self, uint64_t time_stamp, size_t place, size_t size) except -1 nogil:
        """Let a line wait."""
        cdef LineRun run
        cdef size_t child, parent
        cdef LineRun *grown
        self.live += size
        if self.first < self.behind and is_next(
            &self.queue[self.behind - 1], time_stamp, place, self.line_count
        ):
            self.queue[self.behind - 1].size += size
            self.queue[self.behind - 1].count += 1
            return 0
        run.time_stamp = time_stamp
        run.line = self.line_count
        run.place = place
        run.size = size
        run.count = 1
        if self.first == self.behind or self.queue[self.behind - 1].time_stamp <= time_stamp:
            if self.behind == self.queue_room:
                if self.first > self.queue_room // 2:
                    memmove(
                        self.queue, self.queue + self.first,
                        (self.behind - self.first) * sizeof(LineRun),
                    )
                    self.behind -= self.first
                    self.first = 0
                else:
                    grown = larger(self.queue, &self.queue_room)
                    if grown == NULL:
                        with gil:
                            raise MemoryError
                    self.queue = grown
            self.queue[self.behind] = run
            self.behind += 1
            return 0
        if self.heap_count == self.heap_room:
            grown = larger(self.heap, &self.heap_room)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.heap = grown
        child = self.heap_count
        self.heap_count += 1
        while child:
            parent = (child - 1) // 2
            if not is_before(&run, &self.heap[parent]):
                break
            self.heap[child] = self.heap[parent]
            child = parent
        self.heap[child] = run
        return 0

    cdef int add_refused(self, size_t place, size_t size) except -1 nogil:
        """Put a line to those that came too late."""
        cdef size_t room = self.refused_room
        cdef void *grown
        while room - self.refused_size < size:
            room = max(2 * room, <size_t> FIRST_TEXT)
        if room != self.refused_room:
            grown = realloc(self.refused, room)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.refused = <uint8_t *> grown
            self.refused_room = room
        memcpy(self.refused + self.refused_size, self.text + place, size)
        self.refused_size += size
        return 0

    # ---- lines that go ---------------------------------------------------------------------

    cdef uint64_t frontier(self) noexcept nogil:
        """No line below this time is taken any more."""
        return max(self.passed, self.latest - min(self.wait, self.latest))

    cdef LineRun *next_run(self) noexcept nogil:
        """The next lines to be released; NULL if they have to wait."""
        cdef LineRun *run = NULL
        if self.first < self.behind:
            run = &self.queue[self.first]
        if self.heap_count and (run == NULL or is_before(&self.heap[0], run)):
            run = &self.heap[0]
        if run != NULL and not self.has_ended and run.time_stamp > self.frontier():
            return NULL
        return run

    cdef int release_run(self) except -1 nogil:
        """Let `present` be the next lines; return 0 if they have to wait, else 1."""
        cdef LineRun *run = self.next_run()
        cdef LineRun last
        cdef size_t place = 0, child
        if run == NULL:
            return 0
        self.present = run[0]
        self.note_number(run.line)
        self.released_count += run.count
        if self.first < self.behind and run == &self.queue[self.first]:
            self.first += 1
            return 1
        self.heap_count -= 1
        if self.heap_count == 0:
            return 1
        last = self.heap[self.heap_count]
        while True:
            child = 2 * place + 1
            if child >= self.heap_count:
                break
            if child + 1 < self.heap_count and is_before(
                &self.heap[child + 1], &self.heap[child]
            ):
                child += 1
            if not is_before(&self.heap[child], &last):
                break
            self.heap[place] = self.heap[child]
            place = child
        self.heap[place] = last
        return 1

    cdef int note_number(self, uint64_t line) except -1 nogil:
        """Note the number in the log of the next line that is released."""
        cdef LineNumbers *last
        cdef size_t room = max(2 * self.numbers_room, <size_t> FIRST_RUNS)
        cdef void *grown
        if self.numbers_count:
            last = &self.numbers[self.numbers_count - 1]
            if line - last.line == self.released_count - last.released:
                return 0
        if self.numbers_count == self.numbers_room:
            if self.numbers_room >= MOST_NUMBERS:
                self.numbers_count //= 2
                memcpy(
                    self.numbers, self.numbers + self.numbers_count,
                    self.numbers_count * sizeof(LineNumbers),
                )
            else:
                grown = realloc(self.numbers, room * sizeof(LineNumbers))
                if grown == NULL:
                    with gil:
                        raise MemoryError
                self.numbers = <LineNumbers *> grown
                self.numbers_room = room
        self.numbers[self.numbers_count].released = self.released_count
        self.numbers[self.numbers_count].line = line
        self.numbers_count += 1
        return 0

    cdef uint64_t number_of(self, uint64_t released) noexcept nogil:
        """The number in the log of a line that was released; both count from 1."""
        cdef size_t low = 0, high = self.numbers_count, middle
        if released == 0 or high == 0 or released - 1 < self.numbers[0].released:
            return released
        while high - low > 1:
            middle = (low + high) // 2
            if self.numbers[middle].released <= released - 1:
                low = middle
            else:
                high = middle
        return self.numbers[low].line + (released - 1 - self.numbers[low].released)


cdef inline bint is_before(const LineRun *one, const LineRun *other) noexcept nogil:
    if one.time_stamp != other.time_stamp:
        return one.time_stamp < other.time_stamp
    return one.line < other.line


cdef inline bint is_alike(LineOrder order, const uint8_t *digits) noexcept nogil:
    """Read a time-stamp that is not below the last one, and has as many digits."""
    cdef LastTimeStamp present = order.last
    if not read_alike(&present, digits):
        return False
    if order.classes[digits[present.digit_count]] > LINE_FEED:
        return False
    order.last = present
    return True


cdef inline bint is_next(
    const LineRun *run, uint64_t time_stamp, size_t place, uint64_t line
) noexcept nogil:
    """Whether a line follows those of a run directly, and has their time-stamp."""
    return (
        run.time_stamp == time_stamp and run.place + run.size == place
        and run.line + run.count == line
    )


cdef inline int keep_lines_alike(LineOrder order) except -1 nogil:
    """Keep lines as long as each has a time-stamp with as many digits that is not below the last.

    Returns 0 if `read_line` has to read the next line, else 1.

    PERF: on lines of 18 bytes, `push` takes 11 ns a line instead of 17: the line feed is looked for
    behind the time-stamp, which is compared word by word, and nothing is called for a line.
    """
    cdef const uint8_t *text = order.text
    cdef size_t place = order.rest
    cdef size_t used = order.used
    cdef size_t digits = order.last.digit_count
    cdef size_t line_feed
    cdef uint64_t found, start = 0, end = 0
    # whether two words, which are the last one, show that a time-stamp is the same
    cdef bint is_shown = False
    cdef bint has_words = WORD_SIZE <= digits <= 2 * WORD_SIZE
    cdef LastTimeStamp last = order.last
    cdef LastTimeStamp present
    cdef LineRun *run = NULL
    cdef uint64_t passed = order.passed
    cdef uint64_t line = order.line_count
    cdef uint64_t kept = 0
    cdef size_t live = 0
    if order.first < order.behind:
        run = &order.queue[order.behind - 1]
    if digits == 0:
        return 0
    while place + STAMP_ROOM + WORD_SIZE <= used and text[place] == c'@':
        line_feed = place + 1 + digits
        if not (
            is_shown and load_word(text + place + 1) == start
            and load_word(text + line_feed - WORD_SIZE) == end
        ):
            present = last
            if not read_alike(&present, text + place + 1) or present.value < passed:
                break
            last = present
            is_shown = has_words
            if has_words:
                start = load_word(text + place + 1)
                end = load_word(text + line_feed - WORD_SIZE)
        if order.classes[text[line_feed]] > LINE_FEED:
            break
        found = 0
        while line_feed + WORD_SIZE <= used:
            found = find_byte(load_word(text + line_feed), c'\n')
            if found:
                break
            line_feed += WORD_SIZE
        if not found:
            break
        line_feed += found_at(found) + 1
        line += 1
        if run != NULL and is_next(run, last.value, place, line):
            run.size += line_feed - place
            run.count += 1
            live += line_feed - place
        else:
            order.line_count = line
            order.keep(last.value, place, line_feed - place)
            run = &order.queue[order.behind - 1]
        kept = last.value
        place = line_feed
    if place == order.rest:
        return 0
    order.live += live
    order.line_count = line
    order.latest = max(order.latest, kept)
    order.before = kept
    order.has_refused_before = False
    remember_time_stamp(&order.last, order.latest, digits)
    order.rest = order.searched = place
    order.has_begun = True
    return 1


cdef inline size_t moved(
    LineOrder order, uint8_t *text, size_t used, LineRun *run
) noexcept nogil:
    """Copy the text of lines to a place; return the place behind it."""
    memcpy(text + used, order.text + run.place, run.size)
    run.place = used
    return used + run.size


cdef LineRun *larger(LineRun *runs, size_t *room) noexcept nogil:
    """Double the room of an array; NULL if there is no memory."""
    cdef size_t count = max(2 * room[0], <size_t> FIRST_RUNS)
    cdef LineRun *grown = <LineRun *> realloc(runs, count * sizeof(LineRun))
    if grown != NULL:
        room[0] = count
    return grown
