"""Read tables of delimited text: CSV and TSV."""

from __future__ import annotations

import csv as csv_of_python
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mtlmon.errors import TableError
from mtlmon.policy.predicates.expression import FLOATS, NUMBER, ORDERED, ORDERED_FLOATS
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.numbers import LONG_INTEGER
from mtlmon.support.encodings import NOT_UTF_8
from mtlmon.tables.columns.wanted import joined_types
from mtlmon.tables.formats.blocks import (
    BadRow,
    Block,
    BlockPlace,
    GoneOn,
    Parsed,
    placed,
    read_blocks,
    usable_parts,
)
from mtlmon.tables.formats.long_integers import RoundedIntegers, has_long_floats, long_integers
from mtlmon.tables.formats.rows import text_behind, text_blocks
from mtlmon.tables.formats.schemas import (
    FALSE_TEXTS,
    TRUE_TEXTS,
    first_value,
    fixed_type,
    number_pattern,
    ordered_type,
    time_type,
)
from mtlmon.tables.formats.type_texts import types_of, types_text

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.dialect import Dialect
    from mtlmon.tables.formats.files import ByteStream, TableFile
    from mtlmon.tables.formats.rows import TextBlock

FORMATS_WITH_DELIMITERS = ("csv", "tsv")

# How many bytes one thread parses at once.
_PARSED_BYTES = 1 << 20
# How much of a block is examined for unknown types. If the reader fails on later rows, those rows
# are examined then.
_TYPED_BYTES = 1 << 16
_CARRIAGE_RETURN = "a carriage return that no line feed follows: end rows with LF or CRLF"
_REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
# How many texts are found in a part of a block that cannot be read as values of their columns,
# before its rows are divided.
_WRONG_TEXTS = 4
# How programs write that there is no value, in small letters.
_NULL_TEXTS = {"-", "--", "?", "#", "na", "n/a", "nan", "null", "(null)", "none", "nil", "\\n"}


# The types of columns beside those of `TypedColumn`: the values of the time column, and atoms.
TIMES, ATOM = "times", "atom"
_INFERRED = {"time", ORDERED, ORDERED_FLOATS, TIMES}


class _Column(NamedTuple):
    """A column that is returned.

    Attributes:
        name: the column of the file.
        type: the type of its values.
    """

    name: str
    type: str


