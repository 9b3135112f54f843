"""Spark's state store as stateful processors see it, without Spark: states and timers of groups."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.doors import EVENTS, PLACE, TASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.doors import NodeProcessor

Key = tuple[int, ...]


class Times(NamedTuple):
    """The watermark, as processors ask for it."""

    watermark: int

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark


class Expired(NamedTuple):
    """A timer that has expired."""

    time: int

    def getExpiryTimeInMs(self) -> int:
        return self.time


class ValueState:
    """A value for each group."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name

    def get(self) -> tuple[Any, ...] | None:
        return self._store.values.get((self._name, self._store.key))

    def update(self, value: tuple[Any, ...]) -> None:
        self._store.values[self._name, self._store.key] = value

    def clear(self) -> None:
        self._store.values.pop((self._name, self._store.key), None)


class MapState:
    """Values by keys of their own for each group."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name

    @property
    def _own(self) -> dict[Any, Any]:
        return self._store.maps.setdefault((self._name, self._store.key), {})

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        self._store.read += 1
        return self._own.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self._store.written += len(value[0])
        self._own[key] = value

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        self._store.read += len(self._own)
        return iter(reversed(self._own.items()))

    def clear(self) -> None:
        self._own.clear()


class Store:
    """The store of a query, and what has been read and written in it.

    Attributes:
        read: how many values of maps have been read.
        written: how many bytes have been written to maps.
    """

    def __init__(self) -> None:
        self.values: dict[tuple[str, Key], tuple[Any, ...]] = {}
        self.maps: dict[tuple[str, Key], dict[Any, Any]] = {}
        self.timers: set[tuple[int, Key]] = set()
        self.key: Key = ()
        self.read = self.written = 0

    def copy(self) -> Store:
        """Return the store at this moment."""
        return deepcopy(self)

    def getValueState(self, name: str, _schema: object) -> ValueState:
        return ValueState(self, name)

    def getMapState(self, name: str, _key: object, _schema: object) -> MapState:
        return MapState(self, name)

    def registerTimer(self, time: int) -> None:
        assert (time, self.key) not in self.timers
        self.timers.add((time, self.key))

    def deleteTimer(self, time: int) -> None:
        self.timers.remove((time, self.key))

    def entries(self, name: str) -> dict[Key, list[bytes]]:
        """The entries of the journals that are not empty."""
        return {
            key: [content for _, (content,) in sorted(own.items())]
            for (state, key), own in self.maps.items()
            if state == name and own
        }

    def visit(
        self,
        processor: NodeProcessor,
        rows: dict[Key, Sequence[bytes]],
        watermark: int,
    ) -> Iterator[Any]:
        """Let a processor take the blocks of groups in a batch, then timers that expire.

        Raises:
            AssertionError: the processor has done what Spark does not allow.
        """
        handle: Any = self
        times: Any = Times(watermark)
        processor.init(handle)
        for key, blocks in rows.items():
            self.key = key
            # in the order in which they come from other tasks
            packed: Any = [
                {TASK: 0, PLACE: place, EVENTS: block} for place, block in enumerate(blocks)
            ]
            yield from processor.handleInputRows(key, reversed(packed), times)
        for time, key in sorted(self.timers):
            if time <= watermark and (time, key) in self.timers:
                self.key = key
                expired: Any = Expired(time)
                yield from processor.handleExpiredTimer(key, times, expired)
                self.timers.discard((time, key))
        processor.close()
