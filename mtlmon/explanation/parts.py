"""Selects the parts of a long trace that explanations of some time-points depend on."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from mtlmon.analysis.reach import decision_delay, past_reach
from mtlmon.explanation.trace import PLAIN, Trace, Wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.explanation.trace import EndTime
    from mtlmon.syntax.formula import Formula

__all__ = ["TraceParts"]


class TraceParts:
    """Takes the events of a trace and yields the parts around some time-points, in order.

    Memory grows with the size of these parts, not with the length of the trace.

    Args:
        formula: the formula to explain.
        names: the time-points to explain, in order: pairs of a time-stamp and an offset.
        atoms: the names of the bits of letters.
        wording: how explanations write formulas.
    """

    def __init__(
        self,
        formula: Formula,
        names: Sequence[tuple[int, int]],
        atoms: Sequence[str],
        wording: Wording = PLAIN,
    ) -> None:
        self._before = past_reach(formula)
        self._after = decision_delay(formula)
        self._waiting = deque(names)
        self._kept = _Kept(atoms, wording)

    @property
    def is_done(self) -> bool:
        """Whether every time-point has got its part."""
        return not self._waiting

    def add(
        self, time_stamp: int, letter: int, offset: int | None = None
    ) -> Iterator[tuple[list[tuple[int, int]], Trace]]:
        """Take the next event.

        Args:
            time_stamp: the time-stamp of the event.
            letter: the atoms that hold, as bits.
            offset: its offset within its time-stamp; None for all events if they are consecutive.

        Yields:
            Time-points, and a trace with all events that they depend on. Later events may be added
            to the trace, which changes nothing else of it.
        """
        if not self._waiting:
            return
        self._kept.add(time_stamp, letter, offset)
        after = self._after
        while self._waiting and after is not None and time_stamp > self._waiting[0][0] + after:
            yield [self._waiting[0]], self._kept.trace(None)
            self._waiting.popleft()

    def drop(self) -> None:
        """Forget events that no remaining time-point depends on; call this from time to time."""
        if self._before is not None and self._waiting:
            self._kept.drop_before(self._waiting[0][0] - self._before)

    def end(self, end_time: EndTime) -> Iterator[tuple[list[tuple[int, int]], Trace]]:
        """End the trace.

        Args:
            end_time: what is known about the time after the trace.

        Yields:
            The remaining time-points and the trace, as `add` does.
        """
        if self._waiting:
            yield list(self._waiting), self._kept.trace(end_time)
            self._waiting.clear()


class _Kept:
    """The events that are still needed.

    These are all events of some time-stamps, and the event before them, which PREVIOUS looks at.
    """

    def __init__(self, names: Sequence[str], wording: Wording) -> None:
        self.names = names
        self.wording = wording
        self.time_stamps: list[int] = []
        self.letters: list[frozenset[str]] = []
        self.letter_of: dict[int, frozenset[str]] = {}
        self.offsets: list[int] | None = None
        self.is_cut = False
        self.first_offset = 0

    def add(self, time_stamp: int, letter: int, offset: int | None) -> None:
        atoms = self.letter_of.get(letter)
        if atoms is None:
            names = enumerate(self.names)
            atoms = frozenset(name for bit, name in names if letter >> bit & 1)
            self.letter_of[letter] = atoms
        if offset is not None:
            self.offsets = self.offsets or []
            self.offsets.append(offset)
        self.time_stamps.append(time_stamp)
        self.letters.append(atoms)

    def drop_before(self, time_stamp: int) -> None:
        """Forget all events before a time-stamp except the last of them."""
        count = bisect_left(self.time_stamps, time_stamp) - 1
        if count > 0:
            first = self.trace(None).name(count)
            # traces that have been given away keep the lists of before
            self.time_stamps = self.time_stamps[count:]
            self.letters = self.letters[count:]
            if self.offsets is not None:
                self.offsets = self.offsets[count:]
            self.first_offset = first[1]
            self.is_cut = True

    def trace(self, end_time: EndTime) -> Trace:
        return Trace(
            self.time_stamps,
            self.letters,
            end_time,
            is_cut=self.is_cut,
            first_offset=self.first_offset,
            offsets=self.offsets,
            unit=self.wording.unit,
            names=self.wording.names,
        )
