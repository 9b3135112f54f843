"""Delimited text: quotes, line ends, where blocks are cut."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import itertools

import pyarrow as pa

from mtlmon import MtlmonError, TableError
from mtlmon.policy import parse_policies
from mtlmon.tables import open_tables
from tests.doors import RowSyntax, TextBlock, count_line_feeds
from tests.doors import formats_dialect as dialect
from tests.tables.reading import all_rows, keyed, read

CELLS = [
    "",
    "a",
    "b c",
    "é",
    "x,y",
    'say "x"',
    "\n",
    "two\nlines\n",
    '"',
    ",\n,",
    "5",
    '""',
    "\r\n",
]


CSV = RowSyntax(",", '"', spans_lines=True)


def whole_block(text: bytes, syntax: RowSyntax, first_line: int = 1) -> TextBlock:
    _, irregular = syntax.complete_rows(text, len(text), is_end=True)
    return TextBlock(pa.py_buffer(text), first_line, syntax, irregular)


def written(table: list[list[str]], line_end: str = "\n", delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=line_end).writerows(table)
    return text.getvalue().encode()


@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=2, max_size=3), min_size=1, max_size=8))
def test_rows_begin_where_a_parser_says(table: list[list[str]]) -> None:
    text = b"".join(written([row]) for row in table)
    starts = [0]
    for row in table:
        starts.append(starts[-1] + len(written([row])))
    assert CSV.row_starts(text, len(text)) == starts
    for size in range(len(text) + 1):
        end, irregular = CSV.complete_rows(text, size)
        assert end == max(start for start in starts if start <= size)
        if any(b"\n" in text[a : b - 1] for a, b in itertools.pairwise(starts) if b <= end):
            assert irregular is not None
        if irregular is None:
            assert CSV.row_starts(text, end, is_simple=True) == CSV.row_starts(text, end)
    assert count_line_feeds(text, len(text)) == text.count(b"\n")


@given(
    st.lists(st.sampled_from(["a,b", '"x\ny",b', "", "\r", " ", "\n", "\n"]), max_size=9),
    st.sampled_from(["", '"']),
)
def test_rows_have_their_lines(pieces: list[str], quote: str) -> None:
    text = "".join(pieces).encode()
    syntax = RowSyntax(",", quote, spans_lines=True)
    block = whole_block(text, syntax, 7)
    starts = syntax.row_starts(block.text, len(text))[:-1]
    wanted = [7 + text[:start].count(b"\n") for start in starts]
    assert [block.line_of(row) for row in range(len(starts))] == wanted


@pytest.mark.parametrize("text", [b"a\n\nb", b'"a\nb"\nc', b"a\nb\n\nc\n"])
def test_lines_that_are_no_rows(text: bytes) -> None:
    block = whole_block(text, CSV)
    assert block.line_of(block.row_count - 1) == text.rstrip(b"\n").count(b"\n") + 1


def test_line_feeds_are_counted() -> None:
    for size in (0, 1, 127, 128, 129, 1000, 70_000):
        assert count_line_feeds(np.full(size, 10, np.uint8), size) == size
        assert count_line_feeds(np.zeros(size, np.uint8), size) == 0


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t", " "])
def test_cells_of_any_text(line_end: str, mark: bytes, delimiter: str, tmp_path: Path) -> None:
    texts = [text.replace(",", delimiter) for text in CELLS] * 2000
    path = tmp_path / "log.csv"
    table = [[str(number), text, f"k{text}"] for number, text in enumerate(texts)]
    path.write_bytes(mark + written([["ts", "what", "key"], *table], line_end, delimiter))
    found = keyed(path, "a", event="what", key="key", on_error="skip", delimiter=delimiter)
    assert [row[:2] for row in found] == [
        ((f"k{text}",), number) for number, text in enumerate(texts)
    ]


def test_long_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    lines = [f'{number},p,"{"x" * (number * 37 % 4000)}\n"' for number in range(3000)]
    lines.insert(1500, f'1500,p,"{"y" * 6_000_000}"')
    path.write_text("ts,what,note\n" + "\n".join(lines))
    stamps = [stamp for stamp, _ in read(path, event="what")]
    assert stamps == sorted([*range(3000), 1500])
    monkeypatch.setattr(dialect, "LONGEST_ROW", 1_000_000)
    with pytest.raises(TableError, match=r"log.csv:\d+: a row of more than"):
        read(path, event="what")


def test_little_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for text in ("", "\n", "\ufeff", "ts,p,q", "ts,p,q\n", "\n\nts,p,q\n\n"):
        path.write_text(text)
        assert read(path) == []
    path.write_text("ts,p,q\n5,true,0")
    assert read(path) == [(5, frozenset("p"))]


def test_nulls_and_empty_texts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('ts,key,what\n1,,p\n2,"",p\n3,NA,\n4,-,NA\n')
    found = keyed(path, "p NA", event="what", key="key", on_error="skip")
    assert found == [
        (("",), 2, frozenset("p")),
        (("NA",), 3, frozenset()),
        (("-",), 4, frozenset({"NA"})),
    ]
    found = keyed(
        path, "p NA", event="what", key="key", on_error="skip", null_values=["", "NA", "-"]
    )
    assert [row[1] for row in found] == [2]


@pytest.mark.parametrize("values", ["true false", "True False", "TRUE FALSE", "t f", "1 0"])
def test_how_truth_is_written(values: str, tmp_path: Path) -> None:
    true, false = values.split()
    path = tmp_path / "log.csv"
    path.write_text(f"ts,p,q\n1,{true},{false}\n2,,{true}\n")
    assert read(path) == [(1, frozenset("p")), (2, frozenset("q"))]


def test_types_are_found_among_rows_that_are_no_text(tmp_path: Path) -> None:
    """A row with too few cells that is not UTF-8 either must not keep others from being read."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"ts,n\n1,5\n\xff\n2,\xfe7\n3,9\n")
    predicates = parse_policies("atom p = n > 4\npolicy x: p").predicates
    found = read(path, "p", predicates=predicates, on_error="skip")
    assert found == [(1, frozenset("p")), (3, frozenset("p"))]


