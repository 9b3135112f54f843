# cython: language_level=3
"""The reader of text logs: blocks of bytes in, time-stamps and letters out.

Each line has one time-point, `@TS atom atom ...`. A *letter* is the set of atoms of a time-point as
64-bit words; bit i of them represents `atoms[i]`. Atoms that are not listed are ignored.

The scanner processes runs of complete lines. Each line ends with a line feed, so the inner loops
need no check against the end of the block. The text after the last line feed of a block is kept in
`carry` until the rest of its line arrives; results never depend on where blocks end.

PERF: on random lines, the time of a scanner goes into mispredicted branches. So lines are
recognised rather than read: a time-stamp by comparing words with the last one's, a short line's
rest by its whole text in a memo, a run of equal lines by comparing them. A line that is not
recognised goes to a slower way, and in the end is read byte by byte; only this last way finds
errors. All ways give the same result, and the tests compare them with each other. Lines near the
end of a block always go the slowest way, because words would reach beyond the block.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcpy


from mtlmon.errors import LogError

cdef enum:
    # longer lines always pass through `carry`, which checks their length
    PIECE = 1 << 20
    LONGEST_LINE = 64 << 20
    # a larger carry is freed once its line is read
    CARRY_KEPT = 1 << 20
    # '@', the digits of a time-stamp and a tail can be read as words
    QUICK_ROOM = 1 + LONGEST_DIGITS + LONGEST_TAIL
    # 18 digits never overflow, so only the digits after them are checked
    UNCHECKED_DIGITS = 18
    BATCH_WORDS = 4096

MAX_LINE_BYTES = LONGEST_LINE


@cython.final
cdef class Scanner:
    """The native reader of text logs, which takes blocks of bytes.

    atoms: the names to look for; bit i of a letter says whether atoms[i] stands on the line.
    path: the log's name in error messages.
    skip_errors: pass over lines that cannot be read and count them in `skipped_count`.

    Attributes:
        order: set this to what has put the lines into the order of time, if anything has, so that
            errors tell their numbers in the log.
    """

    def __cinit__(self, atoms, *, str path="<log>", bint skip_errors=False):
        cdef AtomTable table = AtomTable(atoms)
        self.items = ItemReader(table)
        self.atoms = table.atoms
        self.letter_words = table.letter_words
        self.path = path
        self.skip_errors = skip_errors
        self.occurrences = <uint64_t *> calloc(self.letter_words, sizeof(uint64_t))
        if self.occurrences == NULL:
            raise MemoryError
        # letters of several words are not memoised
        if self.letter_words == 1:
            self.tails.buckets = <TailBucket *> calloc(TAIL_BUCKETS, sizeof(TailBucket))
            if self.tails.buckets == NULL:
                raise MemoryError
        self.error = NO_ERROR

    def __dealloc__(self):
        free(self.occurrences)
        free(self.tails.buckets)
        free(self.carry)

    @property
    def absent(self):
        """The atoms that have not occurred so far, in order."""
        cdef size_t index
        return tuple(
            atom
            for index, atom in enumerate(self.atoms)
            if not self.occurrences[index // 64] >> (index % 64) & 1
        )

    @property
    def last_time_stamp(self):
        """The time-stamp of the last line read, or None before the first line."""
        return self.last.value if self.last.is_known else None

    def pass_time(self, uint64_t time_stamp):
        """Declare that no later line is below a time, which is not below the last one."""
        self.passed = time_stamp
        remember_time_stamp(&self.last, time_stamp, 0)

    def feed(self, data):
        """Take a block of the log and return the events of the lines that it completes.

        An event is (time-stamp, letter); the letter is an int whose bit i represents atoms[i]. If a
        line cannot be read, the events before it are returned and the next call raises.

        Raises:
            LogError: a line cannot be read (unless `skip_errors`).
        """
        cdef Py_buffer view
        self.check_failure()
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.load(<const uint8_t *> view.buf, <size_t> view.len)
            return self.read_events()
        finally:
            PyBuffer_Release(&view)

    def finish(self):
        """End the log: return the event of a last line without a line feed, if there is one.

        Raises:
            LogError: the last line, or one before it, cannot be read (unless `skip_errors`).
        """
        self.check_failure()
        self.load_end()
        events = self.read_events()
        self.check_failure()
        return events

    cdef int check_failure(self) except -1:
        """Raise the error that ended the reading, if there is one."""
        if self.failure is not None:
            raise self.failure
        return 0

    cdef list read_events(self):
        """The events of the loaded block, up to its end or to a line that cannot be read."""
        cdef size_t words = self.letter_words
        cdef size_t capacity = max(1, BATCH_WORDS // words)
        cdef size_t count = 0, k, word
        cdef ScanStatus status = SCAN_FULL
        cdef uint64_t *time_stamps = <uint64_t *> calloc(capacity, sizeof(uint64_t))
        cdef uint64_t *letters = <uint64_t *> calloc(capacity * words, sizeof(uint64_t))
        events = []
        try:
            if time_stamps == NULL or letters == NULL:
                raise MemoryError
            while status == SCAN_FULL:
                with nogil:
                    status = self.scan(time_stamps, letters, capacity, &count)
                for k in range(count):
                    letter = 0
                    for word in range(words):
                        letter |= <object> letters[k * words + word] << (64 * word)
                    events.append((time_stamps[k], letter))
            if status == SCAN_ERROR:
                self.note_failure()
            return events
        finally:
            free(time_stamps)
            free(letters)

    cdef int note_failure(self) except -1:
        """Store an error in `failure` that describes the bad line, before the block is released.

        No later error replaces it. Raises MemoryError if the failure was a lack of memory.
        """
        cdef size_t size = self.carry_size
        cdef size_t before = 0
        if self.failure is not None:
            return 0
        if self.error == OUT_OF_MEMORY:
            raise MemoryError
        if self.error != LINE_TOO_LONG:
            size = <size_t> (
                <const uint8_t *> memchr(
                    self.error_line, c'\n', <size_t> (self.stop - self.error_line)
                ) - self.error_line
            )
            before = <size_t> (self.error_place - self.error_line)
        # not imported before it is needed
        from mtlmon.text.excerpt import describe
        line = PyBytes_FromStringAndSize(<const char *> self.error_line, <Py_ssize_t> size)
        text = error_message(self.error)
        if self.error == TIME_STAMP_DECREASES and self.passed and self.passed == self.last.value:
            text = (
                "time-stamp {word} comes too late: nothing came for some time, and so time has "
                "passed up to {previous}"
            )
        message, column = describe(
            text,
            line,
            before,
            largest=LARGEST_TIME_STAMP,
            longest=LONGEST_LINE,
            previous=self.last.value,
        )
        guess = None
        if self.error == TIME_STAMP_DECREASES and not self.passed:
            from mtlmon.text.formats import OUT_OF_ORDER
            guess = OUT_OF_ORDER
        if self.error == NO_TIME_STAMP:
            from mtlmon.text.formats import guess_format
            guess = guess_format(line, self.line_count)
            if guess is not None:
                message = f"{message}: {guess.words}"
        self.failure = LogError(
            message, path=self.path, line=self.line_in_log(), column=column, guess=guess
        )
        return 0

    cdef uint64_t line_in_log(self) noexcept:
        """The number in the log of the line that has been read last."""
        return self.line_count if self.order is None else self.order.number_of(self.line_count)

    cdef void load(self, const uint8_t *data, size_t size) noexcept nogil:
        """Load a block to scan; it must stay valid until `scan` returns SCAN_EMPTY."""
        self.rest = data
        self.limit = data + size

    cdef void load_end(self) noexcept nogil:
        """End the last line, if its line feed is missing."""
        cdef bint line_is_open = self.carry_size > 0 and not self.carry_is_line
        self.load(<const uint8_t *> b"\n", 1 if line_is_open else 0)

    cdef bint next_lines(self) noexcept nogil:
        """Set `cursor` and `stop` to the next run of complete lines; False if there is none."""
        cdef const uint8_t *line_feed
        cdef size_t size
        if self.carry_is_line:
            self.drop_carry()
        while self.rest != self.limit:
            size = <size_t> (self.limit - self.rest)
            if self.carry_size > 0 or self.in_long_line:
                line_feed = <const uint8_t *> memchr(self.rest, c'\n', size)
                if line_feed != NULL:
                    size = <size_t> (line_feed - self.rest) + 1
                if self.in_long_line:
                    self.in_long_line = line_feed == NULL
                elif not self.keep(self.rest, size, line_feed != NULL):
                    return False
                self.rest += size
                if self.carry_is_line:
                    self.cursor = self.carry
                    self.stop = self.carry + self.carry_size
                    return True
                continue
            size = min(size, <size_t> PIECE)
            line_feed = last_line_feed(self.rest, size)
            if line_feed != NULL:
                self.cursor = self.rest
                self.stop = line_feed + 1
                self.rest = line_feed + 1
                return True
            if not self.keep(self.rest, size, False):
                return False
            self.rest += size
        return False

    cdef bint keep(self, const uint8_t *data, size_t size, bint ends_line) noexcept nogil:
        """Append a piece of a line to the carry; False on an error that ends the reading."""
        cdef size_t room
        cdef void *larger
        if self.carry_size + size - ends_line > LONGEST_LINE:
            self.line_count += 1
            if self.skip_errors:
                self.skipped_count += 1
                self.in_long_line = not ends_line
                self.drop_carry()
                return True
            self.error = LINE_TOO_LONG
            self.error_line = self.carry
            return False
        if self.carry_size + size > self.carry_room:
            room = max(2 * self.carry_room, self.carry_size + size)
            larger = realloc(self.carry, room)
            if larger == NULL:
                self.error = OUT_OF_MEMORY
                return False
            self.carry = <uint8_t *> larger
            self.carry_room = room
        memcpy(self.carry + self.carry_size, data, size)
        self.carry_size += size
        self.carry_is_line = ends_line
        return True

    cdef void drop_carry(self) noexcept nogil:
        self.carry_size = 0
        self.carry_is_line = False
        if self.carry_room > CARRY_KEPT:
            free(self.carry)
            self.carry = NULL
            self.carry_room = 0

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the start of an incomplete line and the memo take."""
        cdef size_t held = self.carry_room + self.letter_words * sizeof(uint64_t)
        if self.tails.buckets != NULL:
            held += TAIL_BUCKETS * sizeof(TailBucket)
        return held

    cdef size_t unread(self) noexcept nogil:
        """The number of loaded bytes that are not scanned yet: those after the last event."""
        cdef size_t size = <size_t> (self.limit - self.rest) + <size_t> (self.stop - self.cursor)
        return size if self.carry_is_line else size + self.carry_size

    cdef ScanStatus scan(
        self, uint64_t *time_stamps, uint64_t *letters, size_t capacity, size_t *count
    ) noexcept nogil:
        """Read events into the two arrays until the batch is full or the block ends.

        The letter of event k begins at letters[k * letter_words].
        """
        cdef const uint8_t *place = self.cursor
        cdef const uint8_t *stop = self.stop
        cdef const uint8_t *line
        cdef size_t n = 0
        count[0] = 0
        if self.error != NO_ERROR:
            return SCAN_ERROR
        while n < capacity:
            if place == stop:
                self.cursor = self.stop = NULL
                if not self.next_lines():
                    count[0] = n
                    return SCAN_EMPTY if self.error == NO_ERROR else SCAN_ERROR
                place = self.cursor
                stop = self.stop
            place = scan_lines_alike(self, place, time_stamps, letters, capacity, &n)
            if n == capacity or place == stop:
                continue
            line = place
            if place[0] != c'@':
                if self.line_count == 0:
                    line = place = skip_byte_order_mark(place)
                place = self.skip_to_stamp(place)
            self.line_count += 1
            if place[0] == c'\n':
                place += 1
                continue
            place = self.scan_line(place, letters + n * self.letter_words, time_stamps + n)
            if place != NULL:
                n += 1
                continue
            if not self.skip_errors or self.error == OUT_OF_MEMORY:
                self.error_line = line
                count[0] = n
                return SCAN_ERROR
            self.error = NO_ERROR
            self.skipped_count += 1
            place = <const uint8_t *> memchr(line, c'\n', <size_t> (stop - line)) + 1
        self.cursor = place
        count[0] = n
        return SCAN_FULL

    cdef const uint8_t *skip_to_stamp(self, const uint8_t *place) noexcept nogil:
        """The first byte of a line that matters: the line feed in blank lines and comments."""
        while self.items.classes[place[0]] == BLANK:
            place += 1
        if place[0] == c'#':
            return <const uint8_t *> memchr(place, c'\n', <size_t> (self.stop - place))
        if place[0] == c'\r' and place[1] == c'\n':
            return place + 1
        return place

    cdef const uint8_t *scan_time_stamp(
        self, const uint8_t *place, uint64_t *time_stamp
    ) noexcept nogil:
        """Read the digits after '@' and return the byte after them, or NULL on an error."""
        cdef const uint8_t *digits = place
        cdef const uint8_t *unchecked = place + UNCHECKED_DIGITS
        cdef uint64_t value = 0
        cdef bint too_large = False
        while is_digit(place[0]) and place != unchecked:
            value = 10 * value + (place[0] - c'0')
            place += 1
        while is_digit(place[0]):
            too_large = too_large or value > LARGEST_TIME_STAMP // 10
            value = 10 * value + (place[0] - c'0')
            too_large = too_large or value > LARGEST_TIME_STAMP
            place += 1
        if not ends_item(self.items.classes, place) and not (
            self.is_of_rows and place[0] == c';'
        ):
            if place == digits and self.items.classes[place[0]] == OTHER:
                return self.fail(STRAY_BYTE, place)
            return self.fail(TIME_STAMP_NOT_INTEGER, digits)
        if place == digits:
            return self.fail(EMPTY_TIME_STAMP, digits)
        if too_large:
            return self.fail(TIME_STAMP_TOO_LARGE, digits)
        if self.last.is_known and value < self.last.value and not self.takes_late:
            return self.fail(TIME_STAMP_DECREASES, digits)
        time_stamp[0] = value
        return place

    cdef const uint8_t *fail(self, LineError error, const uint8_t *place) noexcept nogil:
        self.error = error
        self.error_place = place
        return NULL

    cdef const uint8_t *scan_line(
        self, const uint8_t *place, uint64_t *letter, uint64_t *time_stamp
    ) noexcept nogil:
        """Read a line from its '@' on; return the start of the next line, or NULL on an error."""
        cdef const uint8_t *digits = place + 1
        cdef const uint8_t *tail
        if place[0] != c'@':
            return self.fail(NO_TIME_STAMP, place)
        tail = self.scan_time_stamp(digits, time_stamp)
        if tail == NULL:
            return NULL
        place = read_tail(self, tail, letter)
        if place == NULL:
            return self.fail(self.items.error, self.items.error_place)
        remember_time_stamp(&self.last, time_stamp[0], <size_t> (tail - digits))
        return place


