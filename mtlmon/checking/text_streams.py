"""Atoms of a text log that are conditions on its time and its other atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.checking.text_logs import TextBatch
from mtlmon.errors import MtlmonError, RowError
from mtlmon.policy.predicates.environment import UTC, Environment
from mtlmon.policy.reading import DEFAULT_TIME
from mtlmon.streams.atoms import StreamAtoms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile

__all__ = ["TextStreams"]


class TextStreams:
    """Computes atoms for the batches of a text log.

    Args:
        file: the policy file that defines the atoms.
        names: the names of the atoms to compute.
        log_atoms: the atoms that the log's lines name and these atoms use.
        unit: the unit of the time-stamps, if it is known.
        path: the name of the log in messages.

    Attributes:
        error: the error of the event after the last batch, or None.
    """

    def __init__(
        self,
        file: PolicyFile,
        names: Sequence[str],
        log_atoms: Sequence[str],
        unit: str | None,
        path: str,
    ) -> None:
        self._names = tuple(names)
        environment = Environment(
            time=DEFAULT_TIME, unit=unit, zone=file.zone or UTC, has_columns=False
        )
        self._streams = StreamAtoms(file, [self._names], log_atoms, environment)
        self._path = path
        self.error: MtlmonError | None = None

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the states of all streams take."""
        return self._streams.held_bytes

    def added_to(self, batch: TextBatch) -> TextBatch:
        """Return the batch with these atoms added.

        If integers overflow at an event, the batch ends before it, and `error` is set.

        Raises:
            MtlmonError: integers overflow at the first event.
        """
        times = np.frombuffer(batch.time_stamps, np.int64)
        words = batch.letters_of(0)
        held = {
            name: pa.array(_bits(words, batch.atoms.index(name)) != 0)
            for name in self._streams.log_atoms
        }
        rows = pa.RecordBatch.from_arrays([pa.array(times)], [DEFAULT_TIME])
        try:
            (found,) = self._streams.evaluate(rows, times, [None], held).atoms
        except RowError as error:
            first = error.rows[0]
            shown = f"{self._path}: at time-stamp {times[first]}: {error.reason}"
            self.error = MtlmonError(shown)
            if not first:
                raise self.error from None
            return self.added_to(batch.before(first))
        atoms = (*batch.atoms, *self._names)
        masks = np.zeros((len(times), max(1, (len(atoms) + 63) // 64)), np.uint64)
        masks[:, : words.shape[1]] = words
        for number, name in enumerate(self._names, len(batch.atoms)):
            bits = np.asarray(found[name]).astype(np.uint64) << np.uint64(number % 64)
            masks[:, number // 64] |= bits
        return TextBatch(batch.time_stamps, masks.data.cast("B"), atoms)


def _bits(
    words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], atom: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return words[:, atom // 64] >> np.uint64(atom % 64) & np.uint64(1)