NUMBERS = ["1", "7", "", "NA", "n/a", "-", " NA ", "12x", "?", '"NA"']
FAULTY = NUMBERS[3:]


@given(
    st.lists(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)), max_size=40),
    st.lists(st.integers(0, 39), max_size=2),
)
@example([("NA", "NA")] * 3 + [("7", "1")], [1])
@example([(text, "7") for text in FAULTY] * 2, [])
def test_wrong_cells_among_numbers(table: list[tuple[str, str]], short: list[int]) -> None:
    """Whether other rows have the same wrong text or other ones, the same rows are left out."""
    # most cells are numbers, so that the columns are columns of numbers
    lines = [*["0,7,7"] * 60, *(f"{number},{n},{m}" for number, (n, m) in enumerate(table, 1))]
    for place in short:
        # a row with too few cells
        lines[place + 60 : place + 60] = ["1"] if place < len(table) else []
    expected, faults = [], []
    for row, line in enumerate(lines, 1):
        ts, *cells = line.split(",")
        wrong = [name for name, cell in zip("nm", cells, strict=False) if cell in FAULTY]
        if len(cells) < 2 or wrong:
            faults.append((row, wrong[0] if wrong else None))
        else:
            letter = {name for name, cell in zip("pq", cells, strict=True) if cell == "7"}
            expected.append((int(ts), frozenset(letter)))
    predicates = parse_policies("atom p = n > 4\natom q = m > 4\npolicy x: p or q").predicates
    with TemporaryDirectory() as directory:
        path = Path(directory, "log.csv")
        path.write_text("ts,n,m\n" + "\n".join(lines))
        asked: dict[str, Any] = {"predicates": predicates, "sort": True}
        tables = open_tables(path, ("p", "q"), on_error="skip", **asked)
        found = all_rows(tables, ("p", "q"))
        assert found == sorted(expected, key=lambda event: event[0])
        assert tables.skipped == len(faults)
        places = [(error.row, error.column) for error in tables.errors]
        assert [row for row, _ in places] == [row for row, _ in faults[:10]]
        assert all(column in {*"nm", None} for _, column in places)


