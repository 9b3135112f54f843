# cython: language_level=3
"""Snapshots of the monitors of several policies, between two batches of events."""

from libc.stdint cimport INT64_MAX, UINT32_MAX, UINT64_MAX, uint32_t, uint64_t

from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, damaged
from mtlmon.traces.native cimport put_streams, read_streams

from mtlmon.errors import MtlmonError


def policies_snapshot(PolicyMonitors policies not None, uint64_t passed=0):
    """Return the state of the monitors as bytes for `restore_policies` in any process.

    The bytes contain no digest: the caller must protect them against damage.

    Args:
        policies: the monitors.
        passed: time has passed up to here without events.

    Raises:
        MtlmonError: verdicts wait to be taken out, or an event was interrupted.
    """
    cdef NumberWriter writer = NumberWriter()
    cdef KeyedMonitors one
    cdef uint64_t clock
    if policies.verdicts.count or policies.violations.count:
        raise MtlmonError("no snapshot while verdicts wait: take them out first")
    policies.catch_up()
    writer.put(policies.policy_count)
    writer.put(policies.event_count)
    for one in policies.monitors:
        clock = max(<uint64_t> one.clock, passed)
        writer.put(clock)
        put_streams(writer, one.streams, clock)
        writer.put(one.ticking is not None)
        if one.ticking is not None:
            one.ticking.put(writer)
    writer.put(policies.delivery.resolver is not None)
    if policies.delivery.resolver is not None:
        writer.put_bytes(policies.delivery.resolver.snapshot(has_streams=True))
    writer.put(policies.first is not None)
    if policies.first is not None:
        put_first_violation(writer, policies.first)
    return writer.taken()


def restore_policies(PolicyMonitors policies not None, snapshot):
    """Continue from the snapshot of other monitors; these monitors must be new.

    Raises:
        SnapshotError: the bytes are damaged, or belong to other policies or another mode. The
            monitors must not be used after that.
    """
    cdef NumberReader reader = NumberReader()
    cdef KeyedMonitors one
    cdef uint32_t most_streams
    reader.open(as_bytes(snapshot), 0)
    if reader.get(UINT32_MAX) != policies.policy_count:
        raise damaged()
    policies.event_count = reader.get(UINT64_MAX)
    for one in policies.monitors:
        if one.streams.count:
            raise damaged()
        one.clock = reader.get(INT64_MAX)
        read_streams(reader, one.streams, one.clock)
        if reader.get(1) != (one.ticking is not None):
            raise damaged()
        if one.ticking is not None:
            one.ticking.read(reader)
        if one.waiting is not None:
            one.waiting.renumber()
    most_streams = max(policies.stream_counts)
    if reader.get(1) != (policies.delivery.resolver is not None):
        raise damaged()
    if policies.delivery.resolver is not None:
        policies.delivery.resolver.restore(
            reader.get_bytes(),
            stream_count=max(1, <uint64_t> most_streams * policies.policy_count),
        )
    if reader.get(1) != (policies.first is not None):
        raise damaged()
    if policies.first is not None:
        read_first_violation(reader, policies, policies.first)
    reader.end()


cdef int put_first_violation(NumberWriter writer, FirstViolation first) except -1:
    """Write what is known about the first violation."""
    cdef uint32_t k
    writer.put(first.has_keys)
    writer.put(first.is_past)
    writer.put(first.has_news)
    writer.put(first.clock)
    writer.put(first.event_count)
    for k in range(2 * first.policy_count):
        writer.put(first.running[k])
        writer.put(first.known[k])
    for k in range(first.policy_count):
        writer.put(first.known_events[k])
    writer.put(first.is_found)
    if first.is_found:
        writer.put(first.time_stamp)
        writer.put(first.offset)
        writer.put(first.policy)
        writer.put(first.stream)
    return 0


cdef int read_first_violation(
    NumberReader reader, PolicyMonitors policies, FirstViolation first
) except -1:
    """Read what is known about the first violation.

    Raises:
        SnapshotError: the numbers are damaged.
    """
    cdef uint32_t k, stream_count
    first.has_keys = <bint> reader.get(1)
    first.is_past = <bint> reader.get(1)
    first.has_news = <bint> reader.get(1)
    first.clock = reader.get(INT64_MAX)
    first.event_count = reader.get(UINT64_MAX)
    for k in range(2 * first.policy_count):
        first.running[k] = reader.get(UINT64_MAX)
        first.known[k] = reader.get(UINT64_MAX)
    for k in range(first.policy_count):
        first.known_events[k] = reader.get(UINT64_MAX)
    first.is_found = <bint> reader.get(1)
    if first.is_found:
        first.time_stamp = reader.get(INT64_MAX)
        first.offset = reader.get(UINT64_MAX)
        first.policy = <uint32_t> reader.get(first.policy_count - 1)
        stream_count = policies.streams_of(policies.partition_of[first.policy])
        if not stream_count:
            raise damaged()
        first.stream = <uint32_t> reader.get(stream_count - 1)
    return 0