class DelimitedReader:
    """Reads the files of one table in delimited text.

    Cells are read as text, and where predicates want values of a type, as these. Atoms are read as
    Booleans, and also as text after the first cell that is not a Boolean. Numbers are integers
    until the first one with a point.

    Args:
        selection: the columns to read.
        dialect: how cells are written.

    Attributes:
        spanning_rows: the number of rows that span lines.
        stray_quotes: the number of cells that begin with a quote that is a character.
        rounded: has noticed integers that became floats.
    """

    def __init__(
        self,
        selection: Selection,
        dialect: Dialect,
    ) -> None:
        self._selection = selection
        self._dialect = dialect
        self._columns = _columns_of(selection)
        self._passes = _passes_of(self._columns)
        # the pass that was read last, or is
        self._reading: Mapping[str, str] = {}
        self._types: dict[str, pa.DataType] = {}
        # the header of the file, if it has one
        self._head = b""
        self.spanning_rows = 0
        self.stray_quotes = 0
        self.rounded = RoundedIntegers()

    def blocks(
        self, file: TableFile, stream: ByteStream, resume: BlockPlace | None = None
    ) -> Iterator[Block | BadRow | GoneOn]:
        """Read the rows of a file.

        Args:
            file: the file.
            stream: its bytes.
            resume: the place of a block behind which to go on, once the first rows have been read.

        Raises:
            TableError: the header is not valid.
        """
        names: list[str] | None = None
        row = 1
        blocks = text_blocks(stream, self._dialect.syntax_of(file.format))
        for block in blocks:
            if names is None:
                # there may be only empty lines so far
                if block.row_count:
                    names = self._header(block, file)
                    self._head = block.text_of(0)
                continue
            if resume is None:
                row = yield from self._rows(block, file, names, row)
                continue
            yield from self.read(block, file, names, row)
            break
        if resume is None or names is None:
            return
        yield GoneOn()
        row = resume.row
        for following in text_behind(self, stream, resume, block.syntax):
            row = yield from self._rows(following, file, names, row)

    def _rows(
        self, block: TextBlock, file: TableFile, names: list[str], row: int
    ) -> Generator[Block | BadRow, None, int]:
        """Read the rows of a block, and return the number of the row behind them."""
        place = BlockPlace(block.position, block.first_line, row, self.state())
        return (yield from placed(self.read(block, file, names, row), place))

    def state(self) -> list[object]:
        """Return what is known by the rows so far, for `restore`, as JSON can write it."""
        return [
            types_text(self._types),
            self.spanning_rows,
            self.stray_quotes,
            self.rounded.state(),
        ]

    def restore(self, state: Any) -> None:
        """Go on from a state of another reader of the same columns."""
        types, self.spanning_rows, self.stray_quotes, rounded = state
        self._types = types_of(types)
        self.rounded.restore(rounded)

    def _header(self, block: TextBlock, file: TableFile) -> list[str]:
        if block.malformed:
            raise TableError(f"the header's {self._wrong_quote(block, 0)}", path=file.name, line=1)
        self.stray_quotes += block.stray_quotes
        try:
            text = block.readable.to_pybytes().decode()
        except UnicodeDecodeError:
            raise TableError(f"the header is {NOT_UTF_8}", path=file.name, line=1) from None
        quote = block.syntax.quote
        rows = csv_of_python.reader(
            [text],
            delimiter=block.syntax.delimiter,
            quotechar=quote or None,
            quoting=csv_of_python.QUOTE_MINIMAL if quote else csv_of_python.QUOTE_NONE,
        )
        try:
            names = next(rows)
        except csv_of_python.Error as error:
            has_end = "\r" in text.removesuffix("\n").removesuffix("\r")
            reason = f"has {_CARRIAGE_RETURN}" if has_end else f"cannot be read: {error}"
            raise TableError(f"the header {reason}", path=file.name, line=1) from None
        self._selection.require(names, file.name)
        # The reader selects columns by name, and other columns may have the same name.
        wanted = self._selection.names
        return [name if name in wanted else f"{name}\0{place}" for place, name in enumerate(names)]

    def read(
        self, block: TextBlock, file: TableFile, names: list[str], row: int
    ) -> Iterator[Block | BadRow]:
        """Read rows of delimited text.

        Args:
            block: the rows.
            file: the file that they are from.
            names: the names of the columns.
            row: the number of the first row in the file, from 1.
        """
        if not len(block.text):
            return
        self.spanning_rows += block.spanning_rows
        self.stray_quotes += block.stray_quotes
        self._learn(block, names)
        try:
            parts: Iterable[tuple[int, Parsed | BaseException]] = [
                (0, self._parsed(block, names, _PARSED_BYTES))
            ]
        except _REFUSALS:
            self._learn(block, names, is_again=True)
            parts = self._parts(block, names)

        def bad_row(place: int, error: BaseException) -> BadRow:
            reason, column = self._explained(error, names)
            line = block.line_of(place)
            return BadRow(
                TableError(reason, path=file.name, row=row + place, line=line, column=column)
            )

        yield from read_blocks(parts, block, file.name, row, bad_row, header=self._head)

    def _learn(self, block: TextBlock, names: list[str], is_again: bool = False) -> None:
        """Find the types of columns that are not known, or of all columns whose type may change."""
        for out, column in self._columns.items():
            if out not in self._types:
                fixed = pa.bool_() if column.type == ATOM else fixed_type(column.type)
                self._types[out] = pa.null() if fixed is None else fixed
            known = self._types[out]
            if is_again and column.type == ATOM:
                # As text, all bad cells are found at once.
                self._types[out] = pa.string()
            elif is_again and column.type == NUMBER and pa.types.is_integer(known):
                cells = self._cells_of(block, names, column.name)
                if _has_fractions(cells, self._dialect.decimal):
                    self._types[out] = pa.float64()
            elif column.type in _INFERRED and (is_again or pa.types.is_null(known)):
                seen = block if is_again else block.head(_TYPED_BYTES)
                found = self._inferred(seen, names, column)
                self._types |= joined_types(self._types, {out: found})

    def _inferred(self, block: TextBlock, names: list[str], column: _Column) -> pa.DataType:
        """The type of a column of times, or ordered values, by its first cell; null without one."""
        if column.type == TIMES:
            return self._found(block, names, column.name)
        cells = self._cells_of(block, names, column.name)
        # cells are seldom empty, and are not all made values of Python
        texts = (one.as_py() for one in cells)
        if column.type == "time":
            texts = (one for one in texts if one is not None and read_instant(one.strip()))
        first = first_value(texts)
        if not isinstance(first, str):
            return pa.null()
        if column.type in {ORDERED, ORDERED_FLOATS}:
            decimal = self._dialect.decimal
            wanted = ordered_type(first, decimal)
            if wanted == "text":
                return pa.string()
            if wanted == NUMBER:
                is_float = column.type == ORDERED_FLOATS or _has_fractions(cells, decimal)
                return pa.float64() if is_float else pa.int64()
        return time_type(first)

    def _found(self, block: TextBlock, names: list[str], name: str) -> pa.DataType:
        """The type that the cells of a column have, or text."""
        table = self._read_columns(block, names, _room(block), [name], None)
        return _or_text(table.schema.field(name).type)

    def _cells_of(self, block: TextBlock, names: list[str], name: str) -> pa.ChunkedArray:
        """The cells of a column, of the rows that can be read."""
        types = {name: pa.string()}
        return self._read_columns(block, names, _room(block), [name], types, skips=True)[name]

    def _parts(
        self, block: TextBlock, names: list[str]
    ) -> Iterator[tuple[int, Parsed | BaseException]]:
        """Read rows of which some cannot be read; yields what `usable_parts` does."""
        try:
            parsed = self._parse_with_faults(block, names)
        except _REFUSALS:
            parsed = None
        if parsed is not None:
            yield 0, parsed
            return

        def parse(first: int, last: int) -> Parsed:
            part = block.part(first, last)
            return self._parsed(part, names, max(_PARSED_BYTES, 2 * len(part.text)))

        suspects = self._suspects(block, names)
        yield from usable_parts(len(block.starts) - 1, parse, _REFUSALS, suspects)

    def _suspects(self, block: TextBlock, names: list[str]) -> list[int]:
        """The rows with cells that are probably no numbers, in columns of numbers."""
        patterns = {
            self._columns[out].name: _INTEGER
            if pa.types.is_integer(found)
            else number_pattern(self._dialect.decimal)
            for out, found in self._types.items()
            if pa.types.is_integer(found) or pa.types.is_floating(found)
        }
        block_size = max(_PARSED_BYTES, 2 * len(block.text))
        texts = dict.fromkeys(patterns, pa.string())
        try:
            table = self._read_columns(block, names, block_size, list(patterns), texts)
        except _REFUSALS:
            return []
        if not patterns or table.num_rows != block.row_count:
            return []
        is_bad = pa.chunked_array([pa.repeat(False, table.num_rows)])
        for name, pattern in patterns.items():
            is_number = pc.match_substring_regex(table.column(name), pattern)
            is_bad = pc.or_(is_bad, pc.fill_null(pc.invert(is_number), False))
        return pc.indices_nonzero(is_bad).to_pylist()  # type: ignore[no-any-return]

    def _parse_with_faults(self, block: TextBlock, names: list[str]) -> Parsed:
        """Read rows; cells with a text that is often wrong become null, as in a column of numbers
        with `NA` here and there. Raises one of _REFUSALS if there are other rows that cannot be
        read, or more such texts.
        """
        block_size = max(_PARSED_BYTES, 2 * len(block.text))
        wrong: dict[str, dict[str, BaseException]] = {}
        while True:
            try:
                table = self._parse(block, names, block_size, wrong)
                break
            except _REFUSALS as error:
                found = re.search(_BAD_VALUE, str(error))
                if found is None or not found[3] or int(found[1]) >= len(names):
                    raise
                texts = wrong.setdefault(self._reading[names[int(found[1])]], {})
                if found[3] in texts or sum(map(len, wrong.values())) >= _WRONG_TEXTS:
                    raise
                texts[found[3]] = error
        faults = self._wrong_quotes(block)
        faults = self._inexact(block, names, table) | faults
        for out, texts in wrong.items():
            name = self._columns[out].name
            column = self._texts_of(block, names, name)
            is_wrong = pc.is_in(column, pa.array(list(texts), column.type))
            for place in pc.indices_nonzero(is_wrong).to_pylist():
                faults.setdefault(place, texts[column[place].as_py()])
        return Parsed(table, faults)

    def _wrong_quotes(self, block: TextBlock) -> dict[int, BaseException]:
        """The errors of the rows whose quotes are not in order."""
        return {place: _WrongQuote(self._wrong_quote(block, place)) for place in block.malformed}

    def _wrong_quote(self, block: TextBlock, place: int) -> str:
        """What is wrong with the quotes of a row."""
        reason = (
            f"cell {block.malformed[place]} begins with a quote, but does not end with one before "
            "a delimiter or the end of a line, in a row that has as many cells as the header"
        )
        option = self._selection.options.written("quote", "lines")
        return f"{reason}; {option} reads such a quote as a character" if option else reason

    def _explained(self, error: BaseException, names: list[str]) -> tuple[str, str | None]:
        """What is wrong with a row by the reader's message, and the column if that is known."""
        reason = str(error)
        if isinstance(error, _WrongQuote):
            return reason, None
        if isinstance(error, _WrongValue):
            return reason, error.column
        value = re.search(_BAD_VALUE, reason)
        if value is not None and int(value[1]) < len(names):
            column = names[int(value[1])].partition("\0")[0]
            text = value[3]
            if not text:
                if value[4] and "UTF8" in value[4]:
                    return f"the text is {NOT_UTF_8}", column
                return value[4] or f"not of type {value[2]}", column
            reason = f"{text[:_SHOWN]!r} is not of type {value[2]}"
            options = self._selection.options
            option = options.written("null_values", text if options.is_command else ["", text])
            if text.lower() in _NULL_TEXTS and option is not None:
                reason += f"; if it means that there is no value, add {option}"
            return reason, column
        if count := re.search(_BAD_COUNT, reason):
            noun = "cell" if count[2] == "1" else "cells"
            reason = f"{count[2]} {noun} instead of {count[1]}, as in the header"
        return reason, None

    def _parsed(self, block: TextBlock, names: list[str], block_size: int) -> Parsed:
        """Read rows; raises one of _REFUSALS if some row other than malformed ones cannot be read.

        The arguments are those of `_parse`.
        """
        table = self._parse(block, names, block_size, {})
        faults = self._inexact(block, names, table)
        return Parsed(table, faults | self._wrong_quotes(block) if block.malformed else faults)

    def _texts_of(self, block: TextBlock, names: list[str], name: str) -> pa.ChunkedArray:
        """The cells of a column, of all rows."""
        size = max(_PARSED_BYTES, 2 * len(block.text))
        read = self._read_columns(block, names, size, [name], {name: pa.string()})
        return read.column(name)

    def _inexact(
        self, block: TextBlock, names: list[str], table: pa.Table
    ) -> dict[int, BaseException]:
        """The errors of rows with integers that must be floats, but that no float is."""
        faults: dict[int, BaseException] = {}
        for out, column in self._columns.items():
            if column.type in {NUMBER, ORDERED}:
                find = partial(self._texts_of, block, names, column.name)
                self.rounded.note(column.name, table.column(out), find)
            if column.type not in {FLOATS, ORDERED_FLOATS}:
                continue
            found = table.column(out)
            if not pa.types.is_floating(found.type) or not has_long_floats(found):
                continue
            texts = self._texts_of(block, names, column.name)
            for place, text in long_integers(texts).items():
                faults[place] = _WrongValue(LONG_INTEGER.format(repr(text)), column.name)
        return faults

    def _parse(
        self,
        block: TextBlock,
        names: list[str],
        block_size: int,
        wrong: Mapping[str, Collection[str]],
    ) -> pa.Table:
        """Read rows; raises one of _REFUSALS if some row cannot be read.

        Args:
            block: the rows.
            names: the names of the columns.
            block_size: how many bytes one thread parses at once.
            wrong: for some columns that are returned, texts that become null.
        """
        found: dict[str, pa.ChunkedArray] = {}
        # a column that is wanted as values of several types is read several times
        passes: list[tuple[Mapping[str, str], Collection[str]]] = [
            ({name: out for name, out in one.items() if out not in wrong}, ())
            for one in self._passes
        ]
        passes += [({self._columns[out].name: out}, texts) for out, texts in wrong.items()]
        for number, (outs, nulls) in enumerate(passes):
            self._reading = outs
            types = {name: self._types[out] for name, out in outs.items()}
            read = self._read_columns(block, names, block_size, list(outs), types, nulls)
            if number == 0 and read.num_rows != block.row_count:
                raise pa.ArrowInvalid(_CARRIAGE_RETURN)
            found |= {out: read.column(name) for name, out in outs.items()}
        return pa.table({out: found[out] for out in self._columns})

    def _read_columns(
        self,
        block: TextBlock,
        names: list[str],
        block_size: int,
        wanted: Sequence[str],
        types: dict[str, pa.DataType] | None,
        nulls: Iterable[str] = (),
        *,
        skips: bool = False,
    ) -> pa.Table:
        """Read columns with known types, or with types inferred from the rows that can be read.

        The texts in `nulls` mean null, too. Malformed rows are null; with `skips`, they and all
        others that cannot be read are left out.
        """
        skips = skips or types is None
        buffer = block.readable
        if skips:
            buffer = _with_utf_8(buffer)
        if block.malformed and not buffer.size:
            found = {name: pa.null() if types is None else types[name] for name in wanted}
            rows = 0 if skips else len(block.malformed)
            return pa.table({name: pa.nulls(rows, found[name]) for name in wanted})
        table = csv.read_csv(
            buffer,
            read_options=csv.ReadOptions(column_names=names, block_size=block_size),
            parse_options=csv.ParseOptions(
                delimiter=block.syntax.delimiter,
                quote_char=block.syntax.quote or False,
                newlines_in_values=block.irregular is not None,
                # types are found from the rows that have the right number of cells
                invalid_row_handler=_skip if skips else None,
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(wanted),
                column_types=types,
                null_values=[*self._dialect.null_values, *nulls],
                true_values=TRUE_TEXTS,
                false_values=FALSE_TEXTS,
                strings_can_be_null=True,
                decimal_point=self._dialect.decimal,
                quoted_strings_can_be_null=False,
            ),
        )
        return table if skips else _with_nulls(table, block)