# PERF: the functions of the hot loop are not methods, because the compiler does not inline methods.


cdef inline const uint8_t *scan_lines_alike(
    Scanner scanner,
    const uint8_t *place,
    uint64_t *time_stamps,
    uint64_t *letters,
    size_t capacity,
    size_t *count,
) noexcept nogil:
    """Read lines as long as each time-stamp has as many digits as the previous one.

    Stops at a line that `scan_line` has to read.

    PERF: the start of the next line depends only on the place of a line feed, so most of the time
    for a line is spent on finding the line feed.
    """
    # copies, which no store to the arrays can change
    cdef LastTimeStamp last = scanner.last
    cdef LastTimeStamp present = last
    cdef TailMemo tails = scanner.tails
    cdef size_t words = scanner.letter_words
    cdef size_t n = count[0]
    cdef const uint8_t *stop = scanner.stop - QUICK_ROOM
    cdef const uint8_t *tail
    cdef const uint8_t *next_line
    cdef size_t repeats = 0
    cdef uint64_t letter = 0
    cdef uint64_t differs
    if last.digit_count == 0 or scanner.stop - place < QUICK_ROOM:
        return place
    while n < capacity and place <= stop and place[0] == c'@':
        tail = place + 1 + last.digit_count
        present = last
        if not read_alike(&present, place + 1):
            break
        next_line = NULL
        if tails.buckets != NULL:
            next_line = recall_tail(&tails, tail, letters + n)
        if next_line == NULL:
            if scanner.items.classes[tail[0]] > RETURN:
                break
            next_line = read_tail(scanner, tail, letters + n * words)
            if next_line == NULL:
                break
        differs = (last.value ^ present.value) | (letters[n * words] ^ letter)
        letter = letters[n * words]
        # PERF: no branch, since letters are practically random
        repeats = (repeats + 1) & (0 - <size_t> (differs == 0))
        last = present
        time_stamps[n] = last.value
        n += 1
        if repeats == EXPECTED_AFTER and words == 1:
            repeats = 0
            next_line = read_repeated(
                place, next_line, stop, time_stamps, letters, capacity, &n
            )
        place = next_line
    scanner.last = last
    scanner.line_count += n - count[0]
    count[0] = n
    return place


