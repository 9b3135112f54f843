"""What is shown with violations: messages of triggers, and values of streams and windows.

What is shown is computed like atoms, by the same programs, and comes with the batch (`shown_of`). A
trigger is decided at its own row, so messages wait in the order of rows until the verdicts are
written. The values for explanations are computed only when the log is read again.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.checking.clocks import when_of
from mtlmon.policy.messages import value_text
from mtlmon.policy.past_formulas import as_expression
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.printer import to_text
from mtlmon.policy.predicates.time_points import MEMORY
from mtlmon.streams.kernels import extent_of
from mtlmon.support.snapshot_parts import damaged
from mtlmon.syntax.durations import distance_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.batch_points import BatchPoints
    from mtlmon.checking.explaining import TracePoint
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.checking.kept_messages import KeptMessages
    from mtlmon.checking.last_rows import LastRow
    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.sources import EventBatch
    from mtlmon.drive.native import FirstViolation
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.messages import ShownMessage
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.time_points import When

    ValuesAt = Mapping[str, object]

__all__ = ["Details", "Messages", "Shown", "ShownValue", "ValueRows", "shown_names"]

_ROWS_SHOWN = 5
"""How many rows of a window people see, if not all are asked for."""


class Window(NamedTuple):
    """The rows that an aggregate looks at.

    Attributes:
        lower: how old they are at least.
        upper: how old they are at most.
        argument: the name of the argument in `PolicyFile.shown`; None for all rows.
    """

    lower: int
    upper: int
    argument: str | None


class Item(NamedTuple):
    """A value that is shown with the violations of a policy.

    Attributes:
        label: what it is called.
        name: its name in `PolicyFile.shown`.
        window: the rows that it comes from, or None.
        is_column: whether it is the value of a column.
    """

    label: str
    name: str
    window: Window | None
    is_column: bool = False


class ShownValue(NamedTuple):
    """The value of a stream or a window at a violation.

    Attributes:
        name: what it is called.
        text: the value.
        rows: the first rows of the window that it is about, or all of them; empty if the log does
            not tell.
        row_count: how many rows there are.
    """

    name: str
    text: str
    rows: Sequence[RowPlace]
    row_count: int

    def row_words(self, most: int | None, option: str | None) -> list[str]:
        """Return the rows in words: web.csv:2, web.csv:5, and 7 more.

        Args:
            most: how many of them are named; None for all.
            option: what lets all of them be named; None if nothing does.
        """
        words = list(map(str, self.rows[:most]))
        more = self.row_count - len(words)
        how = "" if option is None else f" ({option} names them)"
        return [*words, f"and {more:,} more{how}"] if more else words


class Shown(NamedTuple):
    """What is shown with a violation.

    Attributes:
        message: the message of a trigger, or None.
        columns: the names of columns and their values.
        values: the streams and windows.
        last_row: for a tick, the last row before it, in words; else None.
        last_place: where that row is; None if that is not known.
        most_rows: how many rows of a window are named to people; None for all.
        rows_option: what lets all of them be named; None if nothing does.
    """

    message: str | None
    columns: list[tuple[str, str]]
    values: list[ShownValue]
    last_row: str | None
    last_place: RowPlace | None = None
    most_rows: int | None = _ROWS_SHOWN
    rows_option: str | None = None

    @property
    def lines(self) -> list[str]:
        """The message and the values, as lines."""
        lines = [] if self.message is None else [self.message]
        for value in self.values:
            rows = ", ".join(value.row_words(self.most_rows, self.rows_option))
            lines.append(f"{value.name} was {value.text}{f': {rows}' if rows else ''}")
        return lines if self.last_row is None else [*lines, f"the last row was {self.last_row}"]

    @property
    def rows_of_values(self) -> dict[str, Sequence[str]]:
        """The rows of the windows in words, by the names of values."""
        words = (value.row_words(self.most_rows, self.rows_option) for value in self.values)
        names = (value.name for value in self.values)
        return {name: rows for name, rows in zip(names, words, strict=True) if rows}

    @property
    def named_values(self) -> list[tuple[str, str]]:
        """All values without their rows, each as a name and a text."""
        values = [*self.columns, *((value.name, value.text) for value in self.values)]
        return values if self.last_row is None else [*values, ("last row", self.last_row)]


def items_of(file: PolicyFile, policy: Policy, *, has_columns: bool = False) -> list[Item]:
    """Return the streams and windows in the conditions of a policy, and columns, if wanted.

    The time is none of these columns, as every violation has it. Where the policy is not on all
    rows, nothing is known of the rows that a window looks at.
    """
    found: dict[str, Item] = {}
    seen: set[tuple[object, str]] = set()
    unit = file.environment.unit
    stack = [file.atoms[name].expression for name in policy.formula.atoms if name in file.atoms]
    stack.reverse()
    while stack:
        node = stack.pop()
        if node.operator is ops.STREAM or node.operator in MEMORY or node.operator in _OTHERS:
            label = node.name if node.operator is ops.STREAM else to_text(node, unit)
            if label not in found:
                window = None if policy.clock is not None else _window_of(file, node)
                found[label] = Item(label, file.show(node), window)
        elif node.operator in ops.COLUMNS:
            if has_columns and node.name != file.environment.time and str(node) not in found:
                found[str(node)] = Item(node.name, file.show(node), None, is_column=True)
        elif node.operator in {ops.ATOM, ops.LET}:
            if (node.operator, node.name) in seen:
                continue
            seen.add((node.operator, node.name))
            if node.operator is ops.LET:
                stack.append(as_expression(file.lets[node.name], _atom))
            elif node.name in file.atoms:
                stack.append(file.atoms[node.name].expression)
        else:
            stack += reversed(node.operands)
    return list(found.values())


_OTHERS = {ops.OVER, ops.INSTANCE, *ops.LOOK_UPS}


def _atom(name: str) -> Expression:
    from mtlmon.policy.predicates.expression import Expression

    return Expression(ops.ATOM, (), name)


def _window_of(file: PolicyFile, node: Expression) -> Window | None:
    """The window of an aggregate, or of a stream that is one, if it is over rows."""
    if node.operator is ops.STREAM:
        stream = file.streams[node.name]
        if stream.clock is not None or stream.per:
            return None
        node = stream.expression
    if node.operator not in ops.WINDOWS:
        return None
    if any(operand.operator is ops.STREAM for operand in node.operands):
        # its values may be of other time-points than rows
        return None
    try:
        lower, upper, *_ = extent_of(node, file.environment.unit)
    except NotPossible:
        return None
    if upper < 0:
        return None
    argument = file.show(node.operands[0]) if node.operands else None
    return Window(lower, upper, argument)


def shown_names(
    file: PolicyFile,
    check: LogCheck | HistoryCheck,
    *,
    has_values: bool,
    has_columns: bool = False,
) -> list[dict[When, list[str]]]:
    """Return the names in `PolicyFile.shown` that messages and values need.

    Args:
        file: the policy file; expressions are added to its `shown`.
        check: the check of its policies.
        has_values: whether the values of streams and windows are shown, too.
        has_columns: whether those of columns are shown with them.

    Returns:
        For each partition the names of what is needed: at rows under `ROWS`, and at ticks under
        their period.
    """
    partition_of = check.partitions.of_policies
    names: list[dict[When, dict[str, None]]]
    names = [{} for _ in range(max(partition_of, default=0) + 1)]
    for policy, partition, clock in zip(check.policies, partition_of, check.clocks, strict=True):
        period = when_of(clock)
        own = names[partition].setdefault(period, {})
        if policy.message is not None:
            own |= dict.fromkeys(policy.message.needed)
        items = items_of(file, policy, has_columns=has_columns) if has_values else ()
        for item in items:
            own[item.name] = None
            if item.window is not None and item.window.argument is not None:
                own[item.window.argument] = None
    return [{period: list(own) for period, own in some.items()} for some in names]


class ValueRows:
    """The values of some rows of a batch.

    Args:
        values: the values to show, by name.
        places: the indices of the rows in the batch.
    """

    def __init__(self, values: Mapping[str, pa.Array], places: Sequence[int]) -> None:
        self._columns = {
            name: array.take(pa.array(places, pa.int64())).to_pylist()
            for name, array in values.items()
        }

    def row(self, number: int) -> dict[str, object]:
        """Return the values of one of the rows."""
        return {name: column[number] for name, column in self._columns.items()}


def violated_at(
    message: ShownMessage,
    own_atoms: Sequence[str],
    atoms: Sequence[str],
    letters: NDArray[np.uint64],
    shown: Mapping[str, pa.Array],
) -> NDArray[np.intp]:
    """Return the places of the rows or ticks that violate a policy with a message with values.

    If later rows decide that, these are the places that can violate it.

    Args:
        message: the message.
        own_atoms: the atoms of the policy.
        atoms: those of the rows.
        letters: which of these hold, as `LetterBuffer` has them.
        shown: the values at the rows, by their names in `PolicyFile.shown`.
    """
    if message.violations is not None:
        return np.flatnonzero(shown[message.violations].to_numpy(zero_copy_only=False))
    if message.is_later:
        return np.arange(len(letters))
    bit = atoms.index(own_atoms[0])
    return np.flatnonzero(letters[:, bit // 64] >> np.uint64(bit % 64) & np.uint64(1))


class Messages:
    """The messages for the verdicts that have not been written yet.

    If a policy whose message has values is decided at its own row, its violations come in the order
    of the rows. Else messages are kept until later rows have decided theirs.

    Args:
        check: the check of the policies.
        keeps_first: whether only the first violation is written, perhaps much later.
        repeats_ticks: whether batches leave out ticks at which no value changes.
    """

    def __init__(
        self, check: LogCheck, *, keeps_first: bool = False, repeats_ticks: bool = False
    ) -> None:
        partition_of, clocks = check.partitions.of_policies, check.clocks
        self._texts: dict[int, str] = {}
        self._with_values: list[tuple[int, Policy, ShownMessage, int, Clock | None]] = []
        self._later: dict[int, KeptMessages] = {}
        self._partition_of = partition_of
        for number, policy in enumerate(check.policies):
            message = policy.message
            if message is None:
                continue
            if message.text is not None:
                self._texts[number] = message.text
            else:
                own = number, policy, message, partition_of[number], clocks[number]
                self._with_values.append(own)
            if message.is_later:
                from mtlmon.analysis.reach import decision_delay
                from mtlmon.checking.kept_messages import KeptMessages

                delay = decision_delay(policy.formula)
                assert delay is not None
                clock = clocks[number]
                has_ticks = clock is not None and clock.has_ticks
                self._later[number] = KeptMessages(delay, repeats_ticks and has_ticks)
        self._keeps_first = keeps_first
        self._repeats_ticks = repeats_ticks
        # By policy and trace: the times of violations since the last batch began, and the last one
        # before, with their messages; they are repeated at ticks that are left out.
        self._repeated: dict[tuple[int, int], list[tuple[int, str | None]]] = {}
        # those whose last tick was no violation
        self._ended: list[tuple[int, int]] = []
        self._waiting: dict[tuple[int, int, int], list[str | None]] = {}
        # how many of them each reader has taken
        self._taken: dict[tuple[int, int, int, int], int] = {}
        self._first: dict[int, int] = {}

    @property
    def held_bytes(self) -> int:
        """The number of bytes that messages of undecided time-points take, about."""
        return sum(kept.held_bytes for kept in self._later.values())

    def add(self, batch: EventBatch, batch_points: BatchPoints) -> None:
        """Make the messages of the violations in a batch; forget those of earlier ones.

        Args:
            batch: the batch.
            batch_points: the time-points that come with it.
        """
        if not self._keeps_first:
            self._waiting.clear()
            self._taken.clear()
        for ended in self._ended:
            self._repeated.pop(ended, None)
        self._ended.clear()
        for messages in self._repeated.values():
            del messages[:-1]
        for number, policy, message, partition, clock in self._with_values:
            if clock is None:
                atoms, letters = batch.atoms, batch.letters_of(partition)
                times, traces = np.asarray(batch.time_stamps), batch.numbers_of(partition)
                shown = batch.shown_of(partition)
            else:
                points = batch.chosen(partition, clock)
                atoms, letters, times = points.atoms, points.letters, points.time_stamps
                traces, shown = points.numbers, points.shown
            if not len(times):
                continue
            places = violated_at(message, policy.formula.atoms, atoms, letters, shown)
            if number in self._later:
                named = batch_points.rows[partition]
                assert named is not None
                if clock is not None:
                    offsets = np.zeros(len(times), np.uint32)
                    if not clock.has_ticks:
                        offsets = named[2][points.places]
                    numbers = np.zeros(len(times), np.uint32) if traces is None else traces
                    named = times, numbers, offsets
                rows = ValueRows(shown, places.tolist())
                texts = [message.at(rows.row(index)) for index in range(len(places))]
                self._later[number].add_rows(*named, places, texts)
                continue
            if self._keeps_first and len(places):
                # The first violation is among those of the earliest time-stamp.
                first = self._first.setdefault(number, int(times[places[0]]))
                places = places[times[places] == first]
            rows = ValueRows(shown, places.tolist())
            if self._repeats_ticks and clock is not None and clock.has_ticks:
                assert traces is not None
                for index, place in enumerate(places.tolist()):
                    known = self._repeated.setdefault((number, int(traces[place])), [])
                    known.append((int(times[place]), message.at(rows.row(index))))
                self._note_ended(number, traces, places)
                continue
            for index, place in enumerate(places.tolist()):
                trace = 0 if traces is None else int(traces[place])
                found = self._waiting.setdefault((number, trace, int(times[place])), [])
                found.append(message.at(rows.row(index)))

    def note_first(self, first: FirstViolation) -> None:
        """Keep the message of the earliest violation so far, whose verdict is taken out later."""
        if first.policy in self._later:
            self._later[first.policy].note_first(first.stream, first.time_stamp, first.offset)

    def keep(self, partition: int, numbers: bytes) -> None:
        """Give the traces of a partition new numbers, as `KeyTable.keep` does."""
        for number, kept in self._later.items():
            if self._partition_of[number] == partition:
                kept.keep(np.frombuffer(numbers, np.uint32))

    def snapshot(self) -> bytes:
        """Return what later verdicts may need, as bytes for `restore`.

        That is the messages of the first violations so far, if only the first one is written,
        those that are repeated at ticks, and those of rows that later ones decide.
        """
        waiting = self._waiting if self._keeps_first else {}
        content = (
            sorted(self._first.items()),
            sorted(
                (key, messages[self._taken.get((0, *key), 0) :])
                for key, messages in waiting.items()
            ),
            sorted((key, messages[-1:]) for key, messages in self._repeated.items()),
            self._ended,
            [kept.content() for kept in self._later.values()],
        )
        return json.dumps(content).encode()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot of other messages of the same policies.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            first, waiting, repeated, ended, later = json.loads(snapshot)
            self._first = {int(policy): int(time) for policy, time in first}
            self._waiting = {
                (int(policy), int(trace), int(time)): list(messages)
                for (policy, trace, time), messages in waiting
            }
            self._repeated = {
                (int(policy), int(trace)): [(int(time), message) for time, message in messages]
                for (policy, trace), messages in repeated
            }
            self._ended = [(int(policy), int(trace)) for policy, trace in ended]
            for kept, content in zip(self._later.values(), later, strict=True):
                kept.restore(content)
        except (TypeError, ValueError):
            raise damaged() from None

    def _note_ended(
        self, policy: int, traces: NDArray[np.uint32], places: NDArray[np.int64]
    ) -> None:
        """Note which traces have no violation at the last of their ticks."""
        is_violated = np.zeros(len(traces), np.bool_)
        is_violated[places] = True
        seen, last = np.unique(traces[::-1], return_index=True)
        over = seen[~is_violated[len(traces) - 1 - last]].tolist()
        self._ended += [(policy, trace) for trace in over if (policy, trace) in self._repeated]

    def take(
        self, policy: int, number: int, time_stamp: int, offset: int, reader: int = 0
    ) -> str | None:
        """Return the message of the next violation of a policy at a time-stamp of a trace.

        Args:
            policy: the number of the policy.
            number: the number of the trace.
            time_stamp: the time-stamp.
            offset: the offset of the time-point.
            reader: who asks; each reader gets every message once.
        """
        if policy in self._texts:
            return self._texts[policy]
        if policy in self._later:
            return self._later[policy].at(number, time_stamp, offset)
        repeated = self._repeated.get((policy, number))
        if repeated is not None:
            last = bisect_right(repeated, time_stamp, key=itemgetter(0)) - 1
            return repeated[last][1] if last >= 0 else None
        waiting = self._waiting.get((policy, number, time_stamp))
        if waiting is None:
            return None
        place = self._taken.get((reader, policy, number, time_stamp), 0)
        self._taken[reader, policy, number, time_stamp] = place + 1
        return waiting[place] if place < len(waiting) else None


class Details:
    """Messages and values at the time-points of violations, found while the log is read again.

    Args:
        file: the policy file.
        check: the check of its policies.
        violations: policy, number of the trace, time-stamp and offset of each violation.
        has_columns: whether the values of columns are wanted, too.
        has_all_rows: whether people see all rows of windows.
        keeps_all_rows: whether programs do; if neither does, only the first ones are kept.
        rows_option: the option that asks for that, if there is one.
        unit: the unit of time-stamps; if it is not given, that of the file.
    """

    def __init__(
        self,
        file: PolicyFile,
        check: LogCheck,
        violations: Iterable[tuple[int, int, int, int]],
        *,
        has_columns: bool = False,
        has_all_rows: bool = False,
        keeps_all_rows: bool = False,
        rows_option: str | None = None,
        unit: str | None = None,
    ) -> None:
        self._unit = unit or file.environment.unit
        self._most_rows = None if has_all_rows else _ROWS_SHOWN
        self._kept_rows = None if has_all_rows or keeps_all_rows else _ROWS_SHOWN
        self._rows_option = rows_option
        policies = self._policies = check.policies
        partition_of, clocks = check.partitions.of_policies, check.clocks
        self._wanted: dict[
            tuple[int, Clock | None, int, int, int], list[tuple[int, int, int, int]]
        ] = {}
        self._items = [items_of(file, policy, has_columns=has_columns) for policy in policies]
        self._found: dict[tuple[int, int, int, int], Shown] = {}
        self._count = 0
        for policy, number, time_stamp, offset in dict.fromkeys(violations):
            key = partition_of[policy], clocks[policy], number, time_stamp, offset
            self._wanted.setdefault(key, []).append((policy, number, time_stamp, offset))
            self._count += 1
        self._windows: list[dict[Window, None]] = [{} for _ in range(1 + max(partition_of))]
        for policy_number, items in enumerate(self._items):
            for item in items:
                if item.window is not None:
                    self._windows[partition_of[policy_number]][item.window] = None
        # The present time-stamp of a trace, and how many time-points it has had before this one.
        self._counts: dict[tuple[int, Clock | None, int], tuple[int, int]] = {}
        # time-stamps and places of the rows in windows
        self._rows: dict[tuple[int, int, Window], deque[tuple[int, RowPlace]]] = {}

    def of(self, violation: tuple[int, int, int, int]) -> list[str]:
        """Return the message and the values of streams and windows at a violation, as lines."""
        found = self._found.get(violation)
        return [] if found is None else found.lines

    def shown(self, violation: tuple[int, int, int, int]) -> Shown | None:
        """Return what is known of a violation; None if it has not been reached."""
        return self._found.get(violation)

    @property
    def is_complete(self) -> bool:
        """Whether all violations have been reached."""
        return len(self._found) == self._count

    def note(self, point: TracePoint) -> None:
        """Take the next time-point of a trace."""
        partition, clock, number, time_stamp, known_offset, row, values, last_row, _ = point
        last, count = self._counts.get((partition, clock, number), (time_stamp, -1))
        offset = count + 1 if last == time_stamp else 0
        if known_offset is not None:
            offset = known_offset
        self._counts[partition, clock, number] = time_stamp, offset
        for window in self._windows[partition] if clock is None else ():
            rows = self._rows.setdefault((partition, number, window), deque())
            while rows and rows[0][0] < time_stamp - window.upper:
                rows.popleft()
            is_in = window.argument is None or values.get(window.argument) not in (None, False)
            if is_in and row is not None:
                origins, index = row
                rows.append((time_stamp, origins.place(index)))
        for violation in self._wanted.get((partition, clock, number, time_stamp, offset), ()):
            self._found[violation] = self._shown(violation, partition, values, last_row)

    def _shown(
        self,
        violation: tuple[int, int, int, int],
        partition: int,
        values: ValuesAt,
        last_row: LastRow | None,
    ) -> Shown:
        policy, number, now, _ = violation
        columns: list[tuple[str, str]] = []
        others: list[ShownValue] = []
        for item in self._items[policy]:
            if item.name not in values:
                continue
            text = value_text(values[item.name])
            if item.is_column:
                columns.append((item.label, text))
                continue
            rows: list[RowPlace] = []
            if item.window is not None:
                known = self._rows[partition, number, item.window]
                rows = [row for time, row in known if now - time >= item.window.lower]
            others.append(ShownValue(item.label, text, rows[: self._kept_rows], len(rows)))
        last = None if last_row is None else self._last_row_words(last_row, now)
        written = self._policies[policy].message
        message = None if written is None else written.at(values)
        place = None if last_row is None else last_row.place
        return Shown(message, columns, others, last, place, self._most_rows, self._rows_option)

    def _last_row_words(self, row: LastRow, now: int) -> str:
        """Say which row was the last one before a tick, and when."""
        which = f"at {row.time_stamp}" if row.place is None else str(row.place)
        return f"{which}, {distance_text(row.time_stamp - now, self._unit)}"
