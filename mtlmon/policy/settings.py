"""Reads what a policy file says about the log: its unit, key, columns, zone and assumptions."""

from __future__ import annotations

from mtlmon.errors import MtlmonError
from mtlmon.policy.clauses import read_assumption
from mtlmon.policy.declarations import (
    ASSUME,
    COLUMN,
    KEY,
    PATTERN,
    TEXTS,
    TIME,
    TIME_ZONE,
    UNIT,
    ZONE,
)
from mtlmon.support.time_columns import time_columns
from mtlmon.syntax.bounds import LATER, UNIT_WORDS, UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.clauses import ClauseReader
    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.declared_text import DeclaredText
    from mtlmon.policy.reading import FileReader

_MEANT_UNITS = {
    **dict.fromkeys(("nanosecond", "nanoseconds", "nsec"), "ns"),
    **dict.fromkeys(("microsecond", "microseconds", "usec", "µs", "μs"), "us"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec"), "ms"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}


def read_unit(text: DeclaredText, unit: str | None) -> str | None:
    """Read the unit of a file.

    Args:
        text: the file; the errors of its unit are added to its errors.
        unit: the unit that was asked for, or None.

    Returns:
        The unit that was asked for, or the one of the file, corrected if it is misspelt.
    """
    found: Declaration | None = None
    for declaration in text.declarations:
        if declaration.kind != UNIT:
            continue
        place = declaration.place
        name = UNIT_WORDS.get(declaration.name, declaration.name)
        if name not in UNITS:
            hint = f"the units are {', '.join(UNITS)}"
            if meant := _MEANT_UNITS.get(name.lower()):
                hint = f"write unit {meant}; {hint}"
            text.errors.append(text.error(place, f"'{name}' is not a unit of time", hint))
        elif found is not None:
            line = text.line_of(found)
            hint = "a file has one unit"
            message = f"the unit is declared in line {line} already"
            text.errors.append(text.error(place, message, hint))
        elif unit not in (None, LATER, name):
            message = f"the file declares the unit {name}, but {unit} was asked for"
            text.errors.append(text.error(place, message, "leave one of them out"))
        found = found or declaration
    if unit not in (None, LATER) or found is None:
        return unit
    name = UNIT_WORDS.get(found.name, found.name)
    return name if name in UNITS else _MEANT_UNITS.get(name.lower(), LATER)


class SettingsReader:
    """Reads the declarations that are one line, such as `key ip`, for the reader of a policy file.

    Args:
        reader: the reader of the file.
    """

    def __init__(self, reader: FileReader) -> None:
        self.reader = reader
        self.file = reader.file
        # The first declaration of each kind.
        self.seen: dict[str, Declaration] = {}

    def read(self, declaration: Declaration) -> None:
        """Read a declaration that is one line, such as `key ip`."""
        kind = declaration.kind
        if kind not in {ASSUME, COLUMN, PATTERN}:
            before = self.seen.setdefault(kind, declaration)
            if before is not declaration:
                message = f"{kind} is declared in line {self.reader.line_of(before)} already"
                raise self.reader.error(declaration.place, message, f"a file has one {kind}")
        end = declaration.place + len(declaration.name)
        clauses = self.reader.clauses(declaration.place, end)
        if kind == KEY:
            self.file.key = clauses.columns()
        elif kind == COLUMN:
            self.read_types(clauses)
        elif kind in TEXTS:
            value = clauses.text()
            if value is None:
                hint = f'write {kind} "{declaration.name.strip("`")}"'
                raise clauses.expected("a text in double quotes", hint)
            if kind == ZONE:
                self.require_zone(value, declaration)
            if kind == TIME:
                value = self.joined_columns(value, declaration)
            if kind == TIME_ZONE:
                # imported on use: few files say so, and starting takes longer with it
                from mtlmon.support.time_zones import REPEATED

                word = next((one for one in REPEATED if clauses.take(one)), None)
                value = self.time_zone(value if word is None else f"{value} {word}", declaration)
            if kind == PATTERN and self.file.pattern is not None:
                # each pattern is on a line of its own
                value = f"{self.file.pattern}\n{value}"
            setattr(self.file, kind.replace(" ", "_"), value)
        else:
            self.file.assumptions += (read_assumption(clauses),)
        clauses.require_end("the end of the line")

    def read_types(self, clauses: ClauseReader) -> None:
        """Read `NAME, NAME: TYPE`."""
        from mtlmon.policy.column_types import DECLARED
        from mtlmon.support.other_words import type_hint

        names: list[str] = []
        while True:
            name = clauses.column("the name of a column")
            if name in self.file.column_types or name in names:
                raise clauses.error(f"the column {name} has a type already", "declare one type")
            names.append(name)
            if not clauses.take_sign(","):
                break
        if not clauses.take_sign(":"):
            raise clauses.expected("':' and a type")
        place = clauses.position
        found = clauses.name("a type")
        if found not in DECLARED:
            hint = type_hint(found, DECLARED)
            raise self.reader.error(place, f"there is no type {found}", hint)
        self.file.column_types |= dict.fromkeys(names, found)

    def joined_columns(self, names: str, declaration: Declaration) -> str:
        """Return the names of columns of times without blanks around commas."""
        try:
            return ",".join(time_columns(names))
        except MtlmonError as error:
            hint = 'write the columns of times with commas between them: time "Date,Time"'
            raise self.reader.error(declaration.place, str(error), hint) from None

    def time_zone(self, text: str, declaration: Declaration) -> str:
        """Return a time zone, and which of two hours is meant, as `read_time_zone` takes them."""
        from mtlmon.support.time_zones import read_time_zone

        try:
            return str(read_time_zone(text))
        except MtlmonError as error:
            hint = 'write time zone "Europe/Berlin", and "first" or "second" behind it if needed'
            raise self.reader.error(declaration.place, str(error), hint) from None

    def require_zone(self, name: str, declaration: Declaration) -> None:
        """Check that a time zone exists."""
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            hint = 'zones are called as in the IANA database: "Europe/Berlin", "UTC"'
            message = f'there is no time zone "{name}"'
            raise self.reader.error(declaration.place, message, hint) from None
