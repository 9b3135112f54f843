"""The rows of atoms whose arguments depend on other rows, where these come late.

The values of arguments are computed where atoms of rows are, so a row that is computed again has
its arguments made again. Then its time-point has other rows.
"""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.relational.atoms import named_rows
from mtlmon.relational.correcting.chunks import ComputedRows
from mtlmon.relational.native import PointBlock, choose_points
from mtlmon.syntax.printer import name_of_rows, written_name
from mtlmon.tables.relations import RelationRows, TableAtom, have_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.relational.correcting.chunks import Name
    from mtlmon.relational.plan import Plan
    from mtlmon.streams.late_computing import Computed

__all__ = ["ComputedArguments"]


class ComputedArguments:
    """Makes the rows of such atoms, from what is computed at rows.

    Args:
        made: the plan of the policies.
        conditions: for each of these atoms, the name under which its condition is shown.
        arguments: for each, the names under which its arguments are shown.

    Attributes:
        atoms: the numbers of the atoms in the plan.
        left_out: the rows that atoms lack as an argument has no value, by time-point and the name
            of the atom in the file; for each, which readings of the atom lack it.
    """

    def __init__(
        self, made: Plan, conditions: Mapping[str, str], arguments: Mapping[str, Sequence[str]]
    ) -> None:
        self._made = made
        self._conditions = conditions
        self._atoms = []
        numbers = []
        for number, (name_of_types, kinds) in enumerate(named_rows(made)):
            name = name_of_rows(name_of_types)
            if name in conditions:
                numbers.append(number)
                values = tuple(zip(arguments[name], kinds, strict=True))
                self._atoms.append(TableAtom(name, values))
            else:
                self._atoms.append(TableAtom(None, ()))
        self.atoms = tuple(numbers)
        self._arguments = arguments
        self.left_out: dict[tuple[int, int, str], set[str]] = {}
        # rows below this time are counted for good, though some are computed again with others
        self._counted_below = 0
        # the time-points of the rows that were computed last, and their places there
        self._points = self._block()
        self._places: dict[Name, int] = {}

    def _block(self) -> PointBlock:
        return PointBlock(array("I", self._made.atoms))

    def add(self, computed: Computed) -> None:
        """Make the rows of atoms at rows of the log."""
        when, names, _, held, shown = computed
        if when != ROWS or not len(held):
            return
        block = self._block()
        rows = RelationRows(self._atoms, block, self._made.texts)
        rows.load(_Shown(names.time_stamps, self._conditions, shown))  # type: ignore[arg-type]
        while rows.read():
            pass
        first = len(self._points)
        choose_points(self._points, block, np.arange(len(block), dtype=np.uint32))
        named = zip(names.time_stamps.tolist(), names.offsets.tolist(), strict=True)
        own: list[Name] = [(time_stamp, offset) for time_stamp, offset in named]
        # the values that are computed last are those that hold
        self._places |= {name: first + place for place, name in enumerate(own)}
        self._note_left_out(own, shown)

    def _note_left_out(self, names: Sequence[Name], shown: Mapping[str, pa.Array]) -> None:
        """Note the rows that atoms lack at time-points."""
        for atom, arguments in self._arguments.items():
            written = written_name(atom)
            holds = _holds(shown[self._conditions[atom]])
            lacking = holds & ~have_values(atom, [shown[one] for one in arguments], len(names))
            for name, lacks in zip(names, lacking.tolist(), strict=True):
                if name[0] < self._counted_below:
                    continue
                readings = self.left_out.get((*name, written), set())
                readings = {*readings, atom} if lacks else readings - {atom}
                if readings:
                    self.left_out[*name, written] = readings
                else:
                    self.left_out.pop((*name, written), None)

    def left_out_below(self, bound: int) -> set[tuple[int, int, str]]:
        """Return the rows that atoms lack below a time for good, once, and forget them."""
        self._counted_below = max(self._counted_below, bound)
        found = {one for one in self.left_out if one[0] < bound}
        for one in found:
            del self.left_out[one]
        return found

    def taken(self) -> ComputedRows:
        """Return the rows that were made since the last call, and forget them."""
        found = ComputedRows(self._places, self._points, self.atoms)
        self._places, self._points = {}, self._block()
        return found

    def snapshot(self) -> bytes:
        """Return what is noted as bytes for `restore`."""
        rows = [[*row, sorted(readings)] for row, readings in self.left_out.items()]
        return json.dumps([rows, self._counted_below]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot.

        Raises:
            ValueError, TypeError: the bytes are damaged.
        """
        # what was computed again since then is known
        self.taken()
        rows, self._counted_below = json.loads(snapshot)
        self.left_out = {
            (time, offset, name): set(readings) for time, offset, name, readings in rows
        }


class _Shown:
    """Values at rows in the place of a batch."""

    def __init__(
        self,
        time_stamps: NDArray[np.int64],
        conditions: Mapping[str, str],
        shown: Mapping[str, pa.Array],
    ) -> None:
        self.time_stamps = time_stamps
        self.atoms = tuple(conditions)
        self._shown = shown
        self._letters = np.zeros((len(time_stamps), len(conditions) // 64 + 1), np.uint64)
        for number, name in enumerate(conditions.values()):
            holds = _holds(shown[name]).astype(np.uint64)
            self._letters[:, number // 64] |= holds << np.uint64(number % 64)

    def __len__(self) -> int:
        return len(self.time_stamps)

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        return self._letters

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        return self._shown


def _holds(condition: pa.Array) -> NDArray[np.bool_]:
    """Where a condition is true; null is not."""
    held: NDArray[np.bool_] = condition.fill_null(False).to_numpy(zero_copy_only=False)
    return held
