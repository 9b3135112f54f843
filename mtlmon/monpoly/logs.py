"""Reads MonPoly's logs: time-points that begin with @ and have rows of relations."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import LogError
from mtlmon.monpoly.signature import BUILT_IN
from mtlmon.policy.predicates.conversions import float_of_text, integer_of_text
from mtlmon.policy.predicates.integers import fits
from mtlmon.support.copies import NotCopied
from mtlmon.support.guesses import did_you_mean
from mtlmon.syntax.interval import MAXIMUM_BOUND
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mtlmon.text.native import LineOrder

    Value = int | float | str
    Row = tuple[Value, ...]
    _Matcher = Callable[[bytes, int, int], re.Match[bytes] | None]
    _Reading = tuple[str, Sequence[Callable[[str], Value]], _Matcher]

_TOKEN = re.compile(
    rb"""
      (?P<blank> (?: [ \t\r\n]+ | \#[^\n]*(?:\n|\Z) )+ )
    | r? "(?P<quoted> (?: [^"\\] | \\. )* )"
    | (?P<word> [A-Za-z0-9_\[\]/:.!-]+ )
    | (?P<symbol> [@(),;] )
    """,
    re.VERBOSE | re.DOTALL,
)
# A value as it is written most often, with the blanks around it.
_PLAIN = rb'[ \t\r\n]*([A-Za-z0-9_\[\]/:.!-]+|"[^"\\]*")[ \t\r\n]*'
_NAMED_ROW = re.compile(rb"[ \t\r\n]*([A-Za-z][A-Za-z0-9_]*)(?=[ \t\r\n]*\()")
_OPEN_TEXT = re.compile(rb'r?"')
_LARGEST_DIGITS = 19
_SHOWN = 40

# What comes next.
_START, _STAMP, _NAME, _ROWS, _FIRST, _VALUE, _COMMA, _SKIPPED = range(8)
_IN_POINT = (_NAME, _ROWS)


class TimePoint(NamedTuple):
    """A time-point of a log.

    Attributes:
        time_stamp: its time-stamp.
        rows: the rows of each relation of the formula that has some, by its name there. Rows can
            be equal.
    """

    time_stamp: int
    rows: dict[str, list[Row]]


class Place(NamedTuple):
    """A place in a log at which reading can begin again.

    Attributes:
        position: the number of bytes before it.
        line: the number of lines before its own.
        column: the number of characters before it on its line.
        last: the last time-stamp before it.
        skipped: how many time-points before it were left out.
    """

    position: int = 0
    line: int = 0
    column: int = 0
    last: int = 0
    skipped: int = 0


class _Invalid(Exception):
    """A token that is wrong where it stands; the message says why."""


class LogReader(NotCopied):
    """Reads a log from blocks of bytes.

    Args:
        signature: the types of all relations that the log may have, from `read_signature`.
        relations: the relations whose rows are wanted, with the names that they get.
        name: the name of the log in errors.
        skip_errors: whether time-points that cannot be read are left out.
        order: what has put the lines of the log into the order of time, so that each time-point
            must begin a line, and each text end on its line; None if nothing has.

    Attributes:
        skipped: how many time-points were left out.
        takes_late: set this if time-stamps may decrease. Each time-point must begin a line then,
            too, as lines that come too late go into a file of their own.
        order: what has put the lines into the order of time.
    """

    def __init__(
        self,
        signature: Mapping[str, Sequence[str]],
        relations: Mapping[str, str],
        name: str = "<log>",
        *,
        skip_errors: bool = False,
        order: LineOrder | None = None,
    ) -> None:
        self.name = name
        self.skip_errors = skip_errors
        self.order = order
        self.skipped = 0
        self.takes_late = False
        self._signature = signature
        self._relations = relations
        # How the rows of each relation are read: its name, the readers of its values, the pattern.
        self._known: dict[bytes, _Reading] = {
            name.encode(): (
                name,
                [_READERS[kind] for kind in types],
                _row_pattern(len(types)).match,
            )
            for name, types in signature.items()
        }
        self._data = b""
        # Where the present time-point begins: its index in the data, with what was known there, or
        # the place, if its first byte is no longer there.
        self._mark: tuple[int, int, int] | None = None
        self._begun = Place()
        # The place of the first byte of the data, counted from 0.
        self._position = 0
        self._line = 0
        self._column = 0
        self._last = 0
        self._state = _START
        self._point: TimePoint | None = None
        self._complete: TimePoint | None = None
        # The relation whose rows are being read, and the values of the present row.
        self._relation = ""
        self._readers: Sequence[Callable[[str], Value]] = ()
        self._match_row: _Matcher = _never
        self._rows: list[Row] | None = None
        self._values: list[Value] = []

    def feed(self, data: bytes) -> Iterator[TimePoint]:
        """Take the next bytes; yield the time-points that are complete.

        Raises:
            LogError: a time-point cannot be read.
        """
        self._data += data
        yield from self._read(self._data.rfind(b"\n") + 1, is_end=False)

    def pass_over(self, data: bytes, end: int, time_stamp: int) -> None:
        """Note that complete lines of time-points have been read by other means.

        Args:
            data: bytes that begin with these lines.
            end: the position behind them.
            time_stamp: that of the last time-point.
        """
        self._line += data.count(b"\n", 0, end)
        self._last = time_stamp
        self._position += end
        self._begun = Place(self._position, self._line, 0, self._last, self.skipped)

    @property
    def place(self) -> Place:
        """Where the time-point begins that is not complete yet: all before it have been yielded."""
        if self._mark is None:
            return self._begun
        index, last, skipped = self._mark
        line, column = self._line_and_column(index)
        return Place(self._position + index, line, column, last, skipped)

    @property
    def line_count(self) -> int:
        """How many lines come before the time-point that is not complete yet."""
        return self.place.line

    def begin_at(self, place: Place) -> None:
        """Go on where another reader was; the next byte to feed is the one behind the position."""
        self._begun = place
        self._position, self._line, self._column, self._last, self.skipped = place

    def finish(self) -> Iterator[TimePoint]:
        """Yield what is left at the end of the log; errors as of `feed`."""
        yield from self._read(len(self._data), is_end=True)
        if self._state in {_FIRST, _VALUE, _COMMA, _STAMP}:
            self._fail(len(self._data), "the log ends within a time-point")
        try:
            self._end_relation()
        except _Invalid as invalid:
            self._fail(len(self._data), str(invalid))
        if self._point is not None:
            yield self._point
        self._point = None

    def _read(self, end: int, *, is_end: bool) -> Iterator[TimePoint]:
        """Read the tokens up to a position of the data."""
        data, place = self._data, 0
        match = _TOKEN.match
        while place < end:
            if self._state in _IN_POINT and (behind := self._whole_row(data, place, end)):
                place = behind
                continue
            found = match(data, place, end)
            if found is None:
                if _OPEN_TEXT.match(data, place, end) and not is_end:
                    break
                self._fail(place, self._unexpected(data, place))
                place += 1
                continue
            start, place = place, found.end()
            kind = found.lastgroup
            if kind == "blank":
                continue
            try:
                if self.order is not None or self.takes_late:
                    self._check_lines(data, start, place)
                if kind == "symbol":
                    self._symbol(data[start])
                else:
                    self._word(found[kind or ""], is_bare=kind == "word")
            except _Invalid as invalid:
                self._fail(start, str(invalid))
                if data[start] == _AT:
                    self._state = _STAMP
            if kind == "symbol" and data[start] in _BETWEEN_POINTS and self._state in _OUTSIDE:
                begun = start if self._state == _STAMP else place
                self._mark = begun, self._last, self.skipped
            if self._complete is not None:
                yield self._complete
                self._complete = None
        self._consume(place)

    def _whole_row(self, data: bytes, place: int, end: int) -> int:
        """Read a row of plain values, with the name of its relation before it or not.

        PERF: reading 100,000 time-points with two rows of two texts each takes 0.7 s of processor
        time this way, and 1.2 s token by token.

        Returns:
            The position behind it, or 0 if it must be read token by token, which finds errors.
        """
        begun = None
        match_row = self._match_row
        if named := _NAMED_ROW.match(data, place, end):
            begun = self._known.get(named[1])
            if begun is None:
                return 0
            place, match_row = named.end(), begun[2]
        elif self._rows is None:
            return 0
        found = match_row(data, place, end)
        if found is None:
            return 0
        values = found.groups()
        if self.order is not None and any(b"\n" in value for value in values):
            return 0
        readers = self._readers if begun is None else begun[1]
        try:
            row = tuple(
                [
                    read((value[1:-1] if value[0] == _QUOTE else value).decode())
                    for read, value in zip(readers, values, strict=True)
                ]
            )
        except (_Invalid, UnicodeDecodeError):
            return 0
        if begun is not None:
            try:
                self._end_relation()
            except _Invalid:
                self._rows = []
                return 0
            self._relation, self._readers, self._match_row = begun
            self._rows = []
            self._state = _ROWS
        assert self._rows is not None
        self._rows.append(row)
        return found.end()

    def _check_lines(self, data: bytes, start: int, end: int) -> None:
        """Refuse a token at which lines cannot have an order of time.

        Raises:
            LogError: there is one. It is never left out, as the order of others depends on it.
        """
        if b"\n" in data[start:end]:
            raise self._error(start, "a text must end on its line where lines are put in order")
        if data[start] == _AT:
            line = data.rfind(b"\n", 0, start) + 1
            if data[line:start].strip() or (line == 0 and self._column):
                message = "a time-point must begin a line where lines are put in order"
                raise self._error(start, message)

    def _symbol(self, symbol: int) -> None:
        state = self._state
        if symbol == _AT:
            if state in {_FIRST, _VALUE, _COMMA}:
                raise _Invalid("expected ')' before the next time-point")
            if state == _STAMP:
                raise _Invalid("expected a time-stamp, not '@'")
            self._end_point()
            self._state = _STAMP
        elif state == _SKIPPED:
            return
        elif symbol == _OPEN and state == _ROWS:
            self._values = []
            self._state = _FIRST
        elif symbol == _CLOSE and state in {_FIRST, _COMMA}:
            self._end_row()
            self._state = _ROWS
        elif symbol == _COMMA_SIGN and state == _COMMA:
            self._state = _VALUE
        elif symbol == _SEMICOLON and state in {_NAME, _ROWS}:
            self._end_point()
            self._state = _START
        else:
            raise _Invalid(f"expected {_EXPECTED[state]}, not '{chr(symbol)}'")

    def _word(self, word: bytes, *, is_bare: bool) -> None:
        state = self._state
        if state == _SKIPPED:
            return
        try:
            text = word.decode()
        except UnicodeDecodeError:
            raise _Invalid("this text is not UTF-8") from None
        if state in {_FIRST, _VALUE}:
            self._value(text)
            self._state = _COMMA
        elif state in {_NAME, _ROWS} and is_bare:
            self._end_relation()
            self._begin_relation(text)
            self._state = _ROWS
        elif state == _STAMP and is_bare:
            self._point = TimePoint(self._time_stamp(text), {})
            self._state = _NAME
        else:
            raise _Invalid(f"expected {_EXPECTED[state]}, not '{_shown(text)}'")

    def _time_stamp(self, text: str) -> int:
        if not text.isdigit():
            raise _Invalid(f"'{_shown(text)}' is not a time-stamp: it is an integer from 0 on")
        value = int(text) if len(text.lstrip("0")) <= _LARGEST_DIGITS else MAXIMUM_BOUND + 1
        if value > MAXIMUM_BOUND:
            raise _Invalid(f"the time-stamp {_shown(text)} is above {MAXIMUM_BOUND}")
        if value < self._last and not self.takes_late:
            raise _Invalid(f"the time-stamp {value} is below the one before, {self._last}")
        self._last = value
        return value

    def _begin_relation(self, name: str) -> None:
        types = self._signature.get(name)
        if types is None:
            if name in BUILT_IN:
                raise _Invalid(f"{name} is built in and has no rows in a log")
            guess = did_you_mean(name, self._signature)
            raise _Invalid(f"the signature has no relation {_shown(name)}{guess}")
        self._relation, self._readers, self._match_row = self._known[name.encode()]
        self._values = []
        self._rows = []

    def _value(self, text: str) -> None:
        number = len(self._values)
        if number < len(self._readers):
            self._values.append(self._readers[number](text))
        else:
            self._values.append(text)

    def _end_row(self) -> None:
        wanted = len(self._readers)
        if len(self._values) != wanted:
            has = "one value" if wanted == 1 else f"{wanted or 'no'} values"
            found = len(self._values) or "none"
            raise _Invalid(f"a row of {self._relation} has {has}, not {found}")
        assert self._rows is not None
        self._rows.append(tuple(self._values))

    def _end_relation(self) -> None:
        """Add the rows of the present relation to the time-point."""
        rows, self._rows = self._rows, None
        if rows is None or self._point is None:
            return
        if not rows:
            # a name without parentheses
            if self._readers:
                raise _Invalid(f"{self._relation} has no row: expected '('")
            rows.append(())
        wanted = self._relations.get(self._relation)
        if wanted is not None:
            self._point.rows.setdefault(wanted, []).extend(rows)

    def _end_point(self) -> None:
        self._end_relation()
        self._complete, self._point = self._point, None

    def _fail(self, place: int, message: str) -> None:
        """Refuse the present time-point, or leave it out."""
        if self._state != _SKIPPED:
            self.skipped += 1
            self._state = _SKIPPED
            self._point = self._rows = None
            if not self.skip_errors:
                raise self._error(place, message)

    def _error(self, place: int, message: str) -> LogError:
        """Return an error with its place in the log."""
        line, column = self._line_and_column(place)
        line += 1
        if self.order is not None:
            line = self.order.line_of(line)
        return LogError(message, path=self.name, line=line, column=column + 1)

    def _unexpected(self, data: bytes, place: int) -> str:
        if _OPEN_TEXT.match(data, place):
            return "this text does not end"
        byte = data[place : place + 1]
        if byte in b"<>":
            return f"commands are not supported ('{byte.decode()}')"
        shown = repr(byte.decode("latin-1")) if byte.isascii() else "a byte beyond ASCII"
        return f"expected {_EXPECTED[self._state]}, not {shown}; other values stand in quotes"

    def _line_and_column(self, place: int) -> tuple[int, int]:
        """The line and the column of a place in the data, counted from 0."""
        lines = self._data.count(b"\n", 0, place)
        first = self._data.rfind(b"\n", 0, place) + 1
        column = len(self._data[first:place].decode(errors="replace"))
        return self._line + lines, column if lines else self._column + column

    def _consume(self, place: int) -> None:
        self._begun, self._mark = self.place, None
        self._line, self._column = self._line_and_column(place)
        self._position += place
        self._data = self._data[place:]


_AT, _OPEN, _CLOSE, _COMMA_SIGN, _SEMICOLON, _QUOTE = b'@(),;"'
# What ends a time-point, and the states behind it.
_BETWEEN_POINTS = b"@;"
_OUTSIDE = (_START, _STAMP)

_EXPECTED = {
    _START: "'@' and a time-stamp",
    _STAMP: "a time-stamp",
    _NAME: "the name of a relation",
    _ROWS: "the name of a relation or a row",
    _FIRST: "a value or ')'",
    _VALUE: "a value",
    _COMMA: "',' or ')'",
    _SKIPPED: "'@' and a time-stamp",
}


@cache
def _row_pattern(count: int) -> re.Pattern[bytes]:
    """Match a row of plain values, each of which is a group."""
    return re.compile(rb"[ \t\r\n]*\(" + b",".join([_PLAIN] * count) + rb"\)")


def _never(_data: bytes, _place: int, _end: int) -> None:
    """Match nothing."""


def _integer(text: str) -> int:
    if text.isdecimal() and len(text) < _LARGEST_DIGITS:
        return int(text)
    value = integer_of_text(text)
    if value is None:
        raise _Invalid(f"'{_shown(text)}' is not an integer")
    if not fits(value):
        raise _Invalid(f"{_shown(text)} does not fit in 64 bits")
    return value


def _float(text: str) -> float:
    value = float_of_text(text)
    if value is None:
        raise _Invalid(f"'{_shown(text)}' is not a number")
    return value


def _shown(text: str) -> str:
    return shorten(visible(text), _SHOWN)


_READERS: dict[str, Callable[[str], Value]] = {
    "int": _integer,
    "float": _float,
    "string": str,
    "regexp": str,
}
