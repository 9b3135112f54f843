# cython: language_level=3
"""The writer of verdict lines: verdict records in, bytes for a file descriptor out.

The lines of text are `ts:offset true`, `ts:offset false` and `ts:offset = ts':offset'`. JSON lines
are objects, whose first members are the label:

    {"policy":null,"time":ts,"offset":offset,"verdict":true,"reference":null}
    {"policy":null,"time":ts,"offset":offset,"verdict":null,"reference":"ts':offset'"}
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, errno
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset
from posix.unistd cimport write as write_to

from mtlmon.arrays.native cimport Memory
from mtlmon.engine.native cimport (
    VERDICT_EQUIVALENT,
    VERDICT_FALSE,
    VERDICT_TRUE,
    VerdictRecord,
    VerdictRun,
)

from os import strerror

cdef enum:
    # a larger buffer is freed once it is empty
    ROOM_KEPT = 1 << 20

MAX_LABEL_BYTES = LONGEST_LABEL

VERDICT_FILTERS = {
    "all": FILTER_ALL,
    "boolean": FILTER_BOOLEAN,
    "false": FILTER_FALSE,
    "none": FILTER_NONE,
}


@cython.final
cdef class Writer:
    """A growing buffer of verdict lines, emptied by `flush`.

    Args:
        label: the text at the start of every line, of at most MAX_LABEL_BYTES. For JSON lines, it
            is the object up to the value of `time`.
        format: the format of lines, "text" or "jsonl".
    """

    def __cinit__(self, bytes label not None=b"", str format not None="text"):
        cdef uint64_t digits, number
        cdef size_t zeros
        cdef const uint8_t *false_end = b" false\n\0"
        cdef const uint8_t *true_end = b" true\n\0\0"
        cdef const uint8_t *equivalent_end = b" = \0\0\0\0\0"
        if len(label) > LONGEST_LABEL:
            raise ValueError(f"a label of {len(label)} bytes")
        if format not in ("text", "jsonl"):
            raise ValueError(f"no format of lines is called {format!r}")
        self.label = label
        self.label_text = label
        self.label_size = <size_t> len(label)
        self.is_json = format == "jsonl"
        if self.is_json:
            self.line_room = JSON_LINE_ROOM + max(self.label_size, <size_t> SHORT_JSON_LABEL)
            self.set_json_texts()
        else:
            # a short label is written as two words
            self.line_room = LINE_ROOM + (0 if not label else max(self.label_size, 2 * WORD_SIZE))
        self.ends[<int> VERDICT_FALSE] = load_word(false_end)
        self.ends[<int> VERDICT_TRUE] = load_word(true_end)
        self.ends[<int> VERDICT_EQUIVALENT] = load_word(equivalent_end)
        self.end_sizes[:] = [7, 6, 3]
        for number in range(1000):
            digits = digits_of(number)
            zeros = leading_zeros(digits)
            self.three_digits[number] = <uint32_t> (text_of(digits) >> 40)
            self.few_digits[number] = <uint32_t> (
                text_of(digits) >> 8 * zeros | <uint64_t> (WORD_SIZE - zeros) << 24
            )
        self.prefix = prefix_from(0)
        set_prefix(self, &self.prefix, 0)
        self.reference_prefix = self.prefix

    cdef int set_json_texts(self) except -1:
        """Set the texts that JSON lines are made of."""
        cdef bytes end
        cdef int kind
        memcpy(
            self.short_label, self.label_text, min(self.label_size, <size_t> SHORT_JSON_LABEL)
        )
        for kind, value, reference in (
            (VERDICT_FALSE, b"false", b"null}\n"),
            (VERDICT_TRUE, b"true", b"null}\n"),
            (VERDICT_EQUIVALENT, b"null", b'"'),
        ):
            end = b',"verdict":%b,"reference":%b' % (value, reference)
            self.json_end_sizes[kind] = <size_t> len(end)
            end = end.ljust(JSON_END_ROOM)
            memcpy(self.json_ends + kind * JSON_END_ROOM, <const char *> end, JSON_END_ROOM)
        return 0

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return <Py_ssize_t> self.pending()

    def put(self, records, str verdicts not None="all"):
        """Append the lines of verdict records, a contiguous array of `verdict_type()`.

        verdicts: which verdicts to write: "all", "boolean", "false" or "none".
        """
        cdef Memory memory = Memory(records, sizeof(VerdictRecord), 0)
        cdef const VerdictRecord *first = <const VerdictRecord *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0]
        cdef VerdictFilter filter = VERDICT_FILTERS[verdicts]
        cdef size_t k
        cdef bint has_memory
        if count > 1 and memory.buffer.strides[0] != sizeof(VerdictRecord):
            raise ValueError("verdict records have gaps between them")
        for k in range(count):
            if first[k].kind > VERDICT_EQUIVALENT:
                raise ValueError(f"no kind of verdict: {first[k].kind}")
        with nogil:
            has_memory = self.write(first, count, filter)
        if not has_memory:
            raise MemoryError("mtlmon: out of memory")

    def take(self):
        """Remove the written lines from the buffer and return them as bytes."""
        text = PyBytes_FromStringAndSize(
            <const char *> self.data + self.taken, <Py_ssize_t> self.pending()
        )
        self.clear()
        return text

    def flush(self, int file_descriptor):
        """Write the buffer to a file, waiting as long as it takes.

        The written bytes are counted here, not in Python, so that a signal handler that raises can
        neither lose a line nor write one twice.

        Raises:
            OSError: the file accepts no more bytes.
        """
        cdef Py_ssize_t written
        cdef int error
        while self.taken != self.size:
            with nogil:
                written = write_to(
                    file_descriptor, self.data + self.taken, self.size - self.taken
                )
                error = errno
                if written > 0:
                    self.taken += <size_t> written
            PyErr_CheckSignals()
            if written < 0 and error != EINTR:
                raise OSError(error, strerror(error))
        self.clear()

    cdef size_t pending(self) noexcept nogil:
        """The number of bytes that wait to be written."""
        return self.size - self.taken

    cdef void clear(self) noexcept nogil:
        self.taken = self.size = 0
        if self.room > ROOM_KEPT:
            free(self.data)
            self.data = NULL
            self.room = 0

    cdef bint reserve(self, size_t count) noexcept nogil:
        """Make room for some lines; False if there is no memory."""
        cdef size_t wanted
        cdef void *larger
        if count > (SIZE_MAX // 2 - self.size) // self.line_room:
            return False
        wanted = self.size + count * self.line_room
        if wanted > self.room:
            wanted = max(wanted, 2 * self.room)
            larger = realloc(self.data, wanted)
            if larger == NULL:
                return False
            self.data = <uint8_t *> larger
            self.room = wanted
        return True

    cdef bint append(self, const uint8_t *text, size_t size) noexcept nogil:
        """Append text that precedes a line's verdict; False if there is no memory."""
        if size > self.room - self.size and not self.reserve(size // LINE_ROOM + 1):
            return False
        memcpy(self.data + self.size, text, size)
        self.size += size
        return True

    cdef bint write_behind(
        self, const uint8_t *text, size_t size, const VerdictRecord *verdict
    ) noexcept nogil:
        """Append a line that begins with a text; False if there is no memory.

        A text that is not empty must have room for two words, which may be read.
        """
        if size > self.room - self.size or self.room - self.size - size < LINE_ROOM:
            if not self.reserve(size // LINE_ROOM + LINES_AT_ONCE):
                return False
        if size > 2 * WORD_SIZE:
            memcpy(self.data + self.size, text, size)
        elif size:
            # PERF: a copy whose size the compiler knows
            memcpy(self.data + self.size, text, 2 * WORD_SIZE)
        self.size = <size_t> (
            put_line(self, self.data + self.size + size, verdict) - self.data
        )
        return True

    cdef bint write_object(
        self,
        const uint8_t *text,
        size_t size,
        const uint8_t *time_text,
        size_t time_size,
        const VerdictRecord *verdict,
    ) noexcept nogil:
        """Append a JSON line that begins with a text; False if there is no memory.

        time_text: members between `time` and `offset`, with the comma before them.
        """
        cdef uint8_t *place
        if self.room - self.size < JSON_LINE_ROOM or (
            size + time_size > self.room - self.size - JSON_LINE_ROOM
        ):
            if not self.reserve((size + time_size) // JSON_LINE_ROOM + LINES_AT_ONCE):
                return False
        place = self.data + self.size
        memcpy(place, text, size)
        if verdict.time_stamp != self.prefix.time_stamp:
            set_prefix(self, &self.prefix, verdict.time_stamp)
        place = put_time_stamp(place + size, &self.prefix)
        if time_size:
            memcpy(place, time_text, time_size)
            place += time_size
        place = put_json_rest(self, place, verdict, &self.reference_prefix)
        self.size = <size_t> (place - self.data)
        return True

    cdef bint write(
        self, const VerdictRecord *verdicts, size_t count, VerdictFilter filter
    ) noexcept nogil:
        """Append the lines of the verdicts that pass the filter; False if there is no memory."""
        cdef size_t part
        if filter == FILTER_NONE:
            return True
        while count > 0:
            part = min(count, <size_t> LINES_AT_ONCE)
            if part > (self.room - self.size) // self.line_room and not self.reserve(part):
                return False
            self.size += put_wanted_lines(self, self.data + self.size, verdicts, part, filter)
            verdicts += part
            count -= part
        return True

    cdef bint write_runs(
        self, const VerdictRun *runs, size_t count, VerdictFilter filter
    ) noexcept nogil:
        """Append lines of text for runs of at most LINES_AT_ONCE verdicts in all.

        filter: not FILTER_NONE, for which nobody resolves verdicts.

        Returns False if there is no memory.
        """
        if self.room - self.size < LINES_AT_ONCE * self.line_room and not (
            self.reserve(LINES_AT_ONCE)
        ):
            return False
        self.size = <size_t> (
            put_run_lines(self, self.data + self.size, runs, count, filter) - self.data
        )
        return True


cdef size_t put_wanted_lines(
    Writer writer, uint8_t *place, const VerdictRecord *verdicts, size_t count,
    VerdictFilter filter
) noexcept nogil:
    """Write the lines of the verdicts that pass the filter; return the number of bytes.

    There must be `line_room` bytes for each of the verdicts.
    """
    cdef bint wanted[3]
    if filter == FILTER_NONE:
        return 0
    wanted[<int> VERDICT_FALSE] = True
    wanted[<int> VERDICT_TRUE] = filter != FILTER_FALSE
    wanted[<int> VERDICT_EQUIVALENT] = filter == FILTER_ALL
    if writer.is_json:
        return <size_t> (put_json_lines(writer, place, verdicts, count, wanted) - place)
    return <size_t> (put_lines(writer, place, verdicts, count, wanted) - place)


cdef uint8_t *put_lines(
    Writer writer,
    uint8_t *place,
    const VerdictRecord *verdicts,
    size_t count,
    const bint *wanted,
) noexcept nogil:
    """Write lines into existing room; return the place after them.

    PERF: Boolean verdicts follow each other at random, so their texts are looked up without
    branches. An equivalence is a branch: if half the verdicts are equivalences, at random, the
    branch costs 2 ns a line, as much as writing a second time-point after every verdict would cost.
    Computing the digits of every number by arithmetic, without tables, took 5.5 ns a line instead
    of 2.1.
    """
    cdef const VerdictRecord *verdict
    # PERF: copies, which no store to the lines can change
    cdef Prefix prefix = writer.prefix
    cdef Prefix reference_prefix = writer.reference_prefix
    cdef const uint8_t *label = writer.label_text
    cdef size_t label_size = writer.label_size
    cdef uint64_t label_start = 0
    cdef uint64_t label_rest = 0
    cdef bint is_short = label_size <= 2 * WORD_SIZE
    cdef size_t k
    cdef uint8_t kind
    if is_short:
        memcpy(&label_start, label, min(label_size, <size_t> WORD_SIZE))
        if label_size > WORD_SIZE:
            memcpy(&label_rest, label + WORD_SIZE, label_size - WORD_SIZE)
    for k in range(count):
        verdict = verdicts + k
        kind = verdict.kind
        if not wanted[kind]:
            continue
        if label_size:
            if is_short:
                store_word(place, label_start)
                store_word(place + WORD_SIZE, label_rest)
            else:
                memcpy(place, label, label_size)
            place += label_size
        if verdict.time_stamp != prefix.time_stamp:
            set_prefix(writer, &prefix, verdict.time_stamp)
        place = put_time_point(writer, place, &prefix, verdict.offset)
        store_word(place, writer.ends[kind])
        place += writer.end_sizes[kind]
        if kind == VERDICT_EQUIVALENT:
            if verdict.reference_time_stamp != reference_prefix.time_stamp:
                set_prefix(writer, &reference_prefix, verdict.reference_time_stamp)
            place = put_time_point(writer, place, &reference_prefix, verdict.reference_offset)
            place[0] = c'\n'
            place += 1
    writer.prefix = prefix
    writer.reference_prefix = reference_prefix
    return place


cdef uint8_t *put_run_lines(
    Writer writer, uint8_t *place, const VerdictRun *runs, size_t count, VerdictFilter filter
) noexcept nogil:
    """Write the lines of runs into existing room; return the place after them.

    PERF: a single loop over time-points, without a branch at the end of a run, was slower by 1 to
    3 ns a line, also where runs are short.
    """
    cdef const VerdictRun *run
    cdef Prefix prefix = writer.prefix
    cdef const uint8_t *label = writer.label_text
    cdef size_t label_size = writer.label_size
    cdef uint64_t end, offset
    cdef size_t end_size, k
    for k in range(count):
        run = runs + k
        if filter == FILTER_FALSE and run.kind != VERDICT_FALSE:
            continue
        if run.time_stamp != prefix.time_stamp:
            set_prefix(writer, &prefix, run.time_stamp)
        end = writer.ends[run.kind]
        end_size = writer.end_sizes[run.kind]
        for offset in range(run.offset, run.offset + run.length):
            if label_size:
                memcpy(place, label, label_size)
                place += label_size
            place = put_time_point(writer, place, &prefix, offset)
            store_word(place, end)
            place += end_size
    writer.prefix = prefix
    return place


cdef uint8_t *put_json_lines(
    Writer writer,
    uint8_t *place,
    const VerdictRecord *verdicts,
    size_t count,
    const bint *wanted,
) noexcept nogil:
    """Write JSON lines into existing room; return the place after them.

    PERF: a short label and the end of a line are copied with a size that the compiler knows, which
    takes 6.3 ns a line where lines of text take 4.2; a label whose size it does not know takes 1 ns
    more.
    """
    cdef const VerdictRecord *verdict
    cdef Prefix prefix = writer.prefix
    cdef Prefix reference_prefix = writer.reference_prefix
    cdef const uint8_t *label = writer.label_text
    cdef size_t label_size = writer.label_size
    cdef bint is_short = label_size <= SHORT_JSON_LABEL
    cdef size_t k
    for k in range(count):
        verdict = verdicts + k
        if not wanted[verdict.kind]:
            continue
        if is_short:
            memcpy(place, writer.short_label, SHORT_JSON_LABEL)
        else:
            memcpy(place, label, label_size)
        if verdict.time_stamp != prefix.time_stamp:
            set_prefix(writer, &prefix, verdict.time_stamp)
        place = put_time_stamp(place + label_size, &prefix)
        place = put_json_rest(writer, place, verdict, &reference_prefix)
    writer.prefix = prefix
    writer.reference_prefix = reference_prefix
    return place


cdef inline uint8_t *put_json_rest(
    Writer writer, uint8_t *place, const VerdictRecord *verdict, Prefix *reference_prefix
) noexcept nogil:
    """Write a JSON line from the comma before the offset on; return the place after it."""
    cdef const uint8_t *name = b',"offset":\0\0\0\0\0\0'
    cdef uint8_t kind = verdict.kind
    memcpy(place, name, 2 * WORD_SIZE)
    place = put_offset(writer, place + 10, verdict.offset)
    memcpy(place, writer.json_ends + kind * <size_t> JSON_END_ROOM, JSON_END_ROOM)
    place += writer.json_end_sizes[kind]
    if kind == VERDICT_EQUIVALENT:
        if verdict.reference_time_stamp != reference_prefix.time_stamp:
            set_prefix(writer, reference_prefix, verdict.reference_time_stamp)
        place = put_time_point(writer, place, reference_prefix, verdict.reference_offset)
        memcpy(place, <const uint8_t *> b'"}\n', 3)
        place += 3
    return place


cdef inline uint8_t *put_line(
    Writer writer, uint8_t *place, const VerdictRecord *verdict
) noexcept nogil:
    """Write one line into existing room; return the place after it."""
    if verdict.time_stamp != writer.prefix.time_stamp:
        set_prefix(writer, &writer.prefix, verdict.time_stamp)
    place = put_time_point(writer, place, &writer.prefix, verdict.offset)
    store_word(place, writer.ends[verdict.kind])
    place += writer.end_sizes[verdict.kind]
    if verdict.kind == VERDICT_EQUIVALENT:
        if verdict.reference_time_stamp != writer.reference_prefix.time_stamp:
            set_prefix(writer, &writer.reference_prefix, verdict.reference_time_stamp)
        place = put_time_point(
            writer, place, &writer.reference_prefix, verdict.reference_offset
        )
        place[0] = c'\n'
        place += 1
    return place


cdef inline uint8_t *put_time_point(
    Writer writer, uint8_t *place, const Prefix *prefix, uint64_t offset
) noexcept nogil:
    place = put_time_stamp(place, prefix)
    place[0] = c':'
    return put_offset(writer, place + 1, offset)


cdef inline uint8_t *put_time_stamp(uint8_t *place, const Prefix *prefix) noexcept nogil:
    store_word(place, prefix.high[0])
    store_word(place + WORD_SIZE, prefix.high[1])
    store_word(place + prefix.high_size, prefix.low)
    return place + prefix.size


cdef inline void set_prefix(Writer writer, Prefix *prefix, uint64_t time_stamp) noexcept nogil:
    """Set a prefix to the text of a time-stamp.

    PERF: time-stamps grow slowly, so the digits before the last three, or at least those before the
    last eight, are kept.
    """
    cdef uint64_t thousands = time_stamp // 1000
    cdef uint64_t high_value, digits, units
    cdef size_t zeros
    if thousands == prefix.thousands and thousands != 0:
        units = writer.three_digits[time_stamp % 1000]
        prefix.low = prefix.low & ~(<uint64_t> 0xFFFFFF << prefix.units_shift)
        prefix.low |= units << prefix.units_shift
        prefix.time_stamp = time_stamp
        return
    high_value = time_stamp // EIGHT_DIGITS
    digits = digits_of(time_stamp % EIGHT_DIGITS)
    zeros = 0 if high_value else leading_zeros(digits)
    if high_value != prefix.high_value:
        prefix[0] = prefix_from(high_value)
    prefix.time_stamp = time_stamp
    prefix.thousands = thousands
    prefix.units_shift = <unsigned> (8 * (WORD_SIZE - 3 - zeros))
    prefix.low = text_of(digits) >> 8 * zeros
    prefix.size = prefix.high_size + WORD_SIZE - zeros


cdef Prefix prefix_from(uint64_t high_value) noexcept nogil:
    """A prefix with only the digits before the last eight."""
    cdef Prefix prefix
    cdef uint8_t text[3 * WORD_SIZE]
    memset(&prefix, 0, sizeof(prefix))
    prefix.high_value = high_value
    if high_value != 0:
        prefix.high_size = <size_t> (put_integer(text, high_value) - text)
        prefix.high[0] = load_word(text)
        prefix.high[1] = load_word(text + WORD_SIZE)
    return prefix


cdef inline uint8_t *put_offset(Writer writer, uint8_t *place, uint64_t offset) noexcept nogil:
    """Write a number in decimal, and some extra bytes; return the place after the number."""
    cdef uint32_t text
    if offset < 1000:
        text = writer.few_digits[offset]
        store_half_word(place, text)
        return place + (text >> 24)
    if offset < 1000000:
        text = writer.few_digits[offset // 1000]
        store_half_word(place, text)
        place += text >> 24
        store_half_word(place, writer.three_digits[offset % 1000])
        return place + 3
    if offset < 1000000000:
        text = writer.few_digits[offset // 1000000]
        store_half_word(place, text)
        place += text >> 24
        store_half_word(place, writer.three_digits[offset // 1000 % 1000])
        store_half_word(place + 3, writer.three_digits[offset % 1000])
        return place + 6
    return put_integer(place, offset)


cdef uint8_t *put_integer(uint8_t *place, uint64_t value) noexcept nogil:
    """Do the same as `put_offset`, without tables."""
    cdef uint64_t high = value // EIGHT_DIGITS
    cdef uint64_t digits
    cdef size_t zeros
    if high == 0:
        digits = digits_of(value)
        zeros = leading_zeros(digits)
        store_word(place, text_of(digits) >> 8 * zeros)
        return place + WORD_SIZE - zeros
    if high >= EIGHT_DIGITS:
        place = put_integer(place, high // EIGHT_DIGITS)
        store_word(place, text_of(digits_of(high % EIGHT_DIGITS)))
        place += WORD_SIZE
    else:
        place = put_integer(place, high)
    store_word(place, text_of(digits_of(value % EIGHT_DIGITS)))
    return place + WORD_SIZE
