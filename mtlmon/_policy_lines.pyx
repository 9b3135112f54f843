# cython: language_level=3
"""Lines of verdicts on several policies and streams.

A line is `[policy TAB][key TAB ...]ts:offset ...`. In names and keys a tab, line feed, carriage
return or backslash is written with a backslash before t, n, r or itself.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint8_t, uint32_t
from libc.stdlib cimport free, realloc

from mtlmon._keys cimport KeyTable, Text
from mtlmon._policies cimport VerdictRows
from mtlmon._writer cimport FILTER_ALL, Writer


@cython.final
cdef class PolicyLines:
    """Writes verdicts as lines.

    Args:
        names: of policies in their order; None for one without a name, which no field stands for.
        keys: the KeyTable that has the keys of streams; None if streams have no keys.

    Attributes:
        writer: holds the lines until they are flushed.
    """

    def __cinit__(self, list names not None, KeyTable keys=None):
        self.names = [None if name is None else name.encode() for name in names]
        self.keys = keys
        self.writer = Writer()

    def __dealloc__(self):
        free(self.fields)

    def put(self, VerdictRows rows not None):
        """Write rows as lines, and remove them from the rows.

        Raises:
            IndexError: a row is of no policy or key that there is.
        """
        cdef size_t k = 0
        cdef size_t same
        cdef bint is_done
        # Keys may have other numbers by now.
        self.is_known = False
        while k < rows.count:
            if not self.is_known or rows.streams[k] != self.stream or (
                rows.policies[k] != self.policy
            ):
                self.set_fields(rows.streams[k], rows.policies[k])
            same = k
            with nogil:
                is_done = True
                while is_done and k < rows.count and rows.streams[k] == self.stream and (
                    rows.policies[k] == self.policy
                ):
                    is_done = self.size == 0 or self.writer.append(self.fields, self.size)
                    is_done = is_done and self.writer.write(&rows.records[k], 1, FILTER_ALL)
                    k += 1
            if not is_done or k == same:
                raise MemoryError("mtlmon: out of memory")
        rows.count = 0

    cdef int set_fields(self, uint32_t stream, uint32_t policy) except -1:
        cdef bytes name
        cdef Text text
        cdef size_t column
        self.size = 0
        if self.names[policy] is not None:
            name = self.names[policy]
            self.add_escaped(<const uint8_t *> <const char *> name, len(name))
        if self.keys is not None:
            if stream >= self.keys.count:
                raise IndexError(f"no key has the number {stream}")
            for column in range(self.keys.columns):
                text = self.keys.column_text(stream, column)
                self.add_escaped(text.place, text.length)
        self.stream = stream
        self.policy = policy
        self.is_known = True
        return 0

    cdef int add_escaped(self, const uint8_t *text, size_t length) except -1:
        """Append a field and the tab behind it."""
        cdef uint8_t *place
        cdef uint8_t escape
        cdef void *larger
        cdef size_t k
        if length > (SIZE_MAX // 2 - self.size) // 2:
            raise MemoryError("mtlmon: out of memory")
        if self.size + 2 * length + 1 > self.room:
            larger = realloc(self.fields, 2 * (self.size + 2 * length + 1))
            if larger == NULL:
                raise MemoryError("mtlmon: out of memory")
            self.fields = <uint8_t *> larger
            self.room = 2 * (self.size + 2 * length + 1)
        place = self.fields + self.size
        for k in range(length):
            escape = 0
            if text[k] == c'\t':
                escape = c't'
            elif text[k] == c'\n':
                escape = c'n'
            elif text[k] == c'\r':
                escape = c'r'
            elif text[k] == c'\\':
                escape = c'\\'
            if escape:
                place[0] = c'\\'
                place += 1
            place[0] = escape or text[k]
            place += 1
        place[0] = c'\t'
        self.size = <size_t> (place + 1 - self.fields)
        return 0
