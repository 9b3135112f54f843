"""What the rows of a batch do: insert and retract events, let time pass, or count events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.errors import EventError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "ADVANCE",
    "COMPLETE",
    "INSERT",
    "NO_CORRECTIONS",
    "OPERATIONS",
    "RETRACT",
    "Corrections",
    "operation_codes",
]

INSERT, RETRACT, ADVANCE, COMPLETE = range(4)

OPERATIONS = {
    "+": INSERT,
    "I": INSERT,
    "insert": INSERT,
    "-": RETRACT,
    "D": RETRACT,
    "retract": RETRACT,
    "advance": ADVANCE,
}
"""The words for what a row does, as the native histories number it."""


class Corrections(NamedTuple):
    """What the rows of a batch do.

    Attributes:
        operations: for each row the number of an operation, as `History.push` takes them; None if
            all insert events.
        ids: the ids of the events, None for those without; None if none has one.
        counted: for each row with the operation `COMPLETE` a pair of integers: there are exactly
            so many events, as the second one says, from the first one on that are below the row's
            time-stamp. None if there are no such rows.
    """

    operations: NDArray[np.uint8] | None
    ids: Sequence[Any] | None
    counted: NDArray[np.int64] | None = None

    @property
    def takes_back(self) -> bool:
        """Whether rows may be taken back, so that it matters which are equal."""
        return self.operations is not None or self.ids is not None

    def between(self, first: int, last: int | None) -> Corrections:
        """Return what the rows from one number to below another one do."""
        operations, ids, counted = self
        return Corrections(
            None if operations is None else operations[first:last],
            None if ids is None else ids[first:last],
            None if counted is None else counted[first:last],
        )


NO_CORRECTIONS = Corrections(None, None)
"""All rows insert events without ids."""


def operation_codes(operations: Sequence[str] | NDArray[Any], count: int) -> NDArray[np.uint8]:
    """The number of what each row does, which may be given already as an array of uint8.

    Raises:
        EventError: there are not as many as rows, or one is none of `OPERATIONS`.
    """
    if len(operations) != count:
        raise EventError(f"{len(operations)} operations for {count} time-stamps")
    if isinstance(operations, np.ndarray) and operations.dtype == np.uint8:
        return operations
    codes = np.empty(count, np.uint8)
    words = operations.tolist() if isinstance(operations, np.ndarray) else operations
    for place, word in enumerate(words):
        code = OPERATIONS.get(word)
        if code is None:
            raise EventError(
                f"the operation {word!r} at index {place} is none of {', '.join(OPERATIONS)}",
                index=place,
            )
        codes[place] = code
    return codes
