"""Read the atoms of rows from a column of names, Boolean columns and predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts, is_number
from mtlmon.arrays.native import EventColumns, letters_as_bitmaps
from mtlmon.arrays.plain_arrays import boolean_array
from mtlmon.arrays.texts import text_cells
from mtlmon.errors import MtlmonError
from mtlmon.policy import compile_predicates
from mtlmon.policy.predicates.environment import NOTHING, TIME_STAMPS, UTC, Environment
from mtlmon.tables.columns.arrow_text import is_text, list_offsets, text_array
from mtlmon.tables.formats.schemas import FALSE_TEXTS, TRUE_TEXTS
from mtlmon.tables.native import EventNames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from numpy.typing import NDArray

    from mtlmon.policy import CompiledPredicates, Predicate
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.atoms import TickAtoms
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.columns.wanted import Selection

    _Key = TypeVar("_Key", int, str)


class Letters:
    """The atoms of some rows.

    Attributes:
        names: the atoms from the column of names of events: an array with a row of 64-bit words for
            each row; None if there is no such column.
        booleans: Boolean columns without nulls, by the number of the atom.
        of_traces: for each partition of the log into traces, the atoms that depend on other rows of
            the trace, as in `booleans`; empty if there are none.
        of_ticks: for each partition, the ticks of each period that come before these rows, with the
            atoms there.
        shown: for each partition, the values to show with violations; empty if there are none.
    """

    __slots__ = ("_bitmaps", "booleans", "names", "of_ticks", "of_traces", "shown")

    def __init__(self, names: NDArray[np.uint64] | None, booleans: dict[int, pa.Array]) -> None:
        self.names = names
        self._bitmaps: list[memoryview] | None = None
        self.booleans = booleans
        self.of_traces: list[dict[int, pa.Array]] = []
        self.of_ticks: list[dict[When, TickAtoms]] = []
        self.shown: list[dict[str, pa.Array]] = []

    def events(
        self, time_stamps: NDArray[np.int64], atoms: Sequence[int], partition: int = 0
    ) -> EventColumns:
        """The events with these atoms; an atom's number becomes its index in the sequence."""
        of_traces = self.of_traces[partition] if self.of_traces else {}
        events = EventColumns(time_stamps, len(time_stamps))
        if not len(time_stamps):
            return events
        if self.names is not None and list(atoms) == list(range(len(atoms))):
            for word in range(self.names.shape[1]):
                if 64 * word < len(atoms):
                    events.add_letters(len(atoms), self.names[:, word], word)
        for place, atom in enumerate(atoms):
            array = of_traces.get(atom, self.booleans.get(atom))
            if array is not None:
                events.add_bitmap(place, array.buffers()[1], array.offset)
            elif self.names is not None and list(atoms) != list(range(len(atoms))):
                if self._bitmaps is None:
                    self._bitmaps = letters_as_bitmaps(
                        np.ascontiguousarray(self.names).reshape(-1), *self.names.shape
                    )
                events.add_bitmap(place, self._bitmaps[atom], 0)
        return events

    def before(self, count: int) -> Letters:
        """The atoms of the first rows; those that depend on other rows are left out."""
        names = None if self.names is None else self.names[:count]
        return Letters(
            names, {atom: array.slice(0, count) for atom, array in self.booleans.items()}
        )

    def behind(self, count: int) -> Letters:
        """The atoms of all rows but the first ones."""
        names = None if self.names is None else self.names[count:]
        letters = Letters(names, _sliced(self.booleans, count))
        letters.of_traces = [_sliced(arrays, count) for arrays in self.of_traces]
        letters.of_ticks = [
            {period: one.behind(count) for period, one in ticks.items()} for ticks in self.of_ticks
        ]
        letters.shown = [_sliced(arrays, count) for arrays in self.shown]
        return letters

    def of_rows(self, is_kept: NDArray[np.bool_]) -> Letters:
        """The atoms of some rows; those that depend on other rows are left out."""
        names = None if self.names is None else self.names[is_kept]
        mask = boolean_array(is_kept)
        return Letters(names, {atom: array.filter(mask) for atom, array in self.booleans.items()})

    def held(self, atom: int, count: int) -> pa.BooleanArray:
        """At which of the rows an atom holds that depends on no other row.

        Args:
            atom: the number of the atom.
            count: the number of rows.
        """
        if atom in self.booleans:
            return self.booleans[atom]
        if self.names is None:
            return pa.array(np.zeros(count, np.bool_))
        return pa.array(self.names[:, atom // 64] >> np.uint64(atom % 64) & np.uint64(1) != 0)

    def words(self, count: int, atom_count: int, partition: int = 0) -> NDArray[np.uint64]:
        """All atoms in one array, in the form of `names`."""
        width = max(1, (atom_count + 63) // 64)
        words = np.zeros((count, width), np.uint64) if self.names is None else self.names
        of_traces: dict[int, pa.Array] = {}
        if self.of_traces:
            words, of_traces = words.copy(), self.of_traces[partition]
        for atom, array in (self.booleans | of_traces).items():
            bits = np.asarray(array.cast(pa.uint8())).astype(np.uint64)
            words[:, atom // 64] |= bits << np.uint64(atom % 64)
        return words


def environment_of(selection: Selection, times: Times, zone: str | None = None) -> Environment:
    """What predicates need to know of the time column and its unit, and the zone."""
    resolution = times.resolution or times.unit
    return Environment(
        time=selection.time_name, unit=resolution, time_unit=times.unit, zone=zone or UTC
    )


def _sliced(arrays: dict[_Key, pa.Array], count: int) -> dict[_Key, pa.Array]:
    return {key: array.slice(count) for key, array in arrays.items()}


class LetterReader:
    """Reads the atoms of rows.

    Args:
        atoms: the names of all atoms, in the order of letters.
        predicates: the predicates of the atoms that are defined by predicates.
        selection: the columns of the other atoms.
        separator: separates the names of events in a text.
        environment: the time column and the units, for the predicates.
    """

    def __init__(
        self,
        atoms: Sequence[str],
        predicates: Mapping[str, Predicate],
        selection: Selection,
        separator: str,
        environment: Environment = NOTHING,
    ) -> None:
        self._number_of = {name: number for number, name in enumerate(atoms)}
        self._predicates = predicates
        self._environment = environment
        self._selection = selection
        self._compiled: tuple[pa.Schema, CompiledPredicates] | None = None
        # A name that begins with a blank is never read, and so sets no bit.
        names = [
            f" {number}" if name in self._predicates else name for number, name in enumerate(atoms)
        ]
        self._event_names = EventNames(names, separator)

    def bad_booleans(self, batch: pa.RecordBatch) -> dict[str, NDArray[np.bool_]]:
        """For each column that is an atom, which values are not true, false or null, if any.

        Raises:
            MtlmonError: a column has a type without such values.
        """
        bad = {}
        for name in self._selection.booleans:
            column = self._selection.cells(batch, name)
            if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
                continue
            is_true, is_false = _truth(column, name)
            known = pc.or_(pc.or_(is_true, is_false), column.is_null())
            if known.false_count:
                bad[name] = ~np.asarray(known)
        return bad

    def read(self, batch: pa.RecordBatch, time_stamps: NDArray[np.int64] | None = None) -> Letters:
        """Read the atoms of rows that `bad_booleans` has accepted; null is false.

        Predicates that look values up in relations need the time-stamps of the rows.

        Raises:
            RowError: a predicate has no value on some rows.
            PolicyError: a predicate does not fit the types of the columns.
            MtlmonError: the column of names of events has a type without names.
        """
        booleans: dict[int, pa.Array] = {}
        for name in self._selection.booleans:
            column = self._selection.cells(batch, name)
            if pa.types.is_null(column.type):
                continue
            is_true = column if pa.types.is_boolean(column.type) else _truth(column, name)[0]
            booleans[self._number_of[name]] = (
                is_true.fill_null(False) if is_true.null_count else is_true
            )
        if self._predicates:
            if self._environment.relations and time_stamps is not None:
                batch = batch.append_column(TIME_STAMPS, pa.array(time_stamps))
            for name, array in self._predicates_for(batch.schema)(batch).items():
                booleans[self._number_of[name]] = array
        names = None
        if self._selection.event is not None:
            names = self._names(self._selection.cells(batch, self._selection.event))
        return Letters(names, booleans)

    def _predicates_for(self, schema: pa.Schema) -> CompiledPredicates:
        if self._compiled is None or not self._compiled[0].equals(schema):
            compiled = compile_predicates(self._predicates, schema, self._environment)
            self._compiled = schema, compiled
        return self._compiled[1]

    def _names(self, column: pa.Array) -> NDArray[np.uint64]:
        words = self._event_names.letter_words
        letters = np.zeros((len(column), words), np.uint64)
        kind = column.type
        if pa.types.is_null(kind):
            return letters
        if pa.types.is_dictionary(kind) and is_text(kind):
            entries = np.zeros((len(column.dictionary) + 1, words), np.uint64)
            self._read_texts(column.dictionary, entries[:-1])
            # null becomes the last entry, which names nothing
            indices = column.indices.cast(pa.int64()).fill_null(len(column.dictionary))
            return np.take(entries, np.asarray(indices), axis=0)
        if is_text(kind) or is_number(kind) or pa.types.is_boolean(kind):
            self._read_texts(canonical_texts(column), letters)
        elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and is_text(kind.value_type):
            lists, items = list_offsets(column)
            texts = text_array(items)
            self._event_names.read_lists(lists, text_cells(texts), letters.reshape(-1))
        else:
            raise MtlmonError(
                f"column {self._selection.event!r} of events is of type {kind}: names of events "
                "are texts or lists of texts"
            )
        return letters

    def _read_texts(self, column: pa.Array, letters: NDArray[np.uint64]) -> None:
        texts = text_array(column)
        self._event_names.read_texts(text_cells(texts), letters.reshape(-1))


def _truth(column: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """Which values of a column of numbers or texts mean true, and which false; never null."""
    kind = column.type
    if pa.types.is_integer(kind):
        true_values, false_values = pa.array([1], kind), pa.array([0], kind)
    elif is_text(kind):
        column = text_array(column)
        true_values = pa.array(TRUE_TEXTS, column.type)
        false_values = pa.array(FALSE_TEXTS, column.type)
    else:
        raise MtlmonError(
            f"column {name!r} is an atom, and of type {kind}: it must be Boolean, 0 and 1, or "
            "texts such as true and false; declare atoms for other conditions in a policy file, as "
            "in atom fast = speed > 5"
        )
    return pc.is_in(column, true_values), pc.is_in(column, false_values)
