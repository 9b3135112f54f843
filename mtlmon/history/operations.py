"""What the rows of a batch do: the words for inserting, retracting and letting time pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.errors import EventError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ADVANCE", "INSERT", "OPERATIONS", "RETRACT", "operation_codes"]

INSERT, RETRACT, ADVANCE = range(3)

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
