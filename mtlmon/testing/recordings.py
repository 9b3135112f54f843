"""The recordings of a policy: one for each key of the events, or a single one.

A trace is read as events with the numbers of their keys (`events`, `keys`), recorded or live. Each
key has a recording: a monitor and its last events. Time passes for the keys for which
`Monitor.next_change` says that it can decide something.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from operator import index
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError, TimeStampError
from mtlmon.testing.events import read_letter
from mtlmon.testing.keys import Keys
from mtlmon.testing.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from mtlmon._core import Verdict
    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.relational import Answer
    from mtlmon.testing.conditions import Conditions
    from mtlmon.testing.recording import AtEnd, Atoms, EndTime, Mode
    from mtlmon.testing.relations import RelationalRecording
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Subject

    AnyRecording = Recording | RelationalRecording
    Found = list[tuple[AnyRecording, Verdict | Answer]]

__all__ = ["EventRead", "Recordings"]

_LARGEST = (1 << 63) - 1
_NO_VALUES: Mapping[str, object] = {}


class EventRead(NamedTuple):
    """An event as monitors take it.

    Attributes:
        atoms: what the event says of atoms.
        letter: the atoms that hold, for policies with variables with their rows.
        values: the values that conditions are about.
        number: the number of the key.
    """

    atoms: Atoms
    letter: Collection[str]
    values: Mapping[str, object]
    number: int


class Recordings:
    """The monitors of a policy, one for each key, with their last events.

    All keys share one clock: an event of one key lets time pass for the others.

    Args:
        subject: what is monitored.
        key: the names of the values that make a key; None for those that the policy names, if any.
        mode: the mode of the monitors.
        at_end: what the end of the stream means.
        keep: how many events of each key to remember for reports; None means all.
        unknown: what to do about atoms that no event has, as for `SeenNames`.
        vacuous: what to do if the left side of an implication never holds.

    Attributes:
        subject: what is monitored.
        conditions: what computes the atoms that are conditions on values, or None.
        keys: the keys of the events, or None.
        first: the recording of all events if there are no keys; otherwise, it has no events, but
            the names that events of any key have had.

    Raises:
        MtlmonError: an argument is invalid.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        key: str | Sequence[str] | None,
        mode: Mode,
        at_end: AtEnd,
        keep: int | None,
        unknown: Unknown,
        vacuous: Vacuous = "ignore",
    ) -> None:
        __tracebackhide__ = True
        self.subject = subject
        self.conditions: Conditions | None = None
        self.keys: Keys | None = None
        self.first: AnyRecording
        self._by_number: dict[int, AnyRecording] = {}
        # when time alone may decide something: the time, and the number of the key
        self._due: list[tuple[int, int]] = []
        self._due_of: dict[int, int] = {}
        self._clock = 0
        self._event_count = 0
        names = subject.key if key is None else key
        if subject.has_variables:
            if mode != "local":
                raise MtlmonError(
                    f"mode {mode!r} is for policies without variables: leave it out, as there are "
                    "no equivalences between valuations"
                )
            from mtlmon.testing.relations import RelationalRecording

            if names:
                self.keys = Keys(names)
            self.first = RelationalRecording(
                subject,
                key=() if self.keys is None else self.keys.names,
                at_end=at_end,
                keep=keep,
                unknown=unknown,
                counts_left_side=vacuous != "ignore" or subject.has_share,
            )
            return
        if subject.file is not None and subject.has_conditions:
            from mtlmon.testing.conditions import Conditions

            self.conditions = Conditions(subject.file)
        self.first = Recording(
            subject, self.conditions, mode=mode, at_end=at_end, keep=keep, unknown=unknown
        )
        if names:
            kept = (*self.conditions.columns, *self.conditions.atoms) if self.conditions else ()
            self.keys = Keys(names, kept)

    def __iter__(self) -> Iterator[AnyRecording]:
        """The recordings of events, in the order of the first event of each key."""
        return iter([self.first] if self.keys is None else self._by_number.values())

    @property
    def event_count(self) -> int:
        """The number of events of all keys so far."""
        return self.first.event_count if self.keys is None else self._event_count

    @property
    def clock(self) -> int:
        """The least time-stamp that a later event of any key can have."""
        has_one = self.keys is None or self.subject.has_variables
        return self.first.clock if has_one else self._clock

    @property
    def open(self) -> list[AnyRecording]:
        """At the end, the recordings with time-points that must not be undecided, but are."""
        found = [one for one in self if one.undecided and one.at_end == "decided"]
        return sorted(found, key=lambda one: one.undecided[0][0])

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names of the values that events should have: those of the key, and of conditions."""
        names = () if self.keys is None else self.keys.names
        return names if self.conditions is None else (*names, *self.conditions.columns)

    def read(self, atoms: Atoms) -> EventRead:
        """Read an event.

        Args:
            atoms: what holds, with the key and other values, as for `LiveMonitor.step`.

        Raises:
            EventTypeError: it is of another form, or has no key.
        """
        __tracebackhide__ = True
        number, values = 0, _NO_VALUES
        if self.keys is not None:
            number, atoms = self.keys.split(atoms)
        if self.conditions is not None and isinstance(atoms, Mapping):
            atoms, values = self.conditions.split(atoms, self.first.seen)
        known = self.first.seen.atoms
        if not self.subject.has_variables:
            return EventRead(atoms, read_letter(atoms, known), values, number)
        from mtlmon.testing.relations import read_database

        return EventRead(atoms, read_database(atoms, known), values, number)

    def step(self, time_stamp: int, atoms: Collection[str], number: int = 0) -> Found:
        """Process an event.

        Args:
            time_stamp: its time-stamp.
            atoms: its atoms, for policies with variables with their rows.
            number: the number of its key in `keys`.

        Returns:
            The new verdicts, each with the recording that it is about.

        Raises:
            TimeStampError: the time-stamp is negative, too large, or below an earlier one, of
                whatever key.
        """
        __tracebackhide__ = True
        recording = self._recording(number)
        if not isinstance(recording, Recording):
            self._event_count += 1
            return [*recording.step(time_stamp, atoms)]
        if self.keys is None:
            return [(recording, one) for one in recording.step(time_stamp, atoms)]
        if isinstance(time_stamp, int) and 0 <= time_stamp < self._clock:
            raise TimeStampError(
                f"time-stamp {time_stamp} is below {self._clock}: time-stamps must not decrease"
            )
        verdicts = recording.step(time_stamp, atoms)
        assert recording.numbers is not None
        recording.numbers.append(self._event_count)
        self._event_count += 1
        found = self._pass_time(index(time_stamp))
        self._note_due(number, recording)
        return found + [(recording, one) for one in verdicts]

    def _recording(self, number: int) -> AnyRecording:
        """The recording of a key."""
        if self.keys is None:
            return self.first
        found = self._by_number.get(number)
        if found is None:
            found = self._by_number[number] = self.first.of_key(self.keys[number])
        return found

    def advance(self, time_stamp: int) -> Found:
        """Declare that no later event is below a time-stamp; return the new verdicts."""
        first = self.first
        if not isinstance(first, Recording):
            return [*first.advance(time_stamp)]
        if self.keys is None:
            return [(first, one) for one in first.advance(time_stamp)]
        return self._pass_time(time_stamp)

    def finish(self, end_time: EndTime = None) -> Found:
        """End the stream; return the new verdicts in the order of time.

        What stays open is then in `undecided` of the recordings. The arguments and errors are those
        of `Recording.finish`; every key knows the last time-stamp of all.
        """
        first = self.first
        if not isinstance(first, Recording):
            return [*first.finish(end_time)]
        if self.keys is None:
            return [(first, one) for one in first.finish(end_time)]
        found: Found = []
        if end_time == "last":
            end_time = self._clock
        for recording in self._by_number.values():
            assert isinstance(recording, Recording)
            found += [(recording, one) for one in recording.advance(self._clock)]
            is_known = isinstance(end_time, int) and 0 <= end_time < self._clock
            verdicts = recording.finish(None if is_known else end_time)
            found += [(recording, one) for one in verdicts]
        return sorted(found, key=lambda one: one[1].time_stamp)

    def _pass_time(self, time_stamp: int) -> Found:
        """Let time pass for all keys for which it can decide something."""
        found: Found = []
        self._clock = max(self._clock, time_stamp)
        while self._due and self._due[0][0] <= time_stamp:
            time, number = heappop(self._due)
            if self._due_of.get(number) != time:
                continue
            del self._due_of[number]
            recording = self._by_number[number]
            assert isinstance(recording, Recording)
            found += [(recording, one) for one in recording.advance(time_stamp)]
            self._note_due(number, recording)
        return found

    def _note_due(self, number: int, recording: Recording) -> None:
        due = recording.monitor.next_change
        if due is None:
            self._due_of.pop(number, None)
        elif self._due_of.get(number) != due and due <= _LARGEST:
            self._due_of[number] = due
            heappush(self._due, (due, number))
