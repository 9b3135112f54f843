"""Quotes in delimited text: quoted cells, cells that span lines, and quotes out of place."""

from __future__ import annotations

import csv
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon import MtlmonError, TableError
from mtlmon.tables import TableFile, open_tables
from tests.doors import Dialect, raw_rows, read_schema
from tests.doors import formats_dialect as dialect
from tests.doors import formats_rows as rows
from tests.reference.delimited import read_delimited
from tests.tables.reading import read

# No cell is null, so that each row with a time is an event.
NO_NULL = ["no such cell"]

# a format, what `quote` is, and what that means
WAYS = [
    ("csv", '"', '"', True),
    ("tsv", '"', '"', False),
    ("csv", "lines", '"', False),
    ("csv", "none", "", False),
    ("tsv", "none", "", False),
    ("csv", "'", "'", True),
    ("tsv", "'", "'", False),
]


class Seen(NamedTuple):
    """What is told of a file with the columns ts, a and b.

    Attributes:
        events: the cells of the rows that can be read.
        bad_lines: the lines of the first rows that cannot be read.
        skipped: how many cannot be read.
        spanning: how many span lines.
        strays: how many cells begin with a quote that is a character.
    """

    events: list[tuple[str, ...]]
    bad_lines: list[int | None]
    skipped: int
    spanning: int
    strays: int


def seen(path: Path | str, **options: Any) -> Seen:
    """What the monitor makes of a file."""
    asked: dict[str, Any] = {"event": "a", "key": ("a", "b"), "null_values": NO_NULL, **options}
    # A first time that is no number must not decide how times are written.
    asked["time_format"] = "number"
    events: list[tuple[str, ...]] = []
    with open_tables(path, ("x",), on_error="skip", **asked) as tables:
        for batch in tables:
            assert batch.numbers is not None
            assert tables.keys is not None
            keys = [tables.keys.key(int(number)) for number in batch.numbers]
            stamps = batch.time_stamps.tolist()
            events += [(str(one), *map(str, key)) for one, key in zip(stamps, keys, strict=True)]
        lines = [error.line for error in tables.errors]
        return Seen(events, lines, tables.skipped, tables.spanning_rows, tables.stray_quotes)


def expected(text: str, format: str, quote: str, spans_lines: bool) -> Seen:
    """What the reference makes of it: rows without a time cannot be read either.

    There may be blanks around a time.
    """
    found = read_delimited(text, "\t" if format == "tsv" else ",", quote, spans_lines)
    events, bad = [], []
    for row, line in zip(found.rows, found.lines, strict=True):
        if row is not None and row[0].strip().isdigit():
            events.append((row[0].strip(), *row[1:]))
        else:
            bad.append(line)
    return Seen(events, [*bad[:10]], len(bad), found.spanning, found.strays)


@contextmanager
def blocks_of(size: int | None) -> Iterator[None]:
    """Read text in blocks of so many bytes at first."""
    with pytest.MonkeyPatch.context() as patch:
        if size is not None:
            patch.setattr(rows, "FIRST_BLOCK_BYTES", size)
            patch.setattr(rows, "BLOCK_BYTES", size)
        yield


def check(text: str, format: str, quote: str, mark: str, spans: bool, size: int | None) -> None:
    with TemporaryDirectory() as folder, blocks_of(size):
        path = Path(folder, f"log.{format}")
        path.write_text(text, newline="")
        assert seen(path, quote=quote) == expected(text, format, mark, spans), text


PLAIN = ["1,a,b", "2,cd,e", '3,"f",g', '4,h,"i,j"', '5,"k""l",m', "6,n,o", '7,"p\nq",r', "8,s,t"]


@pytest.mark.parametrize("size", [16, 40, None])
@pytest.mark.parametrize(("format", "quote", "mark", "spans"), WAYS)
def test_a_stray_quote_at_every_place(
    format: str, quote: str, mark: str, spans: bool, size: int | None
) -> None:
    text = "\n".join(["ts,a,b", *PLAIN]) + "\n"
    text = text.replace('"', mark or '"')
    if format == "tsv":
        text = text.replace(",", "\t")
    header = text.index("\n") + 1
    for place in range(header, len(text) + 1):
        check(text[:place] + (mark or '"') + text[place:], format, quote, mark, spans, size)


PIECES = ['"', '"', '""', ",", ",", "\n", "\n", "a", "7,b,", '"c"', '"d\ne"', "7,f,g\n", " "]


