"""Which atoms the rows of a table have named, for messages about those that never occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.arrays.canonical import canonical_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from mtlmon.tables.columns.usable import UsableRows
    from mtlmon.tables.columns.wanted import Selection

__all__ = ["SeenAtoms"]

# The number of rows whose names are kept for messages about atoms that never occur.
_NAMED_ROWS = 1000


class SeenAtoms:
    """Notes which atoms rows name.

    Args:
        atoms: all atoms.
        named_atoms: those to look for: a column or condition that is never true may be what one
            hopes for.
        selection: has the column of names, if there is one.
        separator: what separates several names in a cell.

    Attributes:
        unseen: those of `named_atoms` that no row has named so far.
        names: the names in the first rows of a column of names.
    """

    def __init__(
        self,
        atoms: Sequence[str],
        named_atoms: Collection[str],
        selection: Selection,
        separator: str,
    ) -> None:
        self._atoms = tuple(atoms)
        self._selection = selection
        self._separator = separator
        self.unseen = set(named_atoms)
        self.names: list[str] | None = None

    def note(self, rows: UsableRows) -> None:
        """Remove the atoms that some row names from the unseen ones; keep names for hints."""
        if not self.unseen:
            return
        if self.names is None and self._selection.event is not None:
            cells = self._selection.cells(rows.batch, self._selection.event)
            cells = cells.slice(0, _NAMED_ROWS)
            if not pa.types.is_nested(cells.type):
                cells = canonical_texts(cells)
            names: dict[str, None] = {}
            for cell in cells.to_pylist():
                parts = cell.split(self._separator) if isinstance(cell, str) else cell or ()
                names.update(dict.fromkeys(str(part) for part in parts))
            self.names = list(names)
        names_of_rows = rows.letters.names
        assert names_of_rows is not None
        found = np.bitwise_or.reduce(names_of_rows, axis=0)
        for number, name in enumerate(self._atoms):
            if int(found[number // 64]) >> (number % 64) & 1:
                self.unseen.discard(name)

    def state(self) -> list[object]:
        """Return what has been noted, for `restore`, as JSON can write it."""
        return [sorted(self.unseen), self.names]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        unseen, self.names = state
        self.unseen = set(unseen)
