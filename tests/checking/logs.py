"""Logs in memory, and what monitors of their own say about each policy and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from mtlmon import Monitor, Resolution, parse
from mtlmon.policy import Policy
from mtlmon.tables import open_tables
from tests.doors import (
    EventColumns,
    KeyTable,
    LogCheck,
    TextOutput,
    TraceKeys,
    decision_delay,
    number_rows,
)
from tests.strategies import ATOMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from mtlmon import Formula
    from mtlmon.policy import PolicyFile
    from mtlmon.tables import TableEvents
    from tests.doors import ChosenPoints, Clock, EventBatch, HistoryCheck

Event = tuple[int, str, frozenset[str]]


def opened(
    check: LogCheck | HistoryCheck, file: PolicyFile, log: Any, **options: Any
) -> TableEvents:
    """Open the tables that a check of a policy file reads."""
    return open_tables(
        log,
        check.atoms,
        policies=file,
        partitions=check.partitions.columns,
        atoms_of_partitions=check.atoms_of_partitions,
        **options,
    )


@st.composite
def logs(draw: st.DrawFn, gaps: Sequence[int]) -> list[Event]:
    """Events of three keys; the gaps are those between their time-stamps."""
    letters = st.frozensets(st.sampled_from(ATOMS))
    rows = draw(
        st.lists(st.tuples(st.sampled_from(gaps), st.sampled_from("abc"), letters), max_size=25)
    )
    clock = 0
    events = []
    for gap, key, held in rows:
        clock += gap
        events.append((clock, key, held))
    return events


class Rows:
    """Events in memory, each a tuple of a time-stamp, something else and the atoms that hold."""

    rows = None
    origins = None
    corrections = None
    instances: Sequence[Mapping[str, int]] = ()
    atoms: tuple[str, ...] = ()
    tick_end = 0
    has_all_ticks = False

    def __init__(self, events: Sequence[tuple[int, Any, frozenset[str]]]) -> None:
        self.events = events
        self.time_stamps = np.array([event[0] for event in events], np.int64)

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """No policy of these tests has a clock."""
        raise NotImplementedError

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Letters are for explanations."""
        raise NotImplementedError

    def shown_of(self, partition: int) -> dict[str, pa.Array]:
        """Values are for explanations."""
        raise NotImplementedError

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        columns = EventColumns(self.time_stamps, len(self.events))
        for place, name in enumerate(atoms):
            columns.add_bytes(place, np.array([name in one[2] for one in self.events], bool))
        return columns


class LogOfRows:
    """A log without windows and ticks.

    Attributes:
        key_tables: for each partition, the keys by the number of the trace.
        clock: the largest time-stamp so far.
    """

    can_forget_keys = True
    key_tables: tuple[KeyTable | None, ...]
    clock: int | None = None

    def only_due_ticks(self, is_wanted: bool = True) -> None:
        """Do nothing: there are no ticks."""

    def track_rows(self) -> None:
        """Do nothing: no file has these events."""

    def settled_traces(self, partition: int, count: int) -> bytes | None:
        return None

    def keep_traces(self, partition: int, numbers: bytes) -> None:
        keys = self.key_tables[partition]
        assert keys is not None
        keys.keep(numbers)

    def prepare_next(self) -> None:
        """Do nothing: all batches are in memory."""

    def ticks_until(self, limit: int) -> Iterator[EventBatch]:
        return iter(())

    def next_change(self, start: int, limit: int) -> None:
        return None

    def earliest_waiting(self, partition: int, clock: Clock) -> None:
        return None

    def released(self) -> Iterator[EventBatch]:
        return iter(())


class Batch(Rows):
    def __init__(self, events: Sequence[Event], keys: KeyTable | None) -> None:
        super().__init__(events)
        texts = pa.array([event[1] for event in events], pa.string())
        self._numbers = None if keys is None else number_rows(keys, [texts])

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        return self._numbers


