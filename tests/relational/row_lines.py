"""A reader of logs of relations written for obviousness: one line at a time, with patterns."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from tests.doors import KeyTable, PointBlock, RowScanner

Value = int | float | bool | str
Rows = list[tuple[str, tuple[Value, ...]]]
Points = list[tuple[int, Rows]]
Relations = Sequence[tuple[str, tuple[str, ...]]]

QUOTED = r'"(?:[^"\\\n]|\\["\\])*"'
BARE = r'[^\x00-\x20\x7f()",]+'
VALUE = re.compile(rf"{QUOTED}|{BARE}")
NAME = re.compile(r'"(?:[^"\\\n]|\\["\\])+"|[^\x00-\x20\x7f()",;]+')
STAMP = re.compile(r"@([0-9]+)(?=[ \t;]|\Z)")
INTEGER = re.compile(r"-?[0-9]+")
FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf(?:inity)?))")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadLine(Exception):
    """A line that cannot be read."""


def read_log(
    data: bytes, relations: Relations, *, skip_errors: bool = False
) -> tuple[Points, list[int]]:
    """The time-points before the first bad line, and the numbers of the bad lines met.

    Without `skip_errors` reading ends at the first bad line.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    points: Points = []
    bad: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.removesuffix("\r").lstrip(" \t")
        if content == "" or content.startswith("#"):
            continue
        try:
            point = read_line(content, dict(relations))
            if points and point[0] < points[-1][0]:
                raise BadLine
        except BadLine:
            bad.append(number)
            if not skip_errors:
                break
        else:
            points.append(point)
    return points, bad


def read_line(line: str, relations: dict[str, tuple[str, ...]]) -> tuple[int, Rows]:
    stamp = STAMP.match(line)
    if stamp is None or int(stamp[1]) >= 1 << 63:
        raise BadLine
    rows: Rows = []
    place = blanks(line, stamp.end())
    while place < len(line) and line[place] != ";":
        name = NAME.match(line, place)
        if name is None:
            raise BadLine
        written = unquoted(name[0])
        kinds = relations.get(written)
        place = blanks(line, name.end())
        if line[place : place + 1] != "(" and kinds is not None:
            if kinds:
                raise BadLine
            rows.append((written, ()))
        while line[place : place + 1] == "(":
            values, place = read_values(line, blanks(line, place + 1))
            place = blanks(line, place)
            if kinds is not None:
                if len(values) != len(kinds):
                    raise BadLine
                row = tuple(value_of(*one) for one in zip(values, kinds, strict=True))
                rows.append((written, row))
    if place < len(line):
        rest = line[place + 1 :].strip(" \t")
        if rest and not rest.startswith("#"):
            raise BadLine
    return int(stamp[1]), rows


def read_values(line: str, place: int) -> tuple[list[str], int]:
    """The values of a row, and the place behind its parenthesis."""
    values: list[str] = []
    if line[place : place + 1] == ")":
        return values, place + 1
    while True:
        value = VALUE.match(line, place)
        if value is None:
            raise BadLine
        values.append(unquoted(value[0]))
        place = blanks(line, value.end())
        mark = line[place : place + 1]
        if mark == ")":
            return values, place + 1
        if mark != ",":
            raise BadLine
        place = blanks(line, place + 1)


def unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def blanks(line: str, place: int) -> int:
    while line[place : place + 1] in {" ", "\t"}:
        place += 1
    return place


def value_of(text: str, kind: str) -> Value:
    if kind == "integer" and INTEGER.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 63:
        return int(text)
    if kind == "float" and FLOAT.fullmatch(text):
        return float(text) + 0.0
    if kind == "boolean" and text in {"true", "True", "TRUE", "t", "T", "1"}:
        return True
    if kind == "boolean" and text in {"false", "False", "FALSE", "f", "F", "0"}:
        return False
    if kind == "text" and not re.search("[\udc80-\udcff]", text):
        return text
    if kind == "time" and re.fullmatch(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?", text):
        try:
            found = datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            raise BadLine from None
        nanoseconds = (found - EPOCH) // timedelta(seconds=1) * 10**9
        if -(1 << 63) <= nanoseconds < 1 << 63:
            return nanoseconds
    raise BadLine


def scanner(relations: Relations, *, skip_errors: bool = False) -> RowScanner:
    widths = np.array([len(kinds) for _, kinds in relations], np.uint32)
    return RowScanner(relations, PointBlock(widths), KeyTable(1), skip_errors=skip_errors)


def taken(rows: RowScanner) -> Points:
    """The time-points that the scanner has read."""
    found: Points = []
    for time_stamp, cells in rows.points.take():
        found.append((time_stamp, []))
        for number, row in cells:
            name, kinds = rows.table.relations[number]
            values = tuple(
                decoded(cell, kind, rows.texts) for cell, kind in zip(row, kinds, strict=True)
            )
            found[-1][1].append((name, values))
    return found


def decoded(cell: int, kind: str, texts: KeyTable) -> Value:
    if kind == "text":
        return texts.key(cell)[0]
    if kind == "boolean":
        assert cell in {0, 1}
        return bool(cell)
    if kind == "float":
        (value,) = struct.unpack("<d", struct.pack("<q", cell))
        assert not math.isnan(value)
        return float(value)
    return cell