def test_cells_that_may_mean_null(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,n,m\n1,5,NA\n2,NA,NA\n3,6,NA\n4,12x,x\n5,1,1\n")
    predicates = parse_policies("atom p = n > 4\npolicy x: p").predicates
    with pytest.raises(TableError) as caught:
        read(path, "p", predicates=predicates)
    assert str(caught.value) == (
        f"{path}:3: column 'n': 'NA' is not of type int64; if it means that there is no value, add "
        "null_values=['', 'NA']; on_error='skip' leaves such rows out"
    )
    with pytest.raises(TableError, match="'12x' is not of type int64; on_error="):
        read(path, "p", predicates=predicates, null_values=["", "NA"])


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "\r", "€"])
def test_characters_that_cannot_be_delimiters(delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n1,true\n")
    with pytest.raises(MtlmonError, match="the delimiter of CSV is one character of ASCII"):
        read(path, "p", delimiter=delimiter)


def test_delimiters_are_for_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("ts\tp;q\n1\ttrue\n")
    with pytest.raises(MtlmonError, match="delimiter=';' is for CSV, and no log is CSV"):
        read(path, "p", delimiter=";")
    both = tmp_path / "log.csv"
    both.write_text("ts;p;q\n2;true;1\n")
    path.write_text("ts\tp\tq\n1\ttrue\t0\n")
    found = read([path, both], delimiter=";")
    assert found == [(1, frozenset("p")), (2, frozenset("pq"))]


def test_a_carriage_return_alone(tmp_path: Path) -> None:
    """The reader of cells ends a row there, but rows are counted by their line feeds."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"ts,p\r\n1,true\r\n2,true\r3,true\r\n\r\n4,true\r\n")
    with open_tables(path, ("p",), on_error="skip") as tables:
        assert [stamp for batch in tables for stamp in batch.time_stamps.tolist()] == [1, 4]
        said = [str(error) for error in tables.errors]
    expected = "a carriage return that no line feed follows: end rows with LF or CRLF"
    assert said == [f"{path}:3: {expected}"]
    path.write_bytes(b"ts,p\r1,true\r2,true\n")
    with pytest.raises(TableError, match=rf"log.csv:1: the header has {expected}"):
        read(path, "p")
    path.write_bytes(b"ts,p," + b"x" * 200_000 + b"\n1,true,\n")
    with pytest.raises(TableError, match=r"log.csv:1: the header cannot be read: field larger"):
        read(path, "p")
    path.write_bytes(b'ts,p,note\n1,true,"a\rb"\n2,true,c\n')
    assert [stamp for stamp, _ in read(path, "p")] == [1, 2]


@pytest.mark.parametrize("format", ["csv", "tsv", "log"])
def test_decimal_commas(format: str, tmp_path: Path) -> None:
    """Numbers with a comma were texts, so that a comparison with a number was an error."""
    path = tmp_path / f"log.{format}"
    cells = ["1,5", "2", "-0,25", "1e3", ",5", "1.5", "x"]
    text = "ts;x\n" + "".join(f"{stamp};{cell}\n" for stamp, cell in enumerate(cells))
    path.write_text(text.replace(";", "\t") if format == "tsv" else text)
    predicates = parse_policies("atom p = x > 1.25\npolicy a: p").predicates
    asked: dict[str, Any] = {"predicates": predicates, "decimal": ",", "on_error": "skip"}
    if format == "csv":
        asked["delimiter"] = ";"
    if format == "log":
        asked["pattern"] = "^(?P<ts>[0-9]+);(?P<x>.*)$"
    with open_tables(path, ("p",), **asked) as tables:
        found = all_rows(tables, ("p",))
        assert [stamp for stamp, _ in found] == [0, 1, 2, 3, 4]
        assert [stamp for stamp, atoms in found if atoms] == [0, 1, 3]
        assert tables.skipped == 2


def test_where_decimal_commas_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n1,true\n")
    with pytest.raises(MtlmonError, match="decimal=',': cells of CSV end at commas, too"):
        read(path, "p", decimal=",")
    with pytest.raises(MtlmonError, match=r"separator is '\.' or ',', not ';'"):
        read(path, "p", decimal=";")
    other = tmp_path / "log.jsonl"
    other.write_text('{"ts":1,"p":true}')
    with pytest.raises(MtlmonError, match="decimal=',' is for CSV, TSV and patterns"):
        read(other, "p", decimal=",")
