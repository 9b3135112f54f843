# cython: language_level=3
"""Write the states of many streams to a snapshot, and read them back.

Streams in the same configuration differ only in their time-stamps and registers. So a snapshot has
the whole state of the first of these streams, and only the differences of the others. The reader
does not trust the numbers: it rebuilds each stream, and checks that the result has the same
configuration as the first stream.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from mtlmon.engine.native cimport (
    MOST_REGISTERS,
    NumberReader,
    NumberWriter,
    Register,
    State,
    TIME_LIMIT,
    Table,
    damaged,
    decode_body,
    encode_body,
    free_state,
    kind_of,
    require_registers,
)

from mtlmon.errors import SnapshotError

cdef enum:
    # The kinds of streams in a snapshot; larger numbers are those of known configurations.
    BLANK = 0
    WHOLE = 1
    FIRST_SHARED = 2
    # Added to the number of registers if time has passed since the last event.
    TIME_HAS_PASSED = MOST_REGISTERS + 1


cdef int put_streams(
    NumberWriter writer, Streams streams, uint64_t clock, const uint32_t *chosen=NULL,
    size_t count=0
) except -1:
    """Write the states of all streams, or of some.

    Args:
        writer: receives the numbers.
        streams: the streams.
        clock: a time-stamp that no event so far exceeds.
        chosen: the numbers of the streams to write, in this order; NULL for all.
        count: how many these are. Then the counters of the streams are not written.

    Raises:
        MonitorBrokenError: a stream was interrupted in the middle of an event.
    """
    cdef Table table = streams.worker.table
    cdef uint32_t known = 0
    cdef size_t place
    cdef Resting *resting
    # For each configuration, its number in the snapshot, or 0 if it has none yet.
    cdef uint32_t *shared = <uint32_t *> calloc(
        <size_t> table.configuration_count + 1, sizeof(uint32_t)
    )
    if shared == NULL:
        raise MemoryError("mtlmon: out of memory")
    streams.worker.enter()
    try:
        writer.put_bytes(kind_of(streams.worker.engine, streams.mode_number))
        if chosen == NULL:
            count = streams.count
        writer.put(count)
        writer.put(streams.event_count if chosen == NULL else 0)
        writer.put(streams.true_count if chosen == NULL else 0)
        writer.put(streams.false_count if chosen == NULL else 0)
        for place in range(count):
            resting = &streams.resting[place if chosen == NULL else chosen[place]]
            if resting.is_broken:
                raise MonitorBrokenError(
                    "a stream was interrupted in the middle of an event and cannot go on"
                )
            if resting.whole != NULL:
                writer.put(WHOLE)
                writer.put_bytes(encode_body(streams.worker.table, resting.whole))
            elif resting.configuration == NO_CONFIGURATION:
                writer.put(BLANK)
            elif shared[resting.configuration] == 0:
                writer.put(FIRST_SHARED + known)
                known += 1
                shared[resting.configuration] = known
                put_first(writer, streams, resting)
            else:
                writer.put(FIRST_SHARED + shared[resting.configuration] - 1)
                put_registers(writer, resting, clock)
    finally:
        streams.worker.leave()
        free(shared)
    return 0


cdef int put_first(NumberWriter writer, Streams streams, Resting *resting) except -1:
    """Write the whole state of a stream that has a configuration."""
    cdef State *state = &streams.worker.state
    streams.load(resting)
    try:
        writer.put_bytes(encode_body(streams.worker.table, state))
    finally:
        streams.event_count += state.event_count
    return 0


cdef int put_registers(NumberWriter writer, const Resting *resting, uint64_t clock) except -1:
    """Write only what distinguishes a stream from others in the same configuration."""
    cdef uint32_t i
    writer.put(clock - resting.time_stamp)
    writer.put(resting.offset)
    if resting.clock == resting.time_stamp:
        writer.put(resting.register_count)
    else:
        writer.put(resting.register_count + TIME_HAS_PASSED)
        writer.put(clock - resting.clock)
    for i in range(resting.register_count):
        writer.put(resting.time_stamp - resting.registers[i].time_stamp)
        writer.put(resting.registers[i].offset)
        writer.put(resting.registers[i].weight)
    return 0


cdef bytes read_streams(NumberReader reader, Streams streams, uint64_t clock):
    """Read the states of streams; return the numbers that they get, as uint32 items.

    These are the next ones, unless numbers of streams are free again.

    Args:
        reader: contains the numbers from `put_streams`.
        streams: receives the states.
        clock: the same time-stamp as for `put_streams`.

    Raises:
        SnapshotError: the numbers are damaged, or belong to another formula or mode. The streams
            must not be used after that.
    """
    cdef uint64_t count, events, true_count, false_count, kind, k
    cdef uint32_t number
    cdef bytes numbers
    cdef uint32_t *place
    # The first stream in each configuration. The configuration itself cannot be kept here: its
    # number changes when the table forgets other configurations.
    cdef list firsts = []
    if reader.get_bytes() != kind_of(streams.worker.engine, streams.mode_number):
        raise SnapshotError("the snapshot is of another formula or mode")
    count = reader.get_count(1)
    events = streams.event_count + reader.get(UINT64_MAX)
    true_count = streams.true_count + reader.get(UINT64_MAX)
    false_count = streams.false_count + reader.get(UINT64_MAX)
    if count >= NO_NUMBER - streams.count:
        raise damaged()
    numbers = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> (count * sizeof(uint32_t)))
    place = <uint32_t *> <char *> numbers
    streams.worker.enter()
    try:
        for k in range(count):
            kind = reader.get(FIRST_SHARED + <uint64_t> len(firsts))
            number = place[k] = streams.add()
            if kind == BLANK:
                continue
            if kind == WHOLE:
                read_state_of(reader, streams, number, clock)
            elif kind == FIRST_SHARED + <uint64_t> len(firsts):
                read_state_of(reader, streams, number, clock)
                if streams.resting[number].configuration == NO_CONFIGURATION:
                    raise damaged()
                firsts.append(number)
            else:
                read_registers(
                    reader, streams, number, firsts[<size_t> (kind - FIRST_SHARED)], clock
                )
    finally:
        streams.worker.leave()
    streams.event_count = events
    streams.true_count = true_count
    streams.false_count = false_count
    return numbers


cdef int read_state_of(
    NumberReader reader, Streams streams, uint32_t number, uint64_t clock
) except -1:
    """Read the whole state of a stream."""
    cdef State state
    cdef State *own = &streams.worker.state
    memset(&state, 0, sizeof(State))
    try:
        decode_body(
            streams.worker.table, &state, streams.mode_number, reader.get_bytes(), 0
        )
        if state.clock > clock:
            raise damaged()
        own[0], state = state, own[0]
    finally:
        free_state(&state)
    streams.store(&streams.resting[number])
    return 0


cdef int read_registers(
    NumberReader reader, Streams streams, uint32_t number, uint32_t first, uint64_t clock
) except -1:
    """Read what distinguishes a stream from the first one in the same configuration."""
    cdef State *state = &streams.worker.state
    cdef Register *registers
    cdef uint64_t time_stamp = clock - reader.get(clock)
    cdef uint64_t offset = reader.get(UINT64_MAX)
    cdef uint64_t count = reader.get(TIME_HAS_PASSED + MOST_REGISTERS)
    cdef uint64_t own_clock = time_stamp
    cdef uint32_t i
    if count >= TIME_HAS_PASSED:
        count -= TIME_HAS_PASSED
        own_clock = clock - reader.get(clock - time_stamp)
        if state.network == NULL:
            raise damaged()
    if time_stamp >= TIME_LIMIT() or count != streams.resting[first].register_count:
        raise damaged()
    require_registers(state)
    registers = state.registers
    for i in range(<uint32_t> count):
        registers[i].time_stamp = time_stamp - reader.get(time_stamp)
        registers[i].offset = reader.get(UINT64_MAX)
        registers[i].weight = reader.get(UINT64_MAX)
        if i and not (
            registers[i - 1].time_stamp < registers[i].time_stamp
            or (
                registers[i - 1].time_stamp == registers[i].time_stamp
                and registers[i - 1].offset < registers[i].offset
            )
        ):
            raise damaged()
    state.register_base = 0
    state.register_count = <uint32_t> count
    state.configuration = streams.resting[first].configuration
    state.is_structured = False
    state.time_stamp = time_stamp
    state.clock = own_clock
    state.offset = offset
    state.event_count = 1
    streams.worker.table.structure(state)
    streams.store(&streams.resting[number])
    if streams.resting[number].configuration != streams.resting[first].configuration:
        raise damaged()
    return 0
