"""Rows that are not usable: where they are, why, and what comes of them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet  # noqa: E402

from mtlmon import MtlmonError, TableError  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.tables.reading import all_rows, read  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

P, Q, NONE = frozenset("p"), frozenset("q"), frozenset[str]()

# A table, and what is said of its first row that is not usable. The others are at 1 and 9.
BAD_ROWS = [
    (
        "log.csv",
        "ts,p,q\n1,true,\n,true,\n9,,t\n",
        "log.csv:3: the time column 'ts' is empty",
    ),
    (
        "log.csv",
        "ts,p,q\n1,true,\n\nx7,,\n9,0,1\n",
        "log.csv:4: column 'ts': 'x7' is not a number",
    ),
    ("log.csv", "ts,p,q\n1,1,0\n-7,,\n9,0,1\n", "log.csv:3: column 'ts': '-7' is below 0"),
    (
        "log.csv",
        "ts,p,q\n1,1,0\n1.5,,\n9,0,1\n",
        "log.csv:3: column 'ts': '1.5' is not a whole number: say what the numbers count and what "
        "time-stamps are to count, for instance time_unit='s' resolution='ms'",
    ),
    (
        "log.csv",
        "ts,p,q\n1,1,0\n9223372036854775808,,\n9,0,1\n",
        "log.csv:3: column 'ts': '9223372036854775808' is above 2^63-1",
    ),
    (
        "log.csv",
        "ts,p,q\n1,true,\n5,maybe,\n9,,t\n",
        "log.csv:3: column 'p': 'maybe' is neither true nor false",
    ),
    (
        "log.csv",
        "ts,p,q\n1,true,\n5,true\n9,,t\n",
        "log.csv:3: 2 cells instead of 3, as in the header",
    ),
    (
        "log.csv",
        'note,ts,p,q\n"two\nlines",1,true,\n"\n",5,no,\n,9,,t\n',
        "log.csv:4: column 'p': 'no' is neither true nor false",
    ),
    (
        "log.csv",
        "ts,p,q\n1,true,\n0,true,\n9,,t\n",
        "log.csv:3: column 'ts': time-stamp 0 comes after 1, so the rows are out of order: "
        "add sort=True",
    ),
    (
        "log.tsv",
        "ts\tp\tq\n1\ttrue\t\n5\ttrue\t\t\n9\t\tt\n",
        "log.tsv:3: 4 cells instead of 3, as in the header",
    ),
    (
        "log.jsonl",
        '{"ts": 1, "p": true}\n{"p": true}\n{"ts": 9, "q": true}\n',
        "log.jsonl:2: the time column 'ts' is empty in this row",
    ),
    (
        "log.jsonl",
        '{"ts": 1, "p": true}\n{"ts": "x"}\n{"ts": 9, "q": true}\n',
        "log.jsonl:2: column 'ts': 'x' is not a number",
    ),
    (
        "log.jsonl",
        '{"ts": 1, "p": true}\n\n{"ts": 2, \n{"ts": 9, "q": true}\n',
        "log.jsonl:3: not a JSON object",
    ),
    (
        "log.jsonl",
        '{"ts": 1, "p": true}\n[1, 2]\n{"ts": 9, "q": true}\n',
        "log.jsonl:2: not a JSON object",
    ),
    (
        "log.jsonl",
        '{"ts": 1, "p": 1, "q": 0}\n{"ts": 5, "p": 2}\n{"ts": 9, "q": 1}\n',
        "log.jsonl:2: column 'p': 2 is neither true nor false",
    ),
]


@pytest.mark.parametrize("name, text, message", BAD_ROWS)
def test_a_bad_row_stops_or_is_skipped(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with open_tables(path, ("p", "q")) as tables:
        with pytest.raises(TableError) as caught:
            found = []
            for batch in tables:
                found += batch.time_stamps.tolist()
        assert found == [1]
        assert str(caught.value).startswith(str(path.parent / message))
        assert caught.value.row == 2
    with open_tables(path, ("p", "q"), on_error="skip") as tables:
        assert all_rows(tables, ("p", "q")) == [(1, P), (9, Q)]
        assert tables.skipped == 1
        assert tables.rows == 3
        (said,) = map(str, tables.errors)
        # what to do is said where it has not been done
        assert str(caught.value) in (said, f"{said}; on_error='skip' leaves such rows out")


def test_a_column_that_is_no_atom_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n" + "".join(f"{number},yes\n" for number in range(200_000)))
    with open_tables(path, ("p",), on_error="skip") as tables:
        assert list(tables) == []
        assert tables.skipped == 200_000
        assert len(tables.errors) == 10


def test_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"ts,what\n1,p\n5,\xff\n9,q\n")
    with pytest.raises(TableError, match=r"log.csv:3: column 'what': the text is not UTF-8"):
        read(path, event="what")
    assert read(path, event="what", on_error="skip") == [(1, P), (9, Q)]
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"ts":1,"what":"p"}\n{"ts":5,"what":"\xff"}\n{"ts":9,"what":"q"}\n')
    with pytest.raises(TableError, match=r"log.jsonl:2: "):
        read(path, event="what")
    assert read(path, event="what", on_error="skip") == [(1, P), (9, Q)]


def test_rows_of_binary_formats_have_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table(
        {"ts": [1, 2, None, 4], "p": ["yes", "t", "f", "0"], "k": ["a", "b", "c", None]}
    )
    parquet.write_table(table, path)
    with pytest.raises(TableError, match=r"log.parquet: row 1: column 'p': 'yes' is neither true"):
        read(path, "p")
    with open_tables(path, ("p",), key="k", on_error="skip") as tables:
        assert all_rows(tables, ("p",)) == [(2, P)]
        assert [str(error).partition(": ")[2] for error in tables.errors] == [
            "row 1: column 'p': 'yes' is neither true nor false",
            "row 3: the time column 'ts' is empty in this row",
            "row 4: the key column 'k' is empty in this row",
        ]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_bad_rows_anywhere_among_many(ending: str, tmp_path: Path) -> None:
    source = random.Random(ending)
    rows: list[dict[str, Any]] = []
    expected = []
    for number in range(8000):
        is_bad = source.random() < 0.01
        row: dict[str, Any] = {"ts": number, "p": number % 3 == 0, "speed": number % 100}
        if is_bad:
            row.update(source.choice([{"p": "no"}, {"speed": "x"}, {"ts": "?"}, {"ts": None}]))
        else:
            atoms = {"p"} if row["p"] else set()
            if row["speed"] > 50:
                atoms.add("fast")
            expected.append((number, frozenset(atoms)))
        rows.append(row)
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        cells = [[row["ts"], row["p"], row["speed"]] for row in rows]
        lines = [",".join("" if cell is None else str(cell) for cell in line) for line in cells]
        path.write_text("\n".join(["ts,p,speed", *lines]))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    predicates = parse_policies("atom fast = speed > 50\npolicy x: p IMPLIES fast").predicates
    with open_tables(path, ("p", "fast"), predicates=predicates, on_error="skip") as tables:
        assert all_rows(tables, ("p", "fast")) == expected
        assert tables.skipped == len(rows) - len(expected)
    with open_tables(path, ("p", "fast"), predicates=predicates) as tables:
        found: list[int] = []
        with pytest.raises(TableError) as caught:
            for batch in tables:
                assert batch.rows is not None
                assert [number - 1 for number in batch.rows] == batch.time_stamps.tolist()
                found += batch.time_stamps.tolist()
    first = next(n for n, (stamp, _) in enumerate(expected) if n != stamp)
    assert found == list(range(first))
    assert caught.value.row == first + 1
    assert caught.value.line == first + (2 if ending == "csv" else 1)


def test_types_widen_as_rows_come(tmp_path: Path) -> None:
    predicates = parse_policies("atom fast = speed > 50\npolicy x: fast").predicates
    rows = 20_000
    speeds = [""] * rows + ["60"] * rows + ["50.5"] * rows
    lines = [f"{number},{speed}\n" for number, speed in enumerate(speeds)]
    path = tmp_path / "log.csv"
    path.write_text("ts,speed\n" + "".join(lines))
    found = read(path, "fast", predicates=predicates)
    assert [bool(atoms) for _, atoms in found] == [False] * rows + [True] * 2 * rows
    path = tmp_path / "log.jsonl"
    with path.open("w") as file:
        for number, speed in enumerate(speeds):
            file.write(f'{{"ts": {number}, "speed": {speed or "null"}}}\n')
    assert read(path, "fast", predicates=predicates) == found


def test_predicates_without_a_value(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"ts,a\n1,5\n2,{2**62}\n3,7\n")
    predicates = parse_policies("atom p = a * 4 > 24\npolicy x: p").predicates
    with pytest.raises(TableError, match=r"log.csv:3: atom p: a \* 4 overflows 64 bits"):
        read(path, "p", predicates=predicates)
    assert read(path, "p", predicates=predicates, on_error="skip") == [(1, NONE), (3, P)]


MISSING = [
    ({"time": "tme"}, "no column 'tme' for the times; did you mean 'time'?"),
    (
        {},
        "no column 'ts': name the time column with time=, for instance time='time'. Columns:",
    ),
    ({"time": "time", "key": "usr"}, "no column 'usr' for the key; did you mean 'user'?"),
    ({"time": "time", "event": "evnt"}, "column 'evnt' for the names of events. Columns: "),
]


@pytest.mark.parametrize("options, message", MISSING)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_columns_that_are_not_there(
    options: dict[str, Any], message: str, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        path.write_text("time,user,p\n1,ann,true\n")
    elif ending == "jsonl":
        path.write_text('{"time": 1, "user": "ann", "p": true}\n')
    else:
        parquet.write_table(pa.table({"time": [1], "user": ["ann"], "p": [True]}), path)
    with pytest.raises(TableError) as caught:
        read(path, "p", **options)
    assert message in str(caught.value)


def test_duplicate_columns_are_errors_where_they_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,x,p,x\n1,7,true,8\n")
    assert read(path, "p") == [(1, P)]
    with pytest.raises(TableError, match="2 columns are called 'x'"):
        read(path, "p", key="x")
    path.write_text("ts,p,p\n1,true,false\n")
    with pytest.raises(TableError, match="2 columns are called 'p'"):
        read(path, "p")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"format": "xml"}, "no format of tables is called 'xml'"),
        ({"time_unit": "fortnight"}, "no unit of time is called 'fortnight'"),
        ({"resolution": "x"}, "no resolution is called 'x'"),
        ({"time_format": "%Q"}, "'%Q' is not among the directives"),
        ({"time_format": "at"}, "neither a date nor a time of day"),
        ({"key": ["a", "a"]}, "the key column 'a' is given twice"),
        ({"on_error": "ignore"}, "on_error must be 'stop' or 'skip'"),
        ({"event_separator": ""}, "separator of event names is empty"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n1,true\n")
    with pytest.raises(MtlmonError, match=message):
        open_tables(path, ("p",), **options)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_tables(tmp_path / "log.csv", ("p",))
    with pytest.raises(MtlmonError, match="no file matches"):
        open_tables(str(tmp_path / "*.csv"), ("p",))
    with pytest.raises(MtlmonError, match="no table in this directory"):
        open_tables(tmp_path, ("p",))
    (tmp_path / "log.txt").write_text("ts,p\n1,true\n")
    with pytest.raises(MtlmonError, match="does not tell the format"):
        open_tables(tmp_path / "log.txt", ("p",))
    assert read(tmp_path / "log.txt", "p", format="csv") == [(1, P)]