@given(
    st.lists(st.sampled_from(PIECES), max_size=24),
    st.sampled_from(WAYS),
    st.sampled_from([8, 32, None]),
)
@example(["7,b,", '"', "\n", "7,f,g\n"], WAYS[0], 8)
@example(["7,b,", '"d\ne"', ",", '"d\ne"', "\n", "7,f,g\n"], WAYS[0], 8)
@example(["7,b,", '""', "a", "\n"], WAYS[1], None)
def test_any_quotes(pieces: list[str], way: tuple[str, str, str, bool], size: int | None) -> None:
    format, quote, mark, spans = way
    text = "ts,a,b\n" + "".join(pieces)
    text = text.replace('"', mark or '"')
    check(text.replace(",", "\t") if format == "tsv" else text, format, quote, mark, spans, size)


@pytest.mark.parametrize("bytes_at_once", [3, 17])
@pytest.mark.parametrize(("format", "quote", "mark", "spans"), WAYS[:3])
def test_pipes(
    format: str, quote: str, mark: str, spans: bool, bytes_at_once: int, tmp_path: Path
) -> None:
    lines = [*PLAIN, '9,"u,v', "10,w,x", '11,y,"z"z', "12,0,1"]
    text = "\n".join(["ts,a,b", *lines]) + "\n"
    text = text.replace(",", "\t") if format == "tsv" else text
    path = tmp_path / f"pipe.{format}"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            for place in range(0, len(text), bytes_at_once):
                pipe.write(text[place : place + bytes_at_once].encode())

    writer = threading.Thread(target=write)
    writer.start()
    found = seen(path, quote=quote)
    writer.join()
    assert found == expected(text, format, mark, spans)
    assert found.skipped


def test_a_quote_swallows_no_rows(tmp_path: Path) -> None:
    """Cells with a quote out of place were joined with all rows up to the next such cell."""
    path = tmp_path / "log.tsv"
    lines = [f"{number}\tuser{number}\ttrue" for number in range(2000)]
    lines[600] = '600\t"user600\ttrue'
    lines[1400] = '1400\t"user1400\ttrue'
    path.write_text("\n".join(["ts\tuser\tp", *lines]))
    with open_tables(path, ("p",)) as tables:
        assert sum(len(batch) for batch in tables) == 2000
        assert tables.stray_quotes == 2
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["ts,user,p", *lines]).replace("\t", ","))
    with open_tables(path, ("p",), on_error="skip") as tables:
        assert sum(len(batch) for batch in tables) == 1998
        assert (tables.skipped, tables.spanning_rows) == (2, 0)
        assert [error.line for error in tables.errors] == [602, 1402]
    with pytest.raises(TableError, match=r"log.csv:602: cell 2 begins with a quote.*quote='lines'"):
        read(path, "p")
    assert len(read(path, "p", quote="lines")) == 2000


def test_many_malformed_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    odd = [f'{number},"a"b,true' if number % 2 else f"{number},c,true" for number in range(20_000)]
    path.write_text("\n".join(["ts,user,p", *odd]))
    found = read(path, "p", on_error="skip")
    assert [stamp for stamp, _ in found] == [*range(0, 20_000, 2)]
    path.write_text('ts,user,p\n1,"a"b,true\n2,"a"b,true')
    assert read(path, "p", on_error="skip") == []


