"""Upper bounds on the memory of streams, from what a file assumes of its log.

Each kernel says how many bytes it holds at most for a number of traces and of rows in its window
(`most_bytes`, beside `bytes_held`); this follows from how its arrays grow. A kernel has room for
one more batch, so batches have at most 65,536 rows.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.own_dues import OwnDues
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.durations import length_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.policy.definitions import Assumption
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relations.bounds import KeptChanges, KeptRecords, Numbers
    from mtlmon.streams.due_ticks import DueTicks
    from mtlmon.streams.instance_calls import InstanceCalls
    from mtlmon.streams.instances import Family
    from mtlmon.streams.kernels import Kernel
    from mtlmon.streams.waiting import HeldColumn, Holding

__all__ = [
    "LARGEST_BATCH",
    "MOST_ENDED",
    "TEXT_BYTES",
    "Kept",
    "Load",
    "OfInstances",
    "instances_of",
    "kept_by",
    "kept_changes_bytes",
    "kept_instances",
    "kept_records_bytes",
    "kept_ticks",
    "kept_waiting",
    "key_bytes",
    "records_within",
]

LARGEST_BATCH = 1 << 16
"""The largest number of rows that streams get at a time from a log, with most ticks among them."""

TEXT_BYTES = 64
"""The bytes that are counted for a text, as no file says how long texts are."""

MOST_ENDED = 16_384
"""Numbers of instances that have ended are taken back when there are more of them than living ones,
and than this."""

# Texts that no state has any more are looked for when there are so many; see `StreamProgram`.
_MANY_TEXTS = 65_536
# What a table of texts takes for a text: its place in a hash table that is at least a quarter full,
# and the end of its text.
_SLOT_BYTES = 64
# Tables of keys have room for so many.
_LEAST_KEYS = 64
# So many keys that what does not depend on their number does not matter.
_MANY_KEYS = 1_000
# These keep what is in the window until it leaves, so without an upper bound they keep everything.
_KEEP_ALL = frozenset({ops.WINDOW_DISTINCT, ops.WINDOW_MEDIAN, ops.WINDOW_QUANTILE, ops.WINDOW_MAD})
_RATE = "add assume rate <= N/s"
_NO_INSTANCES = (
    "nothing limits the instances of a stream with per: assume instances <= N does, or "
    "until silence() > 1h with assume rate <= N/s"
)
_RATE_OF_ROWS = "nothing limits the rows that are valid at one time: add assume rate <= N/s"
_NO_END = (
    "records of `valid until`, and of `valid last 9 rows per id`, are kept until a row ends them, "
    "so nothing limits them; those of `valid 1d`, for instance, have a limit"
)
_NO_LIFETIME = (
    "records wait until those before them have ended, and nothing limits how long these are valid: "
    "equal records that follow each other are one"
)
# What an instance takes in its table: trace, links, times, and whether it is alive.
_INSTANCE_BYTES = 40
# What it takes to undo the beginning, use and end of an instance.
_TURN_BYTES = 64
# What an aggregate over instances takes for a trace at most, with an exact sum.
_OVER_BYTES = 4096
# The same for a group of them; exact sums of floats are as wide as the values need.
_GROUP_BYTES = 192
_FLOAT_GROUP_BYTES = 1024
# So many time-points at which rows call all instances are computed at once, with those of a row.
_MOST_CALLS = 1 << 14
# What a time-point of an instance takes while a batch is computed, and to undo it.
_POINT_BYTES = 192
_FEW_VALUES = {ops.HOUR: 24, ops.MINUTE: 60, ops.WEEKDAY: 7}
_CHOICES = frozenset({ops.WINDOW_FIRST, ops.WINDOW_LAST, ops.WINDOW_MIN, ops.WINDOW_MAX})


class Load:
    """How many rows a log brings at most, and for how many traces.

    Args:
        assumptions: what the file assumes of its log.
        unit: the unit of the time-stamps, or None if it is not known; assumptions about rates are
            then of no use.
        has_keys: whether the log is divided into traces.

    Attributes:
        traces: the number of traces, or None if there is no limit.
    """

    def __init__(
        self, assumptions: Iterable[Assumption], unit: str | None, *, has_keys: bool
    ) -> None:
        self._assumptions = tuple(assumptions)
        self._unit = unit
        self._has_keys = has_keys
        self._keys = self._least("keys")
        self.traces = self._keys if has_keys else 1

    def rows(self, length: int) -> int | None:
        """Return how many rows have time-stamps that are at most so far apart; None for no limit.

        Args:
            length: a length of time in the unit of the time-stamps.
        """
        found = self._limits("rate", length)
        if self._keys is not None:
            found += [self._keys * limit for limit in self._limits("rate per key", length)]
        return min(found, default=None)

    def rows_of_trace(self, length: int) -> int | None:
        """As `rows`, for the rows of one trace."""
        rows = self.rows(length)
        found = [] if rows is None else [rows]
        if self._has_keys:
            found += self._limits("rate per key", length)
        return min(found, default=None)

    def of_instances(self, family: Family) -> Load:
        """Return the load of instances, as of traces: as many as there are numbers for them.

        Args:
            family: the instances.
        """
        found = Load(self._assumptions, self._unit, has_keys=self._has_keys)
        living = self.living(family)
        if living is not None:
            # each row of a batch may begin one, and those that have ended are forgotten later
            found.traces = living + max(MOST_ENDED, living) + self.births(family)
            for holding, _ in family.waiting:
                # instances that have ended are kept for rows that wait
                rows = self.waiting_rows(holding)
                if rows is None:
                    found.traces = None
                    break
                found.traces += rows
        else:
            found.traces = None
        return found

    def waiting_rows(self, holding: Holding) -> int | None:
        """Return how many rows wait for later values at most; None for no limit."""
        found = self.waiting_rows_of_trace(holding)
        return None if found is None or self.traces is None else self.traces * found

    def waiting_rows_of_trace(self, holding: Holding) -> int | None:
        """As `waiting_rows`, for the rows of one trace."""
        if any(map(_endless, holding.later)):
            return None
        waits = [_longest_wait(column) for column in holding.later]
        lengths = [wait for wait in waits if wait is not None]
        pairs = zip(holding.later, waits, strict=True)
        distances = [column.distance for column, wait in pairs if wait is None]
        if lengths:
            # the rows of a trace that are not older than this, and the one that is
            rows = self.rows_of_trace(max(lengths))
            if rows is None:
                return None
            distances.append(rows + 1)
        return max(distances, default=0)

    def living(self, family: Family) -> int | None:
        """Return how many instances are alive at most; None for no limit."""
        found = [
            self._births_within(length, family)
            for length in (family.lifetime.age, family.table.silence)
            if length
        ]
        values = [_values_of(key, column.kind) for key, column in family.own_keys]
        domains = [value for value in values if value is not None]
        if self.traces is not None and len(domains) == len(values):
            found.append(self.traces * prod(domains))
        found.append(self._least("instances"))
        return min((one for one in found if one is not None), default=None)

    def births(self, family: Family) -> int:
        """Return how many instances the rows or ticks of a batch may begin."""
        if family.lifetime.clock == ROWS:
            return LARGEST_BATCH
        # as many ticks as are computed at once, besides those of one time
        return 2 * LARGEST_BATCH + (self.traces or 0)

    def _births_within(self, length: int, family: Family) -> int | None:
        """How many rows or ticks that begin instances are at most so far apart."""
        clock = family.lifetime.clock
        if clock == ROWS:
            return self.rows(length)
        return None if self.traces is None else self.traces * (length // clock + 1)

    def _least(self, subject: str) -> int | None:
        """The least number that is assumed of something; None for none."""
        limits = [one.limit for one in self._assumptions if one.subject == subject]
        return min(limits, default=None)

    def _limits(self, subject: str, length: int) -> list[int]:
        found = []
        for one in self._assumptions:
            if one.subject == subject and one.unit is not None and self._unit is not None:
                found.append(one.limit * _units_touched(length, self._unit, one.unit))
        return found


def _units_touched(length: int, unit: str, other: str) -> int:
    """How many whole units of another length a range of time-stamps can touch.

    Args:
        length: the distance of the first time-stamp of the range from the last.
        unit: the unit of the time-stamps.
        other: the unit to count.
    """
    if UNITS[other] <= UNITS[unit]:
        return (length + 1) * (UNITS[unit] // UNITS[other])
    ticks = UNITS[other] // UNITS[unit]
    return (length + ticks - 1) // ticks + 1


class Kept(NamedTuple):
    """What one aggregate or offset keeps.

    Attributes:
        expression: the aggregate or offset, as text.
        words: what is kept for each trace, in words.
        per_key: the most bytes for each trace; None if there is no limit.
        total: the most bytes for all traces, with room for the rows of a batch; None if there is no
            limit.
        reason: why there is no limit, and what to do; empty if there is one.
    """

    expression: str
    words: str
    per_key: int | None
    total: int | None
    reason: str = ""


def kept_records_bytes(records: KeptRecords, load: Load) -> Kept:
    """Return what records of a relation take at most, with room for the rows of a batch."""
    size = records.number_bytes + TEXT_BYTES * records.texts
    count = records_within(records, load)
    if count is None:
        reason = _NO_LIFETIME if records.words == "records to come" else _NO_END
        reason = _RATE_OF_ROWS if load.rows(0) is None else reason
        return Kept(records.operator, records.words, None, None, reason)
    # arrays are copied when records come and go
    total = 2 * (count + LARGEST_BATCH * max(1, len(records.spans))) * size
    return Kept(records.operator, f"{count:,} {records.words}", total, total)


def kept_changes_bytes(changes: KeptChanges, load: Load) -> Kept:
    """Return what it takes at most to tell when a relation changes, with room for a batch."""
    name, words = "changes", "records at one time"
    at_once, reason = numbers_within(changes, load, 0)
    in_batch, _ = numbers_within(changes, load, LARGEST_BATCH)
    if at_once is None or in_batch is None:
        return Kept(name, words, None, None, reason)
    of_record, of_change = (
        numbers + TEXT_BYTES * texts
        for numbers, texts in zip(changes.number_bytes, changes.texts, strict=True)
    )
    count = in_batch.begun + in_batch.ended
    # arrays are copied when they come and go
    total = 2 * (in_batch.valid * of_record + count * of_change)
    return Kept(name, f"{at_once.valid:,} {words}", total, total)


def numbers_within(
    changes: KeptChanges, load: Load, more: int, length: int | None = None
) -> tuple[Numbers | None, str]:
    """Return how many records there are, or why there is no limit; see `KeptChanges.within`."""
    lengths: list[int | None] = []

    def rows(length: int | None) -> int | None:
        lengths.append(length)
        return None if length is None else load.rows(length)

    found = changes.within(rows, more, length)
    return found, _NO_END if None in lengths else _RATE_OF_ROWS


def kept_answer_bytes(answer: KeptChanges, load: Load) -> Kept:
    """Return what the records of a query take at most that go on at one time."""
    name, words = "answer", "records that go on"
    found, reason = numbers_within(answer, load, 0, 0)
    if found is None:
        return Kept(name, words, None, None, reason)
    size = answer.number_bytes[0] + TEXT_BYTES * answer.texts[0]
    # arrays are copied when records come and go
    total = 2 * (found.valid + LARGEST_BATCH) * size
    return Kept(name, f"{found.valid:,} {words}", total, total)


def records_within(records: KeptRecords, load: Load) -> int | None:
    """Return how many records of a relation are kept at most; None if there is no limit."""
    if records.numbers is not None:
        length = records.lifetime
        more = 0 if length is None else load.rows(length)
        found = None
        if more is not None:
            found, _ = numbers_within(records.numbers, load, more, length or 0)
        if found is None:
            return None
        return found.valid if length is None else found.begun
    counts = [None if span is None else load.rows(span) for span in records.spans]
    known = [count for count in counts if count is not None]
    return records.of_tables + sum(known) if len(known) == len(counts) else None


def kept_by(
    kernel: Kernel,
    load: Load,
    unit: str | None,
    period: int = ROWS,
    *,
    has_ticks: bool = False,
    of_instances: OfInstances | None = None,
) -> Kept:
    """Return what a kernel keeps at most.

    Args:
        kernel: the kernel.
        load: the rows of the log.
        unit: the unit of the time-stamps, or None if it is not known.
        period: the time-points of its argument: `ROWS`, or a period, also in instances.
        has_ticks: whether the program that it belongs to has ticks.
        of_instances: for a kernel of instances, how many these are; the load is that of instances.
    """
    operator = kernel.node.operator
    words = _words(kernel, unit, period)
    text = str(kernel.node)
    if any(operand.operator is ops.ROW_COLUMN for operand in kernel.node.operands):
        # of a computed column, which has no name that users know
        text = "the value at the last row"
    if of_instances is not None:
        words = f"{words}, for each instance"
        if of_instances.living is None:
            return Kept(text, words, None, None, of_instances.reason)
    if operator in {ops.WINDOW_OWN, ops.MACHINE}:
        what = "machines" if operator is ops.MACHINE else "aggregates in Python"
        reason = f"the states of {what} may be of any size"
        words = "1 state" if operator is ops.MACHINE else words
        return Kept(text, words, None, None, reason)
    if operator in _KEEP_ALL and kernel.extent.upper < 0:
        reason = f"{operator.word} keeps all values: give its interval an upper bound"
        return Kept(text, words, None, None, reason)
    length = _queue_length(kernel)
    most: int | None = 0
    of_trace: int | None = 0
    of_panes = None
    if length is not None and period != ROWS:
        of_trace = length // period + 1
        if _has_panes(kernel) and kernel.pane > period:
            # ticks of a faster stream, of which a pane keeps one
            of_trace = min(of_trace, _rows_of_panes(kernel, length) or of_trace)
        most = None if load.traces is None else load.traces * of_trace
    elif length is not None:
        most, of_trace = load.rows(length), load.rows_of_trace(length)
        if most is not None and of_instances is not None:
            most *= of_instances.of_row
        of_panes = _rows_of_panes(kernel, length)
        if of_panes is not None:
            merged = None if load.traces is None else load.traces * of_panes
            most = min((one for one in (most, merged) if one is not None), default=None)
            of_trace = of_panes if of_trace is None else min(of_trace, of_panes)
    is_of_rows = period == ROWS and of_panes is None
    if of_trace is None or (most is None and load.traces is None and is_of_rows):
        reason = f"nothing limits the rows of a window: {_RATE}"
        if kernel.period > 0 and not _has_panes(kernel):
            what = "a row for each value in a pane" if kernel.pane else "every row"
            reason = f"{operator.word} keeps {what}, where min, max and avg keep panes: {_RATE}"
        return Kept(text, words, None, None, reason)
    natives = kernel.natives
    many = sum(one.most_bytes(_MANY_KEYS, _MANY_KEYS * of_trace, of_trace, 0) for one in natives)
    per_key = -(-many // _MANY_KEYS)
    if load.traces is None:
        return Kept(text, words, per_key, None, "nothing limits the keys: add assume keys <= N")
    rows = load.traces * of_trace if most is None else most
    # all ticks of one time are in one batch
    batch = LARGEST_BATCH + load.traces if has_ticks else LARGEST_BATCH
    if period > ROWS:
        # with the last ticks that are left out
        batch *= 2
    if of_instances is not None:
        batch = max(2 * batch, of_instances.batch)
    total = sum(one.most_bytes(load.traces, rows, of_trace, batch) for one in natives)
    if kernel.argument.name == "text":
        total += _text_bytes(load.traces + rows + batch)
    return Kept(text, words, per_key, total)


def kept_ticks(ticks: DueTicks, load: Load, unit: str | None, most_ticks: int) -> Kept:
    """Return what is kept to know when values at ticks change.

    Args:
        ticks: finds these ticks.
        load: the rows of the log.
        unit: the unit of the time-stamps, or None if it is not known.
        most_ticks: how many ticks are found at once, besides those of one time.
    """
    length = ticks.longest_delay
    of_trace = 2 * (length // ticks.grain + 1)
    words = f"when rows of the last {length_text(length, unit)} enter and leave windows"
    rows = load.rows_of_trace(length)
    of_trace = of_trace if rows is None else min(rows, of_trace)
    many = ticks.most_bytes(_MANY_KEYS, _MANY_KEYS * of_trace, 0, _MANY_KEYS)
    per_key = -(-many // _MANY_KEYS)
    if load.traces is None:
        return Kept("ticks", words, per_key, None, "nothing limits the keys: add assume keys <= N")
    most = load.rows(length)
    rows = load.traces * of_trace if most is None else min(most, load.traces * of_trace)
    total = ticks.most_bytes(load.traces, rows, LARGEST_BATCH, most_ticks + load.traces)
    return Kept("ticks", words, per_key, total)


def _rows_of_panes(kernel: Kernel, length: int) -> int | None:
    """How many panes of a trace there are in a length of time; None if rows are not merged."""
    return 2 * (length // kernel.pane) + 3 if _has_panes(kernel) else None


def _has_panes(kernel: Kernel) -> bool:
    """Whether a kernel merges all rows of a pane; `distinct` keeps one for each value."""
    return kernel.pane > 0 and kernel.node.operator not in _KEEP_ALL


class OfInstances(NamedTuple):
    """How many instances there are at most, and time-points of them.

    Attributes:
        living: how many are alive; None for no limit.
        batch: how many time-points of instances a batch has.
        reason: why there is no limit, and what to do.
        of_row: of how many instances a row is a time-point.
    """

    living: int | None
    batch: int
    reason: str = _NO_INSTANCES
    of_row: int = 1


def instances_of(family: Family, load: Load, calls: InstanceCalls | None = None) -> OfInstances:
    """Return how many instances of a family there are at most, and time-points in a batch.

    Args:
        family: the instances.
        load: the rows of the log.
        calls: the time-points, if rows call instances there; None for their own rows.
    """
    living = load.living(family)
    batch = load.births(family)
    for holding, _ in family.waiting:
        # those that have ended are kept for rows that wait
        if load.waiting_rows_of_trace(holding) is None:
            reason = _NO_INSTANCES if living is None else _why_waiting(holding)
            return OfInstances(None, batch, reason)
    for one in family.calls:
        of_row = len(one.calls)
        batch += _MOST_CALLS + 2 * (living or 0) if one.calls_all else LARGEST_BATCH * of_row
    lengths = {length for nows in family.nows for length in nows.delays}
    for length in lengths:
        # rows that enter and leave windows are read again
        rows = load.rows(length)
        if rows is None:
            reason = f"nothing limits the rows of a window: {_RATE}"
            return OfInstances(None, batch, _NO_INSTANCES if living is None else reason)
        batch += rows + LARGEST_BATCH
    of_row = 1
    if calls is not None:
        of_row = (living or 0) if calls.calls_all else len(calls.calls)
    return OfInstances(living, batch + (living or 0), of_row=of_row)


def kept_instances(
    family: Family, load: Load, unit: str | None, most_ticks: int, *, has_ticks: bool
) -> Kept:
    """Return what instances keep at most, beside the kernels of their values.

    Args:
        family: the instances.
        load: the rows of the log.
        unit: the unit of the time-stamps, or None if it is not known.
        most_ticks: as for `kept_ticks`.
        has_ticks: whether the program that they belong to has ticks.
    """
    shown = f"per {', '.join(str(key) for key, _ in family.own_keys)}"
    living, batch, reason, _ = instances_of(family, load)
    own = load.of_instances(family)
    if living is None or own.traces is None:
        return Kept(shown, "living instances", None, None, reason)
    words = f"{living:,} living instances"
    if load.traces is None:
        return Kept(shown, words, None, None, "nothing limits the keys: add assume keys <= N")
    room = own.traces + own.traces // 2 + _LEAST_KEYS
    traces = load.traces + load.traces // 2 + 1
    turns = 2 * (2 * load.births(family) + living + _LEAST_KEYS)
    total = room * (8 * len(family.own_keys) + _INSTANCE_BYTES) + turns * _TURN_BYTES
    total += 4 * (6 * living + 2 * _LEAST_KEYS + traces)
    points = batch + 2 * LARGEST_BATCH + living
    if has_ticks:
        points += LARGEST_BATCH + own.traces + load.traces
    for groups, kind in zip(family.groups_of, family.kinds_over, strict=True):
        of_group = _FLOAT_GROUP_BYTES if kind.name == "float" else _GROUP_BYTES
        total += room * 9 + 64 * living + points * _POINT_BYTES
        total += traces * _OVER_BYTES if groups is None else room * of_group
    for keys in {groups.keys for groups in family.groups_of if groups is not None}:
        total += room * (8 * len(keys) + 2 * _INSTANCE_BYTES) + turns * _TURN_BYTES
    for nows in family.nows:
        rows = [load.rows(length) or 0 for length in nows.delays]
        total += 24 * (2 * max(rows, default=0) + points) + 4 * (room + traces)
        total += 2 * points * _POINT_BYTES
    total += len(family.calls) * batch * _TURN_BYTES
    if family.ticks_of_ends is not None:
        total += 32 * (own.traces + _LEAST_KEYS)
    for ticks in family.own_ticks:
        if isinstance(ticks.due, OwnDues):
            rows_of_ticks = load.rows(ticks.due.longest_delay)
            if rows_of_ticks is None:
                return Kept(shown, words, None, None, f"nothing limits ticks that are due: {_RATE}")
            total += ticks.due.most_bytes(rows_of_ticks, LARGEST_BATCH)
        elif ticks.due is not None:
            total += kept_ticks(ticks.due, own, unit, most_ticks).total or 0
    texts = sum(column.kind.name == "text" for _, column in family.own_keys)
    texts += sum(kind.name == "text" for kind in family.kinds_over)
    if texts:
        total += texts * _text_bytes(own.traces + LARGEST_BATCH)
    return Kept(shown, words, None, total)


def _values_of(key: Expression, kind: Kind) -> int | None:
    """How many values an expression has at most; None for no limit."""
    operator = key.operator
    if kind.name == "boolean":
        return 2
    if operator is ops.CONSTANT:
        return 1
    if operator in _FEW_VALUES:
        return _FEW_VALUES[operator]
    if operator in {ops.IF, ops.COALESCE}:
        values = [_values_of(one, kind) for one in key.operands[-2:]]
        known = [one for one in values if one is not None]
        return sum(known) if len(known) == len(values) else None
    if operator is ops.REMAINDER and kind.name == "integer":
        divisor = key.operands[1]
        if divisor.operator is ops.CONSTANT and isinstance(divisor.value, int) and divisor.value:
            return 2 * abs(divisor.value) - 1
    return None


def kept_waiting(holding: Holding, load: Load, *, has_ticks: bool = False) -> Kept:
    """Return what rows that wait for later values keep at most.

    Args:
        holding: the rows.
        load: the rows of the log.
        has_ticks: as for `kept_by`.
    """
    later = holding.later
    text = ", ".join(column.text for column in later)
    distance = load.waiting_rows_of_trace(holding)
    if distance is None:
        return Kept(text, "rows that wait", None, None, _why_waiting(holding))
    words = f"rows that wait, {_values(distance)} of each column"
    if any(_longest_wait(column) is not None for column in later):
        words = f"{distance:,} rows that wait"
    native = holding.native
    per_key = -(-native.most_bytes(_MANY_KEYS, _MANY_KEYS * distance, 0) // _MANY_KEYS)
    if load.traces is None:
        return Kept(text, words, per_key, None, "nothing limits the keys: add assume keys <= N")
    groups = 0
    for column in holding.columns:
        if column.family is not None:
            instances = load.of_instances(column.family).traces
            if instances is None:
                return Kept(text, words, per_key, None, _NO_INSTANCES)
            groups = max(groups, instances)
    rows = load.traces * distance
    batch = LARGEST_BATCH + load.traces if has_ticks else LARGEST_BATCH
    total = native.most_bytes(load.traces, rows, batch, groups)
    texts = sum(column.kind.name == "text" for column in holding.columns)
    if texts:
        total += texts * _text_bytes(rows + groups + batch)
    return Kept(text, words, per_key, total)


def _longest_wait(column: HeldColumn) -> int | None:
    """For how long later rows of the trace may wait behind one; None where no time limits it."""
    if column.length is not None or column.family is None:
        return column.length
    lifetime = column.family.lifetime
    found = [lifetime.age - 1] if lifetime.age else []
    if lifetime.silence and not column.may_be_null:
        # the instance is never silent for longer, before each value and behind the last one
        found.append(column.distance * (lifetime.silence - 1))
    return min(found, default=None)


def _endless(column: HeldColumn) -> str:
    """Why a row may wait for a later value without end, and what to do; empty if it does not."""
    if column.length is not None or _longest_wait(column) is not None:
        return ""
    if column.family is not None and not column.family.lifetime.silence:
        return (
            "a row waits until its instance has the value or ends, and no time ends it: "
            "until silence() > 1h does"
        )
    if not column.may_be_null:
        return ""
    argument = column.text.rpartition(".next")[0]
    return (
        f"a row waits until {argument} is not null: write coalesce({argument}, ...).next() "
        "if it may be null"
    )


def _why_waiting(holding: Holding) -> str:
    """Why nothing limits the rows that wait for later values, and what to do."""
    reasons = filter(None, map(_endless, holding.later))
    return next(reasons, f"nothing limits the rows: {_RATE}")


def key_bytes(columns: int, keys: int) -> int:
    """Return the most bytes that the texts of so many keys take, in a number of columns."""
    # Arrays have room for half as many more. While other threads read them, those that they have
    # grown from are kept, which are twice as much together.
    text = 5 * (TEXT_BYTES + 8)
    return (keys + _LEAST_KEYS) * (_SLOT_BYTES + columns * text)


def _text_bytes(count: int) -> int:
    """The most bytes of the texts among so many values."""
    return (max(_MANY_TEXTS, 2 * count) + LARGEST_BATCH) * (_SLOT_BYTES + 2 * TEXT_BYTES)


def _queue_length(kernel: Kernel) -> int | None:
    """How old the rows can be that a kernel keeps one by one; None if it keeps none."""
    lower, upper, distance, *_ = kernel.extent
    if distance:
        return None
    if upper >= 0:
        return upper
    return lower - 1 if lower else None


def _words(kernel: Kernel, unit: str | None, period: int) -> str:
    lower, upper, distance, *_ = kernel.extent
    operator = kernel.node.operator
    if distance:
        return _values(distance)
    if operator in _KEEP_ALL and upper < 0:
        return "all values"
    is_value = operator in _CHOICES or operator in ops.OFFSETS.values()
    one = "1 value" if is_value else "1 number"
    length = _queue_length(kernel)
    if length is None:
        return one
    has_panes = _has_panes(kernel) and kernel.pane > period
    if period != ROWS and is_value and upper < 0 and not has_panes:
        return _values(length // period + 2)
    if period != ROWS and not has_panes:
        found = _values(length // period + 1)
    elif length == 0:
        found = "rows of the present time-stamp"
    elif _has_panes(kernel):
        shown = length_text(length if upper >= 0 else lower, unit)
        found = f"panes of {length_text(kernel.pane, unit)} in the last {shown}"
    else:
        found = f"rows of the last {length_text(length if upper >= 0 else lower, unit)}"
    return found if upper >= 0 else f"{one}, {found}"


def _values(count: int) -> str:
    return f"{count:,} value{'' if count == 1 else 's'}"