def _with_nulls(table: pa.Table, block: TextBlock) -> pa.Table:
    """Put nulls where the malformed rows of a block are, which the table does not have."""
    if not block.malformed:
        return table
    is_malformed = np.zeros(table.num_rows + len(block.malformed), bool)
    is_malformed[list(block.malformed)] = True
    return table.take(pa.array(np.cumsum(~is_malformed) - 1, mask=is_malformed))


def _columns_of(selection: Selection) -> dict[str, _Column]:
    """The columns that are returned, by their names there."""
    found = {name: _Column(name, "text") for name in selection.cells_of_texts}
    for name, text_name in selection.typed_times().items():
        found[name] = _Column(name, TIMES)
        found[text_name] = _Column(name, "text")
    for name in selection.booleans:
        found.setdefault(name, _Column(name, ATOM))
    for name, column in selection.conversions.items():
        if column.type != "text":
            found[name] = _Column(str(column), column.type)
    return found


def _passes_of(columns: Mapping[str, _Column]) -> list[dict[str, str]]:
    """The columns of the file that are read at a time, with their names where they are returned.

    The reader of Arrow returns a column once.
    """
    passes: list[dict[str, str]] = [{}]
    for out, column in columns.items():
        free = next((one for one in passes if column.name not in one), None)
        if free is None:
            free = {}
            passes.append(free)
        free[column.name] = out
    return passes


