"""Histories whose letters depend on other events: one admits the events, others judge them.

Which events there are, and what they are called, is found by a `LeadingHistory`, which knows events
by numbers only. Letters are computed then, and `FollowingHistory` judges them under these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.engine.guarding import guarded
from mtlmon.engine.native import Session
from mtlmon.history.contents import Contents
from mtlmon.history.history import COUNTERS, History
from mtlmon.history.keys import KeyNumbers, OwnNumbers
from mtlmon.history.native import (
    Histories,
    fixed_verdict,
    follow,
    follow_some,
    keep_time,
    next_row,
    pass_time_of,
    placements,
    revise,
    skip_row,
    waiting_parts,
)
from mtlmon.history.operations import ADVANCE, NO_CORRECTIONS
from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from numpy.typing import NDArray

    from mtlmon.history.changes import Changes
    from mtlmon.history.operations import Corrections

    # in turn what has become of events, and how far time passes then
    Found = list[tuple["Placements", "Passed | None"]]
    Named = NDArray[np.void] | Mapping[str, NDArray[Any]]

__all__ = [
    "HAS_ID",
    "IS_HIDDEN",
    "IS_REMOVED",
    "FollowingHistory",
    "LeadingHistory",
    "NamedHistory",
    "NumberedHistory",
    "Outcome",
    "Passed",
    "Placements",
    "SharingHistory",
    "name_type",
    "placed_type",
    "taken_back",
]

# Names are looked through for old ones when there are so many more than twice those that were left.
_SPARE_NAMES = 4096

HAS_ID, IS_REMOVED, IS_HIDDEN = 1, 2, 8
"""Flags of rows: it has an id; it was retracted; it is no time-point of the policy now."""


class NumberedHistory(History):
    """A history whose keys are the numbers of traces, from 0 in the order of their first events."""

    _rejects = True

    def _key_numbers(self, keys: Sequence[Hashable] = ()) -> KeyNumbers:
        return OwnNumbers(keys)

    @guarded
    def push_rows(
        self, columns: EventColumns, numbers: NDArray[np.uint32] | None, corrections: Corrections
    ) -> Changes:
        """Do what `push` does with rows of traces, which may count events."""
        return self._push(columns, numbers, *corrections)

    def take_rejected(self) -> list[tuple[int, str]]:
        """Return the rows since the last call that contradict counts: their numbers, and why.

        The number of a row is that among all rows. They change nothing.
        """
        return self._histories.take_rejected()

    @property
    def closed_below(self) -> int:
        """The time below which all events are known by their counts; 0 if there is none."""
        return self._histories.closed_below

    @property
    def counted_until(self) -> int:
        """How far all counts that are reached show the time if no events come any more."""
        return self._histories.counted_time()

    def show(self, kinds: Iterable[int]) -> None:
        """Let changes have no records for first verdicts of other kinds than these."""
        self._shown = sum(1 << kind for kind in kinds)

    def changes(self) -> Changes:
        """Return what has changed since the last call."""
        return self._changes()

    def take_counts(self) -> NDArray[np.int64]:
        """For each kind, how many more time-points have it by the changes since the last call.

        The last number is of those without a verdict.
        """
        return np.array(self._histories.take_counts(), np.int64)

    def count_events(self, start: int, end: int, count: int) -> bool:
        """Do what `complete` does; return whether that is not too late."""
        return self._histories.complete(start, end, count)

    def counter(self, name: str) -> int:
        """Return one of the `counters`; to know what is held takes a look at each trace."""
        return COUNTERS[name](self._histories)

    def last_time(self) -> int:
        """When the last event was that is left, or time passed without one; 0 if there is none."""
        return self._histories.last_time()


def name_type() -> np.dtype[np.void]:
    """The type of the names of time-points: `time_stamp`, `offset` and the number of a `trace`."""
    return np.dtype(
        {
            "names": ["time_stamp", "offset", "trace"],
            "formats": ["i8", "u8", "u4"],
            "itemsize": 24,
        }
    )


def placed_type() -> np.dtype[np.void]:
    """The type of events that have their names, as `Placements` has them."""
    return np.dtype(
        [
            ("time_stamp", "i8"),
            ("offset", "u8"),
            ("number", "u8"),
            ("trace", "u4"),
            ("flags", "u4"),
        ]
    )


class Placements(NamedTuple):
    """What has become of events.

    Attributes:
        placed: those that have their names now, by trace and time: arrays of the fields
            `time_stamp`, `offset`, `trace`, `flags`, and the `number` of the row among all that the
            history was given, from 0.
        withdrawn: the names of events that were retracted, of `name_type()`.
    """

    placed: NDArray[np.void]
    withdrawn: NDArray[np.void]


Passed = tuple[int, "int | None"]
"""How far time passes without an event, and in which trace; None for all."""


def taken_back(
    placed: Named, withdrawn: NDArray[np.void], flags: NDArray[np.uint8]
) -> NDArray[np.void]:
    """Mark placed events that were taken back in the same batch; return the others taken back.

    Args:
        placed: as `Placements` has them, or their names by the same fields.
        withdrawn: likewise.
        flags: the flags of the placed events, which get `IS_REMOVED`.
    """
    places = {name: place for place, name in enumerate(_names(placed))}
    others = []
    for number, name in enumerate(_names(withdrawn)):
        if name in places:
            flags[places[name]] |= IS_REMOVED
        else:
            others.append(number)
    return withdrawn[others] if others else np.empty(0, name_type())


def _names(records: Named) -> Iterator[tuple[int, int, int]]:
    fields = (records[name].tolist() for name in ("trace", "time_stamp", "offset"))
    return zip(*fields, strict=True)


class Outcome:
    """Notes which rows do not count: they let time pass, or are refused, retracted or replaced."""

    def __init__(self) -> None:
        self._count = 0
        self._left_out: set[int] = set()
        # the number of the row of each event that may be retracted, by trace, time and offset
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._swept = 0

    @property
    def counting(self) -> NDArray[np.bool_]:
        """For each row so far, whether it counts; those that wait do not yet."""
        found = np.ones(self._count, np.bool_)
        found[list(self._left_out)] = False
        return found

    def come(self, count: int) -> None:
        """Let so many rows come: none counts before it has its name."""
        self._left_out.update(range(self._count, self._count + count))
        self._count += count

    def note(self, found: Placements, admits_from: Callable[[int], int | None]) -> None:
        """Take what has become of rows.

        Args:
            found: what a history tells of them.
            admits_from: tells of a trace below which time no event can go any more.
        """
        numbers, flags = found.placed["number"].tolist(), found.placed["flags"].tolist()
        for name, number, own in zip(_names(found.placed), numbers, flags, strict=True):
            if not own & IS_REMOVED:
                self._numbers[name] = number
                self._left_out.discard(number)
        for name in _names(found.withdrawn):
            # else it has come with these rows
            if (number := self._numbers.pop(name, None)) is not None:
                self._left_out.add(number)
        if len(self._numbers) > 2 * self._swept + _SPARE_NAMES:
            bounds = {trace: admits_from(trace) or 0 for trace, _, _ in self._numbers}
            self._numbers = {
                name: number for name, number in self._numbers.items() if name[1] >= bounds[name[0]]
            }
            self._swept = len(self._numbers)

    def parts(self) -> list[Any]:
        """Return what `restore` needs, as JSON can write it."""
        names = [[*name, number] for name, number in self._numbers.items()]
        return [self._count, sorted(self._left_out), names, self._swept]

    def restore(self, parts: Any) -> None:
        """Go on from what `parts` has returned.

        Raises:
            SnapshotError: it is something else.
        """
        try:
            self._count, left_out, names, self._swept = parts
            self._left_out = set(left_out)
            self._numbers = {(trace, time, offset): row for trace, time, offset, row in names}
        except (ValueError, TypeError):
            raise damaged() from None


class LeadingHistory(NumberedHistory):
    """Finds which events there are, and what they are called; it judges none.

    The letter of an event is its content: a number of 64 bits, which equal events share, if they
    can be retracted.

    Args:
        lateness: as for `History`; so are the others.
        wait: likewise.
        clock: likewise.
        equality: likewise.
        outcome: notes which rows are events; None if nobody asks.
    """

    def __init__(
        self,
        *,
        lateness: int | None,
        wait: int = 0,
        clock: Literal["all", "key"] = "all",
        equality: bool = False,
        outcome: Outcome | None = None,
    ) -> None:
        super().__init__(
            "true", "naive", lateness=lateness, wait=wait, clock=clock, equality=equality
        )
        self.outcome = outcome
        self._contents = Contents()

    def _new_histories(self) -> Histories:
        return Histories(
            Session(self.program, self.mode),
            lateness=self._lateness,
            wait=self._wait,
            delay=0,
            is_by_key=self._clock == "key",
            can_reopen=False,
            takes_equal=self._equality,
            judges=False,
            rejects=True,
        )

    def admit(
        self,
        time_stamps: NDArray[np.int64],
        texts: Iterable[str] | None,
        numbers: NDArray[np.uint32] | None,
        corrections: Corrections = NO_CORRECTIONS,
    ) -> tuple[NDArray[np.int64], Found]:
        """Take a batch of rows, of which some may let time pass.

        Args:
            time_stamps: their time-stamps.
            texts: for each, a text of what is in it; None if it does not matter which are equal.
            numbers: the numbers of their traces, or None.
            corrections: what they do.

        Returns:
            The indices of the rows that come too late, and what has become of events.
        """
        count = len(time_stamps)
        if texts is None:
            contents = self._contents.new(count)
        else:
            traces = np.zeros(count, np.uint32) if numbers is None else np.asarray(numbers)
            contents = self._contents.numbers_of(texts, traces, time_stamps)
        if self.outcome is not None:
            self.outcome.come(count)
        refused: list[NDArray[np.int64]] = []
        found: Found = []
        first = 0
        operations = corrections.operations
        advances = [] if operations is None else np.flatnonzero(operations == ADVANCE).tolist()
        for last in [*advances, count]:
            part = slice(first, last)
            if first < last:
                columns = EventColumns(np.ascontiguousarray(time_stamps[part]), last - first)
                columns.add_letters(64, np.ascontiguousarray(contents[part]))
                own = corrections.between(first, last)
                closed = self._histories.closed_below
                own_numbers = None if numbers is None else numbers[part]
                changes = self.push_rows(columns, own_numbers, own)
                refused.append(changes.refused.astype(np.int64) + first)
                if self._histories.closed_below > closed:
                    found.append((self.placements(), (self._histories.closed_below, None)))
            first = last + 1
            passed = None
            if last < count:
                trace = 0 if numbers is None else int(numbers[last])
                passed = self.let_time_pass(int(time_stamps[last]), trace)
                skip_row(self._histories)
            found.append((self.placements(), passed))
        if self._lateness is not None and corrections.takes_back:
            self._contents.forget(self, 2 * self._lateness)
        return np.concatenate(refused) if refused else np.empty(0, np.int64), found

    def passed_by(self, time_stamp: int) -> Found:
        """Let time pass in all traces; return what has become of events."""
        passed = self.let_time_pass(time_stamp)
        return [(self.placements(), passed)]

    def let_time_pass(self, time_stamp: int, trace: int = 0) -> Passed | None:
        """Let time pass; return how far it passes for those who judge events."""
        number = trace if self._clock == "key" else None
        own = 0 if number is None else number
        known = self.now(own)
        if known is not None and time_stamp <= self._histories.passed(own):
            return None
        closed = self._histories.closed_below
        self.advance(time_stamp, key=number)
        passed = time_stamp - self._wait
        if self._histories.closed_below > closed:
            passed = max(passed, self._histories.closed_below)
        return (passed, number) if passed >= 0 else None

    def let_count(self, start: int, end: int, count: int) -> tuple[bool, Found]:
        """Do what `count_events` does; return also what has become of events."""
        closed = self._histories.closed_below
        is_taken = self.count_events(start, end, count)
        now_closed = self._histories.closed_below
        return is_taken, [(self.placements(), (now_closed, None) if now_closed > closed else None)]

    def numbers_of_next(self, count: int) -> NDArray[np.uint64]:
        """The numbers that the next rows have, as `Placements` has them."""
        first = next_row(self._histories)
        return np.arange(first, first + count, dtype=np.uint64)

    def now(self, number: int = 0) -> int | None:
        """The largest time-stamp so far, of a trace if these have their own times."""
        return self._histories.now(number)

    def admits_from(self, number: int = 0) -> int | None:
        """The time-stamp below which no event can come or go any more; None if there is none."""
        return self._histories.bound(number)

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return self._histories.waiting

    def waiting_numbers(self) -> NDArray[np.uint64]:
        """The numbers of the rows of events that wait, as `Placements` has them."""
        return np.frombuffer(waiting_parts(self._histories)[3], np.uint64)

    def waiting_stamps(self) -> NDArray[np.int64]:
        """The time-stamps of these events."""
        return np.frombuffer(waiting_parts(self._histories)[0], np.int64)

    def placements(self) -> Placements:
        """Tell what has become of events since the last call."""
        placed, withdrawn = placements(self._histories)
        found = Placements(
            np.frombuffer(placed, placed_type()), np.frombuffer(withdrawn, name_type())
        )
        if self.outcome is not None:
            self.outcome.note(found, self.admits_from)
        return found

    def _facts(self) -> dict[str, Any]:
        outcome = None if self.outcome is None else self.outcome.parts()
        return {**super()._facts(), "contents": self._contents.parts(), "outcome": outcome}

    def _know(self, facts: dict[str, Any]) -> None:
        super()._know(facts)
        self._contents.restore(facts["contents"])
        if self.outcome is not None:
            self.outcome.restore(facts.get("outcome"))

    def ended(self, end_time: int | Literal["last", "inf"] | None) -> Found:
        """End the log: nothing waits any more. Return what has become of events."""
        before = self._histories.passed()
        self.finish(end_time)
        found: Found = [(self.placements(), None)]
        if self._wait or self._histories.passed() > before:
            numbers = range(len(self.keys)) if self._clock == "key" else [None]
            for number in numbers:
                if passed := self._histories.passed(number or 0):
                    found.append((self.placements(), (passed, number)))
        return found


class NamedHistory(NumberedHistory):
    """Judges events that a `LeadingHistory` has admitted, under the names that they have there."""

    def keep_time(self, leader: LeadingHistory, bound: int | None = None) -> None:
        """Let it be as late as it is for the history that admits events.

        Args:
            leader: that history.
            bound: the time below which letters stay; None if it is the one below which no event
                comes or goes.
        """
        keep_time(self._histories, leader._histories, bound)

    def pass_time(self, time_stamp: int, number: int | None) -> None:
        """Let time pass without an event, in all traces or in one."""
        pass_time_of(self._histories, time_stamp, number)

    def final_below(self, key: Hashable = None) -> int | None:
        """Do what `History` does, also for the numbers of traces of which all rows wait."""
        assert key is None or isinstance(key, int)
        return self._histories.bound(key)


class FollowingHistory(NamedHistory):
    """Judges the events of a `LeadingHistory`, with the arguments of `History`."""

    def follow(
        self,
        columns: EventColumns,
        numbers: NDArray[np.uint32] | None,
        flags: NDArray[np.uint8],
        is_keyed: bool,
    ) -> None:
        """Take events with their letters, and judge them and those around revised ones.

        Args:
            columns: the events, by trace and time, as they were placed.
            numbers: the numbers of their traces, if they have keys.
            flags: the flags of their rows.
            is_keyed: whether events have keys.
        """
        if columns.count:
            self._require_keys(is_keyed)
        own = None
        if is_keyed and numbers is not None:
            own = self._numbers_of(numbers, columns.count)
        follow(self._histories, columns, own, np.ascontiguousarray(flags, np.uint8))

    def revise(
        self,
        columns: EventColumns,
        numbers: NDArray[np.uint32],
        offsets: NDArray[np.uint64],
        flags: NDArray[np.uint8],
    ) -> None:
        """Give time-points other letters or flags; the next call of `follow` judges them.

        Args:
            columns: their time-stamps and letters.
            numbers: the numbers of their traces.
            offsets: their offsets.
            flags: the flags of their rows.
        """
        revise(
            self._histories,
            columns,
            np.ascontiguousarray(numbers, np.uint32),
            np.ascontiguousarray(offsets, np.uint64),
            np.ascontiguousarray(flags, np.uint8),
        )

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "follows": True}


class SharingHistory(NamedHistory):
    """Judges those events of a `LeadingHistory` that make a difference to its formula."""

    _is_named = True

    @property
    def fixed_verdict(self) -> int | None:
        """The kind of the verdict of all events without atoms, if they make no difference."""
        return fixed_verdict(self._histories)

    def follow_some(
        self,
        columns: EventColumns,
        numbers: NDArray[np.uint32] | None,
        names: tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint32]],
        leader: LeadingHistory,
        *,
        is_sparse: bool,
    ) -> int:
        """Take the events of a batch that can make a difference; return how many these are.

        Args:
            columns: the events, in the order in which they came.
            numbers: the numbers of their traces, if they have keys.
            names: their offsets, which of them are admitted, and the numbers of their traces
                without repetition.
            leader: has admitted them.
            is_sparse: whether those without atoms make no difference.
        """
        offsets, admitted, touched = names
        if columns.count:
            self._require_keys(numbers is not None)
        if numbers is not None:
            numbers = np.ascontiguousarray(numbers, np.uint32)
            self._numbers_of(touched, len(touched))
        return follow_some(
            self._histories,
            columns,
            numbers,
            offsets,
            admitted,
            touched,
            leader._histories,
            is_sparse,
        )

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "shares": True}
