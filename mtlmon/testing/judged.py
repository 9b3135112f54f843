"""What the run of a policy over a log has found.

Reports are made of the events of one trace, which are read from the log again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.checking.clocks import end_time_of_all
from mtlmon.checking.explaining import Violation, explain_violations
from mtlmon.run.policies import open_source
from mtlmon.testing.recording import Event, Events, Recording
from mtlmon.verdicts.arrays import FALSE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.checking.explaining import TracePoint
    from mtlmon.policy.limits import PolicyCounts
    from mtlmon.relational import Answer
    from mtlmon.testing.log_runs import LogRun

    Name = tuple[int, int]
    # traces by their numbers, each with the time-point that violates the policy, if one does
    Wanted = Mapping[int, Name | None]

__all__ = ["FormulaJudged", "Judged", "ReadAgain"]


class Judged(ABC):
    """What the run of a policy has found.

    Traces have numbers, in the order of their first events; without keys, there is trace 0.

    Args:
        run: the run.

    Attributes:
        violations: the numbers of traces, and the time-points that violate the policy there.
        answers: the violations of a policy with variables.
        partition: how the log is divided into these traces.
    """

    partition = 0
    # what has checked the log
    _check: Any

    def __init__(self, run: LogRun) -> None:
        self.run = run
        self.violations: list[tuple[int, Name]] = []
        self.answers: list[Answer] = []

    @abstractmethod
    def take(self, found: Any) -> None:
        """Take what has been found."""

    @property
    @abstractmethod
    def undecided(self) -> Mapping[int, Sequence[Name]]:
        """The undecided time-points of each trace that has some, without equivalents."""

    @property
    def share(self) -> tuple[int, int]:
        """How many violations a share is of, and of how many."""
        (tally,) = self._check.tallies
        found: tuple[int, int] = tally.share_of
        return found if self.run.subject.has_share else (tally.counts.false, tally.counts.events)

    @property
    @abstractmethod
    def events(self) -> Mapping[int, int]:
        """How many time-points each trace has."""

    @abstractmethod
    def counts_of(self, number: int, false: int) -> tuple[int, int, int]:
        """How many time-points of a trace are true, false (so many) and undecided."""

    @abstractmethod
    def recordings(self, wanted: Wanted) -> dict[int, Events]:
        """Read the log again; return the events of traces, as far as reports are about them."""

    @property
    def counts(self) -> PolicyCounts:
        """How many time-points are true, false and undecided."""
        (found,) = self.run.judging.counts.values()
        counts: PolicyCounts = found
        return counts

    def key(self, number: int) -> dict[str, object]:
        """The values of the key of a trace; {} if there is none."""
        table = self.run.source.key_tables[self.partition]
        return {} if table is None else self.run.key_values(table.key(number))

    def describe(self, recording: ReadAgain, number: int) -> None:
        """Tell the recording of a trace what is known of it besides its events."""
        known = self.counts if not self.run.key else None
        recording.seen = self.run.seen
        recording.key = self.key(number)
        recording.undecided = list(self.undecided.get(number, ()))
        count = len(recording.undecided) if known is None else known.undecided
        recording.known = (0, 0, count), self.clock
        recording.end_time = end_time_of_all(self.clock, self.run.spec.times.end_time)
        recording.place = recording.place_of

    @property
    @abstractmethod
    def clock(self) -> int:
        """The least time-stamp that a later event can have."""


class ReadAgain(Events):
    """The events of a trace that are read from a log again, up to what decides a time-point.

    Attributes:
        wanted: the time-point; None if all events are wanted.
        known: the counts of the trace, and the least time-stamp that a later event can have.
        is_done: whether no more events are wanted.
    """

    wanted: Name | None = None
    known: tuple[tuple[int, int, int], int]
    is_done = False
    # the offsets of the events, and where they come from
    places: deque[tuple[int, Any]]
    last: Name = (-1, 0)

    def note(self, time_stamp: int, offset: int | None, place: Any) -> None:
        """Note the name and the place of the event that has been added."""
        if offset is None:
            offset = self.last[1] + 1 if self.last[0] == time_stamp else 0
        self.last = time_stamp, offset
        self.places.append((offset, place))
        if self.wanted is not None:
            delay = self.delay()
            is_later = delay is not None and time_stamp > self.wanted[0] + delay
            self.is_done = is_later or (delay == 0 and self.last == self.wanted)

    def place_of(self, number: int) -> str | None:
        """Return the place of an event."""
        assert self.numbers is not None
        place = self.places[self.numbers.index(number)][1]
        place = place[0].place(place[1]) if type(place) is tuple else place
        return None if place is None else str(place)

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.known[0]

    @property
    def clock(self) -> int:
        return self.known[1]


class LogEvents(ReadAgain, Recording):
    """The events of a trace of a log, for a policy without variables.

    Args:
        run: the run over the log.
        labels: the names of the values that events are shown with, by their labels.
    """

    def __init__(self, run: LogRun, labels: Mapping[str, str]) -> None:
        keep = run.asked.keep
        super().__init__(run.subject, mode=run.asked.mode, at_end=run.asked.at_end, keep=keep)
        self._count = 0
        self.numbers = deque(maxlen=keep)
        self.places = deque(maxlen=keep)
        self._values: deque[Mapping[str, object]] = deque(maxlen=keep)
        self._labels = labels

    def add(
        self,
        time_stamp: int,
        offset: int | None,
        atoms: frozenset[str],
        values: Mapping[str, object],
        place: Any,
    ) -> None:
        """Add an event."""
        self.pairs.append((time_stamp, atoms))
        self._values.append(values)
        assert self.numbers is not None
        self.numbers.append(self._count)
        self._count += 1
        self.note(time_stamp, offset, place)

    @property
    def event_count(self) -> int:
        return self._count

    def recent(self) -> list[Event]:
        assert self.numbers is not None
        every = zip(self.pairs, self.places, self.numbers, strict=True)
        return [
            Event(time_stamp, offset, frozenset(atoms), number)
            for (time_stamp, atoms), (offset, _), number in every
        ]

    def values(self, event: Event) -> list[str]:
        if not self._labels:
            return []
        from mtlmon.testing.conditions import value_words

        assert self.numbers is not None
        known = self._values[self.numbers.index(event.number)]
        return value_words(
            {one: known[name] for one, name in self._labels.items() if name in known}
        )


class FormulaJudged(Judged):
    """What the run of a policy without variables has found."""

    def __init__(self, run: LogRun) -> None:
        super().__init__(run)
        self._check = run.work.pace.check
        self.partition = self._check.partitions.of_policies[0]
        self._true: Counter[int] = Counter()

    def take(self, found: Any) -> None:
        parts = found.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers = np.frombuffer(parts[1], np.uint32)
        is_false = records["kind"] == FALSE
        stamps, offsets = records["time_stamp"][is_false], records["offset"][is_false]
        names = zip(stamps.tolist(), offsets.tolist(), strict=True)
        self.violations += zip(numbers[is_false].tolist(), names, strict=True)
        self._true.update(_counted(numbers[~is_false]))

    @cached_property
    def undecided(self) -> Mapping[int, Sequence[Name]]:
        check = self._check
        found = {
            number: [(one.time_stamp, one.offset) for one in check.pending(0, number)]
            for number in check.pending_keys(0)
        }
        return {number: names for number, names in found.items() if names}

    @cached_property
    def events(self) -> Mapping[int, int]:
        found: Counter[int] = Counter()
        if self._check.clocks[0] is None:
            with closing(self._opened([{} for _ in self._check.partitions.columns])) as source:
                for batch in source:
                    found.update(_counted(batch.numbers_of(self.partition)))
            return found
        found.update(self._true)
        found.update(number for number, _ in self.violations)
        found.update({number: len(names) for number, names in self.undecided.items()})
        return found

    def counts_of(self, number: int, false: int) -> tuple[int, int, int]:
        true = self._true[number]
        return true, false, self.events[number] - true - false

    @property
    def clock(self) -> int:
        end_time, last = self.run.asked.end_time, self.run.source.clock or 0
        return max(last, end_time + 1) if isinstance(end_time, int) else last

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The names in `PolicyFile.shown` of what reports show of events, by their labels."""
        if not self.run.subject.has_conditions:
            return {}
        from mtlmon.testing.conditions import shown_values

        return shown_values(self.run.file)

    def recordings(self, wanted: Wanted) -> dict[int, Events]:
        run, check = self.run, self._check
        found = {number: LogEvents(run, self.labels) for number in wanted}
        for number, recording in found.items():
            self.describe(recording, number)
            recording.wanted = wanted[number]
        shown: Any = None
        if check.clocks[0] is None:
            shown = [{} for _ in check.partitions.columns]
            shown[self.partition][0] = list(self.labels.values())
        names = {number: name or self.undecided[number][0] for number, name in wanted.items()}
        if run.can_reread:
            with closing(self._opened(shown)) as source:
                source.track_rows()
                for _ in explain_violations(
                    check,
                    [],
                    source,
                    check.event_count,
                    run.spec.times.end_time,
                    _Listener(found),
                    noted=[Violation(0, number, *name) for number, name in names.items()],
                ):
                    pass
        return dict(found)

    def _opened(self, shown: Any) -> Any:
        """Open the log once more."""
        run = self.run
        return open_source(self._check, run.file, run.spec, is_for_explanations=True, shown=shown)


def _counted(numbers: Any) -> dict[int, int]:
    """How often each number is there."""
    return {one: count for one, count in enumerate(np.bincount(numbers).tolist()) if count}


class _Listener:
    """Takes the events of traces as the log is read again.

    Args:
        recordings: those of the traces.
    """

    def __init__(self, recordings: Mapping[int, LogEvents]) -> None:
        self._recordings = recordings
        self._letters: dict[int, frozenset[str]] = {}

    @property
    def is_complete(self) -> bool:
        return all(one.is_done for one in self._recordings.values())

    def note(self, point: TracePoint) -> None:
        recording = self._recordings[point.number]
        if recording.is_done:
            return
        bits, atoms = point.letter
        if bits not in self._letters:
            names = (name for bit, name in enumerate(atoms) if bits >> bit & 1)
            self._letters[bits] = frozenset(names)
        recording.add(point.time_stamp, point.offset, self._letters[bits], point.values, point.row)