class Log(LogOfRows):
    """Events in batches of some sizes."""

    def __init__(self, events: Sequence[Event], sizes: Sequence[int], *, has_keys: bool) -> None:
        self.events = events
        self.sizes = sizes
        self.keys = KeyTable(1) if has_keys else None
        self.key_tables = (self.keys,)

    def trace_keys(self, policy_count: int) -> TraceKeys:
        """The keys of policies in an output, whose column is `key`."""
        columns = () if self.keys is None else ("key",)
        return TraceKeys.of_one_partition(policy_count, self.keys, columns)

    def __iter__(self) -> Iterator[Batch]:
        start = 0
        while start < len(self.events):
            for size in self.sizes:
                part = self.events[start : start + size]
                start += size
                if part:
                    self.clock = part[-1][0]
                yield Batch(part, self.keys)


def policies(*formulas: str | Formula) -> list[Policy]:
    """Policies named by their numbers."""
    parsed = [parse(one) if isinstance(one, str) else one for one in formulas]
    return [Policy(str(number), one, one) for number, one in enumerate(parsed)]


def lines_of(check: LogCheck, log: Log, end_time: Any = None) -> list[str]:
    """All verdicts as lines."""
    return lines_with_keys(check, log, log.trace_keys(len(check.policies)), end_time)


def lines_with_keys(check: LogCheck, log: Any, keys: TraceKeys, end_time: Any = None) -> list[str]:
    """All verdicts as lines, with the keys of several partitions."""
    output = TextOutput([policy.name for policy in check.policies], keys)
    lines = b""
    for _ in check.run(log, end_time):
        output.put(check.verdicts)
        lines += output.writer.take()
    return lines.decode().splitlines()


def expected_lines(
    formulas: Sequence[Policy],
    events: Sequence[Event],
    mode: Any,
    *,
    has_keys: bool,
    resolve: bool = False,
    end_time: Any = None,
    advance_every: int | None = None,
) -> list[str]:
    """What a monitor for each policy and key says, in the order in which a check says it."""
    monitors: dict[tuple[str, int], tuple[Monitor, Resolution]] = {}
    keys: dict[str, None] = {}
    lines: list[str] = []

    def emit(key: str, number: int, verdicts: list[Any]) -> None:
        if resolve:
            verdicts = monitors[key, number][1].push(verdicts)
        before = f"{formulas[number].name}\t" + (f"{key}\t" if has_keys else "")
        lines.extend(f"{before}{verdict}" for verdict in verdicts)

    clock: int | None = None
    for time_stamp, name, atoms in events:
        key = name if has_keys else ""
        if (
            advance_every is not None
            and clock is not None
            and time_stamp // advance_every != clock // advance_every
        ):
            for other in keys:
                for number, policy in enumerate(formulas):
                    monitor = monitors[other, number][0]
                    delay = decision_delay(policy.formula)
                    if delay is None or not monitor.pending:
                        continue
                    if time_stamp - monitor.pending[0].time_stamp > delay:
                        emit(other, number, monitor.advance(time_stamp))
        clock = time_stamp
        keys[key] = None
        for number, policy in enumerate(formulas):
            if (key, number) not in monitors:
                monitors[key, number] = (Monitor(policy.formula, mode), Resolution())
            emit(key, number, monitors[key, number][0].step(time_stamp, atoms))
    for key in keys:
        for number in range(len(formulas)):
            monitor = monitors[key, number][0]
            end = end_time
            if end_time == "last":
                end = clock
            if isinstance(end, int) and clock is not None and end < clock:
                end = None
            # what the end decides has its value, and is no equivalence first
            if end == "inf":
                verdicts = monitor.finish("inf")
            elif isinstance(end, int) and end < 2**63 - 1:
                verdicts = monitor.advance(end + 1)
            else:
                verdicts = monitor.advance(clock) if clock is not None else []
            emit(key, number, sorted(verdicts, key=lambda one: (one.time_stamp, one.offset)))
    return lines
