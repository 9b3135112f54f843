"""Atoms from names of events, Boolean columns and predicates."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import csv as pa_csv  # noqa: E402
from pyarrow import parquet  # noqa: E402

from mtlmon import Monitor, TableError  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import (  # noqa: E402
    LetterReader,
    Selection,
)
from tests.tables.reading import monitored, read  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["p", "q", "two words", "über", "a" * 40, "x|y", "", "other"]


def words_of(column: Any, atoms: list[str], separator: str = "|") -> list[set[str]]:
    """The atoms that a column of names of events has for each row."""
    reader = LetterReader(atoms, {}, Selection("t", "e", (), (), ()), separator)
    letters = reader.read(pa.record_batch({"t": [0] * len(column), "e": column}))
    return [
        {name for place, name in enumerate(atoms) if int(row[place // 64]) >> (place % 64) & 1}
        for row in letters.words(len(column), len(atoms))
    ]


@given(
    st.lists(st.none() | st.lists(st.none() | st.sampled_from(NAMES), max_size=4), max_size=6),
    st.sampled_from(["list", "large_list", "sliced"]),
    st.sampled_from([0, 70]),
)
def test_lists(rows: list[list[str | None] | None], kind: str, padding: int) -> None:
    atoms = [f"atom{number}" for number in range(padding)] + NAMES[:5]
    data_type = pa.large_list(pa.large_string()) if kind == "large_list" else pa.list_(pa.string())
    column = pa.array([["p"], *rows, ["q"]], data_type).slice(1, len(rows))
    if kind != "sliced":
        column = pa.array(rows, data_type)
    expected = [{name for name in row or () if name in atoms} for row in rows]
    assert words_of(column, atoms) == expected


@given(
    st.lists(st.none() | st.lists(st.sampled_from(NAMES), max_size=4), max_size=6),
    st.sampled_from(["|", ";", " | ", "::"]),
    st.sampled_from(["string", "large_string", "dictionary"]),
)
def test_texts(rows: list[list[str] | None], separator: str, kind: str) -> None:
    texts = [None if row is None else separator.join(row) for row in rows]
    column = pa.array(texts, pa.large_string() if kind == "large_string" else pa.string())
    if kind == "dictionary":
        column = column.dictionary_encode()
    atoms = NAMES[:6]
    expected = [
        set() if text is None else {part.strip(" ") for part in text.split(separator)} & set(atoms)
        for text in texts
    ]
    assert words_of(column, atoms, separator) == expected


def test_blanks_around_names(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,what\n1, p | q \n2,|\n3,\tp||\n4,pq\n")
    rows = [(1, frozenset("pq")), (2, frozenset()), (3, frozenset("p")), (4, frozenset())]
    assert read(path, event="what") == rows


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_many_atoms(count: int, tmp_path: Path) -> None:
    source = random.Random(count)
    atoms = [f"a{number}" for number in range(count)]
    rows = [sorted(source.sample(atoms, min(3, count))) for _ in range(300)]
    flags = [{name: name in row for name in atoms} for row in rows]
    formula = " OR ".join(f"({name} AND ONCE[1,9] {name})" for name in atoms)
    lists, columns = tmp_path / "lists.parquet", tmp_path / "columns.parquet"
    parquet.write_table(pa.table({"ts": list(range(300)), "what": rows}), lists)
    parquet.write_table(
        pa.table(
            {"ts": list(range(300)), **{name: [row[name] for row in flags] for name in atoms}}
        ),
        columns,
    )
    monitor = Monitor(formula)
    expected = [str(v) for time, row in enumerate(rows) for v in monitor.step(time, set(row))]
    assert monitored(lists, formula, event="what") == expected
    assert monitored(columns, formula) == expected
    assert monitored(lists, formula, event="what", sort=True) == expected


def test_predicates_beside_names_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "ts,speed,lane,what,q\n1,130,1,p,true\n2,90,1,p|fast,false\n3,,2,fast,\n4,125.5,,q,true\n"
    )
    file = parse_policies(
        "atom fast = speed > 120 and lane in (1, 2)\npolicy x: p AND q IMPLIES fast"
    )
    found = read(path, "p q fast", predicates=file.predicates, event="what")
    # what the file defines is not what the log calls so
    assert found == [
        (1, frozenset({"p", "fast"})),
        (2, frozenset("p")),
        (3, frozenset()),
        (4, frozenset("q")),
    ]
    found = read(path, "fast q", predicates=file.predicates)
    assert found == [
        (1, frozenset({"q", "fast"})),
        (2, frozenset()),
        (3, frozenset()),
        (4, frozenset("q")),
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_values_are_texts_where_nothing_asks_for_more(ending: str, tmp_path: Path) -> None:
    rows = [
        {
            "ts": 1,
            "at": "2024-05-01 12:00:00",
            "n": 5,
            "x": 1.5,
            "b": True,
            "s": "NA",
            "none": None,
        },
        {"ts": 2, "at": "2024-05-02 12:00:00", "n": 6, "x": 2.0, "b": None, "s": "x", "no": None},
    ]
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        pa_csv.write_csv(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = [name for name in rows[0] if name != "ts"]
    text = "".join(f"atom {name}_there = {name} is not null\n" for name in names)
    formula = " OR ".join(f"{name}_there" for name in names)
    file = parse_policies(f"{text}policy x: {formula}")
    seen: list[Any] = []
    reader = LetterReader.read

    def spy(self: LetterReader, batch: Any, time_stamps: Any) -> Any:
        seen.append(batch.schema)
        return reader(self, batch, time_stamps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LetterReader, "read", spy)
        found = read(path, " ".join(file.atoms_needed), predicates=file.predicates)
    # cells of CSV and values of JSON are texts, unless expressions need values of another type
    types = {pa.string()} if ending == "csv" else {pa.large_string()}
    assert {seen[0].field(name).type for name in names} == types
    assert [len(atoms) for _, atoms in found] == [5, 4]


def test_atoms_that_never_held(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,what\n1,p\n2,q\n")
    with open_tables(path, ("p", "q", "r"), event="what") as tables:
        unseen = [tables.unseen_atoms]
        unseen += [tables.unseen_atoms for _ in tables]
        assert unseen == [("p", "q", "r"), ("r",)]
        assert tables.clock == 2


def test_columns_that_are_no_atoms(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.table({"ts": [1], "p": [1.5]}), path)
    with pytest.raises(TableError, match="column 'p' is an atom, and of type double"):
        read(path, "p")
    times = pa.array([1], pa.timestamp("s"))
    parquet.write_table(pa.table({"ts": [1], "p": times}), path)
    with pytest.raises(TableError, match="column 'p' of events is of type timestamp"):
        read(path, "p", event="p")
