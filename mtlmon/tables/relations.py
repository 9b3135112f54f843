"""Make time-points with rows of the batches of a table, for first-order policies.

The conditions of atoms are letters, and arguments are values that batches show (`PolicyFile.show`).
The types of columns are known with the first batch, and the plan is made then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.kinds import DECIMAL, DECLARED, NUMBERS, OPEN, kind_of
from mtlmon.policy.predicates.numbers import LONG_INTEGER, inexact_integers, to_floats
from mtlmon.relational.atoms import HERE, named_rows
from mtlmon.relational.input.native import DEFAULT_POINTS, ColumnRows
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.syntax.printer import key_width, name_of_rows, name_without_key, written_name
from mtlmon.tables.columns.arrow_text import is_text, text_array
from mtlmon.tables.columns.keys import number_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.key_points import KeyPoints
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.tables.event_batch import EventBatch

    # the indices of rows, and the values of each argument there
    Rows = tuple[NDArray[np.uint32], list[pa.Array]]

__all__ = [
    "RelationRows",
    "TableAtom",
    "conditions_of",
    "have_values",
    "plain_values",
    "shown_arguments",
    "table_atoms",
]


class TableAtom(NamedTuple):
    """An atom of time-points.

    Attributes:
        name: the atom of the batches that tells at which rows it has a row; None if it has none.
        arguments: for each argument, the name that the batches show its value under, and the kind
            of its values: "integer", "float", "boolean", "text" or "time".
        is_conditional: whether all rows have one, and somebody else knows which of them count. Then
            none is said to be left out.
        partition: the partition of the batches whose values it has; None for the whole log.
        conditions: more atoms of the batches, which hold at the rows where it has one if the
            batches have them.
    """

    name: str | None
    arguments: tuple[tuple[str, str], ...] = ()
    is_conditional: bool = False
    partition: int | None = None
    conditions: tuple[str, ...] = ()


def shown_arguments(file: PolicyFile, names: Sequence[str]) -> dict[str, list[str]]:
    """Declare atoms with arguments as atoms of rows, and their arguments as values to show.

    Args:
        file: the policies, which get the declarations.
        names: the atoms that are used.

    Returns:
        For each atom with arguments, the names of their values in `PolicyFile.shown`.
    """
    shown: dict[str, list[str]] = {}
    for name in names:
        relation = file.relations.get(name)
        if relation is None:
            continue
        assert relation.condition is not None
        file.atoms[name] = file.predicate(relation.condition, name)
        shown[name] = [
            file.show(argument.expression)
            for argument in relation.arguments
            if argument.expression is not None
        ]
    return shown


def table_atoms(
    made: Plan,
    shown: Mapping[str, Sequence[str]],
    conditional: Collection[str] = (),
    partitions: Mapping[str, int] | None = None,
    computed: Collection[str] = (),
    defined: Collection[str] = (),
) -> list[TableAtom]:
    """Return the atoms of a plan as those of batches.

    Args:
        made: the plan of the policies.
        shown: for each atom, the names that batches show the values of its arguments under.
        conditional: the names of the atoms that are conditional.
        partitions: the partitions of atoms of policies with a key.
        computed: the names of atoms whose rows somebody else makes.
        defined: the names of atoms that are not those of the log: one with a key has a condition of
            its own then.
    """
    atoms = []
    for name_of_types, kinds in named_rows(made, computed):
        name = name_of_rows(name_of_types)
        values = zip(shown.get(name, ()), kinds, strict=False)
        of_batches = None if name.startswith("\n") else name
        partition = None if partitions is None else partitions.get(name)
        conditions = tuple(one for one in conditions_of(name)[1:] if one not in defined)
        given = of_batches, tuple(values), name in conditional, partition, conditions
        atoms.append(TableAtom(*given))
    return atoms


class _Piece(NamedTuple):
    """Some rows of a table.

    Attributes:
        time_stamps: their time-stamps.
        atoms: the rows that each atom has there.
        left_out: the indices of rows where an atom has none as an argument has no value; an index
            occurs once for each such atom.
    """

    time_stamps: NDArray[np.int64]
    atoms: list[Rows]
    left_out: NDArray[np.uint32]


_NO_ROWS = np.zeros(0, np.uint32)
_NOTHING = _Piece(np.zeros(0, np.int64), [], _NO_ROWS)


class RelationRows:
    """Makes time-points of the batches of a table.

    A row of an atom needs a value for each argument: where one is null or NaN, the atom has no row.

    Args:
        atoms: the atoms of the time-points, in order.
        points: gets the time-points.
        texts: numbers the texts.
        by_stamp: whether all rows of one time-stamp are one time-point, instead of each row.
        partition: the partition of the batches that is the whole log, or any if no atom needs that.
        names: the names of time-points of keys, which get the rows; None if no policy has a key.
    """

    def __init__(
        self,
        atoms: Sequence[TableAtom],
        points: PointBlock,
        texts: KeyTable,
        *,
        by_stamp: bool = False,
        partition: int = 0,
        names: KeyPoints | None = None,
    ) -> None:
        self._names = names
        self._atoms = tuple(atoms)
        self._partition = partition
        self._texts = texts
        self._by_stamp = by_stamp
        self._rows = ColumnRows(points, by_stamp=by_stamp)
        self._kinds: dict[str, pa.DataType] = {}
        # rows of one time-stamp, of which more may come
        self._held: list[_Piece] = []
        # the rows that are read, and what was counted before them
        self._read = _NOTHING
        self._rows_before = 0
        self._left_out_before = 0

    @property
    def point_count(self) -> int:
        """The number of time-points so far."""
        return self._rows.point_count

    @property
    def row_count(self) -> int:
        """The number of rows of the log that have become time-points."""
        return self._rows_before + self._rows.next_row

    @property
    def left_out(self) -> int:
        """The number of rows that atoms lack there as an argument has no value."""
        found = np.searchsorted(self._read.left_out, self._rows.next_row)
        return self._left_out_before + int(found)

    def snapshot(self) -> bytes:
        """Return what is known behind `row_count` rows, for `restore`."""
        kinds = pa.schema(list(self._kinds.items())).serialize().to_pybytes()
        if self._names is not None:
            kinds = joined_parts([kinds, self._names.snapshot()])
        return b"%d %d %b" % (self.row_count, self.left_out, kinds)

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; the next rows are those behind `row_count`.

        This object must be new.
        """
        rows, left_out, kinds = snapshot.split(b" ", 2)
        self._rows_before = int(rows)
        self._left_out_before = int(left_out)
        if self._names is not None:
            kinds, names = split_parts(kinds)
            self._names.restore(names)
        schema = pa.ipc.read_schema(pa.py_buffer(kinds))
        self._kinds = dict(zip(schema.names, schema.types, strict=True))

    @property
    def held_stamp(self) -> int | None:
        """The last time-stamp, if more of its rows may come before they are a time-point."""
        return int(self._held[0].time_stamps[0]) if self._held else None

    def held_rows(self) -> bytes:
        """Return the rows of the last time-stamp as bytes for `restore_held`, if they are held."""
        if not self._held:
            return b""
        piece = _joined(self._held)
        tables = [[pa.array(piece.time_stamps)], [pa.array(piece.left_out)]]
        tables += [[pa.array(rows), *columns] for rows, columns in piece.atoms]
        parts = []
        for columns in tables:
            batch = pa.RecordBatch.from_arrays(columns, [str(k) for k in range(len(columns))])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            parts.append(sink.getvalue().to_pybytes())
        return joined_parts(parts)

    def restore_held(self, snapshot: bytes) -> None:
        """Continue with rows of the last time-stamp; the next rows are those behind them."""
        tables = []
        for part in split_parts(snapshot):
            with pa.ipc.open_stream(part) as reader:
                tables.append(reader.read_next_batch().columns)
        if tables:
            (stamps,), (left_out,), *atoms = tables
            own = [(np.array(rows, np.uint32), list(columns)) for rows, *columns in atoms]
            held = _Piece(np.array(stamps, np.int64), own, np.array(left_out, np.uint32))
            self._held = [held]

    def load(self, batch: EventBatch) -> None:
        """Take the rows of a batch, after all time-points before have been read.

        Raises:
            MtlmonError: values of an argument do not fit 64 bits, or change their type.
        """
        if not len(batch):
            return
        if self._names is not None:
            self._names.note(batch)
        partitions = [
            self._partition if atom.partition is None else atom.partition for atom in self._atoms
        ]
        letters = {one: batch.letters_of(one) for one in dict.fromkeys(partitions)}
        found = [
            self._rows_of(atom, batch.atoms, letters[one], batch.shown_of(one))
            for atom, one in zip(self._atoms, partitions, strict=True)
        ]
        left_out = self._all_left_out([rows for _, rows in found])
        atoms = [rows for rows, _ in found]
        piece = _Piece(np.ascontiguousarray(batch.time_stamps), atoms, left_out)
        if not self._by_stamp:
            self._load(piece)
            return
        stamps = piece.time_stamps
        start = int(np.searchsorted(stamps, stamps[-1]))
        if self._held and self._held[0].time_stamps[0] != stamps[0]:
            self._held.append(_part(piece, 0, start))
            self._load(_joined(self._held))
            self._held = [_part(piece, start, len(stamps))]
        elif start == 0:
            self._held.append(piece)
        else:
            self._load(_joined([*self._held, _part(piece, 0, start)]))
            self._held = [_part(piece, start, len(stamps))]

    def load_end(self) -> None:
        """End the log: the rows of its last time-stamp are complete."""
        if self._held:
            self._load(_joined(self._held))
            self._held = []

    def read(self, most: int = DEFAULT_POINTS) -> bool:
        """Add the next time-points, up to `most`; return whether there are more."""
        return self._rows.read(most)

    def _load(self, piece: _Piece) -> None:
        self._rows_before += len(self._read.time_stamps)
        self._left_out_before += len(self._read.left_out)
        self._read = piece
        # Only now do texts get numbers, as those of texts that nothing remembers change.
        atoms = []
        for atom, (rows, columns) in zip(self._atoms, piece.atoms, strict=True):
            cells = np.empty((len(rows), len(columns)), np.int64)
            for place, (column, (_, kind)) in enumerate(zip(columns, atom.arguments, strict=True)):
                cells[:, place] = self._cells(column, kind, written_name(atom.name or ""))
            atoms.append((rows, cells.reshape(-1)))
        self._rows.load(piece.time_stamps, atoms)

    def _all_left_out(self, found: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
        """The rows that atoms lack, once for each atom of the file."""
        rows: dict[str, NDArray[np.uint32]] = {}
        for atom, own in zip(self._atoms, found, strict=True):
            name = written_name(atom.name or "")
            if name == HERE:
                # a row without a key is counted as such, if it needs one
                continue
            # policies may read the columns of an atom in several ways
            rows[name] = np.union1d(rows[name], own) if name in rows else own
        return np.sort(np.concatenate([_NO_ROWS, *rows.values()]))

    def _rows_of(
        self,
        atom: TableAtom,
        names: Sequence[str],
        letters: NDArray[np.uint64],
        shown: Mapping[str, pa.Array],
    ) -> tuple[Rows, NDArray[np.uint32]]:
        """The rows of an atom, by index in the batch with their values, and those left out."""
        if atom.name is None:
            return (_NO_ROWS, [pa.array([], pa.int64())] * len(atom.arguments)), _NO_ROWS
        held = np.ones(len(letters), np.bool_)
        if not atom.is_conditional:
            for name in (atom.name, *(one for one in atom.conditions if one in names)):
                number = names.index(name)
                held &= letters[:, number // 64] >> np.uint64(number % 64) & np.uint64(1) != 0
        rows = np.flatnonzero(held)
        columns = [shown[name] for name, _ in atom.arguments]
        if len(rows) < len(held):
            columns = [column.take(pa.array(rows)) for column in columns]
        has_values = have_values(atom.name, columns, len(rows))
        left_out = _NO_ROWS
        if not has_values.all():
            if not atom.is_conditional:
                left_out = rows[~has_values].astype(np.uint32)
            rows = rows[has_values]
            columns = [column.filter(pa.array(has_values)) for column in columns]
        for column, (name, kind) in zip(columns, atom.arguments, strict=True):
            if len(rows):
                if kind not in {"text", "float"}:
                    # those are made of values of several types
                    self._require_same_type(written_name(atom.name), name, column.type)
                _require_kind(written_name(atom.name), kind, column.type)
        return (rows.astype(np.uint32), columns), left_out

    def _require_same_type(self, atom: str, name: str, kind: pa.DataType) -> None:
        """Raise MtlmonError if values had another type before."""
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            advice = "write all its values in one form"
            if {kind_of(known).name, kind_of(kind).name} <= NUMBERS:
                advice = f"declare its type, as in atom {atom}(COLUMN: float)"
            raise MtlmonError(
                f"an argument of {atom} changes its type from {known} to {kind}: {advice}"
            )

    def _cells(self, column: pa.Array, kind: str, atom: str) -> NDArray[np.int64]:
        """The cells of values that are neither null nor NaN."""
        values = plain_values(column, kind, atom)
        if kind == "text":
            return number_rows(self._texts, [values]).astype(np.int64)
        return np.asarray(values).view(np.int64)


def have_values(name: str, columns: Sequence[pa.Array], count: int) -> NDArray[np.bool_]:
    """Return which rows have a value for each argument of an atom.

    NaN is no value, but a key of its own.

    Args:
        name: the name of the atom.
        columns: the arguments.
        count: the number of rows.
    """
    found = np.ones(count, np.bool_)
    first_key = len(columns) - key_width(name)
    for place, column in enumerate(columns):
        if column.null_count:
            found &= np.asarray(column.is_valid())
        if place < first_key and pa.types.is_floating(column.type):
            found &= ~np.isnan(column.to_numpy(zero_copy_only=False))
    return found


def conditions_of(name: str) -> tuple[str, ...]:
    """Return the atoms of rows that hold where an atom has a row, if they are known.

    One with a key also has the condition of the atom without it, which may be one of the log.
    """
    return tuple(dict.fromkeys([name, name_without_key(name)]))


def _require_kind(atom: str, kind: str, data_type: pa.DataType) -> None:
    """Raise MtlmonError if values have another type than was found when the log began.

    Columns may have had no value then.
    """
    found = kind_of(data_type)
    if found.name == kind or kind in OPEN:
        return
    # texts are canonical texts of any values
    if (kind == "text" and found.name != "other") or (kind == "float" and found.name in NUMBERS):
        return
    words = next(one.words for one in (*DECLARED.values(), DECIMAL) if one.name == kind)
    declared = next((name for name, one in DECLARED.items() if one.name == found.name), "int")
    raise MtlmonError(
        f"an argument of {atom} is {found.words}, but was taken for {words}, as the first rows of "
        f"the log have no value: declare its type, as in atom {atom}(COLUMN: {declared})"
    )


def plain_values(column: pa.Array, kind: str, atom: str) -> pa.Array:
    """Return the values of an argument as integers, floats without -0.0, or texts.

    Args:
        column: the values, neither null nor NaN.
        kind: "integer", "float", "boolean", "text" or "time", which counts nanoseconds.
        atom: the atom, for errors.

    Raises:
        MtlmonError: a value does not fit 64 bits.
    """
    try:
        if kind == "text":
            return column if is_text(column.type) else text_array(column)
        if kind == "float":
            if pa.types.is_integer(column.type):
                column = _floats(column, atom)
            return pa.array(np.asarray(column.cast(pa.float64())) + 0.0)
        if kind == "boolean":
            return column.cast(pa.int8()).cast(pa.int64())
        if kind == "time":
            zone = column.type.tz if pa.types.is_timestamp(column.type) else None
            column = column.cast(pa.timestamp("ns", zone))
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split())
        what = "times from 1677 to 2262" if kind == "time" else "64 bits"
        raise MtlmonError(
            f"the value of an argument of {atom} does not fit {what}: {reason}"
        ) from None


def _floats(integers: pa.Array, atom: str) -> pa.Array:
    """Integers as floats.

    Raises:
        MtlmonError: no float is one of them.
    """
    is_lost = inexact_integers(integers)
    if pc.any(is_lost).as_py():
        text = str(integers.filter(is_lost)[0])
        raise MtlmonError(f"an argument of {atom}: {LONG_INTEGER.format(text)}")
    return to_floats(integers)


def _part(piece: _Piece, start: int, end: int) -> _Piece:
    """Some rows of a piece."""
    atoms = []
    for rows, columns in piece.atoms:
        first, last = np.searchsorted(rows, [start, end]).tolist()
        values = [column.slice(first, last - first) for column in columns]
        atoms.append((rows[first:last] - np.uint32(start), values))
    first, last = np.searchsorted(piece.left_out, [start, end]).tolist()
    left_out = piece.left_out[first:last] - np.uint32(start)
    return _Piece(piece.time_stamps[start:end], atoms, left_out)


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    """The rows of pieces, one after another."""
    if len(pieces) == 1:
        return pieces[0]
    sizes = [len(piece.time_stamps) for piece in pieces]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint32)
    atoms = [
        (
            np.concatenate([rows + start for (rows, _), start in zip(parts, starts, strict=True)]),
            [_concatenated(columns) for columns in zip(*(own for _, own in parts), strict=True)],
        )
        for parts in zip(*(piece.atoms for piece in pieces), strict=True)
    ]
    left_out = [piece.left_out + start for piece, start in zip(pieces, starts, strict=True)]
    stamps = [piece.time_stamps for piece in pieces]
    return _Piece(np.concatenate(stamps), atoms, np.concatenate(left_out))


def _concatenated(columns: Sequence[pa.Array]) -> pa.Array:
    """The values of columns; those without values may have another type."""
    filled = [column for column in columns if len(column)]
    return pa.concat_arrays(filled) if filled else columns[0]
