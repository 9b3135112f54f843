# cython: language_level=3
"""Write the verdicts of several policies and streams as lines.

A line is `[policy TAB][key TAB ...]ts:offset ...`. In names and keys, a tab, line feed, carriage
return or backslash is written as a backslash followed by t, n, r or a backslash.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from mtlmon.arrays.native cimport KeyTable, Text
from mtlmon.engine.native cimport reserve
from mtlmon.text.native cimport Writer


@cython.final
cdef class PolicyLines:
    """Writes verdicts as lines.

    Args:
        names: the names of the policies in order; None for a policy without a name, which has no
            field.
        keys: the KeyTable of the streams' keys; None if streams have no keys.

    Attributes:
        writer: holds the lines until they are flushed.
    """

    def __cinit__(self, list names not None, KeyTable keys=None):
        cdef bytes name
        cdef uint32_t policy
        self.policy_count = <uint32_t> len(names)
        self.names = <Fields *> calloc(max(<size_t> 1, len(names)), sizeof(Fields))
        if self.names == NULL:
            raise MemoryError("mtlmon: out of memory")
        for policy in range(self.policy_count):
            if names[policy] is not None:
                name = names[policy].encode()
                add(&self.names[policy], <const uint8_t *> <const char *> name, len(name))
        self.keys = keys
        self.writer = Writer()

    def __dealloc__(self):
        cdef uint32_t policy
        for policy in range(self.policy_count if self.names != NULL else 0):
            free(self.names[policy].text)
        free(self.names)
        free(self.key.text)
        free(self.both.text)

    def put(self, VerdictRows rows not None):
        """Write the rows as lines, and remove them from `rows`.

        Raises:
            IndexError: a row has a policy or key that does not exist.
        """
        cdef size_t k
        for k in range(rows.count):
            if rows.policies[k] >= self.policy_count or (
                self.keys is not None and rows.streams[k] >= self.keys.count
            ):
                raise IndexError("a verdict on no policy or key that there is")
        with nogil:
            self.put_rows(rows)
        rows.count = 0

    cdef int put_rows(self, VerdictRows rows) except -1 nogil:
        cdef const Fields *fields
        cdef const Fields *name
        cdef size_t k
        for k in range(rows.count):
            name = fields = &self.names[rows.policies[k]]
            if self.keys is not None:
                # Keys may have been renumbered since the last call.
                if k == 0 or rows.streams[k] != rows.streams[k - 1]:
                    self.set_key(rows.streams[k])
                fields = &self.key
                if name.size:
                    make_room(&self.both, <size_t> name.size + self.key.size)
                    memcpy(self.both.text, name.text, name.size)
                    memcpy(self.both.text + name.size, self.key.text, self.key.size)
                    self.both.size = name.size + self.key.size
                    fields = &self.both
            if not self.writer.write_behind(fields.text, fields.size, &rows.records[k]):
                with gil:
                    raise MemoryError("mtlmon: out of memory")
        return 0

    cdef int set_key(self, uint32_t stream) except -1 nogil:
        cdef Text text
        cdef size_t column
        self.key.size = 0
        for column in range(self.keys.columns):
            text = self.keys.column_text(stream, column)
            add(&self.key, text.place, text.length)
        return 0


def policy_label(str name):
    """The text that starts the lines of a policy; empty for a policy without a name."""
    cdef Fields field
    cdef bytes text
    if name is None:
        return b""
    text = name.encode()
    memset(&field, 0, sizeof(Fields))
    try:
        add(&field, <const uint8_t *> <const char *> text, <size_t> len(text))
        return (<const char *> field.text)[:field.size]
    finally:
        free(field.text)


cdef int make_room(Fields *fields, size_t size) except -1 nogil:
    """Make room for texts of so many characters in total."""
    return reserve(<void **> &fields.text, &fields.room, size, 1)


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
