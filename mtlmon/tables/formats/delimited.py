"""Read tables of delimited text: CSV and TSV."""

from __future__ import annotations

import csv as csv_of_python
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mtlmon.errors import TableError
from mtlmon.support.encodings import NOT_UTF_8
from mtlmon.tables.columns.wanted import joined_types
from mtlmon.tables.formats.blocks import BadRow, Block, Parsed, read_blocks, usable_parts
from mtlmon.tables.formats.rows import text_blocks
from mtlmon.tables.formats.schemas import FALSE_TEXTS, TRUE_TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

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


class DelimitedReader:
    """Reads the files of one table in delimited text.

    Times, keys and names of events are read as text. Atoms are read as Booleans, and also as text
    after the first cell that is not a Boolean. Columns of predicates have the type of their first
    cells; if numbers with a point come later, integers become floats.

    Args:
        selection: the columns to read.
        dialect: how cells are written.
        fits: whether predicates can use columns of these types.

    Attributes:
        spanning_rows: the number of rows that span lines.
        stray_quotes: the number of cells that begin with a quote that is a character.
    """

    def __init__(
        self,
        selection: Selection,
        dialect: Dialect,
        fits: Callable[[pa.Schema], bool],
    ) -> None:
        self._selection = selection
        self._dialect = dialect
        self._fits = fits
        self._types: dict[str, pa.DataType] = {}
        # the header of the file, if it has one
        self._head = b""
        self.spanning_rows = 0
        self.stray_quotes = 0

    def blocks(self, file: TableFile, stream: ByteStream) -> Iterator[Block | BadRow]:
        """Read the rows of a file.

        Raises:
            TableError: the header is not valid.
        """
        names: list[str] | None = None
        row = 1
        for block in text_blocks(stream, self._dialect.syntax_of(file.format)):
            if names is None:
                # there may be only empty lines so far
                if block.row_count:
                    names = self._header(block, file)
                    self._head = block.text_of(0)
                continue
            for read in self.read(block, file, names, row):
                yield read
                row += read.batch.num_rows if isinstance(read, Block) else 1

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
        unknown = [
            name
            for name in self._selection.typed
            if is_again or name not in self._types or pa.types.is_null(self._types[name])
        ]
        for name in self._selection.texts:
            if name not in self._selection.typed:
                self._types[name] = pa.string()
        for name in self._selection.booleans:
            if name not in self._selection.typed and name not in self._types:
                self._types[name] = pa.bool_()
            elif is_again and name not in self._selection.typed:
                # As text, all bad cells are found at once.
                self._types[name] = pa.string()
        if unknown:
            seen = block if is_again else block.head(_TYPED_BYTES)
            size = max(_PARSED_BYTES, 2 * len(seen.text))
            table = self._read_columns(seen, names, size, unknown, None)
            found = {name: _or_text(table.schema.field(name).type) for name in unknown}
            self._types = joined_types(self._types, self._demanded(table, found))

    def _demanded(self, table: pa.Table, found: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The types found in the first rows; or numbers for texts of which most are such, where
        predicates are about numbers: then some rows are wrong, not the predicates.
        """
        types = {name: self._types.get(name, pa.null()) for name in self._selection.typed}
        if self._fits(pa.schema({**types, **found})):
            return found
        demanded = {
            name: _most(table.column(name), self._dialect.decimal)
            if data_type == pa.string()
            else data_type
            for name, data_type in found.items()
        }
        return demanded if self._fits(pa.schema({**types, **demanded})) else found

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
            name: _INTEGER if pa.types.is_integer(found) else _number(self._dialect.decimal)
            for name, found in self._types.items()
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
                found = _BAD_VALUE.search(str(error))
                if found is None or not found[3] or int(found[1]) >= len(names):
                    raise
                texts = wrong.setdefault(names[int(found[1])], {})
                if found[3] in texts or sum(map(len, wrong.values())) >= _WRONG_TEXTS:
                    raise
                texts[found[3]] = error
        faults = self._wrong_quotes(block)
        for name, texts in wrong.items():
            read = self._read_columns(block, names, block_size, [name], {name: pa.string()})
            column = read.column(name)
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
        value = _BAD_VALUE.search(reason)
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
        if count := _BAD_COUNT.search(reason):
            noun = "cell" if count[2] == "1" else "cells"
            reason = f"{count[2]} {noun} instead of {count[1]}, as in the header"
        return reason, None

    def _parsed(self, block: TextBlock, names: list[str], block_size: int) -> Parsed:
        """Read rows; raises one of _REFUSALS if some row other than malformed ones cannot be read.

        The arguments are those of `_parse`.
        """
        table = self._parse(block, names, block_size, {})
        return Parsed(table, self._wrong_quotes(block) if block.malformed else {})

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
            wrong: for some columns, texts that become null.
        """
        wanted = [name for name in self._selection.names if name not in wrong]
        table = self._read_columns(block, names, block_size, wanted, self._types)
        if table.num_rows != block.row_count:
            raise pa.ArrowInvalid(_CARRIAGE_RETURN)
        for name, texts in wrong.items():
            read = self._read_columns(block, names, block_size, [name], self._types, texts)
            table = table.append_column(name, read.column(name))
        both = self._selection.typed_and_text()
        if both:
            # The reader returns a column only once, so a column that is wanted twice is read again.
            types = dict.fromkeys(both, pa.string())
            texts = self._read_columns(block, names, block_size, list(both), types)
            for name, text_name in both.items():
                table = table.append_column(text_name, texts.column(name))
        return table

    def _read_columns(
        self,
        block: TextBlock,
        names: list[str],
        block_size: int,
        wanted: Sequence[str],
        types: dict[str, pa.DataType] | None,
        nulls: Iterable[str] = (),
    ) -> pa.Table:
        """Read columns with known types, or with types inferred from the rows that can be read.

        The texts in `nulls` mean null, too. With known types, malformed rows are null; otherwise
        they are left out.
        """
        buffer = block.readable
        if types is None:
            buffer = _with_utf_8(buffer)
        if block.malformed and not buffer.size:
            found = {name: pa.null() if types is None else types[name] for name in wanted}
            rows = 0 if types is None else len(block.malformed)
            return pa.table({name: pa.nulls(rows, found[name]) for name in wanted})
        table = csv.read_csv(
            buffer,
            read_options=csv.ReadOptions(column_names=names, block_size=block_size),
            parse_options=csv.ParseOptions(
                delimiter=block.syntax.delimiter,
                quote_char=block.syntax.quote or False,
                newlines_in_values=block.irregular is not None,
                # types are inferred from the rows that have the right number of cells
                invalid_row_handler=_skip if types is None else None,
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
        return table if types is None else _with_nulls(table, block)


def _with_nulls(table: pa.Table, block: TextBlock) -> pa.Table:
    """Put nulls where the malformed rows of a block are, which the table does not have."""
    if not block.malformed:
        return table
    is_malformed = np.zeros(table.num_rows + len(block.malformed), bool)
    is_malformed[list(block.malformed)] = True
    return table.take(pa.array(np.cumsum(~is_malformed) - 1, mask=is_malformed))


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


def _most(column: pa.ChunkedArray, decimal: str) -> pa.DataType:
    """The type of number that most cells have, or text."""
    texts = column.cast(pa.string(), safe=False).drop_null()
    for pattern, data_type in ((_INTEGER, pa.int64()), (_number(decimal), pa.float64())):
        count = pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0
        if 2 * count > len(texts):
            return data_type
    return pa.string()


def _or_text(data_type: pa.DataType) -> pa.DataType:
    """A type inferred from cells, as text if it is bytes: then some texts are not UTF-8."""
    return pa.string() if pa.types.is_binary(data_type) else data_type


def _skip(_row: object) -> str:
    return "skip"


class _WrongQuote(Exception):
    """The quotes of a row are not in order."""


_INTEGER = r"^[-+]?[0-9]+$"


def _number(decimal: str) -> str:
    return rf"^[-+]?([0-9]+[{decimal}]?[0-9]*|[{decimal}][0-9]+)([eE][-+]?[0-9]+)?$"


_BAD_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): "
    r"(?:invalid value '(.*)'|(.*))",
    re.DOTALL,
)
_BAD_COUNT = re.compile(r"Expected (\d+) columns, got (\d+)")
_SHOWN = 60
