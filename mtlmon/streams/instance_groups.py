"""Groups of the instances of a trace: those that share some of the values behind `per`.

A group has a number, as a trace has: `native.Instances` finds it by the values. Groups follow from
the instances, so they are not in snapshots. Those of which no instance is alive are forgotten when
instances get new numbers; the others keep their order.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.streams import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.streams.cells import Cells, Mask, Texts

    Numbers = NDArray[np.uint32]

FORGOTTEN = 2**32 - 1
"""The new number of what is forgotten, and that of no instance or group."""


class InstanceGroups:
    """The groups of a family's instances.

    Args:
        table: the instances.
        is_text: for each value behind `per`, whether it is the number of a text.
        keys: the numbers of the values that the instances of a group share.

    Attributes:
        keys: as given.
    """

    def __init__(
        self, table: native.Instances, is_text: Sequence[bool], keys: tuple[int, ...]
    ) -> None:
        self.keys = keys
        self._instances = table
        self._is_text = [is_text[key] for key in keys]
        self.renew(np.empty(0, np.uint32))

    def renew(self, numbers: Numbers) -> None:
        """Find the groups anew by the values of instances, of which the first have these groups."""
        self._table = native.Instances(self._is_text)
        self._of = numbers
        self._count = len(numbers)
        _, firsts = np.unique(numbers, return_index=True)
        self._numbers_of(firsts.astype(np.uint32))

    @property
    def count(self) -> int:
        """The number of groups."""
        return self._table.count

    @property
    def of_instances(self) -> Numbers:
        """The number of each instance's group."""
        self._assign()
        return self._of[: self._count]

    def _assign(self) -> None:
        """Find the groups of new instances."""
        first, count = self._count, self._instances.count
        if first == count:
            return
        if count > len(self._of):
            self._of = np.concatenate([self._of[:first], np.empty(count, np.uint32)])
        self._of[first:count] = self._numbers_of(np.arange(first, count, dtype=np.uint32))
        self._count = count

    def _numbers_of(self, instances: Numbers) -> Numbers:
        """Find the numbers of the groups of instances; new ones come in the order of these."""
        count = len(instances)
        traces, found = np.empty(count, np.uint32), np.empty(count, np.uint32)
        self._instances.traces_of(instances, traces)
        cells = [np.empty(count, np.int64) for _ in self.keys]
        for key, own in zip(self.keys, cells, strict=True):
            self._instances.cells_of(key, instances, own)
        batch = native.Batch(np.zeros(count, np.int64), traces, count)
        no_masks = [None] * len(cells)
        self._table.run(batch, cells, no_masks, None, None, None, None, found)
        self._table.begin()
        return found

    def find(
        self, batch: native.Batch, cells: Sequence[Cells], masks: Sequence[Mask | None]
    ) -> Numbers:
        """Find the groups with some values at time-points, `FORGOTTEN` where there is none."""
        self._assign()
        found = np.empty(batch.count, np.uint32)
        self._table.find(batch, cells, masks, found)
        return found

    def undo(self) -> None:
        """Forget instances that are taken back; their groups stay."""
        self._count = min(self._count, self._instances.count)

    def keep(self, new_numbers: bytes) -> bytes:
        """Take in new numbers of instances; see `native.Instances.compact`, which comes before.

        Returns:
            The new numbers of groups in the same form.
        """
        numbers = np.frombuffer(new_numbers, np.uint32)[: self._count]
        found = np.full(self.count, FORGOTTEN, np.uint32)
        own = self._of[: self._count][numbers != FORGOTTEN]
        kept = np.unique(own)
        found[kept] = np.arange(len(kept))
        self.renew(found[own])
        return found.tobytes()

    def renumber_texts(self) -> None:
        """Take in new numbers of texts, which instances have."""
        self.renew(self._of[: self._count])

    @property
    def held_bytes(self) -> int:
        """The number of bytes that groups take."""
        return self._table.held_bytes + self._of.nbytes


class InstanceBounds:
    """The bounds of buckets that instances count: one of the values behind `per`, as a float.

    Args:
        table: the instances.
        key: the number of the value.
        kind: the kind of the value, a number or a text.
        texts: the numbers of texts.
    """

    def __init__(self, table: native.Instances, key: int, kind: Kind, texts: Texts) -> None:
        self._instances = table
        self._key = key
        self._kind = kind
        self._texts = texts
        self.restart()

    def restart(self) -> None:
        """Find the bounds of all instances anew, as these have new numbers."""
        self._of = np.empty(0, np.float64)

    def undo(self) -> None:
        """Forget instances that are taken back."""
        self._of = self._of[: self._instances.count]

    @property
    def of_instances(self) -> NDArray[np.float64]:
        """The bound of each instance; NaN where a text is no number."""
        first, count = len(self._of), self._instances.count
        if first < count:
            cells = np.empty(count - first, np.int64)
            numbers = np.arange(first, count, dtype=np.uint32)
            self._instances.cells_of(self._key, numbers, cells)
            self._of = np.concatenate([self._of, self._floats(cells)])
        return self._of

    def _floats(self, cells: Cells) -> NDArray[np.float64]:
        if self._kind.name == "text":
            texts = self._texts.texts(cells, np.ones(len(cells), np.uint8))
            return np.array([_number(text) for text in texts.to_pylist()])
        return cells.view(np.float64) if self._kind.name == "float" else cells.astype(np.float64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
