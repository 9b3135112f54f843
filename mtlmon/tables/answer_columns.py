"""Answers of first-order policies as arrays, and the values of their variables as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts
from mtlmon.relational.output.native import answer_arrays
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.tables.columns.keys import key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.relational.native import AnswerBlock

__all__ = ["VARIABLE_TYPES", "AnswerParts", "VariableColumns", "answer_parts"]

VARIABLE_TYPES = {
    "integer": pa.int64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "time": pa.timestamp("ns", "UTC"),
}
"""The types of columns by the kind of a variable (`cell_word`)."""

# the number of answers in one batch
_BATCH_ROWS = 1 << 16


class AnswerParts(NamedTuple):
    """Some answers, with an element of each array for each of them.

    Attributes:
        policies: the numbers of their policies.
        kinds: violations, time-points without any, or matches.
        time_stamps: their times.
        offsets: their offsets.
        starts: where each finds its values.
        values: the values of all answers of the block.
        points: the numbers of their time-points; None if nobody asked for them.
    """

    policies: NDArray[np.uint32]
    kinds: NDArray[np.uint8]
    time_stamps: NDArray[np.int64]
    offsets: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    values: NDArray[np.int64]
    points: NDArray[np.uint64] | None

    def __len__(self) -> int:
        return len(self.policies)


def answer_parts(
    answers: AnswerBlock, *, has_true: bool = False, has_points: bool = False
) -> Iterator[AnswerParts]:
    """Take the answers out of a block; yield them in parts that make batches.

    Args:
        answers: the answers, which are removed from the block.
        has_true: whether time-points without violations are among them.
        has_points: whether to find the numbers of time-points.
    """
    points = np.frombuffer(answers.points(), np.uint64) if has_points else None
    dtypes = (np.uint32, np.uint8, np.int64, np.uint64, np.uint64, np.int64)
    *columns, values = map(np.frombuffer, answer_arrays(answers), dtypes)
    if points is not None:
        columns.append(points)
    if not has_true:
        is_wanted = ~np.isin(columns[1], (HOLDS, HOLDS_FOR))
        if not is_wanted.all():
            columns = [column[is_wanted] for column in columns]
    for first in range(0, len(columns[0]), _BATCH_ROWS):
        policies, kinds, time_stamps, offsets, starts, *named = (
            column[first : first + _BATCH_ROWS] for column in columns
        )
        own = named[0] if named else None
        yield AnswerParts(policies, kinds, time_stamps, offsets, starts, values, own)


class VariableColumns:
    """Makes columns of the values of variables; a policy without a column has null there.

    Args:
        kinds: the kind of each column, one of `VARIABLE_TYPES`.
        columns: for each policy, the column of each of its variables.
        texts: the texts by number.
        own_kinds: for each policy, the kind of each of its variables; None if these are those of
            their columns.
        key_widths: for each policy, how many of its first variables are its key.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        columns: Sequence[Sequence[str]],
        texts: KeyTable,
        own_kinds: Sequence[Sequence[str]] | None = None,
        key_widths: Sequence[int] | None = None,
    ) -> None:
        self._key_widths = key_widths or [0] * len(columns)
        self._kinds = kinds
        self._texts = texts
        # for each policy and column, the place of its value among those of an answer
        self._places = [{name: place for place, name in enumerate(own)} for own in columns]
        self._own_kinds = own_kinds or [[kinds[name] for name in own] for own in columns]

    def of(self, parts: AnswerParts) -> list[pa.Array]:
        """Return the columns, in the order of their kinds; time-points that hold have null."""
        has_keys = parts.kinds != HOLDS
        has_values = has_keys & (parts.kinds != HOLDS_FOR)
        rows_of, keys_of = (
            [
                np.flatnonzero((parts.policies == policy) & are_known)
                for policy in range(len(self._places))
            ]
            for are_known in (has_values, has_keys)
        )
        columns = []
        for name, kind in self._kinds.items():
            # the cells and where they are null, by the kind of the variables in policies
            cells_of: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}
            for number, (places, own) in enumerate(zip(self._places, self._own_kinds, strict=True)):
                if name in places:
                    place = places[name]
                    is_key = place < self._key_widths[number]
                    rows = (keys_of if is_key else rows_of)[number]
                    if own[place] not in cells_of:
                        new = np.zeros(len(parts), np.int64), np.ones(len(parts), np.bool_)
                        cells_of[own[place]] = new
                    cells, is_null = cells_of[own[place]]
                    cells[rows] = parts.values[parts.starts[rows] + np.uint64(place)]
                    is_null[rows] = False
            found = [_as_kind(self._column(*cells, own), kind) for own, cells in cells_of.items()]
            columns.append(found[0] if len(found) == 1 else pc.coalesce(*found))
        return columns

    def _column(self, cells: NDArray[np.int64], is_null: NDArray[np.bool_], kind: str) -> pa.Array:
        if kind == "text":
            distinct, places = np.unique(cells[~is_null], return_inverse=True)
            texts = key_texts(self._texts, distinct.astype(np.uint32), 0)
            indices = np.zeros(len(cells), np.int64)
            indices[~is_null] = places
            return texts.take(pa.array(indices, mask=is_null))
        if kind == "float":
            return pa.array(cells.view(np.float64), mask=is_null)
        if kind == "boolean":
            return pa.array(cells.astype(np.bool_), mask=is_null)
        return pa.array(cells, mask=is_null).cast(VARIABLE_TYPES[kind])


def _as_kind(values: pa.Array, kind: str) -> pa.Array:
    """The values of a variable in a column that has those of other policies, too."""
    wanted = VARIABLE_TYPES[kind]
    if values.type == wanted:
        return values
    return (canonical_texts(values) if kind == "text" else values).cast(wanted)
