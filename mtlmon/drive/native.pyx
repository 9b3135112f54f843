# cython: language_level=3
"""The compiled unit for the processing loops, which read events and produce verdicts.

No loop holds Python's lock, and none calls Python code for an event. There are two loops.
`session_loop` takes the events of one stream, or of streams that come one after the other, through
a session. `policies` takes the events of many streams through the monitors of each policy, and
merges the verdicts event by event. Both read blocks of events (`event_block`) and hand verdicts to
a `delivery`: resolver, filter, then a sink (`sinks`). Text logs, arrays, Arrow, records, sorted and
keyed streams, several policies and Spark all use these two loops.

A native source fills an `EventBlock`, and a loop takes it from there:

    loop = SessionLoop(session, Delivery(VerdictRows(), FILTER_ALL, resolves=True))
    while fill(loop.block):
        while loop.block.next < loop.block.count:
            loop.step(loop.block.count, stream)
    loop.finish(&end_time, stream)

A sink is a subclass of `Sink`: `put` takes verdict records that pass a filter and keeps no pointer
to them; `is_full` says that output waits to be taken out.
"""

include "first_violation.pxi"
include "event_block.pxi"
include "scanned_batch.pxi"
include "sinks.pxi"
include "delivery.pxi"
include "session_loop.pxi"
include "prefixes.pxi"
include "text_monitor.pxi"
include "text_resolver.pxi"
include "text_events.pxi"
include "successive.pxi"
include "tick_runs.pxi"
include "keyed.pxi"
include "event_order.pxi"
include "policies.pxi"
include "policy_snapshots.pxi"
include "policy_lines.pxi"
include "row_places.pxi"
include "last_resort.pxi"
include "feeding.pxi"