def _with_utf_8(buffer: pa.Buffer) -> pa.Buffer:
    """Replace characters in a text that are not UTF-8.

    Such rows are wrong, but the reader cannot skip them to find the types of other rows.
    """
    content = buffer.to_pybytes()
    try:
        content.decode()
    except UnicodeDecodeError:
        return pa.py_buffer(content.decode(errors="replace").encode())
    return buffer


def _has_fractions(column: pa.ChunkedArray, decimal: str) -> bool:
    """Whether some cells are numbers, but no integers of 64 bits."""
    texts = pc.utf8_trim_whitespace(column.drop_null()).combine_chunks()
    others = texts.filter(pc.match_substring_regex(texts, number_pattern(decimal)))
    is_short = pc.and_(
        pc.match_substring_regex(others, _INTEGER), pc.less(pc.utf8_length(others), _SHORT)
    )
    others = others.filter(pc.invert(is_short))
    try:
        others.cast(pa.int64())
    except pa.ArrowInvalid:
        return True
    return False


def _room(block: TextBlock) -> int:
    return max(_PARSED_BYTES, 2 * len(block.text))


def _or_text(data_type: pa.DataType) -> pa.DataType:
    """A type inferred from cells, as text if it is bytes: then some texts are not UTF-8."""
    return pa.string() if pa.types.is_binary(data_type) else data_type


def _skip(_row: object) -> str:
    return "skip"


class _WrongQuote(Exception):
    """The quotes of a row are not in order."""


class _WrongValue(Exception):
    """A cell cannot have the value that it is read as.

    Attributes:
        column: the column.
    """

    def __init__(self, reason: str, column: str) -> None:
        super().__init__(reason)
        self.column = column


_INTEGER = r"^[-+]?[0-9]+$"
# so many characters of a number always fit 64 bits
_SHORT = 19


# compiled on use, after an error
_BAD_VALUE = (
    r"(?s)In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): "
    r"(?:invalid value '(.*)'|(.*))"
)
_BAD_COUNT = r"Expected (\d+) columns, got (\d+)"
_SHOWN = 60
