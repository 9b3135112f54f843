"""Explain violations of several policies and keys, by reading the log again."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.checking.clocks import end_time_of_all
from mtlmon.checking.last_rows import LastRows
from mtlmon.checking.row_offsets import RowOffsets
from mtlmon.explanation.explaining import explain_positions
from mtlmon.explanation.parts import TraceParts
from mtlmon.explanation.trace import PLAIN
from mtlmon.support.option_names import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from numpy.typing import NDArray

    from mtlmon.checking.last_rows import LastRow
    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.sources import EventBatch, EventSource, Origins
    from mtlmon.checking.violation_rows import ViolationRows
    from mtlmon.errors import UndecidedError
    from mtlmon.explanation.proof import Proof
    from mtlmon.explanation.trace import EndTime, Trace, Wording
    from mtlmon.policy import Policy
    from mtlmon.policy.definitions import Clock
    from mtlmon.support.option_names import OptionNames

    class Listener(Protocol):
        """Takes the time-points of the traces that violations are in."""

        @property
        def is_complete(self) -> bool:
            """Whether no more of them are wanted."""

        def note(self, point: TracePoint, /) -> None:
            """Take the next one."""


__all__ = ["TracePoint", "Violation", "explain_violations"]


class TracePoint(NamedTuple):
    """A time-point of a trace, as the log is read again.

    Attributes:
        partition: the number of the partition.
        clock: which time-points there are; None for all rows.
        number: the number of the trace.
        time_stamp: the time-stamp.
        offset: the number of the time-point within its time-stamp; None if they are consecutive.
        row: origins and the index of the row in them; None if it is no row, or if the log does not
            say.
        values: the values to show.
        last_row: for a tick, the last row of the trace.
        letter: the atoms that hold, as bits, and all atoms in the order of the bits.
    """

    partition: int
    clock: Clock | None
    number: int
    time_stamp: int
    offset: int | None
    row: tuple[Origins, int] | None
    values: Mapping[str, object]
    last_row: LastRow | None
    letter: tuple[int, Sequence[str]]


class Violation(NamedTuple):
    """A time-point that violates a policy.

    Attributes:
        policy: the number of the policy.
        number: the number of the trace in the policy's partition; 0 if there is only one.
        time_stamp: the time-stamp of the time-point.
        offset: the number of the time-point within its time-stamp.
    """

    policy: int
    number: int
    time_stamp: int
    offset: int


def explain_violations(
    check: LogCheck,
    violations: Iterable[Violation],
    source: EventSource,
    event_count: int,
    end_time: EndTime = None,
    details: Listener | None = None,
    rows: ViolationRows | None = None,
    noted: Iterable[Violation] = (),
    wording: Wording = PLAIN,
    *,
    options: OptionNames = PYTHON,
) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
    """Explain violations that a check has found.

    Args:
        check: the check of the policies, whose atoms the source has in this order.
        violations: the violations of these policies.
        source: the same log from its beginning; its keys get the same numbers as in the check.
        event_count: how many events of the log were checked.
        end_time: the end time that the check used.
        details: takes the values at the violations, if they are wanted.
        rows: finds the rows of the violations, if they are wanted; the source tracks rows then.
        noted: violations that are not explained, but of which `details` and `rows` are wanted.
        wording: how explanations write formulas.
        options: how the caller writes options, for what remains undecided.

    Yields:
        Each violation with its proof, or with the error that says why there is none, as soon as
            enough of the log has been read.
    """
    policies, atoms, clocks = check.policies, check.atoms, check.clocks
    partitions = check.partitions.of_policies
    at_ticks: dict[tuple[int, Clock], tuple[str, ...]] = {}
    for one, partition, clock in zip(policies, partitions, clocks, strict=True):
        if clock is not None and clock.period is not None:
            known_atoms = at_ticks.get((partition, clock), ())
            at_ticks[partition, clock] = tuple(dict.fromkeys((*known_atoms, *one.formula.atoms)))
    # by partition, time-points, and number of the trace
    traces: dict[tuple[int, Clock | None, int], list[tuple[int, TraceParts]]] = {}
    for (policy, number), group in groupby(sorted(violations), lambda one: (one[0], one[1])):
        names = [(one.time_stamp, one.offset) for one in group]
        partition = partitions[policy]
        clock = clocks[policy]
        own_atoms = atoms if clock is None else at_ticks.get((partition, clock), atoms)
        parts = TraceParts(policies[policy].formula, names, own_atoms, wording)
        traces.setdefault((partition, clock, number), []).append((policy, parts))
    for violation in noted:
        partition = partitions[violation.policy]
        clock = clocks[violation.policy]
        traces.setdefault((partition, clock, violation.number), [])
    wanted: dict[tuple[int, Clock | None], list[int]] = {}
    for partition, clock, number in traces:
        wanted.setdefault((partition, clock), []).append(number)

    row_offsets = {
        partition: RowOffsets()
        for partition, clock in wanted
        if clock is not None and clock.atom is not None
    }

    last_rows: dict[tuple[int, Clock | None], LastRows] = {
        (partition, clock): LastRows(numbers)
        for (partition, clock), numbers in wanted.items()
        if details is not None and clock is not None and clock.has_ticks
    }

    def added(batch: EventBatch, count: int) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
        offsets: dict[int, NDArray[np.uint32]] = {}
        if rows is not None:
            rows.note(batch)
        for partition, one in row_offsets.items():
            times = np.asarray(batch.time_stamps)
            own = batch.numbers_of(partition)
            traces_of = np.zeros(len(times), np.uint32) if own is None else own
            offsets[partition] = one.offsets(times, traces_of)
            one.add(times, traces_of, offsets[partition])
        for (partition, clock), numbers in wanted.items():
            order = atoms if clock is None else at_ticks.get((partition, clock), atoms)
            chosen = _chosen(batch, count, partition, clock, numbers, order, offsets)
            before = last_rows.get((partition, clock))
            if before is not None:
                before.add(batch, partition, count)
            # ticks are not rows, and nothing is known of rows that wait
            origins = batch.origins if clock is None else None
            for number, time_stamp, letter, offset, place, values in chosen:
                if details is not None:
                    last_row = None if before is None else before.before(number, place)
                    row = None if origins is None else (origins, place)
                    known = (time_stamp, offset, row, values, last_row, (letter, order))
                    details.note(TracePoint(partition, clock, number, *known))
                for policy, parts in traces[partition, clock, number]:
                    for part in parts.add(time_stamp, letter, offset):
                        yield from _explained(policies[policy], policy, number, *part, options)

    last = 0
    is_done = not traces
    for batch in source if traces else ():
        count = min(len(batch.time_stamps), event_count)
        event_count -= count
        yield from added(batch, count)
        if count:
            last = int(batch.time_stamps[count - 1])
        is_done = all(one.is_done for some in traces.values() for _, one in some)
        is_done = is_done and (details is None or details.is_complete)
        is_done = is_done and (rows is None or rows.is_complete)
        if is_done or count < len(batch.time_stamps):
            break
        for some in traces.values():
            for _, parts in some:
                parts.drop()
    known = end_time_of_all(last, end_time)
    if not is_done and any(one is not None and one.has_ticks for _, one in wanted):
        limit = last if known is None else last + 1 if known == "inf" else known + 1
        for batch in source.ticks_until(limit):
            yield from added(batch, 0)
    has_waiting = any(one is not None and one.waits for _, one in wanted)
    if not is_done and has_waiting and known == "inf":
        for batch in source.released():
            yield from added(batch, 0)
    for (_, clock, number), some in traces.items():
        waits = clock is not None and clock.waits
        for policy, parts in some:
            # Of rows that wait, only the end of everything is known.
            for part in parts.end(None if waits and known != "inf" else known):
                yield from _explained(policies[policy], policy, number, *part, options)


def _chosen(
    batch: EventBatch,
    count: int,
    partition: int,
    clock: Clock | None,
    wanted: Sequence[int],
    atoms: Sequence[str],
    offsets: Mapping[int, NDArray[np.uint32]],
) -> Iterator[tuple[int, int, int, int | None, int, dict[str, object]]]:
    """Yield the events that come with the first `count` rows, for wanted traces only.

    For each there are the trace, the time-stamp, the letter with the atoms in the given order, the
    offset, the index of the row that it comes with, and the values to show. The offset is None if
    offsets are consecutive; otherwise, `offsets` are those of all rows by partition.
    """
    own_offsets: Sequence[int | None] | None = None
    if clock is None:
        own = batch.numbers_of(partition)
        numbers = np.asarray(np.zeros(count, np.uint32) if own is None else own[:count])
        letters, stamps = batch.letters_of(partition), np.asarray(batch.time_stamps)
        own_atoms, shown = batch.atoms, batch.shown_of(partition)
        come_with: NDArray[np.integer] = np.arange(count)
    else:
        points = batch.chosen(partition, clock)
        end = len(points)
        if len(batch.time_stamps):
            # ticks behind the last of these rows come with the next one
            is_tick = clock.has_ticks and count < len(batch.time_stamps)
            end = int(np.searchsorted(points.places, count, "right" if is_tick else "left"))
        numbers = points.numbers[:end]
        letters, stamps = points.letters, points.time_stamps
        own_atoms, shown = points.atoms, points.shown
        come_with = points.places[:end]
    # For each trace number, whether it is wanted; False for all higher numbers.
    is_wanted = np.zeros(max(wanted) + 2, bool)
    is_wanted[list(wanted)] = True
    places = np.flatnonzero(is_wanted[np.minimum(numbers, len(is_wanted) - 1)])
    words = _reordered(letters[places], own_atoms, atoms).tolist()
    found = (sum(word << 64 * place for place, word in enumerate(row)) for row in words)
    if clock is not None and clock.atom is not None:
        own_offsets = offsets[partition][points.places[places]].tolist()
    if own_offsets is None:
        own_offsets = [None] * len(places)
    values = None
    if shown:
        # explanations of a text log need no pyarrow
        from mtlmon.checking.shown import ValueRows

        values = ValueRows(shown, places.tolist())
    stamps = stamps[places].tolist()
    every = zip(
        numbers[places].tolist(),
        stamps,
        found,
        own_offsets,
        come_with[places].tolist(),
        strict=True,
    )
    for index, one in enumerate(every):
        yield *one, {} if values is None else values.row(index)


def _reordered(
    letters: NDArray[np.uint64], own: Sequence[str], wanted: Sequence[str]
) -> NDArray[np.uint64]:
    """Letters with their atoms in another order."""
    if tuple(own[: len(wanted)]) == tuple(wanted):
        return letters
    found = np.zeros((len(letters), max(1, (len(wanted) + 63) // 64)), np.uint64)
    for number, name in enumerate(wanted):
        place = own.index(name)
        bits = letters[:, place // 64] >> np.uint64(place % 64) & np.uint64(1)
        found[:, number // 64] |= bits << np.uint64(number % 64)
    return found


def _explained(
    policy: Policy,
    policy_number: int,
    number: int,
    names: list[tuple[int, int]],
    trace: Trace,
    options: OptionNames,
) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
    """Explain violations of one policy on part of a trace.

    Args:
        policy: the policy.
        policy_number: the number of the policy.
        number: the number of the trace.
        names: the time-stamp and offset of each violation.
        trace: the part of the trace that decides them.
        options: how the caller writes options.
    """
    positions = [trace.position(*name) for name in names]
    proofs = explain_positions(policy.formula, trace, positions, options)
    for (time_stamp, offset), proof in zip(names, proofs, strict=True):
        yield Violation(policy_number, number, time_stamp, offset), proof
