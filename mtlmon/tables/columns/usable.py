"""Determine which rows are usable as events, and handle the others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.plain_arrays import boolean_array, number_array, repeated_text
from mtlmon.errors import MtlmonError, PolicyError, RowError, TableError, TickError
from mtlmon.support.option_names import order_advice
from mtlmon.tables.columns.arrow_text import shown_value
from mtlmon.tables.columns.letters import Letters
from mtlmon.tables.columns.times import MISSING
from mtlmon.tables.formats.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from mtlmon.streams.atoms import Values
    from mtlmon.tables.columns.letters import LetterReader
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.blocks import BadRow

# How many unusable rows are kept for messages.
_KEPT_ERRORS = 10


class _Reason(NamedTuple):
    """Why some rows of a block are not usable; a column may have several reasons.

    Attributes:
        column: the column at fault.
        mask: for each row, whether it has this error.
        message: the message, or a function that creates it from the index of the row.
    """

    column: str
    mask: NDArray[np.bool_]
    message: str | Callable[[int], str]


def _neither(cells: pa.Array, row: int) -> str:
    return f"{shown_value(cells, row)} is neither true nor false"


class UsableRows:
    """The usable rows of a block.

    Attributes:
        block: the block that the rows are from.
        batch: the usable rows.
        time_stamps: the time-stamps of these rows.
        rests: what is left of their times behind the time-stamps, as in `ReadTimes`, or None.
        letters: the letters of these rows, once they have been read.
        values: the values of streams at these rows, and at the ticks before them; None if none are
            asked for.
        tick_end: a time below which all ticks have been computed.
        has_all_ticks: see `Computed.has_all_ticks`.
        instances: see `Computed.instances`.
        error: the error to raise after these rows, or None.
    """

    def __init__(
        self,
        block: Block,
        time_stamps: NDArray[np.int64],
        rests: NDArray[np.int64] | None = None,
    ) -> None:
        self.block = block
        self.batch: pa.RecordBatch = block.batch
        self.time_stamps = time_stamps
        self.rests = rests
        self.letters = Letters(None, {})
        self.values: Values | None = None
        self.tick_end = 0
        self.has_all_ticks = False
        self.instances: Sequence[Mapping[str, int]] = ()
        self.error: TableError | None = None
        # Their indices in the block; None if they are its first rows.
        self._places: NDArray[np.int64] | None = None

    @property
    def numbers(self) -> NDArray[np.int64] | range:
        """The numbers of the rows in their file, from 1."""
        first = self.block.first_row
        if self._places is None:
            return range(first, first + self.batch.num_rows)
        return self._places + first

    @property
    def number_array(self) -> NDArray[np.int64]:
        """`numbers` as an array."""
        numbers = self.numbers
        # PERF: numpy takes 35 ns to get a number out of a range.
        if isinstance(numbers, range):
            return np.arange(numbers.start, numbers.stop)
        return numbers

    def place(self, row: int) -> int:
        """The index of a row in the block."""
        return row if self._places is None else int(self._places[row])

    def cut(self, count: int) -> None:
        """Keep only the first rows."""
        self.letters = self.letters.before(count)
        self.batch = self.batch.slice(0, count)
        self.time_stamps = self.time_stamps[:count]
        if self.rests is not None:
            self.rests = self.rests[:count]
        if self._places is not None:
            self._places = self._places[:count]

    def drop(self, count: int) -> None:
        """Drop the first rows."""
        if self._places is None:
            self._places = np.arange(len(self.time_stamps))
        self.batch = self.batch.slice(count)
        self.time_stamps = self.time_stamps[count:]
        if self.rests is not None:
            self.rests = self.rests[count:]
        self.letters = self.letters.behind(count)
        self._places = self._places[count:]

    def taken(self, count: int) -> UsableRows:
        """Remove the first rows, and return them; their letters have been read."""
        first = UsableRows(self.block, self.time_stamps, self.rests)
        first.batch, first.letters, first._places = self.batch, self.letters, self._places
        first.cut(count)
        self.drop(count)
        return first

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        """Keep only some rows."""
        self.letters = self.letters.of_rows(is_kept)
        self.batch = self.batch.filter(boolean_array(is_kept))
        self.time_stamps = self.time_stamps[is_kept]
        if self.rests is not None:
            self.rests = self.rests[is_kept]
        places = np.flatnonzero(is_kept)
        self._places = places if self._places is None else self._places[is_kept]


_PATH, _ROW, _LINE = "\0path", "\0row", "\0line"

PLACE_COLUMNS = (_PATH, _ROW, _LINE)
"""The columns of `with_places`: the name of the file, the number of the row in it, and its line."""


def with_places(rows: UsableRows) -> pa.RecordBatch:
    """Return the rows with columns that say where they come from, for `SortedBlock`."""
    block, count = rows.block, len(rows.time_stamps)
    numbers = rows.number_array
    lines = pa.nulls(count, pa.int64())
    if block.line_of is not None and count:
        lines = number_array(lines_of(rows))
    paths = repeated_text(block.path, count)
    batch = rows.batch
    for name, column in ((_PATH, paths), (_ROW, number_array(numbers)), (_LINE, lines)):
        batch = batch.append_column(name, column)
    return batch


def lines_of(rows: UsableRows) -> NDArray[np.int64]:
    """Return the line of its file on which each row begins; the file must have lines."""
    line_of, count = rows.block.line_of, len(rows.time_stamps)
    assert line_of is not None
    if not count:
        return np.empty(0, np.int64)
    first, last = rows.place(0), rows.place(count - 1)
    line = line_of(first)
    if line_of(last) - line == last - first:
        # Each row takes at least one line, and so each takes one.
        numbers = rows.number_array
        return numbers + (line - int(numbers[0]))
    return np.fromiter((line_of(rows.place(row)) for row in range(count)), np.int64, count)


class SortedBlock(Block):
    """Rows that have been sorted, with the columns of `with_places`."""

    def error(self, place: int, message: str, column: str | None = None) -> TableError:
        """Create the error of the row at an index in the batch."""
        path, row, line = (self.batch.column(name)[place].as_py() for name in (_PATH, _ROW, _LINE))
        return TableError(message, path=path, row=row, line=line, column=column)


# What is written beside the columns of rows; no column of a table is called like this.
_STAMPS, _RESTS, _WORD = "\0stamp", "\0rest", "\0word"


def rows_as_bytes(rows: UsableRows, atom_count: int) -> bytes:
    """Return rows as bytes for `rows_of_bytes`; `atom_count` is the number of atoms of letters."""
    batch = rows.batch if isinstance(rows.block, SortedBlock) else with_places(rows)
    batch = batch.append_column(_STAMPS, number_array(rows.time_stamps))
    if rows.rests is not None:
        batch = batch.append_column(_RESTS, number_array(rows.rests))
    words = rows.letters.words(len(rows.time_stamps), atom_count)
    for place in range(words.shape[1]):
        word = np.ascontiguousarray(words[:, place]).view(np.int64)
        batch = batch.append_column(f"{_WORD}{place}", number_array(word))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def rows_of_bytes(content: bytes) -> UsableRows:
    """Return the rows that `rows_as_bytes` has written."""
    with pa.ipc.open_stream(content) as reader:
        batch = reader.read_next_batch()
    names = batch.schema.names

    def taken(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.array(batch.column(name), np.int64)

    words = [taken(name).view(np.uint64) for name in names if name.startswith(_WORD)]
    stamps, rests = taken(_STAMPS), taken(_RESTS) if _RESTS in names else None
    own = (name for name in names if name not in (_STAMPS, _RESTS) and not name.startswith(_WORD))
    batch = batch.select(list(own))
    path = batch.column(PLACE_COLUMNS[0])[0].as_py()
    rows = UsableRows(SortedBlock(batch, path, 1, None), stamps, rests)
    rows.letters = Letters(np.column_stack(words), {})
    return rows


def _fields(error: TableError) -> list[str | int | None]:
    return [error.message, error.path, error.row, error.line, error.column]


def _error(fields: Any) -> TableError:
    message, path, row, line, column = fields
    return TableError(message, path=path, row=row, line=line, column=column)


class RowCheck:
    """Finds the unusable rows: those without a time or a key, or with an unreadable cell.

    Args:
        selection: which columns are read, and for what purpose.
        times: reads the column of times.
        letters: reads the columns of atoms.
        on_error: with "stop", the first unusable row is an error; with "skip", such rows are
            counted and skipped.
        is_ordered: whether time-stamps must not decrease.
        typed: returns columns as expressions see them, as `mtlmon.policy.types.with_times` does;
            None if texts stay texts.
        need_no_key: tells which rows of a batch may be without a key; None if all need one.

    Attributes:
        skipped: the number of skipped rows.
        errors: the errors of the first skipped rows.
        clock: the largest time-stamp of usable rows, or None before the first one.
        passed: time has passed up to here without rows: rows below it come too late.
        steps_back: how many rows have the time-stamp of the row before them and an earlier time.
        first_step_back: says where the first one is; None if there is none.
    """

    def __init__(
        self,
        selection: Selection,
        times: Times,
        letters: LetterReader,
        on_error: Literal["stop", "skip"],
        is_ordered: bool,
        typed: Callable[[pa.Schema], pa.Schema] | None = None,
        need_no_key: Callable[[pa.RecordBatch], NDArray[np.bool_]] | None = None,
    ) -> None:
        self._selection = selection
        self._need_no_key = need_no_key
        self._typed = typed
        # columns as they are read, and as expressions see them
        self._schemas: tuple[pa.Schema, pa.Schema] | None = None
        self._times = times
        self._letters = letters
        self._on_error = on_error
        self._is_ordered = is_ordered
        self.skipped = 0
        self.errors: list[TableError] = []
        # the errors in rows of the current block, in the order in which they were found
        self._found: list[TableError] = []
        self.clock: int | None = None
        self.passed = 0
        self.steps_back = 0
        self.first_step_back: TableError | None = None
        # reads other columns of local times, by their names
        self._local: dict[str, Times] = {}
        # what is left of the time of the last row behind its time-stamp
        self._rest = 0

    @property
    def skips(self) -> bool:
        """Whether unusable rows are skipped."""
        return self._on_error == "skip"

    def state(self) -> list[object]:
        """Return what is known by the rows so far, for `restore`, as JSON can write it."""
        return [
            self.skipped,
            [_fields(error) for error in self.errors],
            self.clock,
            self.passed,
            self.steps_back,
            None if self.first_step_back is None else _fields(self.first_step_back),
            self._rest,
        ]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        self.skipped, errors, self.clock, self.passed, self.steps_back, first, self._rest = state
        self.errors = [_error(fields) for fields in errors]
        self.first_step_back = None if first is None else _error(first)

    def refuse(self, row: BadRow) -> None:
        """Refuse a row that cannot be read at all."""
        if self._on_error == "stop":
            raise row.error if row.has_advice else self._advised(row.error)
        self.skipped += 1
        if len(self.errors) < _KEPT_ERRORS:
            self.errors.append(row.error)

    def _advised(self, error: TableError) -> TableError:
        """Add to an error how to continue without its row."""
        skipping = self._selection.options.written("on_error", "skip")
        if skipping is None:
            return error
        return TableError(
            f"{error.message}; {skipping} leaves such rows out",
            path=error.path,
            row=error.row,
            line=error.line,
            column=error.column,
        )

    def usable(self, block: Block) -> UsableRows:
        """The usable rows of a block; with "stop", those before the first unusable row.

        Raises:
            TableError: a column has a type that does not fit its purpose.
            PolicyError: predicates do not fit the types of the columns.
        """
        name = self._selection.time_name
        try:
            read = self._times.read_exactly(self._selection.cells(block.batch, name))
        except MtlmonError as error:
            raise TableError(str(error), path=block.path, column=name) from None
        block = self._with_times(self._in_time_zone(block))
        rows = UsableRows(block, read.time_stamps, read.rests)
        try:
            self._check_cells(rows, read.faults)
            if self._is_ordered:
                self._check_order(rows)
            self.read_letters(rows)
            if self._is_ordered:
                self._count_steps_back(rows)
        except (PolicyError, TableError):
            raise
        except MtlmonError as error:
            raise TableError(str(error), path=block.path) from None
        self.keep_errors()
        if len(rows.time_stamps):
            self.clock = max(self.clock or 0, int(rows.time_stamps.max()))
        return rows

    def _in_time_zone(self, block: Block) -> Block:
        """Make instants of local times that texts are, in other columns than that of times.

        Raises:
            TableError: a time does not exist in the time zone.
        """
        if not self._times.has_zone or block.text_of is None:
            return block
        batch = block.batch
        for place, field in enumerate(batch.schema):
            kind = field.type
            if not (pa.types.is_timestamp(kind) and kind.tz is None):
                continue
            times = self._local.setdefault(field.name, self._times.of_another(kind.unit))
            texts = batch.column(place).cast(pa.string())
            values, faults = times.read(texts)
            if faults is not None and (wrong := faults * (faults != MISSING)).any():
                row = int(wrong.argmax())
                message = times.message(texts, row, int(faults[row]), self._selection.options)
                raise block.error(row, message, field.name)
            mask = np.asarray(texts.is_null())
            batch = batch.set_column(place, field.name, pa.array(values, kind, mask=mask))
        return block._replace(batch=batch)

    def _with_times(self, block: Block) -> Block:
        """Put times in the place of the texts in the time column, if expressions need them."""
        name = self._selection.time_name
        if self._typed is None or name not in self._selection.predicates:
            return block
        if self._times.are_numbers:
            return block
        schema = block.batch.schema
        if self._schemas is None or not self._schemas[0].equals(schema):
            self._schemas = schema, self._typed(schema)
        kind = self._schemas[1].field(name).type
        if kind == schema.field(name).type:
            return block
        values = self._times.timestamps(self._selection.cells(block.batch, name), kind)
        return block._replace(batch=self._selection.with_times(block.batch, values))

    def keep_errors(self) -> None:
        """Add the errors in the rows of a block to `errors`, in the order of the rows."""
        self._found.sort(key=lambda error: error.row or 0)
        self.errors += self._found[: _KEPT_ERRORS - len(self.errors)]
        self._found = []

    def _check_cells(self, rows: UsableRows, faults: NDArray[np.uint8] | None) -> None:
        """Remove rows without a time or a key, or with atoms that are neither true nor false."""
        found: list[_Reason] = []
        unreadable = rows.block.unreadable
        if unreadable:
            mask = np.zeros(rows.block.batch.num_rows, np.bool_)
            mask[list(unreadable)] = True
            found.append(_Reason("", mask, ""))
        if faults is not None:
            found.append(self._time_reason(rows.block, faults))
        for name in self._selection.keys:
            keys = self._selection.cells(rows.batch, name)
            if keys.null_count:
                message = rows.block.absent.get(name)
                message = message or f"the key column {name!r} is empty in this row"
                is_bad = np.asarray(keys.is_null())
                if self._need_no_key is not None:
                    is_bad = is_bad & ~self._need_no_key(rows.batch)
                found.append(_Reason(name, is_bad, message))
        for name, mask in self._letters.bad_booleans(rows.batch).items():
            cells = self._selection.cells(rows.block.batch, name)
            found.append(_Reason(name, mask, partial(_neither, cells)))
        if not found:
            return

        def error_at(row: int) -> TableError:
            if row in unreadable:
                return unreadable[row].error
            reason = next(one for one in found if one.mask[row])
            message = reason.message
            text = message if isinstance(message, str) else message(row)
            return rows.block.error(row, text, reason.column)

        is_bad = np.logical_or.reduce([one.mask for one in found])
        if not is_bad.any():
            return
        first = unreadable.get(int(is_bad.argmax()))
        has_advice = bool(rows.block.absent) if first is None else first.has_advice
        self._drop(rows, is_bad, error_at, has_advice=has_advice)

    def _time_reason(self, block: Block, faults: NDArray[np.uint8]) -> _Reason:
        name = self._selection.time_name
        times = self._selection.cells(block.batch, name)

        def message(row: int) -> str:
            if faults[row] == MISSING:
                absent = block.absent.get(name)
                return absent or f"the time column {name!r} is empty in this row"
            return self._times.message(times, row, int(faults[row]), self._selection.options)

        return _Reason(name, faults != 0, message)

    def _check_order(self, rows: UsableRows) -> None:
        """Remove events before the latest event so far."""
        stamps = rows.time_stamps
        clock = max(self.clock or 0, self.passed)
        if not len(stamps) or (stamps[0] >= clock and not (stamps[1:] < stamps[:-1]).any()):
            return
        latest = np.maximum.accumulate(np.concatenate([[clock], stamps]))[:-1]
        advice = order_advice(self._selection.options)
        zone = self._selection.options.written("time_zone", "Europe/Berlin")

        def error_at(row: int) -> TableError:
            message = (
                f"time-stamp {stamps[row]} comes after {latest[row]}, so the rows are out of order"
            )
            if zone and self._times.may_be_repeated(int(latest[row]), int(stamps[row])):
                message += f": if clocks were put back, name the time zone only, as in {zone}; else"
                message += advice[1:]
            else:
                message += advice
            if latest[row] == self.passed > (self.clock or 0):
                message = (
                    f"time-stamp {stamps[row]} comes too late: nothing came for some time, and so "
                    f"time has passed up to {self.passed}"
                )
            return rows.block.error(rows.place(row), message, self._selection.time_name)

        self._drop(rows, stamps < latest, error_at, has_advice=True)

    def _count_steps_back(self, rows: UsableRows) -> None:
        """Count the rows that step back by less than a unit of time-stamps."""
        stamps, rests = rows.time_stamps, rows.rests
        if not len(stamps):
            return
        if rests is None:
            # PERF: as a rule, nothing is left behind time-stamps
            is_back = self._rest > 0 and stamps[0] == self.clock
            places = np.zeros(int(is_back), np.int64)
            self._rest = 0
        else:
            before = np.concatenate([[-1 if self.clock is None else self.clock], stamps[:-1]])
            rest_before = np.concatenate([[self._rest], rests[:-1]])
            places = np.flatnonzero((stamps == before) & (rests < rest_before))
            self._rest = int(rests[-1])
        self.steps_back += len(places)
        if len(places) and self.first_step_back is None:
            place = rows.place(int(places[0]))
            column = self._selection.time_name
            self.first_step_back = rows.block.error(place, "this row steps back", column)

    def read_letters(self, rows: UsableRows) -> None:
        """Read the atoms, and remove rows on which a predicate has no value."""
        while True:
            try:
                rows.letters = self._letters.read(rows.batch, rows.time_stamps)
            except RowError as refused:
                self.drop_refused(rows, refused)
            else:
                return

    def drop_refused(self, rows: UsableRows, refused: RowError) -> None:
        """Remove rows on which an expression has no value; with "stop", also all rows after it."""
        is_bad = np.zeros(len(rows.time_stamps), np.bool_)
        is_bad[list(refused.rows)] = True
        name = "" if refused.atom is None else f"atom {refused.atom}: "

        def error_at(row: int) -> TableError:
            return rows.block.error(rows.place(row), name + refused.reason)

        self._drop(rows, is_bad, error_at)
        if rows.error is not None:
            rows.error.__cause__ = refused.__cause__

    def has_left_out(self, rows: UsableRows, refused: TickError, key: str) -> bool:
        """Handle a tick at which an expression has no value.

        Args:
            rows: the rows that the tick is between; with "stop", those behind it are removed.
            refused: the error.
            key: the key of its trace in words; empty if there is none.

        Returns:
            Whether the tick is to be left out; otherwise `rows.error` is set.
        """
        whose = f" of {key}" if key else ""
        error = TableError(f"at {refused.where}{whose}: {refused.reason}", path=rows.block.path)
        if self._on_error == "stop":
            skipping = self._selection.options.written("on_error", "skip")
            if skipping is not None:
                message = f"{error.message}; {skipping} leaves such {refused.what} out"
                error = TableError(message, path=error.path)
            rows.error = error
            rows.cut(refused.place)
            return False
        if all(str(known) != str(error) for known in self._found):
            self._found.append(error)
        return True

    def _drop(
        self,
        rows: UsableRows,
        is_bad: NDArray[np.bool_],
        error_at: Callable[[int], TableError],
        has_advice: bool = False,
    ) -> None:
        """Remove rows, or, with "stop", the first of them and all rows after it.

        Args:
            error_at: creates the error of one of the remaining rows.
            has_advice: whether the error says what to do.
        """
        if self._on_error == "stop":
            first = int(is_bad.argmax())
            rows.error = error_at(first)
            if not has_advice:
                rows.error = self._advised(rows.error)
            rows.cut(first)
            return
        if len(self.errors) < _KEPT_ERRORS:
            self._found += [error_at(int(row)) for row in np.flatnonzero(is_bad)[:_KEPT_ERRORS]]
        self.skipped += int(np.count_nonzero(is_bad))
        rows.keep(~is_bad)
