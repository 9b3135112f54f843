"""The messages of time-points that are decided by other ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    # the time-stamp and offset of each time-point with its message, and the time of the last row
    Kept = tuple[dict[tuple[int, int], str | None], int]

__all__ = ["KeptMessages"]

_FORGOTTEN = 2**32 - 1
_MESSAGE_BYTES = 250


class KeptMessages:
    """The messages of the time-points of a policy that can still violate it.

    Those of a trace are forgotten with its next rows, once their verdicts have been taken out.

    Args:
        delay: for how long after a time-point its verdict depends on later ones.
        is_repeated: whether time-points between those that come have the message of the one before.

    Attributes:
        count: how many messages there are.
    """

    def __init__(self, delay: int, is_repeated: bool = False) -> None:
        self._delay = delay
        self._is_repeated = is_repeated
        self._traces: dict[int, Kept] = {}
        # those with rows in the last batch
        self._passed: list[int] = []
        self._first: tuple[int, int, int] | None = None
        self._first_message: str | None = None
        self.count = 0

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the messages take, about."""
        return self.count * _MESSAGE_BYTES

    def add_rows(
        self,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32],
        offsets: NDArray[np.uint32],
        places: NDArray[np.intp],
        messages: Sequence[str | None],
    ) -> None:
        """Take the rows of a batch, which decide those before them.

        Args:
            time_stamps: the time-stamp of each row.
            numbers: the trace of each.
            offsets: its offset within its time-stamp.
            places: which rows can violate the policy.
            messages: the messages of these.
        """
        self._forget()
        for place, message in zip(places.tolist(), messages, strict=True):
            name = int(numbers[place]), int(time_stamps[place]), int(offsets[place])
            self._add(*name, message)
        traces, last = np.unique(numbers[::-1], return_index=True)
        times = time_stamps[::-1][last]
        for number, time_stamp in zip(traces.tolist(), times.tolist(), strict=True):
            if number in self._traces:
                self._traces[number] = self._traces[number][0], time_stamp
                self._passed.append(number)

    def _forget(self) -> None:
        """Forget messages of time-points that the rows so far have decided."""
        for number in self._passed:
            messages, last = self._traces[number]
            decided = []
            for name in messages:
                if name[0] + self._delay >= last:
                    break
                decided.append(name)
            for name in decided:
                del messages[name]
            self.count -= len(decided)
            if not messages:
                del self._traces[number]
        self._passed.clear()

    def _add(self, number: int, time_stamp: int, offset: int, message: str | None) -> None:
        """Keep the message of a time-point of a trace."""
        messages, _ = self._traces.setdefault(number, ({}, time_stamp))
        self.count += (time_stamp, offset) not in messages
        messages[time_stamp, offset] = message

    def note_first(self, number: int, time_stamp: int, offset: int) -> None:
        """Keep the message of the earliest violation so far for longer."""
        name = number, time_stamp, offset
        if name != self._first:
            self._first, self._first_message = name, self.at(*name)

    def at(self, number: int, time_stamp: int, offset: int) -> str | None:
        """Return the message of a time-point of a trace; None if it is not known."""
        if (number, time_stamp, offset) == self._first:
            return self._first_message
        kept = self._traces.get(number)
        if kept is None:
            return None
        name = time_stamp, offset
        if self._is_repeated and name not in kept[0]:
            name = next((one for one in reversed(kept[0]) if one < name), name)
        return kept[0].get(name)

    def keep(self, renumbered: NDArray[np.uint32]) -> None:
        """Give traces new numbers, as `KeyTable.keep` does."""
        found: dict[int, Kept] = {}
        for number, kept in self._traces.items():
            if (own := int(renumbered[number])) != _FORGOTTEN:
                found[own] = kept
            else:
                self.count -= len(kept[0])
        self._traces = found
        self._passed = list(found)

    def content(self) -> list[object]:
        """Return what is known, as JSON can say it."""
        return [
            [
                [number, last, [[*name, message] for name, message in messages.items()]]
                for number, (messages, last) in sorted(self._traces.items())
            ],
            self._first,
            self._first_message,
        ]

    def restore(self, content: Sequence[object]) -> None:
        """Continue with what `content` returned.

        Raises:
            ValueError, TypeError: it is something else.
        """
        traces, first, message = content
        if not isinstance(traces, list) or not isinstance(message, str | None):
            raise TypeError
        for number, last, messages in traces:
            for time_stamp, offset, text in messages:
                if not isinstance(text, str | None):
                    raise TypeError
                self._add(int(number), int(time_stamp), int(offset), text)
            kept = self._traces.get(int(number))
            if kept is not None:
                self._traces[int(number)] = kept[0], int(last)
                self._passed.append(int(number))
        if first is not None:
            if not isinstance(first, list):
                raise TypeError
            number, time_stamp, offset = map(int, first)
            self._first = number, time_stamp, offset
            self._first_message = message
