"""The parts of a long trace that explanations of some of its time-points depend on."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from mtlmon.analysis.reach import decision_delay, past_reach
from mtlmon.explanation.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.explanation.trace import EndTime
    from mtlmon.syntax.formula import Formula

__all__ = ["TraceParts"]


class TraceParts:
    """Takes the events of a trace and gives the parts around some time-points, in order.

    Memory goes with those parts, not with the trace.

    Args:
        formula: that is to be explained.
        names: of the time-points, in order: time-stamps and offsets.
        atoms: what the bits of letters stand for.
    """

    def __init__(
        self, formula: Formula, names: Sequence[tuple[int, int]], atoms: Sequence[str]
    ) -> None:
        self._before = past_reach(formula)
        self._after = decision_delay(formula)
        self._waiting = deque(names)
        self._kept = _Kept(atoms)

    @property
    def is_done(self) -> bool:
        """Whether there is a part for every time-point."""
        return not self._waiting

    def add(self, time_stamp: int, letter: int) -> Iterator[tuple[list[tuple[int, int]], Trace]]:
        """Go on to an event.

        Yields:
            Names, and a trace that has all that they depend on; it changes with the next event.
        """
        if not self._waiting:
            return
        self._kept.add(time_stamp, letter)
        after = self._after
        while self._waiting and after is not None and time_stamp > self._waiting[0][0] + after:
            yield [self._waiting[0]], self._kept.trace(None)
            self._waiting.popleft()

    def drop(self) -> None:
        """Forget events that no time-point to come depends on: called now and then."""
        if self._before is not None and self._waiting:
            self._kept.drop_before(self._waiting[0][0] - self._before)

    def end(self, end_time: EndTime) -> Iterator[tuple[list[tuple[int, int]], Trace]]:
        """The trace has ended; what is known about the time after it."""
        if self._waiting:
            yield list(self._waiting), self._kept.trace(end_time)
            self._waiting.clear()


class _Kept:
    """The events that are still needed.

    Whole time-stamps are kept, and the event before them, which PREVIOUS looks at.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.time_stamps: list[int] = []
        self.letters: list[frozenset[str]] = []
        self.letter_of: dict[int, frozenset[str]] = {}
        self.is_cut = False
        self.first_offset = 0

    def add(self, time_stamp: int, letter: int) -> None:
        atoms = self.letter_of.get(letter)
        if atoms is None:
            names = enumerate(self.names)
            atoms = frozenset(name for bit, name in names if letter >> bit & 1)
            self.letter_of[letter] = atoms
        self.time_stamps.append(time_stamp)
        self.letters.append(atoms)

    def drop_before(self, time_stamp: int) -> None:
        """Forget events before that time-stamp, but for the last one."""
        count = bisect_left(self.time_stamps, time_stamp) - 1
        if count > 0:
            first = self.trace(None).name(count)
            del self.time_stamps[:count]
            del self.letters[:count]
            self.first_offset = first[1]
            self.is_cut = True

    def trace(self, end_time: EndTime) -> Trace:
        return Trace(
            self.time_stamps,
            self.letters,
            end_time,
            is_cut=self.is_cut,
            first_offset=self.first_offset,
        )
