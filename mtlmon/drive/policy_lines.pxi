# cython: language_level=3
"""Write the verdicts of several policies and streams as lines.

A line of text is `[policy TAB][key TAB ...]ts:offset ...`. In names and keys, a tab, line feed,
carriage return or backslash is written as a backslash followed by t, n, r or a backslash.

If rows are wanted, a tab, the name of the file and `:row` follow the verdict of a line of text.

A JSON line is `{"policy":policy,"key column":key,...,"time":ts,"offset":offset,...}`. Names and
keys are escaped as by `json.dumps(..., ensure_ascii=False)`.

Where a policy's partition lacks a key column that another one has, the field is empty, and the
member null.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from cpython.ref cimport PyObject

from mtlmon.arrays.native cimport KeyTable, Memory, Text
from mtlmon.engine.native cimport VERDICT_FALSE, reserve
from mtlmon.text.native cimport WORD_SIZE, Writer

cdef enum:
    NO_POLICY = 0xFFFFFFFF

# a key column that a partition lacks
cdef size_t NO_COLUMN = SIZE_MAX
# precedes the time-stamp of a JSON line
_TIME = b',"time":'


@cython.final
cdef class PolicyLines(Sink):
    """Writes verdicts as lines, without the texts of times if it is used as a sink.

    Args:
        names: the names of the policies in order; None for a policy without a name. A text line of
            such a policy has no field for the name.
        keys: the KeyTable of the streams' keys; None if streams have no keys. With several
            partitions, a list of these.
        format: the format of lines, "text" or "jsonl".
        key_columns: for JSON lines, the names of the key columns as JSON.
        partitions: for each policy, the number of its partition; None if there is only one.
        places: for each partition, the indices of its key columns among all key columns of lines;
            None if the only partition has all of them.
        endings: for JSON lines, for each policy the last members of a violation and those of
            another verdict, each with a comma before it; None for no such members.

    Attributes:
        writer: holds the lines until they are flushed.
    """

    def __cinit__(
        self, list names not None, keys=None, *, str format not None="text",
        tuple key_columns not None=(), list partitions=None, list places=None,
        list endings=None
    ):
        cdef uint32_t policy
        cdef size_t column
        self.writer = Writer(b"", format)
        self.both_policy = NO_POLICY
        self.policy_count = <uint32_t> len(names)
        self.names = <Fields *> calloc(max(<size_t> 1, len(names)), sizeof(Fields))
        self.keys_of = <LineKeys **> calloc(max(<size_t> 1, len(names)), sizeof(LineKeys *))
        if self.names == NULL or self.keys_of == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.set_partitions(keys if isinstance(keys, list) else [keys], partitions, places)
        for policy in range(self.policy_count):
            add_name(&self.names[policy], names[policy], self.writer.is_json)
            if self.writer.is_json and not self.column_count:
                add_bytes(&self.names[policy], _TIME)
        if endings is not None:
            self.set_endings(endings)
        if not self.writer.is_json or not self.column_count:
            return
        if <size_t> len(key_columns) != self.column_count:
            raise ValueError(f"{len(key_columns)} names for {self.column_count} key columns")
        self.members = <Fields *> calloc(self.column_count + 1, sizeof(Fields))
        if self.members == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.member_count = self.column_count + 1
        for column in range(self.column_count):
            add_bytes(&self.members[column], b",%b:" % key_columns[column])
        add_bytes(&self.members[self.column_count], _TIME)

    cdef int set_endings(self, list endings) except -1:
        """Set the last members of lines, and what closes these."""
        cdef uint32_t policy
        if not self.writer.is_json:
            raise ValueError("lines of text have no members")
        if <size_t> len(endings) != self.policy_count:
            raise ValueError("expected endings for each policy")
        self.endings = <Fields *> calloc(max(<size_t> 1, 2 * len(endings)), sizeof(Fields))
        if self.endings == NULL:
            raise MemoryError("mtlmon: out of memory")
        for policy in range(self.policy_count):
            of_violation, of_other = endings[policy]
            add_bytes(&self.endings[2 * policy], of_violation + b"}\n")
            add_bytes(&self.endings[2 * policy + 1], of_other + b"}\n")
        return 0

    cdef int set_partitions(self, list tables, list partitions, list places) except -1:
        """Note the keys of all partitions, and the partitions of all policies."""
        cdef KeyTable table
        cdef uint32_t policy, partition
        cdef size_t place, column
        if partitions is None:
            partitions = [0] * self.policy_count
        if places is None:
            places = [[] if table is None else list(range(table.columns)) for table in tables]
        if len(partitions) != <Py_ssize_t> self.policy_count or len(places) != len(tables):
            raise ValueError("expected a partition for each policy, and places for each partition")
        for policy in range(self.policy_count):
            if partitions[policy] >= <size_t> len(tables):
                raise ValueError("a policy of a partition that does not exist")
        self.tables = list(tables)
        self.keys = <LineKeys *> calloc(len(tables), sizeof(LineKeys))
        if self.keys == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.partition_count = <uint32_t> len(tables)
        for policy in range(self.policy_count):
            self.keys_of[policy] = &self.keys[<size_t> partitions[policy]]
        self.column_count = max([place + 1 for each in places for place in each], default=0)
        for partition in range(self.partition_count):
            table = tables[partition]
            if (0 if table is None else table.columns) != <size_t> len(places[partition]):
                raise ValueError("expected a place for each key column")
            self.keys[partition].table = NULL if table is None else <PyObject *> table
            self.keys[partition].columns = <size_t *> malloc(
                (self.column_count + 1) * sizeof(size_t)
            )
            if self.keys[partition].columns == NULL:
                raise MemoryError("mtlmon: out of memory")
            for column in range(self.column_count):
                self.keys[partition].columns[column] = NO_COLUMN
            for column, place in enumerate(places[partition]):
                self.keys[partition].columns[place] = column
        return 0

    def __dealloc__(self):
        cdef uint32_t policy, partition
        cdef size_t member
        for policy in range(self.policy_count if self.names != NULL else 0):
            free(self.names[policy].text)
        for member in range(2 * <size_t> self.policy_count if self.endings != NULL else 0):
            free(self.endings[member].text)
        free(self.endings)
        for member in range(self.member_count):
            free(self.members[member].text)
        for partition in range(self.partition_count):
            free(self.keys[partition].key.text)
            free(self.keys[partition].columns)
        free(self.keys)
        free(self.keys_of)
        free(self.names)
        free(self.members)
        free(self.both.text)
        free(self.times.text)
        free(self.time_ends)
        for member in range(self.file_count):
            free(self.file_names[member].text)
        free(self.file_names)
        free(self.row_text.text)

    def write(
        self, VerdictRows rows not None, list time_texts=None, places=None, *, list files=None,
        file_numbers=None, row_numbers=None
    ):
        """Write the rows as lines, and remove them from `rows`.

        Args:
            rows: the verdicts.
            time_texts: for JSON lines, the texts of times in the notation of the log; None if lines
                have no such text.
            places: an array of uint32 with the index in `time_texts` for each row.
            files: for lines of text, what precedes the numbers of rows of each file of the log, as
                in `app.log:17`, to write the rows that verdicts are about behind these; None if
                lines have no rows.
            file_numbers: an array of uint32 with the index in `files` for each verdict, or 2^32 - 1
                if it is about no row.
            row_numbers: an array of int64 with the number of the row in the file.

        Raises:
            IndexError: the policy, key or time text of a row does not exist.
            ValueError: rows are wanted in JSON lines.
        """
        cdef Memory memory, file_memory, row_memory
        cdef const uint32_t *place_of = NULL
        cdef const uint32_t *file_of = NULL
        cdef const int64_t *row_of = NULL
        cdef size_t k
        for k in range(rows.count):
            if rows.policies[k] >= self.policy_count:
                raise IndexError("a verdict on a policy that does not exist")
        if time_texts is not None:
            memory = Memory(places, sizeof(uint32_t), rows.count)
            if rows.count > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
                raise ValueError("the places of times have gaps between them")
            place_of = <const uint32_t *> memory.buffer.buf
            for k in range(rows.count):
                if place_of[k] >= <size_t> len(time_texts):
                    raise IndexError("a verdict at a time that has no text")
            self.set_times(time_texts)
        if files is not None:
            if self.writer.is_json:
                raise ValueError("lines of JSON have no rows behind verdicts")
            file_memory = contiguous(file_numbers, sizeof(uint32_t), rows.count)
            row_memory = contiguous(row_numbers, sizeof(int64_t), rows.count)
            file_of = <const uint32_t *> file_memory.buffer.buf
            row_of = <const int64_t *> row_memory.buffer.buf
            self.set_files(files)
        # Keys may have been renumbered since the last call.
        self.forget_keys()
        with nogil:
            for k in range(rows.count):
                self.put_line(
                    &rows.records[k], rows.streams[k], rows.policies[k],
                    NULL if place_of == NULL else place_of + k
                )
                if file_of != NULL and file_of[k] < self.file_count:
                    self.put_row(file_of[k], row_of[k])
        self.forget_keys()
        rows.count = 0

    cdef int set_times(self, list texts) except -1:
        """Set the members for the texts of times."""
        cdef uint32_t number
        self.times.size = 0
        reserve(<void **> &self.time_ends, &self.time_room, len(texts), sizeof(uint32_t))
        for number in range(<uint32_t> len(texts)):
            add_bytes(&self.times, b',"time_text":')
            add_json(&self.times, texts[number])
            self.time_ends[number] = self.times.size
        return 0

    cdef int set_files(self, list names) except -1:
        """Set what precedes rows of files, of which the first ones are known already."""
        cdef Fields *larger
        cdef size_t number
        if <size_t> len(names) <= self.file_count:
            return 0
        larger = <Fields *> realloc(self.file_names, len(names) * sizeof(Fields))
        if larger == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.file_names = larger
        for number in range(self.file_count, len(names)):
            memset(&larger[number], 0, sizeof(Fields))
            self.file_count += 1
            name = names[number].encode("utf-8", "surrogateescape")
            add(
                &larger[number], <const uint8_t *> <const char *> name, <size_t> len(name)
            )
            # without the tab
            larger[number].size -= 1
        return 0

    cdef int put_row(self, uint32_t file, int64_t row) except -1 nogil:
        """Write a tab, what precedes rows of a file, and a row behind the last line."""
        cdef uint8_t digits[20]
        cdef uint64_t rest = <uint64_t> max(row, <int64_t> 0)
        cdef size_t first = 20
        self.row_text.size = 0
        add_text(&self.row_text, <const uint8_t *> b"\t", 1)
        add_fields(&self.row_text, &self.file_names[file])
        while first == 20 or rest:
            first -= 1
            digits[first] = <uint8_t> (c'0' + rest % 10)
            rest //= 10
        add_text(&self.row_text, digits + first, 20 - first)
        add_text(&self.row_text, <const uint8_t *> b"\n", 1)
        # the line feed of the verdict
        self.writer.size -= 1
        if not self.writer.append(self.row_text.text, self.row_text.size):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        return 0

    cdef int put_ending(self, const Fields *ending) except -1 nogil:
        """Add the last members to a line of JSON."""
        # the brace and the line feed
        self.writer.size -= 2
        if not self.writer.append(ending.text, ending.size):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        return 0

    cdef int put(
        self, const VerdictRecord *records, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        cdef size_t k
        for k in range(count):
            if passes(filter, records[k].kind):
                self.put_line(&records[k], stream, policy, NULL)
        return 0

    cdef size_t held_bytes(self) noexcept nogil:
        return self.writer.room

    cdef int put_line(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy,
        const uint32_t *time_text
    ) except -1 nogil:
        """Write a verdict as a line; `time_text` points to the index of a text, or is NULL."""
        cdef const Fields *name = &self.names[policy]
        cdef const Fields *fields = name
        cdef LineKeys *keys
        cdef uint32_t time_start = 0
        cdef uint32_t time_end = 0
        cdef bint is_written
        if self.column_count:
            keys = self.keys_of[policy]
            if not keys.has_key or stream != keys.stream:
                self.set_key(keys, stream)
            fields = &keys.key
            if name.size:
                if policy != self.both_policy:
                    self.both.size = 0
                    add_fields(&self.both, name)
                    add_fields(&self.both, &keys.key)
                    self.both_policy = policy
                fields = &self.both
        if self.writer.is_json:
            if time_text != NULL:
                time_start = self.time_ends[time_text[0] - 1] if time_text[0] else 0
                time_end = self.time_ends[time_text[0]]
            is_written = self.writer.write_object(
                fields.text, fields.size, self.times.text + time_start, time_end - time_start,
                record
            )
        else:
            is_written = self.writer.write_behind(fields.text, fields.size, record)
        if not is_written:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        if self.endings != NULL:
            self.put_ending(&self.endings[2 * <size_t> policy + (record.kind != VERDICT_FALSE)])
        return 0

    cdef int set_key(self, LineKeys *keys, uint32_t stream) except -1 nogil:
        """Set the fields for the key of a stream."""
        cdef Text text
        cdef size_t place
        cdef bint is_json = self.writer.is_json
        keys.has_key = False
        if keys.table != NULL and stream >= (<KeyTable> keys.table).count:
            with gil:
                raise IndexError("a verdict on a key that does not exist")
        keys.key.size = 0
        for place in range(self.column_count):
            if is_json:
                add_fields(&keys.key, &self.members[place])
            if keys.columns[place] != NO_COLUMN:
                text = (<KeyTable> keys.table).column_text(stream, keys.columns[place])
                if is_json:
                    add_quoted(&keys.key, text.place, text.length)
                else:
                    add(&keys.key, text.place, text.length)
            elif is_json:
                add_text(&keys.key, <const uint8_t *> b"null", 4)
            else:
                add(&keys.key, NULL, 0)
        if is_json:
            add_fields(&keys.key, &self.members[self.column_count])
        keys.has_key = True
        keys.stream = stream
        self.both_policy = NO_POLICY
        return 0

    cdef void forget_keys(self) noexcept nogil:
        """Note that keys may get other numbers."""
        cdef uint32_t partition
        for partition in range(self.partition_count):
            self.keys[partition].has_key = False
        self.both_policy = NO_POLICY


def policy_label(str name, str format not None="text"):
    """Return the text with which the lines of a policy begin.

    Args:
        name: the name of the policy, or None. A text line of a policy without a name has no label.
        format: the format of the lines: "text", or "jsonl", whose label ends before the value of
            `time`.
    """
    cdef Fields fields
    memset(&fields, 0, sizeof(Fields))
    try:
        add_name(&fields, name, format == "jsonl")
        if format == "jsonl":
            add_bytes(&fields, _TIME)
        return (<const char *> fields.text)[:fields.size]
    finally:
        free(fields.text)


cdef int add_name(Fields *fields, str name, bint is_json) except -1:
    """Append the name with which the lines of a policy begin; None means no name."""
    cdef bytes text
    if is_json:
        add_bytes(fields, b'{"policy":')
        if name is None:
            add_bytes(fields, b"null")
        else:
            add_json(fields, name)
    elif name is not None:
        text = name.encode()
        add(fields, <const uint8_t *> <const char *> text, <size_t> len(text))
    return 0


cdef int add_bytes(Fields *fields, bytes text) except -1:
    """Append text as it is."""
    return add_text(fields, <const uint8_t *> <const char *> text, <size_t> len(text))


cdef int add_json(Fields *fields, str text) except -1:
    """Append a text as a JSON string."""
    cdef bytes encoded = text.encode()
    return add_quoted(fields, <const uint8_t *> <const char *> encoded, <size_t> len(encoded))


cdef int make_room(Fields *fields, size_t size) except -1 nogil:
    """Make room for `size` bytes in total, and for as much as the writer may read."""
    return reserve(
        <void **> &fields.text, &fields.room, max(size, <size_t> 2 * WORD_SIZE), 1
    )


cdef int add(Fields *fields, const uint8_t *text, size_t length) except -1 nogil:
    """Append a text and a tab."""
    cdef uint8_t *place
    cdef uint8_t escape
    cdef size_t k
    make_room(fields, fields.size + 2 * min(length, SIZE_MAX // 8) + 1)
    place = fields.text + fields.size
    for k in range(length):
        escape = 0
        if text[k] == c'\\':
            escape = c'\\'
        elif text[k] == c'\t':
            escape = c't'
        elif text[k] == c'\n':
            escape = c'n'
        elif text[k] == c'\r':
            escape = c'r'
        if escape:
            place[0] = c'\\'
            place += 1
        place[0] = escape or text[k]
        place += 1
    place[0] = c'\t'
    fields.size = <uint32_t> (place + 1 - fields.text)
    return 0


cdef int add_text(Fields *fields, const uint8_t *text, size_t length) except -1 nogil:
    """Append text as it is."""
    if length == 0:
        return 0
    make_room(fields, fields.size + min(length, SIZE_MAX // 2))
    memcpy(fields.text + fields.size, text, length)
    fields.size += <uint32_t> length
    return 0


cdef int add_fields(Fields *fields, const Fields *others) except -1 nogil:
    """Append other fields."""
    return add_text(fields, others.text, others.size)


cdef int add_quoted(Fields *fields, const uint8_t *text, size_t length) except -1 nogil:
    """Append a UTF-8 text as a JSON string, with the escapes that JSON requires."""
    cdef const uint8_t *hexadecimal = b"0123456789abcdef"
    cdef uint8_t *place
    cdef uint8_t escape
    cdef size_t k
    # Escaping can turn one character into six.
    make_room(fields, fields.size + 6 * min(length, SIZE_MAX // 16) + 2)
    place = fields.text + fields.size
    place[0] = c'"'
    place += 1
    for k in range(length):
        if text[k] >= 0x20 and text[k] != c'"' and text[k] != c'\\':
            place[0] = text[k]
            place += 1
            continue
        escape = json_escape(text[k])
        place[0] = c'\\'
        place[1] = escape
        place += 2
        if escape == c'u':
            place[0] = c'0'
            place[1] = c'0'
            place[2] = hexadecimal[text[k] >> 4]
            place[3] = hexadecimal[text[k] & 15]
            place += 4
    place[0] = c'"'
    fields.size = <uint32_t> (place + 1 - fields.text)
    return 0


cdef uint8_t json_escape(uint8_t character) noexcept nogil:
    """Return the character after the backslash of a JSON escape; `u` if a number follows it."""
    if character == c'\n':
        return c'n'
    if character == c'\r':
        return c'r'
    if character == c'\t':
        return c't'
    if character == c'\b':
        return c'b'
    if character == c'\f':
        return c'f'
    return c'u' if character < 0x20 else character
