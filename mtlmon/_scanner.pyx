# cython: language_level=3
"""The reader of text logs: blocks of bytes in, time-stamps and letters out.

One time-point a line, `@TS atom atom ...`. A *letter* is the set of atoms of a time-point as
64-bit words, bit i of them standing for `atoms[i]`; atoms that are not listed are ignored.

The scanner works on runs of complete lines, each of which ends with a line feed, so the inner
loops need no check against the end of the block. What follows the last line feed of a block is
kept in `carry` until the rest of its line arrives; results never depend on where blocks end.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcpy, memset

from mtlmon._atoms cimport AtomTable

from mtlmon.errors import LogError

cdef enum:
    # every longer line passes through `carry`, where its length is checked
    PIECE = 1 << 20
    LONGEST_LINE = 64 << 20
    # a larger carry is given back once its line is read
    CARRY_KEPT = 1 << 20
    LONGEST_DIGITS = 19
    # the three words that hold them
    DIGITS_ROOM = 24
    # 18 digits never overflow, so only what follows them is checked
    UNCHECKED_DIGITS = 18
    BATCH_WORDS = 4096

cdef enum ByteClass:
    BLANK
    LINE_FEED
    RETURN
    ATOM
    OTHER

cdef uint64_t LARGEST_TIME_STAMP = <uint64_t> 0x7FFFFFFFFFFFFFFF

MAX_LINE_BYTES = LONGEST_LINE


@cython.final
cdef class Scanner:
    """The native reader of text logs, fed with blocks of bytes.

    atoms: the names to look for; bit i of a letter says whether atoms[i] stands on the line.
    path: the log's name in error messages.
    skip_errors: pass over lines that cannot be read and count them in `skipped_count`.
    """

    def __cinit__(self, atoms, *, str path="<log>", bint skip_errors=False):
        cdef size_t count
        self.table = AtomTable(atoms)
        self.atoms = self.table.atoms
        self.letter_words = self.table.letter_words
        self.path = path
        self.skip_errors = skip_errors
        self.occurrences = <uint64_t *> calloc(self.letter_words, sizeof(uint64_t))
        if self.occurrences == NULL:
            raise MemoryError
        self.error = NO_ERROR
        classify_bytes(self.classes)
        for count in range(LONGEST_DIGITS + 1):
            memset(self.masks[count], 0xFF, count)

    def __dealloc__(self):
        free(self.occurrences)
        free(self.carry)
        free(self.unescaped)

    @property
    def absent(self):
        """The atoms that stood on no line so far, in their order."""
        cdef size_t index
        return tuple(
            atom
            for index, atom in enumerate(self.atoms)
            if not self.occurrences[index // 64] >> (index % 64) & 1
        )

    @property
    def last_time_stamp(self):
        """The time-stamp of the last line read, None before the first."""
        return self.time_stamp if self.has_time_stamp else None

    def feed(self, data):
        """Take a block of the log and return the events of the lines it completes.

        An event is (time-stamp, letter), the letter an int whose bit i stands for atoms[i].
        When a line cannot be read, the events before it are returned and the next call raises.

        Raises:
            LogError: a line that cannot be read (unless `skip_errors`).
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
        """End the log: return the event of a last line without line feed, if there is one.

        Raises:
            LogError: that line, or one before it, cannot be read (unless `skip_errors`).
        """
        self.check_failure()
        self.load_end()
        events = self.read_events()
        self.check_failure()
        return events

    cdef int check_failure(self) except -1:
        """Raise the error that ended the reading, if one did."""
        if self.failure is not None:
            raise self.failure
        return 0

    cdef list read_events(self):
        """The events of the loaded block, up to its end or a line that cannot be read."""
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
        """Describe the line in error in `failure`, before the block goes.

        Raises MemoryError when memory is what was missing.
        """
        cdef size_t size = self.carry_size
        cdef size_t before = 0
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
        from mtlmon._excerpt import describe
        message, column = describe(
            error_message(self.error),
            PyBytes_FromStringAndSize(<const char *> self.error_line, <Py_ssize_t> size),
            before,
            largest=LARGEST_TIME_STAMP,
            longest=LONGEST_LINE,
            previous=self.time_stamp,
        )
        self.failure = LogError(message, path=self.path, line=self.line_count, column=column)
        return 0

    cdef void load(self, const uint8_t *data, size_t size) noexcept nogil:
        """Make a block the one to scan; it must stay until `scan` returns SCAN_EMPTY."""
        self.rest = data
        self.limit = data + size

    cdef void load_end(self) noexcept nogil:
        """End the last line, if its line feed is missing."""
        cdef bint line_is_open = self.carry_size > 0 and not self.carry_is_line
        self.load(<const uint8_t *> b"\n", 1 if line_is_open else 0)

    cdef bint next_lines(self) noexcept nogil:
        """Set `cursor` and `stop` to the next run of complete lines; False when there is none."""
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

    cdef ScanStatus scan(
        self, uint64_t *time_stamps, uint64_t *letters, size_t capacity, size_t *count
    ) noexcept nogil:
        """Read events into the two arrays until the batch is full or the block at its end.

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
            line = place
            if place[0] != c'@':
                if self.line_count == 0:
                    line = place = skip_byte_order_mark(place)
                place = self.skip_to_stamp(place)
            self.line_count += 1
            if place[0] == c'\n':
                place += 1
                continue
            place = scan_line(self, place, letters + n * self.letter_words, time_stamps + n)
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
        while self.classes[place[0]] == BLANK:
            place += 1
        if place[0] == c'#':
            return <const uint8_t *> memchr(place, c'\n', <size_t> (self.stop - place))
        if place[0] == c'\r' and place[1] == c'\n':
            return place + 1
        return place

    cdef const uint8_t *scan_time_stamp(
        self, const uint8_t *place, uint64_t *time_stamp
    ) noexcept nogil:
        """Read the digits after '@' and return the byte after them, NULL on an error."""
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
        if not self.ends_item(place):
            if place == digits and self.classes[place[0]] == OTHER:
                return self.fail(STRAY_BYTE, place)
            return self.fail(TIME_STAMP_NOT_INTEGER, digits)
        if place == digits:
            return self.fail(EMPTY_TIME_STAMP, digits)
        if too_large:
            return self.fail(TIME_STAMP_TOO_LARGE, digits)
        if self.has_time_stamp and value < self.time_stamp:
            return self.fail(TIME_STAMP_DECREASES, digits)
        time_stamp[0] = value
        return place

    cdef const uint8_t *scan_item(self, const uint8_t *place, uint64_t *letter) noexcept nogil:
        """Read an item of any form; return the byte after it, NULL on an error."""
        cdef const uint8_t *item = place
        cdef const uint8_t *name
        cdef size_t length
        cdef bint in_parentheses = place[0] == c'('
        place += in_parentheses
        if place[0] == c'"':
            place = self.scan_quoted(place, &name, &length)
            if place == NULL:
                return NULL
        elif self.classes[place[0]] == ATOM:
            name = place
            while self.classes[place[0]] == ATOM:
                place += 1
            length = <size_t> (place - name)
        elif in_parentheses and (place[0] == c')' or self.ends_item(place)):
            return self.fail(EMPTY_PARENTHESES, item)
        else:
            return self.fail(STRAY_BYTE, place)
        if in_parentheses:
            if place[0] != c')':
                return self.fail(OPEN_PARENTHESIS, place)
            place += 1
        elif place[0] == c'(':
            if place[1] != c')':
                return self.fail(ARGUMENTS, place)
            place += 2
        if not self.ends_item(place):
            if self.classes[place[0]] == ATOM or place[0] == c'(' or place[0] == c'"':
                return self.fail(NO_BLANK, place)
            return self.fail(STRAY_BYTE, place)
        self.table.add(name, length, letter)
        return place

    cdef const uint8_t *scan_quoted(
        self, const uint8_t *place, const uint8_t **name, size_t *name_length
    ) noexcept nogil:
        """Read text in double quotes; return the byte after it, NULL on an error."""
        cdef const uint8_t *quote = place
        cdef const uint8_t *text = place + 1
        cdef size_t length = 0
        cdef void *larger
        place += 1
        while place[0] != c'"':
            if place[0] == c'\\' and place[1] != c'\n':
                place += 1
                if place[0] != c'"' and place[0] != c'\\':
                    return self.fail(BAD_ESCAPE, place - 1)
            if place[0] == c'\n':
                return self.fail(OPEN_QUOTE, quote)
            place += 1
            length += 1
        if length == 0:
            return self.fail(EMPTY_QUOTE, quote)
        if length != <size_t> (place - text):
            if length > self.unescaped_room:
                larger = realloc(self.unescaped, length)
                if larger == NULL:
                    return self.fail(OUT_OF_MEMORY, quote)
                self.unescaped = <uint8_t *> larger
                self.unescaped_room = length
            length = 0
            while text != place:
                text += text[0] == c'\\'
                self.unescaped[length] = text[0]
                length += 1
                text += 1
            text = self.unescaped
        name[0] = text
        name_length[0] = length
        return place + 1

    cdef inline bint ends_item(self, const uint8_t *place) noexcept nogil:
        return self.classes[place[0]] <= LINE_FEED or (place[0] == c'\r' and place[1] == c'\n')

    cdef const uint8_t *fail(self, LineError error, const uint8_t *place) noexcept nogil:
        self.error = error
        self.error_place = place
        return NULL


# PERF: the functions of the hot loop are not methods, because the compiler does not inline those.


cdef inline const uint8_t *scan_line(
    Scanner scanner, const uint8_t *place, uint64_t *letter, uint64_t *time_stamp
) noexcept nogil:
    """Read a line from its '@' on; return the beginning of the next, NULL on an error."""
    cdef const uint8_t *digits = place + 1
    cdef size_t word
    cdef size_t words = scanner.letter_words
    if place[0] != c'@':
        return scanner.fail(NO_TIME_STAMP, place)
    letter[0] = 0
    for word in range(1, words):
        letter[word] = 0
    if has_same_digits(scanner, digits):
        time_stamp[0] = scanner.time_stamp
        place = scan_items(scanner, digits + scanner.digit_count, letter)
        if place == NULL:
            return NULL
    else:
        place = scanner.scan_time_stamp(digits, time_stamp)
        if place == NULL:
            return NULL
        word = <size_t> (place - digits)
        place = scan_items(scanner, place, letter)
        if place == NULL:
            return NULL
        remember_time_stamp(scanner, time_stamp[0], digits, word)
    for word in range(words):
        scanner.occurrences[word] |= letter[word]
    return place


cdef inline bint has_same_digits(Scanner scanner, const uint8_t *digits) noexcept nogil:
    """Whether the time-stamp at this place is written as the last one was.

    PERF: most lines share their time-stamp with the one before, and then this is one comparison
    of words instead of a loop over digits.
    """
    cdef uint64_t text[3]
    cdef uint64_t *masks = scanner.masks[scanner.digit_count]
    if scanner.digit_count == 0 or scanner.stop - digits <= DIGITS_ROOM:
        return False
    memcpy(text, digits, DIGITS_ROOM)
    return (
        ((text[0] ^ scanner.digits[0]) & masks[0])
        | ((text[1] ^ scanner.digits[1]) & masks[1])
        | ((text[2] ^ scanner.digits[2]) & masks[2])
    ) == 0 and scanner.classes[digits[scanner.digit_count]] <= LINE_FEED


cdef inline void remember_time_stamp(
    Scanner scanner, uint64_t time_stamp, const uint8_t *digits, size_t count
) noexcept nogil:
    scanner.has_time_stamp = True
    scanner.time_stamp = time_stamp
    # no short cut for the next line where the copy would reach beyond the block
    scanner.digit_count = 0
    if count <= LONGEST_DIGITS and scanner.stop - digits >= DIGITS_ROOM:
        scanner.digit_count = count
        memcpy(scanner.digits, digits, DIGITS_ROOM)


cdef inline const uint8_t *scan_items(
    Scanner scanner, const uint8_t *place, uint64_t *letter
) noexcept nogil:
    """Add the items of a line to a letter; return the next line's beginning or NULL.

    PERF: plain atoms are read here, all else by `scan_item`. One-byte atoms take no branch on
    whether the formula names them.
    """
    cdef const uint8_t *classes = scanner.classes
    cdef const uint8_t *item
    cdef uint8_t first
    while True:
        first = place[0]
        if classes[first] == BLANK:
            place += 1
        elif classes[first] == ATOM:
            item = place
            place += 1
            if classes[place[0]] != ATOM:
                letter[scanner.table.single_word[first]] |= scanner.table.single_bit[first]
            else:
                while classes[place[0]] == ATOM:
                    place += 1
                scanner.table.add(item, <size_t> (place - item), letter)
            if classes[place[0]] > RETURN:
                place = scanner.scan_item(item, letter)
                if place == NULL:
                    return NULL
        elif first == c'\n':
            return place + 1
        elif first == c'\r' and place[1] == c'\n':
            return place + 2
        else:
            place = scanner.scan_item(place, letter)
            if place == NULL:
                return NULL


cdef inline bint is_digit(uint8_t byte) noexcept nogil:
    return c'0' <= byte <= c'9'


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


cdef void classify_bytes(uint8_t *classes) noexcept nogil:
    cdef size_t byte
    for byte in range(256):
        classes[byte] = ATOM if byte > c' ' and byte != 0x7F else OTHER
    classes[c' '] = classes[c'\t'] = BLANK
    classes[c'\n'] = LINE_FEED
    classes[c'\r'] = RETURN
    classes[c'('] = classes[c')'] = classes[c'"'] = classes[c','] = OTHER


cdef str error_message(LineError error):
    """What is wrong, for `_excerpt.describe` to fill in."""
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
