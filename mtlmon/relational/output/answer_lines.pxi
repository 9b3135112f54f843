# cython: language_level=3
"""Writes answers as lines: `ts:offset false (u=alice, f=f1)`, `... true` and `... match (...)`."""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mtlmon.arrays.native cimport KeyTable, Text
from mtlmon.relational.native cimport (
    HOLDS, HOLDS_FOR, MATCHES, VIOLATED, Answer, AnswerBlock,
)
from mtlmon.text.native cimport (
    FILTER_BOOLEAN,
    FILTER_NONE,
    LINE_ROOM,
    Writer,
)

from mtlmon.text.native import VERDICT_FILTERS as _FILTERS

cdef enum:
    OF_INTEGER
    OF_FLOAT
    OF_BOOLEAN
    OF_TEXT
    OF_TIME

_VALUE_KINDS = {
    "integer": OF_INTEGER,
    "float": OF_FLOAT,
    "boolean": OF_BOOLEAN,
    "text": OF_TEXT,
    "time": OF_TIME,
}


@final
cdef class AnswerLines:
    """Writes answers as lines of text.

    labels: for each policy, the bytes at the beginning of its lines.
    variables: for each policy, pairs of the name and the name of the kind of each variable.
    texts: the texts by number.
    keys: for each policy whose first variables are texts of a key, the number of one for each field
        behind the label, or None for an empty field; None for no such policy.
    verdicts: which answers to write: "all", "boolean" (the same), "false" (violations and matches)
        or "none".

    Attributes:
        writer: holds the lines until they are flushed.
    """

    def __cinit__(
        self, labels, variables, KeyTable texts not None, keys=None, *, str verdicts="false"
    ):
        cdef uint32_t policy, k
        cdef ReportedPolicy *reported
        cdef bytes written
        labels, variables = list(labels), list(variables)
        keys = [()] * len(labels) if keys is None else list(keys)
        if len(labels) != len(variables) or len(labels) != len(keys):
            raise ValueError("expected variables for each policy")
        self.writer = Writer()
        self.texts = texts
        self.filter = _FILTERS[verdicts]
        self.policies = <ReportedPolicy *> calloc(len(labels) + 1, sizeof(ReportedPolicy))
        if self.policies == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.policy_count = <uint32_t> len(labels)
        self.kept = labels
        for policy in range(self.policy_count):
            reported = &self.policies[policy]
            written = labels[policy]
            reported.label = <const uint8_t *> PyBytes_AS_STRING(written)
            reported.label_length = <size_t> len(written)
            reported.width = <uint32_t> len(variables[policy])
            reported.variables = <NamedVariable *> calloc(
                reported.width + 1, sizeof(NamedVariable)
            )
            if reported.variables == NULL:
                raise MemoryError("mtlmon: out of memory")
            reported.room = reported.label_length + LINE_ROOM
            fields = list(keys[policy])
            reported.key_width = <uint32_t> len([one for one in fields if one is not None])
            reported.key_field_count = <uint32_t> len(fields)
            reported.key_fields = <int32_t *> calloc(len(fields) + 1, sizeof(int32_t))
            if reported.key_fields == NULL:
                raise MemoryError("mtlmon: out of memory")
            reported.room += <size_t> len(fields)
            for k, field in enumerate(fields):
                if field is not None and not 0 <= field < reported.key_width <= reported.width:
                    raise ValueError(f"policy {policy} has no variable {field} of a key")
                reported.key_fields[k] = -1 if field is None else field
            for k, (name, kind) in enumerate(variables[policy]):
                if k < reported.key_width and kind != "text":
                    raise ValueError("the variables of a key are texts")
                written = (f", {name}=" if k > reported.key_width else f" ({name}=").encode()
                self.kept.append(written)
                reported.variables[k].name = <const uint8_t *> PyBytes_AS_STRING(written)
                reported.variables[k].length = <size_t> len(written)
                reported.variables[k].kind = _VALUE_KINDS[kind]
                reported.room += <size_t> len(written) + LONGEST_VALUE

    def __dealloc__(self):
        cdef uint32_t policy
        if self.policies != NULL:
            for policy in range(self.policy_count):
                free(self.policies[policy].variables)
                free(self.policies[policy].key_fields)
        free(self.policies)

    def put(self, AnswerBlock answers not None, list endings=None):
        """Write answers, and forget them.

        endings: for each answer, the bytes at the end of its line; None for no such bytes.
        """
        cdef uint32_t policy
        cdef size_t k
        cdef bytes ending
        if answers.policy_count != self.policy_count:
            raise ValueError("answers of other policies")
        for policy in range(self.policy_count):
            if answers.widths[policy] != self.policies[policy].width:
                raise ValueError(f"policy {policy} has another number of variables")
        if endings is not None and <size_t> len(endings) != answers.count:
            raise ValueError("expected an ending for each answer")
        if self.filter != FILTER_NONE:
            if endings is None:
                with nogil:
                    for k in range(answers.count):
                        self.put_line(answers, k, NULL, 0)
            else:
                for k in range(answers.count):
                    ending = endings[k]
                    self.put_line(
                        answers, k, <const uint8_t *> PyBytes_AS_STRING(ending),
                        <size_t> len(ending)
                    )
        answers.clear()

    def close(self):
        """Do nothing: lines need no end."""

    cdef uint8_t *put_key(
        self, uint8_t *place, const ReportedPolicy *policy, const int64_t *cells
    ) noexcept nogil:
        """Write the fields of a key, each with a tab behind it."""
        cdef uint32_t i
        cdef size_t k
        cdef Text text
        cdef uint8_t escape
        for i in range(policy.key_field_count):
            if policy.key_fields[i] >= 0:
                text = self.texts.text_of(<size_t> cells[policy.key_fields[i]])
                for k in range(text.length):
                    escape = 0
                    if text.place[k] == c'\\':
                        escape = c'\\'
                    elif text.place[k] == c'\t':
                        escape = c't'
                    elif text.place[k] == c'\n':
                        escape = c'n'
                    elif text.place[k] == c'\r':
                        escape = c'r'
                    if escape:
                        place[0] = c'\\'
                        place += 1
                    place[0] = escape or text.place[k]
                    place += 1
            place[0] = c'\t'
            place += 1
        return place

    cdef int put_line(
        self, AnswerBlock answers, size_t number, const uint8_t *ending, size_t ending_length
    ) except -1 nogil:
        """Write an answer, if it is wanted, and the bytes at the end of its line."""
        cdef const Answer *answer = &answers.answers[number]
        cdef const ReportedPolicy *policy = &self.policies[answer.policy]
        cdef const NamedVariable *variable
        cdef const int64_t *cells = answers.values + answer.start
        cdef size_t room = policy.room + ending_length
        cdef uint32_t i
        cdef uint8_t *place
        cdef Text text
        if self.filter > FILTER_BOOLEAN and (answer.kind == HOLDS or answer.kind == HOLDS_FOR):
            return 0
        if answer.kind != HOLDS:
            for i in range(policy.key_width if answer.kind == HOLDS_FOR else policy.width):
                if policy.variables[i].kind == OF_TEXT:
                    room += 2 * self.texts.text_of(<size_t> cells[i]).length + 2
        if not self.writer.reserve(room // LINE_ROOM + 1):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        place = self.writer.data + self.writer.size
        memcpy(place, policy.label, policy.label_length)
        place += policy.label_length
        if policy.key_width and answer.kind != HOLDS:
            place = self.put_key(place, policy, cells)
        else:
            for i in range(policy.key_field_count):
                place[0] = c'\t'
                place += 1
        place = put_natural(place, <uint64_t> answer.time_stamp)
        place[0] = c':'
        place = put_natural(place + 1, answer.offset)
        if answer.kind == HOLDS or answer.kind == HOLDS_FOR:
            place = put_word(place, " true", 5)
        elif answer.kind == MATCHES:
            place = put_word(place, " match", 6)
        else:
            place = put_word(place, " false", 6)
        if (answer.kind == VIOLATED or answer.kind == MATCHES) and policy.width > policy.key_width:
            for i in range(policy.key_width, policy.width):
                variable = &policy.variables[i]
                place = put_word(place, <const char *> variable.name, variable.length)
                if variable.kind == OF_TEXT:
                    text = self.texts.text_of(<size_t> cells[i])
                    place = put_text(place, text.place, text.length)
                elif variable.kind == OF_INTEGER:
                    place = put_integer(place, cells[i])
                elif variable.kind == OF_FLOAT:
                    place = put_float(place, cells[i])
                elif variable.kind == OF_BOOLEAN:
                    if cells[i]:
                        place = put_word(place, "true", 4)
                    else:
                        place = put_word(place, "false", 5)
                else:
                    place = put_time(place, cells[i])
            place[0] = c')'
            place += 1
        if ending_length:
            place = put_word(place, <const char *> ending, ending_length)
        place[0] = c'\n'
        self.writer.size = <size_t> (place + 1 - self.writer.data)
        return 0


cdef inline uint8_t *put_word(uint8_t *place, const char *word, size_t length) noexcept nogil:
    memcpy(place, word, length)
    return place + length


def answer_arrays(AnswerBlock answers not None):
    """Return the answers as bytes of arrays, and forget them.

    Returns:
        Policies (uint32), kinds (uint8: as in `AnswerBlock.take`), time-stamps (int64),
        offsets (uint64), the index of the first value of each (uint64), and all values (int64).
    """
    cdef size_t count = answers.count
    cdef size_t k
    cdef uint32_t *policies
    cdef uint8_t *kinds
    cdef int64_t *time_stamps
    cdef uint64_t *offsets
    cdef uint64_t *starts
    parts = [PyBytes_FromStringAndSize(NULL, count * size) for size in (4, 1, 8, 8, 8)]
    policies = <uint32_t *> PyBytes_AS_STRING(parts[0])
    kinds = <uint8_t *> PyBytes_AS_STRING(parts[1])
    time_stamps = <int64_t *> PyBytes_AS_STRING(parts[2])
    offsets = <uint64_t *> PyBytes_AS_STRING(parts[3])
    starts = <uint64_t *> PyBytes_AS_STRING(parts[4])
    with nogil:
        for k in range(count):
            policies[k] = answers.answers[k].policy
            kinds[k] = <uint8_t> answers.answers[k].kind
            time_stamps[k] = answers.answers[k].time_stamp
            offsets[k] = answers.answers[k].offset
            starts[k] = answers.answers[k].start
    parts.append(
        PyBytes_FromStringAndSize(
            <const char *> answers.values, answers.value_count * sizeof(int64_t)
        )
    )
    answers.clear()
    return tuple(parts)
