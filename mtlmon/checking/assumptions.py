"""Watch whether a log is as its policy file assumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.sources import EventBatch, EventSource
    from mtlmon.policy.definitions import Assumption

    # returns the number of each event's trace in a partition
    _NumbersOf = Callable[[int], NDArray[np.uint32] | None]

__all__ = ["AssumptionWatch"]


class AssumptionWatch:
    """Counts rows and keys, and tells which assumptions a log breaks.

    Args:
        assumptions: what the file assumes. Rates are watched only if the unit is known.
        unit: the unit of the time-stamps, or None if it is not known.
        partitions: the key columns of each partition of the log.

    Attributes:
        broken: the messages about the assumptions that the log has broken, in the order in which it
            did; one for each.
    """

    def __init__(
        self,
        assumptions: Iterable[Assumption],
        unit: str | None,
        partitions: Sequence[Sequence[str]],
    ) -> None:
        self.broken: list[str] = []
        self._partitions = [tuple(columns) for columns in partitions]
        self._keys: list[Assumption] = []
        self._rates: list[tuple[Assumption, _Rate]] = []
        for one in assumptions:
            if one.unit is None:
                self._keys.append(one)
            elif unit is not None and one.subject == "rate":
                self._rates.append((one, _Rate(one, unit, None)))
            elif unit is not None:
                self._rates += (
                    (one, _Rate(one, unit, partition))
                    for partition, columns in enumerate(self._partitions)
                    if columns and one.is_about(columns)
                )

    def note(self, batch: EventBatch, source: EventSource) -> Iterator[str]:
        """Count the next events; yield a message for each assumption that they are first to break.

        Args:
            batch: the events.
            source: the log that they come from.
        """
        if not self._keys and not self._rates:
            return
        times = np.asarray(batch.time_stamps)
        yield from self._note(times, batch.numbers_of, source.key_tables)

    def _note(
        self, times: NDArray[np.int64], numbers_of: _NumbersOf, tables: Sequence[KeyTable | None]
    ) -> Iterator[str]:
        found = [*self._note_keys(tables), *self._note_rates(times, numbers_of, tables)]
        self.broken += found
        yield from found

    def forget_keys(self) -> None:
        """Begin to count the rows of keys anew, as keys have got other numbers."""
        for _, rate in self._rates:
            rate.forget()

    def _note_keys(self, tables: Sequence[KeyTable | None]) -> Iterator[str]:
        for one in list(self._keys):
            for columns, table in zip(self._partitions, tables, strict=True):
                count = 0 if table is None or not one.is_about(columns) else len(table)
                if count > one.limit:
                    self._keys.remove(one)
                    shown = visible(", ".join(columns))
                    yield f"the log breaks {_shown(one)}: it has {count:,} keys of {shown}"
                    break

    def _note_rates(
        self, times: NDArray[np.int64], numbers_of: _NumbersOf, tables: Sequence[KeyTable | None]
    ) -> Iterator[str]:
        for one, rate in list(self._rates):
            if not any(other is one for other, _ in self._rates):
                # broken in another partition
                continue
            numbers = None if rate.partition is None else numbers_of(rate.partition)
            excess = rate.excess(times, numbers)
            if excess is None:
                continue
            first, last, number = excess
            self._rates = [entry for entry in self._rates if entry[0] is not one]
            table = None if rate.partition is None else tables[rate.partition]
            whose = ""
            if table is not None and rate.partition is not None:
                columns = ", ".join(self._partitions[rate.partition])
                whose = f" of {visible(columns)} {visible(', '.join(table.key(number)))}"
            when = f"at time-stamp {first}" if first == last else f"from {first} to {last}"
            rows = "row" if rate.limit == 1 else "rows"
            excess_of = f"more than {rate.limit:,} {rows}{whose} {when}"
            yield f"the log breaks {_shown(one)}: {excess_of}"


def _shown(assumption: Assumption) -> str:
    """An assumption as it is written, and its file, if there are several."""
    of_file = "" if assumption.source is None else f" of {visible(assumption.source)}"
    return f"'assume {assumption}'{of_file}"


class _Rate:
    """Counts the rows in each whole unit of time, of all traces or of each of a partition."""

    def __init__(self, assumption: Assumption, unit: str, partition: int | None) -> None:
        assert assumption.unit is not None
        self.partition = partition
        length, own = UNITS[assumption.unit], UNITS[unit]
        # A time-stamp that is longer than the unit has as many rows as its units together.
        self._ticks = max(1, length // own)
        self.limit = assumption.limit * max(1, own // length)
        self._last: int | None = None
        self._counts = np.zeros(1, np.int64)

    def forget(self) -> None:
        """Forget the counts of traces, which have got other numbers."""
        if self.partition is not None:
            self._counts = np.zeros(1, np.int64)

    def excess(
        self, times: NDArray[np.int64], numbers: NDArray[np.uint32] | None
    ) -> tuple[int, int, int] | None:
        """Count rows, and find the first unit of time that has too many.

        Returns:
            The first and the last time-stamp of the unit, and the number of the
            trace; None if no unit has too many so far.
        """
        if not len(times):
            return None
        units = times // self._ticks
        traces = np.zeros(len(times), np.int64) if numbers is None else numbers.astype(np.int64)
        width = max(len(self._counts), int(traces.max()) + 1)
        carried = np.zeros(width, np.int64)
        if self._last == units[0]:
            carried[: len(self._counts)] = self._counts
        begins = np.diff(units, prepend=units[0]) != 0
        ranks = np.cumsum(begins)
        pairs, places, counts = np.unique(
            ranks * width + traces, return_index=True, return_counts=True
        )
        counts += np.where(pairs < width, carried[pairs % width], 0)
        self._last = int(units[-1])
        if ranks[-1]:
            carried[:] = 0
        of_last = pairs // width == ranks[-1]
        carried[pairs[of_last] % width] = counts[of_last]
        self._counts = carried
        too_many = np.flatnonzero(counts > self.limit)
        if not len(too_many):
            return None
        which = too_many[0]
        first = int(units[places[which]]) * self._ticks
        return first, first + self._ticks - 1, int(pairs[which] % width)