def test_a_quote_that_is_closed_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far a row is looked for does not depend on the blocks in which text is read."""
    monkeypatch.setattr(dialect, "LONGEST_ROW", 1000)
    path = tmp_path / "log.csv"
    for length in range(980, 1002):
        path.write_text(f'ts,a,p\n1,"{"x" * 400}\n{"y" * (length - 406)}",true\n2,b,true\n')
        for size in (64, 999, 4096):
            with blocks_of(size):
                found = [stamp for stamp, _ in read(path, "p", on_error="skip")]
                # the quoted cell, with what is before it in its row, has length - 1 bytes
                assert found == ([1, 2] if length <= 1000 else [2]), (length, size)


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_columns_and_raw_rows_follow_the_same_rules(format: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{format}"
    text = 'ts,a,n\n1,"x,5\n2,y,6\n3,"z",7\n'.replace(",", "\t" if format == "tsv" else ",")
    path.write_text(text)
    # the second row is malformed, or has a cell that begins with a quote
    assert str(read_schema(str(path)).field("n").type) == "int64"
    (file,) = [TableFile(str(path), str(path), format)]
    assert [row for _, row in raw_rows(file, Dialect())] == text.encode().splitlines(True)


@pytest.mark.parametrize("quote", ["", "''", "€", "\n", ",", "no"])
def test_what_cannot_be_a_quote(quote: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n1,true\n")
    with pytest.raises(MtlmonError, match="the quote is one character of ASCII"):
        read(path, "p", quote=quote)


def test_quotes_are_for_delimited_text(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts":1,"p":true}')
    with pytest.raises(MtlmonError, match="quote='none' is for CSV and TSV, and no log is one"):
        read(path, "p", quote="none")


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('ts,"p\n1,true\n2,true\n')
    with pytest.raises(TableError, match=r"log.csv:1: the header's cell 2 begins with a quote"):
        read(path, "p", quote='"')
    for quote in ("lines", "none"):
        with open_tables(path, ('"p',), quote=quote) as tables:
            assert [len(batch) for batch in tables] == [2]
    path.write_text('\nts,"p\nq"\n1,true\n2,"tr\nue"\n3,true\n')
    with open_tables(path, ("p\nq",), on_error="skip") as tables:
        assert [stamp for batch in tables for stamp in batch.time_stamps.tolist()] == [1, 3]
        assert [error.line for error in tables.errors] == [5]


# Cells that programs write between quotes, and cells with quotes that begin or end nothing.
TEXTS = [
    "plain",
    "a,b",
    'say "x"',
    '"',
    '"begins',
    'ends"',
    'in"side',
    "two\nlines",
    "\nblank\n\nlines\n",
    '"\n"',
    "a\rb",
    "tab\there",
    "'single'",
    "\\",
    '\\"',
    "é",
    " ",
]


# pandas writes a carriage return without quotes, as if it ended a row
WITHOUT_RETURN = [text for text in TEXTS if "\r" not in text]


def table(texts: list[str] = TEXTS) -> dict[str, list[Any]]:
    return {
        "ts": [*range(len(texts) ** 2)],
        "a": [one for one in texts for _ in texts],
        "b": [other for _ in texts for other in texts],
    }


def written_by_pandas(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(table(WITHOUT_RETURN)).to_csv(path, index=False)


def written_by_pandas_in_quotes(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(table()).to_csv(path, index=False, quoting=csv.QUOTE_ALL)


def written_by_polars(path: Path) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame(table()).write_csv(path)


def written_by_duckdb(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    rows_of_duckdb = pa.table(table())
    assert rows_of_duckdb.num_rows
    duckdb.sql("SELECT * FROM rows_of_duckdb").write_csv(str(path))


def written_by_python(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table())
        writer.writerows(zip(*table().values(), strict=True))


# What `COPY ... TO ... (FORMAT csv, HEADER)` of PostgreSQL writes: null has no quotes, the empty
# text has; a text that is `\.` alone has them, too.
POSTGRES = r'''ts,a,b
1,plain,"a,b"
2,"say ""x""","ends"""
3,"\""begins",'single'
4,"two
lines","""
"""
5,"\.",""
6,slash\there,\N
'''
POSTGRES_ROWS = [
    ("1", "plain", "a,b"),
    ("2", 'say "x"', 'ends"'),
    ("3", '\\"begins', "'single'"),
    ("4", "two\nlines", '"\n"'),
    ("5", "\\.", ""),
    ("6", "slash\\there", "\\N"),
]

# Zeek writes TSV without quoted cells: a quote in a cell is a character, wherever it is, and tabs
# and line feeds are written as \x09 and \x0a.
ZEEK = """\
ts\ta\tb
1\tGET\t"Mozilla
2\tGET\tMozilla"
3\t"begins\tends"
4\tGET\t"
5\tin"side\t\\x09"x" y
6\t-\t(empty)
"""


def test_what_postgresql_writes(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(POSTGRES)
    found = seen(path)
    assert found.events == POSTGRES_ROWS
    assert (found.skipped, found.spanning, found.strays) == (0, 1, 0)


def test_what_zeek_writes(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(ZEEK)
    rows_of_zeek = [tuple(line.split("\t")) for line in ZEEK.splitlines()[1:]]
    found = seen(path, quote="none")
    assert (found.events, found.strays) == (rows_of_zeek, 0)
    # Only two quotes that look as if they enclosed a cell need to be told that they do not.
    found = seen(path)
    assert found.bad_lines == [4]
    assert (found.events, found.strays) == (rows_of_zeek[:2] + rows_of_zeek[3:], 2)


@pytest.mark.parametrize("size", [64, None])
@pytest.mark.parametrize(
    "write",
    [
        written_by_pandas,
        written_by_pandas_in_quotes,
        written_by_polars,
        written_by_duckdb,
        written_by_python,
    ],
    ids=lambda write: write.__name__,
)
def test_what_programs_write_is_read_as_written(
    write: Any, size: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    write(path)
    with blocks_of(size):
        found = seen(path)
    columns = table(TEXTS if write is not written_by_pandas else WITHOUT_RETURN)
    wanted = zip(map(str, columns["ts"]), columns["a"], columns["b"], strict=True)
    assert found.events == [*wanted]
    assert (found.skipped, found.strays) == (0, 0)
    spanning = sum("\n" in a + b for a, b in zip(columns["a"], columns["b"], strict=True))
    assert found.spanning == spanning