cdef const uint8_t *read_tail(
    Scanner scanner, const uint8_t *tail, uint64_t *letter
) noexcept nogil:
    """Read a line after its time-stamp into a letter; return the next line, or NULL on an error."""
    cdef const uint8_t *next_line
    cdef size_t word, size
    for word in range(scanner.letter_words):
        letter[word] = 0
    next_line = scanner.items.read_items(tail, scanner.stop, letter)
    if next_line == NULL:
        return NULL
    for word in range(scanner.letter_words):
        scanner.occurrences[word] |= letter[word]
    size = <size_t> (next_line - tail)
    if (
        scanner.tails.buckets != NULL
        and size <= LONGEST_TAIL
        and scanner.stop - tail >= LONGEST_TAIL
    ):
        learn_tail(&scanner.tails, tail, size, letter[0])
    return next_line


cdef const uint8_t *skip_byte_order_mark(const uint8_t *place) noexcept nogil:
    if place[0] == 0xEF and place[1] == 0xBB and place[2] == 0xBF:
        return place + 3
    return place


cdef const uint8_t *last_line_feed(const uint8_t *data, size_t size) noexcept nogil:
    while size > 0:
        size -= 1
        if data[size] == c'\n':
            return data + size
    return NULL


cdef str error_message(LineError error):
    """The message of an error, which `excerpt.describe` completes."""
    if error == NO_TIME_STAMP:
        return "expected '@' and a time-stamp, not {character}"
    if error == EMPTY_TIME_STAMP:
        return "expected a time-stamp directly after '@'"
    if error == TIME_STAMP_NOT_INTEGER:
        return "time-stamp '{word}' is not an integer from 0 to {largest}"
    if error == TIME_STAMP_TOO_LARGE:
        return "time-stamp {word} is above {largest}"
    if error == TIME_STAMP_DECREASES:
        return "time-stamp {word} is below the one before it, {previous}"
    if error == ARGUMENTS:
        return "atoms with arguments are reserved: only '()' may follow a name"
    if error == EMPTY_PARENTHESES:
        return "expected an atom between '(' and ')'"
    if error == OPEN_PARENTHESIS:
        return "expected ')' after the atom"
    if error == OPEN_QUOTE:
        return "quoted text without closing '\"'"
    if error == EMPTY_QUOTE:
        return "an atom cannot be empty text"
    if error == BAD_ESCAPE:
        return "only '\"' and '\\' may follow '\\' in quoted text"
    if error == NO_BLANK:
        return "expected a blank before {character}"
    if error == LINE_TOO_LONG:
        return "a line of more than {longest} bytes"
    return "unexpected {character}"
