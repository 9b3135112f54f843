"""Watch whether a log is as its policy file assumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.support.snapshot_parts import damaged
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.final_rows import FinalBatch, FinalRows
    from mtlmon.checking.sources import EventBatch, EventSource
    from mtlmon.policy.definitions import Assumption

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
        self._all = list(assumptions)
        # those about keys and instances
        self._keys: list[Assumption] = []
        self._rates: list[tuple[Assumption, _Rate]] = []
        for one in self._all:
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

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions whose traces it counts."""
        rates = {rate.partition for _, rate in self._rates}
        return [
            partition
            for partition, columns in enumerate(self._partitions)
            if partition in rates or any(_counts_keys(one, columns) for one in self._keys)
        ]

    def note(
        self, batch: EventBatch | FinalBatch, source: EventSource | FinalRows
    ) -> Iterator[str]:
        """Count the next events; yield a message for each assumption that they are first to break.

        Args:
            batch: the events.
            source: the log that they come from.
        """
        if not (self._keys or self._rates) or not len(batch.time_stamps):
            return
        # by the event that breaks them, whatever the batches are
        excesses = [*self._too_many_keys(batch), *self._too_many_rows(batch, source)]
        excesses += self._too_many_instances(batch)
        excesses.sort(key=lambda one: one.event)
        for excess in excesses:
            one = excess.assumption
            if one in self._keys:
                self._keys.remove(one)
            elif any(other is one for other, _ in self._rates):
                self._rates = [entry for entry in self._rates if entry[0] is not one]
            else:
                # broken in another partition
                continue
            message = f"the log breaks {_shown(one)}: {excess.text}"
            self.broken.append(message)
            yield message

    def forget_keys(self) -> None:
        """Begin to count the rows of keys anew, as keys have got other numbers."""
        for _, rate in self._rates:
            rate.forget()

    def _too_many_keys(self, batch: EventBatch | FinalBatch) -> Iterator[_Excess]:
        for one in self._keys:
            for partition, columns in enumerate(self._partitions):
                if not _counts_keys(one, columns):
                    continue
                numbers = batch.numbers_of(partition)
                # numbers are given in the order in which keys come
                places = np.flatnonzero(() if numbers is None else numbers >= one.limit)
                if len(places):
                    keys = "key" if one.limit == 1 else "keys"
                    text = f"more than {one.limit:,} {keys} of {visible(', '.join(columns))}"
                    yield _Excess(int(places[0]), one, text)

    def _too_many_instances(self, batch: EventBatch | FinalBatch) -> Iterator[_Excess]:
        for one in self._keys:
            # in a partition without streams, there are none
            for columns, most in zip(self._partitions, batch.instances, strict=False):
                if one.subject != "instances" or not one.is_about(columns):
                    continue
                for name, count in most.items():
                    if count > one.limit:
                        instances = "instance" if one.limit == 1 else "instances"
                        text = f"more than {one.limit:,} {instances} of stream {visible(name)}"
                        yield _Excess(len(batch.time_stamps), one, text)

    def _too_many_rows(
        self, batch: EventBatch | FinalBatch, source: EventSource | FinalRows
    ) -> Iterator[_Excess]:
        times = np.asarray(batch.time_stamps)
        for one, rate in self._rates:
            numbers = None if rate.partition is None else batch.numbers_of(rate.partition)
            event = rate.excess(times, numbers)
            if event is None:
                continue
            first, last = rate.unit_of(int(times[event]))
            whose = ""
            if rate.partition is not None and numbers is not None:
                columns = ", ".join(self._partitions[rate.partition])
                table = source.key_tables[rate.partition]
                assert table is not None
                key = ", ".join(table.key(int(numbers[event])))
                whose = f" of {visible(columns)} {visible(key)}"
            when = f"at time-stamp {first}" if first == last else f"from {first} to {last}"
            rows = "row" if rate.limit == 1 else "rows"
            yield _Excess(event, one, f"more than {rate.limit:,} {rows}{whose} {when}")

    @property
    def _assumed(self) -> list[object]:
        return [[_shown(one) for one in self._all], [list(one) for one in self._partitions]]

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return what has been counted as bytes for `restore`."""
        keys = [self._all.index(one) for one in self._keys]
        rates = [(self._all.index(one), rate.partition, rate.parts()) for one, rate in self._rates]
        return json.dumps([self._assumed, self.broken, keys, rates]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from the snapshot of a watch; one with other assumptions is left alone.

        Raises:
            SnapshotError: the bytes are damaged.
        """
        try:
            assumed, *counted = json.loads(snapshot)
            if assumed != self._assumed:
                return
            self.broken, keys, rates = counted
            self._keys = [self._all[number] for number in keys]
            known = {(id(one), rate.partition): rate for one, rate in self._rates}
            self._rates = []
            for number, partition, parts in rates:
                one = self._all[number]
                rate = known[id(one), partition]
                rate.resume(*parts)
                self._rates.append((one, rate))
        except (ValueError, TypeError, LookupError):
            raise damaged() from None


class _Excess(NamedTuple):
    """An event that is one too many."""

    event: int
    assumption: Assumption
    text: str


def _counts_keys(assumption: Assumption, columns: Sequence[str]) -> bool:
    """Whether it is about the number of the keys that columns make."""
    return bool(columns) and assumption.subject == "keys" and assumption.is_about(columns)


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

    def unit_of(self, time_stamp: int) -> tuple[int, int]:
        """Return the first and the last time-stamp of the unit in which one is."""
        first = time_stamp // self._ticks * self._ticks
        return first, first + self._ticks - 1

    def excess(self, times: NDArray[np.int64], numbers: NDArray[np.uint32] | None) -> int | None:
        """Count rows; return the first that is one too many in a unit of time, or None."""
        units = times // self._ticks
        traces = np.zeros(len(times), np.int64) if numbers is None else numbers.astype(np.int64)
        width = max(len(self._counts), int(traces.max()) + 1)
        carried = np.zeros(width, np.int64)
        if self._last == units[0]:
            carried[: len(self._counts)] = self._counts
        begins = np.diff(units, prepend=units[0]) != 0
        ranks = np.cumsum(begins)
        codes = ranks * width + traces
        pairs, counts = np.unique(codes, return_counts=True)
        counts += np.where(pairs < width, carried[pairs % width], 0)
        too_many = pairs[counts > self.limit]
        if len(too_many):
            return self._first_of(codes, too_many, carried)
        self._last = int(units[-1])
        if ranks[-1]:
            carried[:] = 0
        of_last = pairs // width == ranks[-1]
        carried[pairs[of_last] % width] = counts[of_last]
        self._counts = carried
        return None

    def _first_of(
        self, codes: NDArray[np.int64], too_many: NDArray[np.int64], carried: NDArray[np.int64]
    ) -> int:
        """Return the first row that is one too many; pairs of a unit and a trace have such."""
        width = len(carried)
        rank = too_many[0] // width
        events = np.flatnonzero(codes // width == rank)
        events = events[np.argsort(codes[events], kind="stable")]
        own = codes[events]
        counts = np.arange(1, len(own) + 1) - np.searchsorted(own, own)
        if rank == 0:
            counts += carried[own]
        return int(events[counts > self.limit].min())

    def parts(self) -> tuple[int | None, list[int]]:
        """Return what `resume` needs."""
        return self._last, self._counts.tolist()

    def resume(self, last: int | None, counts: list[int]) -> None:
        """Go on from the parts of another one."""
        self._last, self._counts = last, np.array(counts, np.int64)
